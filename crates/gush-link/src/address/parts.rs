//! The parts of addresses: hosts and ports, names of sockets, commands.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::scan::quoted;

/// Which of the standard descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standard {
    /// Input for reading, output for writing.
    Both,
    /// Input only.
    Input,
    /// Output only.
    Output,
}

/// The version of the Internet protocol that an address insists on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

/// No argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nothing;

/// A host and a port to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// The only version of the protocol to use, if any.
    pub family: Option<Family>,
    /// A name or an address, without brackets.
    pub host: String,
    /// A number or a service name.
    pub port: String,
}

/// A proxy, and the destination that it is to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Through {
    /// The proxy.
    pub proxy: Remote,
    /// A name or an address, without brackets, as sent to the proxy.
    pub host: String,
    /// The port there.
    pub port: u16,
}

impl Through {
    /// The destination as `HOST:PORT`.
    ///
    /// ```
    /// use gush_link::address::{Address, Locator};
    /// let address: Address = "socks5:localhost:1080:[::1]:80".parse()?;
    /// let Locator::Socks5(through) = address.locator() else { panic!() };
    /// assert_eq!(through.destination(), "[::1]:80");
    /// # Ok::<(), gush_link::address::AddressError>(())
    /// ```
    #[must_use]
    pub fn destination(&self) -> String {
        format!("{}:{}", bracketed(&self.host), self.port)
    }
}

/// A port to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// The only version of the protocol to use, if any.
    pub family: Option<Family>,
    /// The local name or address, without brackets; `None` is every one.
    pub host: Option<String>,
    /// A number (0 lets the kernel choose) or a service name.
    pub port: String,
}

/// The local address of a connection: the value of `bind=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// The local name or address, without brackets.
    pub host: Option<String>,
    /// The local port.
    pub port: Option<String>,
}

/// One side of a connection between virtual machines and their host (vsock(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vsock {
    /// The machine: 1 is this one, 2 the host, 3 and more are guests; 4294967295 is any, to listen
    /// at.
    pub cid: u32,
    /// The port.
    pub port: u32,
}

impl Vsock {
    /// VMADDR_CID_ANY (vsock(7)).
    pub(crate) const ANY: u32 = u32::MAX;
}

/// The name of a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnixName {
    /// A path of at most 107 bytes.
    Path(PathBuf),
    /// A name outside the file system (unix(7)), without the leading zero byte.
    Abstract(Vec<u8>),
}

impl UnixName {
    /// The name that a text means: `@NAME` is abstract.
    pub(crate) fn of_text(text: &str) -> Self {
        match text.strip_prefix('@') {
            Some(name) => Self::Abstract(name.into()),
            None => Self::Path(text.into()),
        }
    }
}

/// Which inherited listening socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inherited {
    /// A descriptor's number.
    Number(i32),
    /// A name out of LISTEN_FDNAMES (sd_listen_fds(3)).
    Name(String),
}

/// A command as written, quotes included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command(pub(super) String);

impl Command {
    /// The command line, as given to a shell.
    ///
    /// When quotes enclose the whole command, they are those of the address and not the shell's.
    #[must_use]
    pub fn line(&self) -> String {
        match shlex::split(&self.0) {
            Some(words) if words.len() == 1 && self.is_enclosed() => {
                words.into_iter().next().unwrap_or_default()
            }
            _ => self.0.clone(),
        }
    }

    /// The words, split and unquoted as a shell does (nothing is expanded). There is at least one.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        shlex::split(&self.line()).unwrap_or_default()
    }

    /// The form in an address.
    pub(crate) fn as_written(&self) -> &str {
        &self.0
    }

    fn is_enclosed(&self) -> bool {
        ['"', '\'']
            .iter()
            .any(|&quote| self.0.len() > 1 && self.0.starts_with(quote) && self.0.ends_with(quote))
    }
}

/// A path in the form of an address.
pub(crate) fn quoted_path(path: &Path) -> String {
    quoted(path.as_os_str().as_bytes())
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", bracketed(&self.host), self.port)
    }
}

impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(host) = &self.host {
            write!(f, "{}:", bracketed(host))?;
        }
        f.write_str(&self.port)
    }
}

impl fmt::Display for UnixName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.write_str(&quoted_path(path)),
            Self::Abstract(name) => write!(f, "@{}", quoted(name)),
        }
    }
}

impl fmt::Display for Inherited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => f.write_str(&quoted(name.as_bytes())),
        }
    }
}

impl fmt::Display for Through {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.proxy, self.destination())
    }
}
