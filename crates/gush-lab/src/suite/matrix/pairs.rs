//! Which pairs of ends are asked for.

use std::str::FromStr;

use super::Kind;
use crate::Error;

/// Sources and targets, as `SOURCE:TARGET`; nothing or `*` on a side means every kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairs {
    source: Option<Kind>,
    target: Option<Kind>,
}

impl Pairs {
    /// Is this pair among them?
    pub fn has(self, source: Kind, target: Kind) -> bool {
        self.source.is_none_or(|kind| kind == source)
            && self.target.is_none_or(|kind| kind == target)
    }
}

impl FromStr for Pairs {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (source, target) = text.split_once(':').ok_or_else(|| {
            Error::refused(format!(
                "'{text}' is not a pair: write SOURCE:TARGET, such as ext4:tcp, pipe:* or *:pty"
            ))
        })?;
        let side = |text: &str, serves: fn(Kind) -> bool, name| match text {
            "" | "*" => Ok(None),
            name_of_kind => {
                let kind: Kind = name_of_kind.parse()?;
                let refused = || Error::refused(format!("{kind} can be no {name}"));
                if serves(kind) { Ok(Some(kind)) } else { Err(refused()) }
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
        let refusal = |text: &str| text.parse::<Pairs>().unwrap_err().to_string();
        assert!(refusal("modem:tcp").contains("unknown kind of end 'modem'"));
        assert_eq!(refusal("tcp:procfs-seq"), "procfs-seq can be no target");
        assert!(refusal("pipe").starts_with("'pipe' is not a pair: write SOURCE:TARGET"));
    }
}
