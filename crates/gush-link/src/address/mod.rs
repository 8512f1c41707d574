//! The addresses of the two ends to connect.
//!
//! `KIND:ARGUMENT[,OPTION[=VALUE]...]`, as in socat(1), whose names are accepted if they mean the
//! same. Keywords and names of options are case-insensitive. `-` is standard input and output, a
//! number is an inherited descriptor, and a text with a slash before any colon, or without a colon,
//! is a path.
//!
//! A comma in a path or a value is quoted or escaped: `file:a\,b`, `'a,b'`. Within `'…'` everything
//! is literal; elsewhere `\c` is `c`, and `\xHH` is that byte. A command keeps its quotes, for the
//! shell.
//!
//! `A!!B` reads from one address and writes to the other, and `A|B|C` is the first of several that
//! can be opened. A `|` within a command belongs to the command.
//!
//! ```
//! use gush_link::address::{Address, Kind, Opt};
//!
//! let address: Address = "TCP4-LISTEN:8080,fork,range=10.0.0.0/8+127.0.0.1".parse()?;
//! assert_eq!(address.kind(), Kind::TcpListen);
//! assert!(address.options().is_on(Opt::Fork));
//! assert_eq!(address.to_string(), "tcp4-listen:8080,fork,range=10.0.0.0/8+127.0.0.1/32");
//! # Ok::<(), gush_link::address::AddressError>(())
//! ```

pub(crate) mod argument;
pub(crate) mod error;
pub(crate) mod options;
mod parse;
mod parts;
mod scan;
mod suggest;
pub(crate) mod terminal;
mod value;

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;

pub use error::AddressError;
pub use gush_text::seconds;
pub use options::{Opt, OptRow, OptionSet};
pub(crate) use parts::quoted_path;
pub use parts::{
    Bind, Command, Family, Inherited, Local, Nothing, Remote, Standard, Through, UnixName, Vsock,
};
pub(crate) use value::Lock;
pub use value::Takes;

pub use crate::kind::{Kind, Locator};

/// One end of a link: what to open, and with which options.
///
/// Displays as a text that parses to the same address.
///
/// ```
/// use gush_link::address::{Address, Locator};
///
/// let address: Address = "file:'a,b',append".parse()?;
/// assert_eq!(*address.locator(), Locator::File("a,b".into()));
/// assert_eq!(address.to_string(), r"file:a\,b,append");
/// # Ok::<(), gush_link::address::AddressError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    locator: Locator,
    options: OptionSet,
}

impl Address {
    /// Parses an address that need not be UTF-8, except for commands.
    ///
    /// # Errors
    /// [`AddressError`], which points at the wrong piece.
    ///
    /// ```
    /// use std::ffi::OsStr;
    /// use std::os::unix::ffi::OsStrExt;
    /// use gush_link::address::{Address, Locator};
    ///
    /// let name = OsStr::from_bytes(b"/tmp/\xff");
    /// assert_eq!(*Address::from_os(name)?.locator(), Locator::Path(name.into()));
    /// # Ok::<(), gush_link::address::AddressError>(())
    /// ```
    pub fn from_os(text: &OsStr) -> Result<Self, AddressError> {
        let readable = scan::readable(text.as_bytes());
        let address: Self = readable.parse()?;
        let commands = address.parts().into_iter().filter_map(|part| match part.locator() {
            Locator::Exec(command) | Locator::Shell(command) => Some(command),
            _ => None,
        });
        let mut commands = commands.map(Command::as_written);
        match commands.find(|command| !contains(text.as_bytes(), command)) {
            None => Ok(address),
            // The shell would take the escape of a byte for letters.
            Some(command) => {
                let start = readable.find(command).unwrap_or(0);
                let span = start..start + command.len();
                let message =
                    "a command is written in UTF-8; `*` in shell: finds a file whose name is not";
                let fault = error::Fault { span, message: message.to_owned() };
                Err(AddressError::new(fault, &readable, Some(address.kind())))
            }
        }
    }

    /// The parts of an `A!!B` or `A|B`, or the address itself.
    ///
    /// ```
    /// let address: gush_link::address::Address = "file:a!!file:b|file:c".parse()?;
    /// let shown = |parts: Vec<_>| parts.iter().map(ToString::to_string).collect::<Vec<_>>();
    /// assert_eq!(shown(address.parts()), ["file:a", "file:b", "file:c"]);
    /// assert_eq!(shown(address.side(true)), ["file:b", "file:c"]);
    /// # Ok::<(), gush_link::address::AddressError>(())
    /// ```
    #[must_use]
    pub fn parts(&self) -> Vec<&Self> {
        match &self.locator {
            Locator::Joined(parts) => parts.iter().collect(),
            Locator::FirstOf(parts) => parts.iter().flat_map(Self::parts).collect(),
            _ => vec![self],
        }
    }

    /// The parts that are read, or those that are written.
    #[must_use]
    pub fn side(&self, is_written: bool) -> Vec<&Self> {
        match &self.locator {
            Locator::Joined(parts) => vec![&parts[usize::from(is_written)]],
            Locator::FirstOf(parts) => {
                parts.iter().flat_map(|part| part.side(is_written)).collect()
            }
            _ => vec![self],
        }
    }

    /// What to open.
    #[must_use]
    pub fn locator(&self) -> &Locator {
        &self.locator
    }

    /// The options it was given.
    #[must_use]
    pub fn options(&self) -> &OptionSet {
        &self.options
    }

    /// The address without these options, of its parts as well.
    ///
    /// ```
    /// use gush_link::address::{Address, Opt};
    /// let address: Address = "file:a,crnl,seek=5!!-,crnl".parse()?;
    /// assert_eq!(address.without(&[Opt::Crnl]).to_string(), "file:a,seek=5!!-");
    /// # Ok::<(), gush_link::address::AddressError>(())
    /// ```
    #[must_use]
    pub fn without(mut self, options: &[Opt]) -> Self {
        let of_part = |part: &Self| part.clone().without(options);
        match &mut self.locator {
            Locator::Joined(parts) => **parts = parts.each_ref().map(of_part),
            Locator::FirstOf(parts) => *parts = parts.iter().map(of_part).collect(),
            _ => {}
        }
        self.options.0.retain(|option, _| !options.contains(option));
        self
    }

    /// The kind of address.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.locator.kind()
    }

    /// Are connections made one after the other, each of them a client?
    pub(crate) fn calls(&self) -> bool {
        self.options.is_on(Opt::Fork) && !self.kind().listens()
    }

    /// Can the address have clients: those that come, or those that it connects to?
    pub(crate) fn serves(&self) -> bool {
        self.kind().listens() || self.calls()
    }
}

fn contains(text: &[u8], part: &str) -> bool {
    text.windows(part.len().max(1)).any(|window| window == part.as_bytes())
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        parse::address(text)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.locator, self.options)
    }
}
