//! The user's measured profile: which of the table's methods come first on this machine,
//! and with which sizes.
//!
//! A profile is advice: a new order of the methods in the plan's table, and sizes within their limits.
//! No profile permits another method: a stale or hostile one makes a move slower at worst.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::OFlags;
use serde::Deserialize;

use crate::endpoint::Endpoint;

mod cgroup;
mod host;
mod rule;

pub use cgroup::Cgroup;
pub use host::Host;
pub(crate) use rule::Rule;

/// The format written by `gush tune` and read by this version.
const FORMAT: u32 = 1;
/// No profile of `gush tune` is this long.
const MOST_BYTES: u64 = 256 << 10;

/// The measurements of `gush tune` on this machine, as far as they make sense.
///
/// ```
/// use gush::{Host, Mover, Profile};
///
/// let host = Host::here();
/// let text = format!(
///     r#"
///     format = 1
///     [machine]
///     kernel = {:?}
///     processor = {:?}
///     processors = {}
///     [[rule]]
///     source = "file"
///     target = "pipe"
///     methods = ["read-write", "splice"]
///     buffer_bytes = 131072
///     "#,
///     host.kernel, host.processor, host.processors
/// );
/// let profile: Profile = text.parse()?;
/// let (source, (_reader, writer)) = (tempfile::tempfile()?, std::io::pipe()?);
/// let report = Mover::new(&source, &writer).profile(&profile).run()?;
/// assert!(report.explain().to_string().contains("profile: rule 1, file to pipe: read-write"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Profile {
    rules: Vec<Rule>,
    small_message_bytes: Option<usize>,
    /// Why nothing, or which part, is not used.
    notes: Vec<String>,
}

/// Why a text is no profile, as a sentence.
///
/// ```
/// let error = "format = 7".parse::<gush::Profile>().unwrap_err();
/// assert!(error.to_string().starts_with("it has format 7"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError(String);

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProfileError {}

#[derive(Deserialize)]
struct Text {
    gush: Option<String>,
    machine: Machine,
    small_message_bytes: Option<u64>,
    #[serde(default)]
    rule: Vec<toml::Value>,
}

#[derive(Deserialize)]
struct Machine {
    kernel: String,
    processor: String,
    processors: u64,
    allowed: Option<String>,
    quota: Option<String>,
}

impl FromStr for Profile {
    type Err = ProfileError;

    /// Reads a profile for this machine. A senseless rule is left out and noted.
    fn from_str(text: &str) -> Result<Self, ProfileError> {
        Self::for_host(text, &Host::here())
    }
}

impl Profile {
    /// Reads a profile for a machine of one's choice; see [`Host::here`].
    ///
    /// # Errors
    /// A mistake in the text, another format, or another machine's profile.
    pub fn for_host(text: &str, host: &Host) -> Result<Self, ProfileError> {
        let wrong = |error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map_or(String::new(), |before| {
                format!("line {}: ", before.matches('\n').count() + 1)
            });
            ProfileError(one_line(&format!("{line}{}", error.message())))
        };
        let table: toml::Table = text.parse().map_err(wrong)?;
        match table.get("format").and_then(toml::Value::as_integer) {
            Some(format) if format == i64::from(FORMAT) => {}
            Some(format) => {
                return Err(ProfileError(format!(
                    "it has format {format}, and this gush reads format {FORMAT}: make it anew \
                     with gush tune"
                )));
            }
            None => return Err(ProfileError("it does not say which format it has".to_owned())),
        }
        let read: Text = toml::Value::Table(table).try_into().map_err(wrong)?;
        if let Some(version) = read.gush.filter(|version| version != env!("CARGO_PKG_VERSION")) {
            return Err(made_for("gush", &version, env!("CARGO_PKG_VERSION")));
        }
        read.machine.is(host)?;
        let mut profile = Self::default();
        for (index, value) in read.rule.into_iter().enumerate() {
            let number = index + 1;
            match Rule::read(number, value, |note| profile.notes.push(note)) {
                Ok(rule) => profile.rules.push(rule),
                Err(why) => {
                    profile.notes.push(format!("rule {number} left out: {}", one_line(&why)));
                }
            }
        }
        profile.small_message_bytes =
            read.small_message_bytes.map(|bytes| usize::try_from(bytes.min(1 << 20)).unwrap_or(0));
        Ok(profile)
    }

    /// Where the user's profile lies: `$XDG_CONFIG_HOME/gush/profile.toml`, by default below
    /// `~/.config`; nowhere when neither variable says where.
    #[must_use]
    pub fn default_path() -> Option<PathBuf> {
        let absolute = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let config =
            absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
        Some(config.join("gush/profile.toml"))
    }

    /// The user's profile, if there is one. A useless one says so in every report.
    ///
    /// ```
    /// if let Some(profile) = gush::Profile::of_user() {
    ///     profile.notes().iter().for_each(|note| eprintln!("{note}"));
    /// }
    /// ```
    #[must_use]
    pub fn of_user() -> Option<Self> {
        Self::load(&Self::default_path()?)
    }

    /// The profile in a file; none where there is no such file. A useless one is empty, and
    /// notes why.
    ///
    /// ```
    /// assert!(gush::Profile::load("/no/such/profile.toml".as_ref()).is_none());
    /// let text = tempfile::NamedTempFile::new()?;
    /// let profile = gush::Profile::load(text.path()).expect("a file");
    /// assert!(profile.is_empty() && profile.notes()[0].contains("is not used"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn load(path: &Path) -> Option<Self> {
        let not_used = |why: &dyn std::fmt::Display| Self {
            notes: vec![format!("{} is not used: {why}", path.display())],
            ..Self::default()
        };
        match read(path) {
            Ok(text) => Some(text.parse().unwrap_or_else(|why: ProfileError| not_used(&why))),
            Err(error) if is_absent(&error) => None,
            Err(error) => Some(not_used(&error)),
        }
    }

    /// Why the profile, or which part, is not used, in sentences.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Is there no rule that can be used?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Messages between sockets up to this size, in bytes, are not worth a splice here, if that was
    /// measured.
    #[must_use]
    pub fn small_message_bytes(&self) -> Option<usize> {
        self.small_message_bytes
    }

    /// The rule, in the words of `--explain`, for a move of so many bytes (0 where nobody knows how many
    /// are coming), if there is one.
    ///
    /// ```
    /// let file = tempfile::tempfile()?;
    /// let end = gush::Endpoint::of(&file)?;
    /// assert_eq!(gush::Profile::default().advice(&end, &end, 0), None);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn advice(
        &self,
        source: &Endpoint<'_>,
        target: &Endpoint<'_>,
        expected_bytes: u64,
    ) -> Option<String> {
        self.rule_for(source, target, expected_bytes).map(Rule::to_string)
    }

    /// The first fitting rule.
    pub(crate) fn rule_for(
        &self,
        source: &Endpoint<'_>,
        target: &Endpoint<'_>,
        expected_bytes: u64,
    ) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.fits(source, target, expected_bytes))
    }
}

impl Machine {
    /// Is this the profile of `host`? A profile of an older `gush tune` does not tell of processors allowed and granted.
    fn is(&self, host: &Host) -> Result<(), ProfileError> {
        let here = host.processors.to_string();
        let processors = self.processors.to_string();
        let facts = [
            ("kernel", Some(&self.kernel), &host.kernel),
            ("processor", Some(&self.processor), &host.processor),
            ("a number of processors of", Some(&processors), &here),
            ("a process that may use the processors", self.allowed.as_ref(), &host.allowed),
            ("a control group that grants processors:", self.quota.as_ref(), &host.quota),
        ];
        let other = facts.into_iter().find_map(|(what, then, now)| {
            then.filter(|then| *then != now).map(|then| made_for(what, then, now))
        });
        other.map_or(Ok(()), Err)
    }
}

fn made_for(what: &str, then: &str, now: &str) -> ProfileError {
    ProfileError(format!(
        "it was made for {what} {then:?}, and this is {now:?}: make it anew with gush tune"
    ))
}

/// Reads a regular file of bearable size, without waiting for a FIFO's writer.
fn read(path: &Path) -> io::Result<String> {
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text =
        String::with_capacity(usize::try_from(metadata.len().min(MOST_BYTES)).unwrap_or(0));
    file.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MOST_BYTES {
        true => Err(io::Error::other(format!("it is longer than {MOST_BYTES} bytes"))),
        false => Ok(text),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// A parser's message on one line of bearable length, without anything a terminal might obey.
fn one_line(text: &str) -> String {
    const MOST_CHARS: usize = 300;
    let words: Vec<_> = text.split_whitespace().collect();
    let printable = words.join(" ");
    printable.chars().map(|c| if c.is_control() { '?' } else { c }).take(MOST_CHARS).collect()
}

#[cfg(test)]
mod tests;
