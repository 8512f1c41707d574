//! The kinds of ends, as a table: the abilities of a peer of each kind, and the signs of a failure
//! that reach it.
//!
//! A further kind is one more row here, and one more way to take a place in `place.rs`.

use crate::script::Saw;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Tcp,
    /// TLS over TCP; the peer speaks rustls.
    Tls,
    /// TCP by a SOCKS5 proxy, whose part the peer plays at first.
    Socks,
    /// TCP by an HTTP proxy.
    Connect,
    Unix,
    /// A program with a socket.
    Program,
    /// A program with two pipes.
    Pipes,
    /// A program with a terminal.
    Terminal,
    Standard,
    Fifo,
    File,
    Udp,
}

/// The properties of a kind that the rules of the model ask about.
pub struct Abilities {
    pub kind: Kind,
    pub name: &'static str,
    /// Do bytes go both ways?
    pub two_way: bool,
    /// Can the peer end its own data and still read?
    pub half_closes: bool,
    /// Can the peer reset the connection?
    pub resets: bool,
    /// Is the peer a program, whose exit status counts?
    pub is_program: bool,
    /// Does a listening socket take the peers?
    pub listens: bool,
    /// Is the peer at a connection, so that a peer which only sends can still see the connection's
    /// end?
    pub is_connection: bool,
    /// Does the kernel report that the peer left without reading everything?
    pub reports_unread: bool,
    /// Is the peer active, so that it can be silent, or leave? A file is not.
    pub is_alive: bool,
    /// The sign of the end of data for the peer.
    pub of_end: Saw,
    /// The sign of a failed connection for the peer.
    pub of_failure: Saw,
}

const SOCKET: Abilities = Abilities {
    kind: Kind::Unix,
    name: "unix",
    two_way: true,
    half_closes: true,
    resets: false,
    is_program: false,
    listens: true,
    is_connection: true,
    reports_unread: true,
    is_alive: true,
    of_end: Saw::End,
    of_failure: Saw::End,
};

/// The program gets SIGTERM before its input is closed.
const PROGRAM: Abilities = Abilities {
    kind: Kind::Program,
    name: "exec",
    is_program: true,
    listens: false,
    is_connection: false,
    reports_unread: false,
    of_failure: Saw::Terminated,
    ..SOCKET
};

const PIPE: Abilities = Abilities {
    kind: Kind::Fifo,
    name: "pipe",
    two_way: false,
    half_closes: false,
    listens: false,
    is_connection: false,
    reports_unread: false,
    ..SOCKET
};

const TCP: Abilities =
    Abilities { kind: Kind::Tcp, name: "tcp", resets: true, of_failure: Saw::Reset, ..SOCKET };

pub const KINDS: [Abilities; 12] = [
    TCP,
    Abilities { kind: Kind::Tls, name: "tls", ..TCP },
    Abilities { kind: Kind::Socks, name: "socks5", listens: false, ..TCP },
    Abilities { kind: Kind::Connect, name: "http-connect", listens: false, ..TCP },
    SOCKET,
    PROGRAM,
    Abilities { kind: Kind::Pipes, name: "exec,pipes", ..PROGRAM },
    // Nobody can close one direction of a terminal.
    Abilities { kind: Kind::Terminal, name: "exec,pty", half_closes: false, ..PROGRAM },
    Abilities { kind: Kind::Standard, name: "-", two_way: true, half_closes: true, ..PIPE },
    PIPE,
    Abilities {
        kind: Kind::File,
        name: "file",
        is_alive: false,
        of_end: Saw::Nothing,
        of_failure: Saw::Nothing,
        ..PIPE
    },
    Abilities {
        kind: Kind::Udp,
        name: "udp",
        half_closes: false,
        is_connection: false,
        reports_unread: false,
        of_end: Saw::Nothing,
        of_failure: Saw::Nothing,
        ..SOCKET
    },
];
