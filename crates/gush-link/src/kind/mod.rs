//! The kinds of addresses: how the argument of each is parsed, opened and displayed.

mod row;

pub(crate) use row::Form;
use row::KINDS;
pub use row::{Kind, Target};

use crate::address::options::SHAPES;
use crate::address::{Family, Local, Opt, Options};
use crate::open::proxied::{self, Protocol};
use crate::open::{
    How, OpenError, Opened, child, compound, connect, datagrams, file, inherit, listen, pty, vsock,
};
#[cfg(feature = "tls")]
use crate::tls;

impl Target {
    /// The port to which `bind=` may add a host.
    pub(crate) fn local_mut(&mut self) -> Option<&mut Local> {
        match self {
            Self::TcpListen(local)
            | Self::UdpListen(local)
            | Self::UdpRecvfrom(local)
            | Self::UdpRecv(local) => Some(local),
            #[cfg(feature = "tls")]
            Self::TlsListen(local) => Some(local),
            _ => None,
        }
    }

    /// The host of a TCP or TLS address, if there is one.
    pub(crate) fn host(&self) -> Option<&str> {
        match self {
            Self::Tcp(remote) => Some(&remote.host),
            Self::TcpListen(local) => local.host.as_deref(),
            #[cfg(feature = "tls")]
            Self::Tls(remote) => Some(&remote.host),
            #[cfg(feature = "tls")]
            Self::TlsListen(local) => local.host.as_deref(),
            _ => None,
        }
    }

    /// The only version of IP of a socket, if there is one.
    pub(crate) fn family(&self) -> Option<Family> {
        match self {
            Self::Tcp(remote)
            | Self::Udp(remote)
            | Self::UdpSendto(remote)
            | Self::UdpDatagram(remote) => remote.family,
            #[cfg(feature = "tls")]
            Self::Tls(remote) => remote.family,
            Self::TcpListen(local)
            | Self::UdpListen(local)
            | Self::UdpRecvfrom(local)
            | Self::UdpRecv(local) => local.family,
            #[cfg(feature = "tls")]
            Self::TlsListen(local) => local.family,
            _ => None,
        }
    }

    /// Opens the target, once.
    pub(crate) async fn open(&self, options: &Options, how: &How) -> Result<Opened, OpenError> {
        match self {
            Self::Stdio(which) => inherit::stdio(*which, options, how).map(Opened::One),
            Self::Path(path) => file::path(path, options, how).await.map(Opened::One),
            Self::File(path) => file::file(path, options, how).await.map(Opened::One),
            Self::Pipe(path) => file::pipe(path.as_deref(), options, how).await.map(Opened::One),
            Self::SocketPair(_) => file::socket_pair(how).map(Opened::One),
            Self::Pty(_) => pty::open(options).await.map(Opened::One),
            Self::Fd(number) => inherit::numbered(*number, options, how).map(Opened::One),
            Self::Exec(command) => child::exec(&command.words(), options, how).map(Opened::One),
            Self::Shell(command) => child::shell(&command.line(), options, how).map(Opened::One),
            Self::Tcp(remote) => connect::tcp(remote, options).await.map(Opened::One),
            Self::TcpListen(local) => listen::tcp(local, options, how).await.map(Opened::Listener),
            #[cfg(feature = "tls")]
            Self::Tls(remote) => tls::connect(remote, options).await.map(Opened::One),
            #[cfg(feature = "tls")]
            Self::TlsListen(local) => tls::listen(local, options, how).await.map(Opened::Listener),
            Self::Unix(name) => connect::unix(name, options).await.map(Opened::One),
            Self::UnixClient(name) => connect::unix_client(name, options).await.map(Opened::One),
            Self::UnixListen(name) => listen::unix(name, options, how).await.map(Opened::Listener),
            Self::UnixSendto(name) => datagrams::sendto_unix(name, options).map(Opened::One),
            Self::UnixRecv(name) => datagrams::recv_unix(name, options).map(Opened::One),
            Self::UnixRecvfrom(name) => listen::unix_datagrams(name, options).map(Opened::Listener),
            Self::Udp(remote) => connect::udp(remote, options).await.map(Opened::One),
            Self::UdpSendto(remote) => {
                datagrams::sendto_udp(remote, options).await.map(Opened::One)
            }
            Self::UdpDatagram(remote) => {
                datagrams::datagram_udp(remote, options).await.map(Opened::One)
            }
            Self::UdpRecv(local) => datagrams::recv_udp(local, options).await.map(Opened::One),
            Self::UdpListen(local) => listen::udp(local, options).await.map(Opened::Listener),
            Self::UdpRecvfrom(local) => {
                let listener = listen::udp(local, options).await?;
                Ok(Opened::Listener(listener.of_datagrams()))
            }
            Self::Vsock(place) => vsock::connect(*place, options).await.map(Opened::One),
            Self::VsockListen(place) => vsock::listen(*place, options, how).map(Opened::Listener),
            Self::Socks4(through) => {
                proxied::open(Protocol::Socks4, through, options).await.map(Opened::One)
            }
            Self::Socks4a(through) => {
                proxied::open(Protocol::Socks4a, through, options).await.map(Opened::One)
            }
            Self::Socks5(through) => {
                proxied::open(Protocol::Socks5, through, options).await.map(Opened::One)
            }
            Self::HttpConnect(through) => {
                proxied::open(Protocol::Http, through, options).await.map(Opened::One)
            }
            Self::ListenFd(which) => listen::inherited(which, options).map(Opened::Listener),
            Self::Joined(parts) => compound::joined(parts, how).await.map(Opened::One),
            Self::FirstOf(parts) => compound::first_of(parts, how).await.map(Opened::One),
            Self::Zero(_) => file::device("/dev/zero", how).map(Opened::One),
            Self::Null(_) => file::device("/dev/null", how).map(Opened::One),
        }
    }
}

impl Kind {
    /// Every kind, in the order in which help texts show them.
    pub fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().copied()
    }

    /// The keyword.
    #[must_use]
    pub fn name(self) -> &'static str {
        let grammar = self.row().grammar;
        grammar.split_once(':').map_or(grammar, |(name, _)| name)
    }

    /// The written form, without options.
    #[must_use]
    pub fn grammar(self) -> &'static str {
        self.row().grammar
    }

    /// The description, in a few words.
    #[must_use]
    pub fn help(self) -> &'static str {
        self.row().help
    }

    /// May an end of this kind be a socket of datagrams?
    #[must_use]
    pub fn takes_datagrams(self) -> bool {
        self.row().is_datagrams || self == Self::UnixClient
    }

    /// Can nothing be written to an end of this kind?
    #[must_use]
    pub fn only_receives(self) -> bool {
        self.row().only_receives
    }

    /// Does the kind wait for peers, so that a link can serve more than one?
    #[must_use]
    pub fn listens(self) -> bool {
        self.row().listens
    }

    /// Does the kind take the option?
    ///
    /// ```
    /// use gush_link::address::{Kind, Opt};
    /// assert!(Kind::TcpListen.takes(Opt::Fork) && !Kind::File.takes(Opt::Fork));
    /// ```
    #[must_use]
    pub fn takes(self, option: Opt) -> bool {
        let row = self.row();
        // A kind without a keyword consists of others, which take these options themselves.
        let shapes = if row.keywords.is_empty() { &[] } else { SHAPES };
        row.options.iter().chain([&shapes]).any(|group| group.contains(&option))
    }
}

/// The kind that a keyword names.
pub(crate) fn keyword(word: &str) -> Option<(Kind, Form)> {
    Kind::all().find_map(|kind| {
        let mut forms = kind.row().keywords.iter();
        // socat's documentation writes keywords in upper case.
        let is_word = |name: &&str| name.eq_ignore_ascii_case(word);
        forms.find(|(_, names)| names.iter().any(is_word)).map(|&(form, _)| (kind, form))
    })
}

/// Every keyword, with the kind that it names.
pub(crate) fn keywords() -> impl Iterator<Item = (&'static str, Kind)> {
    Kind::all().flat_map(|kind| {
        let names = kind.row().keywords.iter().flat_map(|(_, names)| *names);
        names.map(move |name| (*name, kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_keyword_names_two_kinds() {
        let mut all: Vec<_> = keywords().map(|(name, _)| name).collect();
        all.sort();
        assert!(all.is_sorted_by(|one, other| one < other), "{all:?}");
    }

    #[test]
    fn every_kind_with_a_keyword_has_its_name_as_one() {
        let wordless = [Kind::Path, Kind::Joined, Kind::FirstOf];
        for kind in Kind::all().filter(|kind| !wordless.contains(kind)) {
            assert_eq!(keyword(kind.name()).map(|(kind, _)| kind), Some(kind), "{kind:?}");
            assert!(kind.grammar().starts_with(kind.name()) && !kind.help().is_empty(), "{kind:?}");
        }
    }
}
