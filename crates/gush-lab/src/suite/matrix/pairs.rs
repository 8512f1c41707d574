//! Which pairs of ends are asked for.

use std::str::FromStr;

use super::{Kind, UnknownKind};

/// Sources and targets, as `SOURCE:TARGET`; nothing or `*` on a side stands for every kind.
///
/// ```
/// use gush_lab::suite::matrix::{Kind, Pairs};
/// let pairs: Pairs = "pipe:*".parse()?;
/// assert!(pairs.has(Kind::Pipe, Kind::Tcp) && !pairs.has(Kind::Tcp, Kind::Pipe));
/// assert_eq!("pipe".parse::<Pairs>().unwrap_err().to_string(),
///     "'pipe' is no pair: write SOURCE:TARGET, such as ext4:tcp, pipe:* or *:pty");
/// # Ok::<(), gush_lab::suite::matrix::UnknownPair>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairs {
    source: Option<Kind>,
    target: Option<Kind>,
}

/// Why a text is no pair.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownPair {
    /// The text has no colon.
    #[error("'{0}' is no pair: write SOURCE:TARGET, such as ext4:tcp, pipe:* or *:pty")]
    NoPair(String),
    /// A side of the pair is no kind of end.
    #[error(transparent)]
    Kind(#[from] UnknownKind),
    /// Nothing can be read from this kind, or written into this kind.
    #[error("{0} can be no {1}")]
    Side(Kind, &'static str),
}

impl Pairs {
    /// Is this pair among them?
    #[must_use]
    pub fn has(self, source: Kind, target: Kind) -> bool {
        self.source.is_none_or(|kind| kind == source)
            && self.target.is_none_or(|kind| kind == target)
    }
}

impl FromStr for Pairs {
    type Err = UnknownPair;

    fn from_str(text: &str) -> Result<Self, UnknownPair> {
        let (source, target) =
            text.split_once(':').ok_or_else(|| UnknownPair::NoPair(text.to_owned()))?;
        let side = |text: &str, serves: fn(Kind) -> bool, name| match text {
            "" | "*" => Ok(None),
            name_of_kind => {
                let kind: Kind = name_of_kind.parse()?;
                if serves(kind) { Ok(Some(kind)) } else { Err(UnknownPair::Side(kind, name)) }
            }
        };
        Ok(Self {
            source: side(source, Kind::is_source, "source")?,
            target: side(target, Kind::is_target, "target")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_side_may_be_any() {
        for text in [":", "*:*", "*:", ":*"] {
            assert!(text.parse::<Pairs>().unwrap().has(Kind::Zero, Kind::Null), "{text}");
        }
    }

    #[test]
    fn what_is_no_pair_is_explained() {
        let told = |text: &str| text.parse::<Pairs>().unwrap_err().to_string();
        assert!(told("modem:tcp").contains("no kind of end is called 'modem'"));
        assert_eq!(told("tcp:procfs-seq"), "procfs-seq can be no target");
    }
}
