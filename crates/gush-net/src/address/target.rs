//! What an address names.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::kinds::Kind;
use super::parse;
use super::scan::quoted;

/// What an address names, its options apart.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// Standard input, output, or both.
    Stdio(Standard),
    /// A name in the file system, whatever is found there.
    Path(PathBuf),
    /// A file or device.
    File(PathBuf),
    /// A FIFO, or a private pipe that gives back what it is given.
    Pipe(Option<PathBuf>),
    /// An inherited descriptor.
    Fd(i32),
    /// A program and its arguments.
    Exec(Command),
    /// A command line for `/bin/sh`.
    Shell(Command),
    /// A TCP connection to be made.
    Tcp(Remote),
    /// A TCP listener.
    TcpListen(Local),
    /// A connection to a Unix socket.
    Unix(UnixName),
    /// A listening Unix socket.
    UnixListen(UnixName),
    /// A UDP peer.
    Udp(Remote),
    /// A UDP port.
    UdpListen(Local),
    /// A connection by a SOCKS5 proxy.
    Socks5(Through),
    /// A connection by an HTTP proxy.
    HttpConnect(Through),
    /// An inherited listening socket.
    ListenFd(Inherited),
    /// Endless zeros.
    Zero,
    /// Nothing to read, and room for everything.
    Null,
}

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

/// A proxy, and whom it is to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Through {
    /// The proxy.
    pub proxy: Remote,
    /// A name or an address, without brackets, as the proxy is told.
    pub host: String,
    /// The port there.
    pub port: u16,
}

impl Through {
    /// The target as `HOST:PORT`.
    ///
    /// ```
    /// use gush_net::address::{Address, Target};
    /// let address: Address = "socks5:localhost:1080:[::1]:80".parse()?;
    /// let Target::Socks5(through) = address.target() else { panic!() };
    /// assert_eq!(through.target(), "[::1]:80");
    /// # Ok::<(), gush_net::address::AddressError>(())
    /// ```
    #[must_use]
    pub fn target(&self) -> String {
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

/// The local end that a connection shall have: the value of `bind=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// The local name or address, without brackets.
    pub host: Option<String>,
    /// The local port.
    pub port: Option<String>,
}

/// The name of a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnixName {
    /// A path of at most 107 bytes.
    Path(PathBuf),
    /// A name outside the file system (unix(7)), without its leading zero byte.
    Abstract(Vec<u8>),
}

/// Which inherited listening socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inherited {
    /// A descriptor's number.
    Number(i32),
    /// A name out of LISTEN_FDNAMES (sd_listen_fds(3)).
    Name(String),
}

/// A command as it was written, quotes included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command(pub(super) String);

impl Command {
    /// The command line, as a shell is given it.
    ///
    /// When quotes enclose the whole of it, they are those of the address and not the shell's.
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

    fn is_enclosed(&self) -> bool {
        ['"', '\'']
            .iter()
            .any(|&quote| self.0.len() > 1 && self.0.starts_with(quote) && self.0.ends_with(quote))
    }
}

impl Target {
    /// The kind of address.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Stdio(_) => Kind::Stdio,
            Self::Path(_) => Kind::Path,
            Self::File(_) => Kind::File,
            Self::Pipe(_) => Kind::Pipe,
            Self::Fd(_) => Kind::Fd,
            Self::Exec(_) => Kind::Exec,
            Self::Shell(_) => Kind::Shell,
            Self::Tcp(_) => Kind::Tcp,
            Self::TcpListen(_) => Kind::TcpListen,
            Self::Unix(_) => Kind::Unix,
            Self::UnixListen(_) => Kind::UnixListen,
            Self::Udp(_) => Kind::Udp,
            Self::UdpListen(_) => Kind::UdpListen,
            Self::Socks5(_) => Kind::Socks5,
            Self::HttpConnect(_) => Kind::HttpConnect,
            Self::ListenFd(_) => Kind::ListenFd,
            Self::Zero => Kind::Zero,
            Self::Null => Kind::Null,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio(Standard::Both) => f.write_str("-"),
            Self::Stdio(Standard::Input) => f.write_str("stdin"),
            Self::Stdio(Standard::Output) => f.write_str("stdout"),
            Self::Path(path) => {
                let text = quoted_path(path);
                let keyword = if parse::is_path(&text) { "" } else { "gopen:" };
                write!(f, "{keyword}{text}")
            }
            Self::File(path) => write!(f, "file:{}", quoted_path(path)),
            Self::Pipe(path) => {
                write!(f, "pipe:{}", path.as_deref().map(quoted_path).unwrap_or_default())
            }
            Self::Fd(number) => write!(f, "fd:{number}"),
            Self::Exec(command) => write!(f, "exec:{}", command.0),
            Self::Shell(command) => write!(f, "shell:{}", command.0),
            Self::Tcp(remote) => write!(f, "tcp{remote}"),
            Self::TcpListen(local) => write!(f, "tcp{local}"),
            Self::Unix(name) => write!(f, "unix:{name}"),
            Self::UnixListen(name) => write!(f, "unix-listen:{name}"),
            Self::Udp(remote) => write!(f, "udp{remote}"),
            Self::UdpListen(local) => write!(f, "udp{local}"),
            Self::Socks5(through) => write!(f, "socks5{}:{}", through.proxy, through.target()),
            Self::HttpConnect(through) => {
                write!(f, "http-connect{}:{}", through.proxy, through.target())
            }
            Self::ListenFd(Inherited::Number(number)) => write!(f, "listen-fd:{number}"),
            Self::ListenFd(Inherited::Name(name)) => {
                write!(f, "listen-fd:{}", quoted(name.as_bytes()))
            }
            Self::Zero => f.write_str("zero:"),
            Self::Null => f.write_str("null:"),
        }
    }
}

fn quoted_path(path: &Path) -> String {
    quoted(path.as_os_str().as_bytes())
}

fn digit(family: Option<Family>) -> &'static str {
    match family {
        None => "",
        Some(Family::V4) => "4",
        Some(Family::V6) => "6",
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// What follows `tcp` or `udp`.
impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", digit(self.family), bracketed(&self.host), self.port)
    }
}

/// What follows `tcp` or `udp`.
impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-listen:", digit(self.family))?;
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
