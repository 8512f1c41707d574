//! The kinds of addresses, as data.

/// A kind of address.
///
/// ```
/// use gush_net::address::Kind;
/// assert_eq!(Kind::TcpListen.name(), "tcp-listen");
/// assert_eq!(Kind::TcpListen.grammar(), "tcp-listen:[HOST:]PORT");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Standard input and output.
    Stdio,
    /// A name in the file system, whatever is found there.
    Path,
    /// A file.
    File,
    /// A named pipe, or a private one.
    Pipe,
    /// An inherited descriptor.
    Fd,
    /// A program.
    Exec,
    /// A command line for the shell.
    Shell,
    /// A TCP connection to be made.
    Tcp,
    /// A TCP listener.
    TcpListen,
    /// A connection to a Unix socket.
    Unix,
    /// A listening Unix socket.
    UnixListen,
    /// A UDP peer.
    Udp,
    /// A UDP port that the first sender gets.
    UdpListen,
    /// A TCP connection that a SOCKS5 proxy makes.
    Socks5,
    /// A TCP connection that an HTTP proxy makes.
    HttpConnect,
    /// An inherited listening socket.
    ListenFd,
    /// Endless zeros.
    Zero,
    /// Nothing to read, and room for everything.
    Null,
}

struct Row {
    kind: Kind,
    name: &'static str,
    grammar: &'static str,
    help: &'static str,
}

const fn row(kind: Kind, name: &'static str, grammar: &'static str, help: &'static str) -> Row {
    Row { kind, name, grammar, help }
}

/// In the order of [`Kind`].
const ROWS: [Row; 18] = [
    row(Kind::Stdio, "-", "-", "standard input and output"),
    row(
        Kind::Path,
        "PATH",
        "PATH",
        "whatever is there: a file (written at its end), FIFO, device or Unix socket",
    ),
    row(
        Kind::File,
        "file",
        "file:PATH",
        "a file or device, written from its start unless told otherwise",
    ),
    row(
        Kind::Pipe,
        "pipe",
        "pipe:[PATH]",
        "a FIFO, made if it is missing and then removed; without PATH an echo",
    ),
    row(Kind::Fd, "fd", "fd:N", "an inherited descriptor"),
    row(Kind::Exec, "exec", "exec:COMMAND", "a program, its words split as a shell does"),
    row(Kind::Shell, "shell", "shell:COMMAND", "a command line for /bin/sh"),
    row(Kind::Tcp, "tcp", "tcp:HOST:PORT", "connects; an IPv6 address stands in brackets"),
    row(Kind::TcpListen, "tcp-listen", "tcp-listen:[HOST:]PORT", "accepts TCP connections"),
    row(
        Kind::Unix,
        "unix",
        "unix:PATH",
        "connects to a Unix socket; unix:@NAME is an abstract one",
    ),
    row(
        Kind::UnixListen,
        "unix-listen",
        "unix-listen:PATH",
        "accepts on a Unix socket, removed at the end",
    ),
    row(Kind::Udp, "udp", "udp:HOST:PORT", "sends and receives datagrams"),
    row(
        Kind::UdpListen,
        "udp-listen",
        "udp-listen:[HOST:]PORT",
        "the first sender becomes the peer; with fork each is one",
    ),
    row(
        Kind::Socks5,
        "socks5",
        "socks5:PROXY:PORT:HOST:PORT",
        "connects by a SOCKS5 proxy, which looks the host up",
    ),
    row(
        Kind::HttpConnect,
        "http-connect",
        "http-connect:PROXY:PORT:HOST:PORT",
        "connects by an HTTP proxy (CONNECT), which looks the host up",
    ),
    row(
        Kind::ListenFd,
        "listen-fd",
        "listen-fd:N|NAME",
        "accepts on an inherited listening socket",
    ),
    row(Kind::Zero, "zero", "zero:", "endless zeros; takes everything written"),
    row(Kind::Null, "null", "null:", "nothing to read; takes everything written"),
];

impl Kind {
    /// Every kind, in the order in which help texts show them.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.kind)
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Its keyword.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// How it is written, without options.
    #[must_use]
    pub fn grammar(self) -> &'static str {
        self.row().grammar
    }

    /// What it is, in a few words.
    #[must_use]
    pub fn help(self) -> &'static str {
        self.row().help
    }

    /// Does it wait for peers, so that it can serve more than one?
    #[must_use]
    pub fn listens(self) -> bool {
        matches!(self, Self::TcpListen | Self::UnixListen | Self::UdpListen | Self::ListenFd)
    }
}

/// What a keyword says beyond the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    V4,
    V6,
    Abstract,
    Create,
    Input,
    Output,
}

/// Every keyword, socat's included where they mean the same; case is ignored.
pub(super) const KEYWORDS: &[(&str, Kind, Form)] = &[
    ("-", Kind::Stdio, Form::Plain),
    ("stdio", Kind::Stdio, Form::Plain),
    ("stdin", Kind::Stdio, Form::Input),
    ("stdout", Kind::Stdio, Form::Output),
    ("gopen", Kind::Path, Form::Plain),
    ("file", Kind::File, Form::Plain),
    ("open", Kind::File, Form::Plain),
    ("create", Kind::File, Form::Create),
    ("creat", Kind::File, Form::Create),
    ("pipe", Kind::Pipe, Form::Plain),
    ("fifo", Kind::Pipe, Form::Plain),
    ("echo", Kind::Pipe, Form::Plain),
    ("fd", Kind::Fd, Form::Plain),
    ("exec", Kind::Exec, Form::Plain),
    ("shell", Kind::Shell, Form::Plain),
    ("system", Kind::Shell, Form::Plain),
    ("tcp", Kind::Tcp, Form::Plain),
    ("tcp-connect", Kind::Tcp, Form::Plain),
    ("tcp4", Kind::Tcp, Form::V4),
    ("tcp4-connect", Kind::Tcp, Form::V4),
    ("tcp6", Kind::Tcp, Form::V6),
    ("tcp6-connect", Kind::Tcp, Form::V6),
    ("tcp-listen", Kind::TcpListen, Form::Plain),
    ("tcp-l", Kind::TcpListen, Form::Plain),
    ("tcp4-listen", Kind::TcpListen, Form::V4),
    ("tcp4-l", Kind::TcpListen, Form::V4),
    ("tcp6-listen", Kind::TcpListen, Form::V6),
    ("tcp6-l", Kind::TcpListen, Form::V6),
    ("unix", Kind::Unix, Form::Plain),
    ("unix-connect", Kind::Unix, Form::Plain),
    ("unix-client", Kind::Unix, Form::Plain),
    ("local", Kind::Unix, Form::Plain),
    ("abstract", Kind::Unix, Form::Abstract),
    ("abstract-connect", Kind::Unix, Form::Abstract),
    ("abstract-client", Kind::Unix, Form::Abstract),
    ("unix-listen", Kind::UnixListen, Form::Plain),
    ("unix-l", Kind::UnixListen, Form::Plain),
    ("abstract-listen", Kind::UnixListen, Form::Abstract),
    ("udp", Kind::Udp, Form::Plain),
    ("udp-connect", Kind::Udp, Form::Plain),
    ("udp4", Kind::Udp, Form::V4),
    ("udp4-connect", Kind::Udp, Form::V4),
    ("udp6", Kind::Udp, Form::V6),
    ("udp6-connect", Kind::Udp, Form::V6),
    ("udp-listen", Kind::UdpListen, Form::Plain),
    ("udp-l", Kind::UdpListen, Form::Plain),
    ("udp4-listen", Kind::UdpListen, Form::V4),
    ("udp4-l", Kind::UdpListen, Form::V4),
    ("udp6-listen", Kind::UdpListen, Form::V6),
    ("udp6-l", Kind::UdpListen, Form::V6),
    ("socks5", Kind::Socks5, Form::Plain),
    ("socks5-connect", Kind::Socks5, Form::Plain),
    ("http-connect", Kind::HttpConnect, Form::Plain),
    ("listen-fd", Kind::ListenFd, Form::Plain),
    ("accept-fd", Kind::ListenFd, Form::Plain),
    ("zero", Kind::Zero, Form::Plain),
    ("null", Kind::Null, Form::Plain),
];

/// Keywords of socat 1.8 for kinds that are not among ours: who writes one alone does not mean a file.
const OF_SOCAT: &[&str] = &[
    "abstract-recv",
    "abstract-recvfrom",
    "abstract-sendto",
    "dccp",
    "dccp-connect",
    "dccp-listen",
    "dtls",
    "dtls-connect",
    "dtls-listen",
    "if",
    "interface",
    "ip",
    "ip-datagram",
    "ip-recv",
    "ip-recvfrom",
    "ip-sendto",
    "ip4",
    "ip6",
    "openssl",
    "openssl-connect",
    "openssl-dtls-client",
    "openssl-dtls-server",
    "openssl-listen",
    "posixmq",
    "proxy",
    "proxy-connect",
    "pty",
    "readline",
    "sctp",
    "sctp-connect",
    "sctp-listen",
    "sctp4",
    "sctp6",
    "socket-connect",
    "socket-datagram",
    "socket-listen",
    "socket-recv",
    "socket-recvfrom",
    "socket-sendto",
    "socketpair",
    "socks",
    "socks4",
    "socks4a",
    "ssl",
    "ssl-listen",
    "stderr",
    "tun",
    "udp-datagram",
    "udp-recv",
    "udp-recvfrom",
    "udp-sendto",
    "udp4-datagram",
    "udp4-recv",
    "udp4-recvfrom",
    "udp4-sendto",
    "udp6-datagram",
    "udp6-recv",
    "udp6-recvfrom",
    "udp6-sendto",
    "udplite",
    "unix-recv",
    "unix-recvfrom",
    "unix-sendto",
    "vsock",
    "vsock-connect",
    "vsock-listen",
];

pub(super) fn is_of_socat(word: &str) -> bool {
    OF_SOCAT.iter().any(|name| name.eq_ignore_ascii_case(word))
}

pub(super) fn keyword(word: &str) -> Option<(Kind, Form)> {
    let found = KEYWORDS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(word));
    found.map(|&(_, kind, form)| (kind, form))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyword_of_ours_is_not_one_that_is_missing() {
        assert!(OF_SOCAT.iter().all(|name| keyword(name).is_none()));
    }

    #[test]
    fn rows_stand_in_the_order_of_their_kinds() {
        assert!(ROWS.iter().enumerate().all(|(at, row)| row.kind as usize == at));
    }
}
