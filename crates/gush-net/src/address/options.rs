//! The options of addresses, as data: name, kinds, type of value, help.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use ipnet::IpNet;

use super::kinds::Kind;
use super::value::{Takes, Value};

/// An option of an address.
///
/// ```
/// use gush_net::address::Opt;
/// assert_eq!(Opt::MaxChildren.name(), "max-children");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the table below says what each does")]
pub enum Opt {
    Fork,
    MaxChildren,
    Backlog,
    ReuseAddr,
    Range,
    Bind,
    Ipv6Only,
    ConnectTimeout,
    Retry,
    Interval,
    NoDelay,
    KeepAlive,
    KeepIdle,
    KeepInterval,
    KeepCount,
    UserTimeout,
    SendBuffer,
    ReceiveBuffer,
    Mode,
    Unlink,
    UnlinkClose,
    Append,
    Create,
    Truncate,
    Exclusive,
    ReadOnly,
    WriteOnly,
    Seek,
    Pty,
    Raw,
    Echo,
    Stderr,
    Setsid,
    Pipes,
    Directory,
    Credentials,
}

/// A row of the table of options.
#[derive(Debug)]
pub struct Row {
    /// The option.
    pub option: Opt,
    /// Its name.
    pub name: &'static str,
    /// Other names for it, socat's among them.
    pub aliases: &'static [&'static str],
    /// The kinds of addresses that take it.
    pub kinds: &'static [Kind],
    /// What stands after `=`.
    pub takes: Takes,
    /// Options of which one must be there too.
    pub needs: &'static [Opt],
    /// What it does, in a few words.
    pub help: &'static str,
}

impl Row {
    /// The option as a help text shows it, such as `mode=OCTAL`.
    #[must_use]
    pub fn usage(&self) -> String {
        match self.takes.metavariable() {
            "" => self.name.to_owned(),
            value => format!("{}={value}", self.name),
        }
    }
}

const LISTEN: &[Kind] = &[Kind::TcpListen, Kind::UnixListen, Kind::UdpListen, Kind::ListenFd];
const TCP_ENDS: &[Kind] =
    &[Kind::Tcp, Kind::TcpListen, Kind::Socks5, Kind::HttpConnect, Kind::ListenFd];
const PROXIED: &[Kind] = &[Kind::Socks5, Kind::HttpConnect];
const INTERNET: &[Kind] =
    &[Kind::Tcp, Kind::TcpListen, Kind::Udp, Kind::UdpListen, Kind::Socks5, Kind::HttpConnect];
const STREAMS: &[Kind] = &[
    Kind::Tcp,
    Kind::TcpListen,
    Kind::Unix,
    Kind::UnixListen,
    Kind::Udp,
    Kind::UdpListen,
    Kind::Socks5,
    Kind::HttpConnect,
    Kind::ListenFd,
];
const RETRIED: &[Kind] = &[
    Kind::Path,
    Kind::File,
    Kind::Pipe,
    Kind::Tcp,
    Kind::TcpListen,
    Kind::Unix,
    Kind::UnixListen,
    Kind::Udp,
    Kind::UdpListen,
    Kind::Socks5,
    Kind::HttpConnect,
];
const FILES: &[Kind] = &[Kind::Path, Kind::File];
const ACCESS: &[Kind] = &[Kind::Path, Kind::File, Kind::Pipe, Kind::Fd];
const CHILDREN: &[Kind] = &[Kind::Exec, Kind::Shell];

macro_rules! rows {
    ($($option:ident $name:literal [$($alias:literal),*] $kinds:expr, $takes:ident, [$($needs:ident),*], $help:literal;)*) => {
        &[$(Row {
            option: Opt::$option,
            name: $name,
            aliases: &[$($alias),*],
            kinds: $kinds,
            takes: Takes::$takes,
            needs: &[$(Opt::$needs),*],
            help: $help,
        }),*]
    };
}

/// In the order of [`Opt`].
const ROWS: &[Row] = rows![
    Fork "fork" [] LISTEN, Flag, [], "serves every client, not one; of udp-listen every sender, until it is silent for 60 s (-T)";
    MaxChildren "max-children" [] LISTEN, Count, [Fork], "clients served at once; more wait";
    Backlog "backlog" [] &[Kind::TcpListen, Kind::UnixListen], Count, [], "connections that may wait to be accepted";
    ReuseAddr "reuseaddr" ["so-reuseaddr"] &[Kind::TcpListen, Kind::UdpListen, Kind::Tcp], Flag, [], "binds although old connections linger; on for tcp-listen. On udp-listen it shares the port: others get the datagrams";
    Range "range" [] &[Kind::TcpListen, Kind::UdpListen, Kind::ListenFd], Ranges, [], "whose connections are accepted: networks joined by +, or range= again";
    Bind "bind" [] INTERNET, Text, [], "the local address, HOST or HOST:PORT";
    Ipv6Only "ipv6only" ["ipv6-v6only", "v6only"] &[Kind::TcpListen, Kind::UdpListen], Flag, [], "does not take IPv4 on an IPv6 socket";
    ConnectTimeout "connect-timeout" [] &[Kind::Tcp, Kind::Unix, Kind::Socks5, Kind::HttpConnect], Seconds, [], "how long one attempt may take";
    Retry "retry" [] RETRIED, Retries, [], "further attempts, or forever";
    Interval "interval" [] RETRIED, Seconds, [Retry], "time between attempts (1 s)";
    NoDelay "nodelay" ["tcp-nodelay"] TCP_ENDS, Flag, [], "sends short messages at once; on by default";
    KeepAlive "keepalive" ["so-keepalive"] TCP_ENDS, Flag, [], "notices a peer that vanished";
    KeepIdle "keepidle" ["tcp-keepidle"] TCP_ENDS, Seconds, [], "silence before the first question whether the peer is there; with keepalive";
    KeepInterval "keepintvl" ["tcp-keepintvl"] TCP_ENDS, Seconds, [], "time between such questions";
    KeepCount "keepcnt" ["tcp-keepcnt"] TCP_ENDS, Count, [], "questions without an answer that end the connection";
    UserTimeout "user-timeout" ["tcp-user-timeout"] TCP_ENDS, Seconds, [], "how long sent bytes may stay unacknowledged before the connection ends";
    SendBuffer "sndbuf" ["so-sndbuf"] STREAMS, Size, [], "the socket's send buffer";
    ReceiveBuffer "rcvbuf" ["so-rcvbuf"] STREAMS, Size, [], "the socket's receive buffer";
    Mode "mode" ["perm", "perm-early"] &[Kind::Path, Kind::File, Kind::Pipe, Kind::UnixListen], Mode, [], "permissions of what is made";
    Unlink "unlink" ["unlink-early"] &[Kind::UnixListen], Flag, [], "replaces a socket that nobody listens on any more";
    UnlinkClose "unlink-close" [] &[Kind::UnixListen, Kind::Pipe], Flag, [], "removes at the end what was made; on by default";
    Append "append" ["o-append"] FILES, Flag, [], "writes at the file's end";
    Create "create" ["creat", "o-create", "o-creat"] FILES, Flag, [], "makes a missing file, where it is written; PATH alone does so with -u only";
    Truncate "trunc" ["o-trunc"] FILES, Flag, [], "empties the file first";
    Exclusive "excl" ["o-excl"] FILES, Flag, [Create], "fails if the file is there";
    ReadOnly "rdonly" ["o-rdonly"] ACCESS, Flag, [], "opens for reading only";
    WriteOnly "wronly" ["o-wronly"] ACCESS, Flag, [], "opens for writing only";
    Seek "seek" ["seek-set", "lseek"] FILES, Size, [], "starts at this offset";
    Pty "pty" [] CHILDREN, Flag, [], "gives the program a terminal";
    Raw "raw" ["rawer"] CHILDREN, Flag, [Pty], "the terminal changes nothing that passes, and no end of data is passed on to it";
    Echo "echo" [] CHILDREN, Flag, [Pty], "the terminal repeats what it is sent; on unless raw";
    Stderr "stderr" [] CHILDREN, Flag, [], "takes the program's standard error too";
    Setsid "setsid" [] CHILDREN, Flag, [], "starts the program in a session of its own";
    Pipes "pipes" [] CHILDREN, Flag, [], "gives the program two pipes, not a socket";
    Directory "cwd" ["chdir", "cd"] CHILDREN, Path, [], "where the program starts";
    Credentials "credentials" [] PROXIED, Path, [], "a file with NAME:PASSWORD for the proxy";
];

impl Opt {
    /// The row of the table that describes it.
    #[must_use]
    pub fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Every option.
    pub fn all() -> impl Iterator<Item = &'static Row> {
        ROWS.iter()
    }
}

pub(super) fn taken_by(kind: Kind) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| row.kinds.contains(&kind))
}

pub(super) fn named(word: &str) -> Option<&'static Row> {
    let is = |name: &str| name.eq_ignore_ascii_case(word);
    ROWS.iter().find(|row| is(row.name) || row.aliases.iter().any(|name| is(name)))
}

/// The options that an address was given.
///
/// ```
/// use gush_net::address::{Address, Opt};
/// let address: Address = "tcp-listen:80,fork,max-children=20".parse()?;
/// assert!(address.options().is_on(Opt::Fork));
/// assert_eq!(address.options().count(Opt::MaxChildren), Some(20));
/// assert_eq!(address.options().flag(Opt::ReuseAddr), None);
/// # Ok::<(), gush_net::address::AddressError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options(pub(super) BTreeMap<Opt, Value>);

impl Options {
    /// Was the option given?
    #[must_use]
    pub fn has(&self, option: Opt) -> bool {
        self.0.contains_key(&option)
    }

    /// A flag that was given: on or off.
    #[must_use]
    pub fn flag(&self, option: Opt) -> Option<bool> {
        match self.0.get(&option) {
            Some(&Value::Flag(on)) => Some(on),
            _ => None,
        }
    }

    /// Is the flag given and on?
    #[must_use]
    pub fn is_on(&self, option: Opt) -> bool {
        self.flag(option) == Some(true)
    }

    /// A number.
    #[must_use]
    pub fn count(&self, option: Opt) -> Option<u32> {
        match self.0.get(&option) {
            Some(&Value::Count(count)) => Some(count),
            _ => None,
        }
    }

    /// How often to try again: `u32::MAX` stands for ever.
    #[must_use]
    pub fn retries(&self) -> u32 {
        match self.0.get(&Opt::Retry) {
            Some(&Value::Retries(retries)) => retries,
            _ => 0,
        }
    }

    /// A size or an offset in bytes.
    #[must_use]
    pub fn size_bytes(&self, option: Opt) -> Option<u64> {
        match self.0.get(&option) {
            Some(&Value::Size(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// A length of time.
    #[must_use]
    pub fn duration(&self, option: Opt) -> Option<Duration> {
        match self.0.get(&option) {
            Some(&Value::Seconds(duration)) => Some(duration),
            _ => None,
        }
    }

    /// Permission bits.
    #[must_use]
    pub fn mode(&self) -> Option<u32> {
        match self.0.get(&Opt::Mode) {
            Some(&Value::Mode(mode)) => Some(mode),
            _ => None,
        }
    }

    /// The networks whose peers are accepted; empty means everybody.
    #[must_use]
    pub fn ranges(&self) -> &[IpNet] {
        match self.0.get(&Opt::Range) {
            Some(Value::Ranges(ranges)) => ranges,
            _ => &[],
        }
    }

    /// A path.
    #[must_use]
    pub fn path(&self, option: Opt) -> Option<&OsString> {
        match self.0.get(&option) {
            Some(Value::Path(path)) => Some(path),
            _ => None,
        }
    }

    /// The local address that was asked for.
    #[must_use]
    pub fn bind(&self) -> Option<&str> {
        match self.0.get(&Opt::Bind) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }
}

/// As they stand behind an address, each after a comma.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(option, value)| match value {
            Value::Flag(true) => write!(f, ",{}", option.name()),
            value => write!(f, ",{}={value}", option.name()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_their_options() {
        assert!(ROWS.iter().enumerate().all(|(at, row)| row.option as usize == at));
    }

    #[test]
    fn no_name_means_two_options() {
        let mut names: Vec<_> =
            ROWS.iter().flat_map(|row| row.aliases.iter().chain([&row.name])).collect();
        names.sort();
        assert!(names.is_sorted_by(|one, other| one < other));
    }
}
