//! The options of addresses, as data: name, kinds, type of value, help.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use ipnet::IpNet;

use super::parts::Family;
use super::terminal::Setting;
use super::value::{SocketOption, Takes, Value};
use crate::kind::Kind;

/// A row of the table of options.
#[derive(Debug)]
pub struct OptRow {
    /// The option.
    pub option: Opt,
    /// The option's name.
    pub name: &'static str,
    /// Other names of the option, socat's among them.
    pub aliases: &'static [&'static str],
    /// The value after `=`.
    pub takes: Takes,
    /// Options of which one must be there too.
    pub needs: &'static [Opt],
    /// The effect, in a few words.
    pub help: &'static str,
}

impl OptRow {
    /// The kinds of addresses that take the option.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> {
        Kind::all().filter(|kind| kind.takes(self.option))
    }

    /// The option as shown in a help text, such as `mode=OCTAL`.
    #[must_use]
    pub fn usage(&self) -> String {
        match self.takes.metavariable() {
            "" => self.name.to_owned(),
            value => format!("{}={value}", self.name),
        }
    }
}

// Options that kinds take together.
pub(crate) const SERVING: &[Opt] = &[Opt::Fork, Opt::MaxChildren, Opt::AcceptTimeout];
/// Of connections that are made one after the other (`open/listener/calls.rs`).
pub(crate) const CALLING: &[Opt] = &[Opt::Fork, Opt::MaxChildren];
/// Of ports that are bound.
pub(crate) const BOUND: &[Opt] =
    &[Opt::ReuseAddr, Opt::Range, Opt::SourcePort, Opt::LowPort, Opt::Bind, Opt::Ipv6Only];
/// Of TCP connections that are made.
pub(crate) const CONNECTED: &[Opt] =
    &[Opt::ReuseAddr, Opt::Bind, Opt::LowPort, Opt::ConnectTimeout, Opt::Prefer];
/// Of connections to a proxy.
pub(crate) const PROXIED: &[Opt] =
    &[Opt::Bind, Opt::LowPort, Opt::ConnectTimeout, Opt::Prefer, Opt::Family];
pub(crate) const RETRIED: &[Opt] = &[Opt::Retry, Opt::Interval];
pub(crate) const TCP: &[Opt] = &[
    Opt::MaxSegment,
    Opt::NoDelay,
    Opt::KeepAlive,
    Opt::KeepIdle,
    Opt::KeepInterval,
    Opt::KeepCount,
    Opt::UserTimeout,
];
/// Of datagrams for many receivers.
pub(crate) const MANY: &[Opt] = &[
    Opt::Broadcast,
    Opt::Membership,
    Opt::MulticastTtl,
    Opt::MulticastLoop,
    Opt::MulticastInterface,
];
/// Of datagrams that may be empty.
pub(crate) const EMPTY: &[Opt] = &[Opt::ShutNull, Opt::NullEof];
/// Of Unix sockets that may have a name themselves.
pub(crate) const NAMED: &[Opt] = &[Opt::Bind, Opt::BindTempName, Opt::Unlink, Opt::UnlinkClose];
/// Of every socket.
pub(crate) const SOCKET: &[Opt] = &[Opt::SendBuffer, Opt::ReceiveBuffer, Opt::SocketOption];
/// Of every socket of the Internet (`open/sockopts.rs`).
pub(crate) const IP: &[Opt] = &[
    Opt::ReusePort,
    Opt::Ttl,
    Opt::Tos,
    Opt::Priority,
    Opt::Device,
    Opt::Freebind,
    Opt::Transparent,
    Opt::SendBuffer,
    Opt::ReceiveBuffer,
    Opt::SocketOption,
];
#[cfg(feature = "tls")]
pub(crate) const TLS: &[Opt] = &[
    Opt::Certificate,
    Opt::Key,
    Opt::CaFile,
    Opt::CaPath,
    Opt::Verify,
    Opt::Alpn,
    Opt::MinVersion,
    Opt::MaxVersion,
    Opt::HandshakeTimeout,
];
pub(crate) const CONTENT: &[Opt] = &[
    Opt::Append,
    Opt::Create,
    Opt::Truncate,
    Opt::Exclusive,
    Opt::Seek,
    Opt::SeekEnd,
    Opt::NoAtime,
    Opt::NoFollow,
    Opt::Sync,
    Opt::DataSync,
];
/// Of names that are made.
pub(crate) const OWNED: &[Opt] = &[Opt::Mode, Opt::Umask, Opt::User, Opt::Group];
/// Of every address with a keyword: what shapes the data (`shape/`), and what holds of any end.
pub(crate) const SHAPES: &[Opt] = &[
    Opt::Crnl,
    Opt::Cr,
    Opt::IgnoreEof,
    Opt::ShutNone,
    Opt::Escape,
    Opt::ReadBytes,
    Opt::CoolWrite,
    Opt::LockFile,
    Opt::WaitLock,
];
pub(crate) const ACCESS: &[Opt] = &[Opt::ReadOnly, Opt::WriteOnly, Opt::ReadWrite];
/// Of programs, and of what is opened before this process may become somebody else.
pub(crate) const IDENTITY: &[Opt] = &[Opt::RunAs, Opt::SetUser, Opt::SetGroup, Opt::Chroot];
/// Not of a shell's command: in system(3), which socat takes for it, the signals go to another
/// process.
pub(crate) const PASSED: &[Opt] = &[Opt::SigHup, Opt::SigInt, Opt::SigQuit];
pub(crate) const PROGRAM: &[Opt] = &[
    Opt::InputNumber,
    Opt::OutputNumber,
    Opt::Pty,
    Opt::Terminal,
    Opt::Stderr,
    Opt::Setsid,
    Opt::Pipes,
    Opt::NoFork,
    Opt::Directory,
    Opt::Umask,
    Opt::Shared,
];

macro_rules! options {
    ($($(#[cfg($when:meta)])? $option:ident $name:literal [$($alias:literal),*] $takes:ident $(($least:literal, $most:expr))?, [$($needs:ident),*], $help:literal;)*) => {
        /// An option of an address.
        ///
        /// ```
        /// use gush_link::address::Opt;
        /// assert_eq!(Opt::MaxChildren.name(), "max-children");
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Opt {
            $(#[doc = $help] $(#[cfg($when)])? $option,)*
        }

        /// In the order of [`Opt`].
        const ROWS: &[OptRow] = &[$($(#[cfg($when)])? OptRow {
            option: Opt::$option,
            name: $name,
            aliases: &[$($alias),*],
            takes: Takes::$takes $(($least, $most))?,
            needs: &[$(Opt::$needs),*],
            help: $help,
        }),*];
    };
}

options! {
    Fork "fork" [] Flag, [], "serve every client, not just the first; udp-listen: every sender, until it is silent for 60 s (-T); of a connection: make the next one after interval= as well";
    MaxChildren "max-children" ["maxchildren"] Count, [Fork], "serve at most N clients at once; others wait";
    AcceptTimeout "accept-timeout" ["listen-timeout"] Seconds, [], "end the link when no client comes for so long; with fork once those that are connected have finished";
    Shared "shared" [] Flag, [], "open once, before listening, for all clients (fork at the other address), not for each of them; copies through memory";
    Backlog "backlog" [] Count, [], "limit on connections waiting to be accepted";
    ReuseAddr "reuseaddr" ["so-reuseaddr"] Flag, [], "bind even if old connections linger; on for tcp-listen. udp-listen: share the port, whose datagrams others may get";
    Range "range" [] Ranges, [], "accept only clients in these networks; repeatable";
    SourcePort "sourceport" ["sp"] Number(1, 65535), [], "accept only clients that connect from this port";
    LowPort "lowport" [] Flag, [], "accept only clients with a source port below 1024; of a connection: bind to such a port";
    Bind "bind" [] Text, [], "local address, HOST or HOST:PORT; of a Unix socket its own name";
    BindTempName "bind-tempname" ["unix-bind-tempname"] Path, [], "bind to a new name, with random letters for the last XXXXXX";
    SeqPacket "seqpacket" [] Flag, [], "a Unix socket of packets (SOCK_SEQPACKET), not a stream";
    Ipv6Only "ipv6only" ["ipv6-v6only", "v6only"] Flag, [], "refuse IPv4 on an IPv6 socket";
    ConnectTimeout "connect-timeout" [] Seconds, [], "limit on one attempt (30 s; 60 s for a proxy to reach HOST)";
    Retry "retry" [] Retries, [], "number of further attempts, or forever";
    Interval "interval" ["intervall"] Seconds, [Retry, Fork], "time between attempts (1 s)";
    NoDelay "nodelay" ["tcp-nodelay"] Flag, [], "send short messages at once (TCP_NODELAY); on by default";
    KeepAlive "keepalive" ["so-keepalive"] Flag, [], "detect a peer that has vanished (SO_KEEPALIVE)";
    KeepIdle "keepidle" ["tcp-keepidle"] Seconds, [], "idle time before the first keepalive probe; with keepalive";
    KeepInterval "keepintvl" ["tcp-keepintvl"] Seconds, [], "time between keepalive probes";
    KeepCount "keepcnt" ["tcp-keepcnt"] Count, [], "unanswered probes after which the connection ends";
    UserTimeout "user-timeout" ["tcp-user-timeout"] Seconds, [], "time after which unacknowledged data ends the connection";
    Broadcast "broadcast" ["so-broadcast"] Flag, [], "permit broadcast addresses";
    Membership "membership" ["ip-membership", "ip-add-membership", "add-membership", "ipv6-join-group", "ipv6-add-membership", "join-group"] Name, [], "multicast group to join, GROUP:INTERFACE";
    MulticastTtl "multicast-ttl" ["ip-multicast-ttl", "multicastttl", "ipmulticastttl"] Number(1, 255), [], "number of routers that multicasts may pass (1)";
    MulticastLoop "multicast-loop" ["ip-multicast-loop", "multicastloop", "ipmulticastloop"] Flag, [], "deliver multicasts to this machine, too; on by default";
    MulticastInterface "multicast-if" ["ip-multicast-if"] Name, [], "interface that multicasts leave by";
    ReusePort "reuseport" ["so-reuseport"] Flag, [], "share the port with other programs that say so, each of which gets some of the clients";
    Ttl "ttl" ["ip-ttl", "ipttl", "ipv6-unicast-hops", "unicast-hops"] Number(1, 255), [], "number of routers that packets may pass";
    Tos "tos" ["ip-tos", "iptos", "ipv6-tclass", "tclass"] Number(0, 255), [], "type of service of packets, as a byte";
    Priority "priority" ["so-priority"] Number(0, u32::MAX), [], "priority of packets in this machine's queues";
    Device "bindtodevice" ["so-bindtodevice", "interface", "if"] Name, [], "use this network interface only";
    Freebind "freebind" ["ip-freebind", "ipfreebind"] Flag, [], "bind to an address that this machine does not have yet";
    Transparent "transparent" ["ip-transparent", "iptransparent"] Flag, [], "bind to any address, for a transparent proxy; takes root";
    NetNs "netns" [] Name, [], "make the socket in this network namespace of ip-netns(8); hosts are given by their numbers";
    MaxSegment "mss" ["maxseg", "tcp-maxseg", "mss-late", "maxseg-late", "tcp-maxseg-late"] Count, [], "the most bytes of data in a TCP segment";
    UdpLite "udplite" [] Flag, [], "UDP-Lite, whose checksum need not cover all of a datagram (udplite(7))";
    ShutNull "shut-null" [] Flag, [], "send an empty datagram at the end of the other side's data";
    NullEof "null-eof" [] Flag, [], "an empty datagram is the end of the data read";
    Ancillary "ancillary" [] Flag, [], "log what the kernel reports of each datagram (time, TTL, type of service, options, local address); programs get it as SOCAT_IP_TTL and the like";
    SendBuffer "sndbuf" ["so-sndbuf"] Size, [], "size of the socket's send buffer";
    ReceiveBuffer "rcvbuf" ["so-rcvbuf"] Size, [], "size of the socket's receive buffer";
    SocketOption "setsockopt" [] SocketOption, [], "any other option of the socket by its numbers in C; VALUE is a number, or bytes as x00ff; repeatable";
    Mode "mode" ["perm"] Mode, [], "permissions of the file created";
    Umask "umask" [] Mode, [], "umask for what is created (default: this process's umask)";
    User "user" ["owner", "uid", "user-late", "uid-l"] User, [], "owner of the file, also of one that is there";
    Group "group" ["gid", "group-late", "gid-l"] Group, [], "group of the file, also of one that is there";
    Unlink "unlink" ["unlink-early"] Flag, [], "replace a socket that has no listener";
    UnlinkClose "unlink-close" [] Flag, [], "remove the file created at the end; on by default";
    Append "append" ["o-append"] Flag, [], "append to the file";
    Create "create" ["creat", "o-create", "o-creat", "o_create"] Flag, [], "create a missing file; PATH alone: on if it is only written";
    Truncate "trunc" ["o-trunc"] Flag, [], "truncate the file first";
    Exclusive "excl" ["o-excl", "o_excl"] Flag, [Create], "fail if the file exists";
    NoAtime "noatime" ["o-noatime"] Flag, [], "do not update the time of the last access";
    NoFollow "nofollow" ["o-nofollow", "o_nofollow"] Flag, [], "fail if the file is a symbolic link";
    Sync "sync" ["o-sync", "o_sync"] Flag, [], "wait until what is written is on the device, with its metadata";
    DataSync "dsync" ["o-dsync", "o_dsync"] Flag, [], "wait until what is written is on the device";
    ReadOnly "rdonly" ["o-rdonly", "o_rdonly"] Flag, [], "open for reading only";
    WriteOnly "wronly" ["o-wronly", "o_wronly"] Flag, [], "open for writing only";
    ReadWrite "rdwr" ["o-rdwr", "o_rdwr"] Flag, [], "open for both, also where bytes go one way: a FIFO then has no end of data";
    NonBlock "nonblock" ["o-nonblock", "ndelay", "o-ndelay", "o_ndelay"] Flag, [], "do not wait for the other side of a FIFO";
    Seek "seek" ["seek-set", "lseek", "lseek32", "lseek32-set", "lseek64", "lseek64-set"] Size, [], "start at this offset";
    SeekEnd "seek-end" [] Offset, [], "start so many bytes after the end, or before it (-1K); with ignoreeof as tail -f does";
    Pty "pty" [] Flag, [], "run the program on a pseudo-terminal";
    Stderr "stderr" [] Flag, [], "also read the program's standard error; on with pty";
    Setsid "setsid" [] Flag, [], "start the program in a new session";
    SigHup "sighup" [] Flag, [], "pass SIGHUP on to the program; the link goes on, but with fork takes no new clients";
    SigInt "sigint" [] Flag, [], "the same for SIGINT (Ctrl-C)";
    SigQuit "sigquit" [] Flag, [], "the same for SIGQUIT";
    Pipes "pipes" [] Flag, [], "use two pipes, not a socket pair";
    NoFork "nofork" [] Flag, [], "become the program, whose input and output are the other address itself; gush moves no byte, and no option of gush link counts any more";
    InputNumber "fdin" [] Number(0, u32::MAX), [], "descriptor from which the program reads (0)";
    OutputNumber "fdout" [] Number(0, u32::MAX), [], "descriptor to which the program writes (1)";
    Directory "cwd" ["chdir", "cd"] Path, [], "working directory of the program";
    RunAs "run-as" ["su", "substuser", "su-d", "substuser-delayed"] User, [], "start the program as this user, with all its groups; other addresses: this process becomes that user once they are open";
    SetUser "setuid" [] User, [], "the same, keeping the groups";
    SetGroup "setgid" [] Group, [], "the same for the group";
    Chroot "chroot" [] Path, [], "start the program with this root directory; other addresses: this process has it once they are open";
    Credentials "credentials" [] Path, [], "file with NAME:PASSWORD for the proxy";
    HttpVersion "http-version" [] HttpVersion, [], "version of HTTP of the request to the proxy (1.1)";
    Prefer "prefer" [] IpVersion, [], "version of IP to try first, of a host with both, one address after the other";
    Family "family" [] IpVersion, [], "version of IP of the connection to the proxy";
    SocksUser "socksuser" [] Name, [], "user name to send to the proxy (default: LOGNAME, USER or anonymous)";
    Link "link" ["symbolic-link"] Path, [], "symbolic link to the pseudo-terminal, removed at the end; with unlink an existing link is replaced; with several clients it points to the newest";
    WaitSlave "wait-slave" ["waitslave", "pty-wait-slave"] Flag, [], "wait until a program opens the pseudo-terminal, and end when it is closed";
    Terminal "SETTING" [] Flag, [Pty], "terminal settings in their order: raw (alters nothing, echoes nothing, knows no end-of-file character), stty-raw (as raw of stty(1): leaves echo, size and parity), rawer (as in socat: also the speed is 0), sane (as in socat), echo=0, b115200, cs8, cstopb, parenb, clocal, crtscts, ixon=0, icanon=0, min=1...; restored at the end";
    Crnl "crnl" ["crlf"] Flag, [], "convert line ends: CR LF here, LF on the other side; copies through memory";
    Cr "cr" [] Flag, [], "convert line ends: CR here, LF on the other side; copies through memory";
    IgnoreEof "ignoreeof" ["ignore-eof", "ignoreof"] Flag, [], "keep waiting at the end of the data, like tail -f; copies through memory";
    ShutNone "shut-none" [] Flag, [], "do not pass on the end of the other side's data; copies through memory";
    Escape "escape" [] Byte, [], "byte that ends the data read here, such as 0x1d (Ctrl-] on a raw terminal); -t TIME then ends the link; copies through memory";
    CoolWrite "cool-write" ["coolwrite"] Flag, [], "a reader that has gone ends the connection without an error";
    LockFile "lockfile" [] Path, [], "make this file first, with this process's number, and remove it at the end; fail if it exists";
    WaitLock "waitlock" [] Path, [], "the same, but wait until it is gone";
    Lock "lock" [] Lock, [], "lock the file for as long as it is open: write or read (fcntl(2)), flock or flock-shared (flock(2)); after wait- not failing but waiting while another process has a lock";
    ReadBytes "readbytes" ["bytes"] Size, [], "read only so many bytes, as if the data ended there; copies through memory";
    #[cfg(feature = "tls")] Certificate "cert" ["certificate", "openssl-certificate"] Path, [], "PEM file with our certificate chain, and the key unless key= is given";
    #[cfg(feature = "tls")] Key "key" ["openssl-key"] Path, [Certificate], "PEM file with our private key";
    #[cfg(feature = "tls")] CaFile "cafile" ["openssl-cafile"] Path, [], "PEM file with the authorities to trust instead of the system's; tls-listen: those that sign accepted clients";
    #[cfg(feature = "tls")] CaPath "capath" ["openssl-capath"] Path, [], "the same, as a directory prepared by openssl rehash";
    #[cfg(feature = "tls")] Verify "verify" ["openssl-verify"] Flag, [], "verify the peer's certificate; on for tls, and for tls-listen with cafile or capath (socat: always), where clients then need one";
    #[cfg(feature = "tls")] CommonName "commonname" ["openssl-commonname", "cn"] Name, [], "name that the peer's certificate must have, letter by letter: an alternative name, or its first common name; tls: instead of HOST, for which only alternative names count";
    #[cfg(feature = "tls")] Sni "sni" ["snihost", "openssl-snihost"] ServerName, [], "server name to ask for (SNI), if not the one that is verified";
    #[cfg(feature = "tls")] NoSni "no-sni" ["nosni", "openssl-no-sni"] Flag, [], "send no server name (SNI)";
    #[cfg(feature = "tls")] Alpn "alpn" [] Protocols, [], "protocols to offer, in order of preference, such as h2+http/1.1";
    #[cfg(feature = "tls")] MinVersion "min-version" ["min-proto-version", "openssl-min-proto-version"] TlsVersion, [], "minimum TLS version (1.2)";
    #[cfg(feature = "tls")] MaxVersion "max-version" ["openssl-max-proto-version"] TlsVersion, [], "maximum TLS version (1.3)";
    #[cfg(feature = "tls")] HandshakeTimeout "handshake-timeout" [] Seconds, [], "limit on the handshake (10 s)";
}

impl Opt {
    /// The row of the table that describes the option.
    #[must_use]
    pub fn row(self) -> &'static OptRow {
        &ROWS[self as usize]
    }

    /// The option's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Every option.
    pub fn all() -> impl Iterator<Item = &'static OptRow> {
        ROWS.iter()
    }
}

pub(crate) fn taken_by(kind: Kind) -> impl Iterator<Item = &'static OptRow> {
    ROWS.iter().filter(move |row| kind.takes(row.option))
}

pub(crate) fn named(word: &str) -> Option<&'static OptRow> {
    let is = |name: &str| name.eq_ignore_ascii_case(word);
    // Settings have their own names.
    let named = ROWS.iter().filter(|row| row.option != Opt::Terminal);
    named.into_iter().find(|row| is(row.name) || row.aliases.iter().any(|name| is(name)))
}

/// The options that an address was given.
///
/// ```
/// use gush_link::address::{Address, Opt};
/// let address: Address = "tcp-listen:80,fork,max-children=20".parse()?;
/// assert!(address.options().is_on(Opt::Fork));
/// assert_eq!(address.options().count(Opt::MaxChildren), Some(20));
/// assert_eq!(address.options().flag(Opt::ReuseAddr), None);
/// # Ok::<(), gush_link::address::AddressError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OptionSet(pub(super) BTreeMap<Opt, Value>);

/// The value of an option, if it is of this variant.
macro_rules! value {
    ($options:expr, $option:expr, $variant:ident) => {
        match $options.0.get(&$option) {
            Some(Value::$variant(value)) => Some(value),
            _ => None,
        }
    };
}

impl OptionSet {
    /// Adds an option; `false` if it was given before and is no list.
    pub(super) fn add(&mut self, option: Opt, value: Value) -> bool {
        match self.0.get_mut(&option) {
            Some(before) => before.append(value),
            None => self.0.insert(option, value).is_none(),
        }
    }

    /// Was the option given?
    #[must_use]
    pub fn has(&self, option: Opt) -> bool {
        self.0.contains_key(&option)
    }

    /// A flag that was given: on or off.
    #[must_use]
    pub fn flag(&self, option: Opt) -> Option<bool> {
        value!(self, option, Flag).copied()
    }

    /// Is the flag given and on?
    #[must_use]
    pub fn is_on(&self, option: Opt) -> bool {
        self.flag(option) == Some(true)
    }

    /// A number.
    #[must_use]
    pub fn count(&self, option: Opt) -> Option<u32> {
        value!(self, option, Count).copied()
    }

    /// How often to retry; `u32::MAX` for `retry=forever`.
    #[must_use]
    pub fn retries(&self) -> u32 {
        value!(self, Opt::Retry, Retries).copied().unwrap_or(0)
    }

    /// A size or an offset in bytes.
    #[must_use]
    pub fn size_bytes(&self, option: Opt) -> Option<u64> {
        value!(self, option, Size).copied()
    }

    /// An offset that may be negative.
    pub(crate) fn offset_bytes(&self, option: Opt) -> Option<i64> {
        value!(self, option, Offset).copied()
    }

    /// A byte.
    #[must_use]
    pub fn byte(&self, option: Opt) -> Option<u8> {
        value!(self, option, Byte).copied()
    }

    /// A length of time.
    #[must_use]
    pub fn duration(&self, option: Opt) -> Option<Duration> {
        value!(self, option, Seconds).copied()
    }

    /// Permission bits.
    #[must_use]
    pub fn mode(&self, option: Opt) -> Option<u32> {
        value!(self, option, Mode).copied()
    }

    /// The networks whose peers are accepted; all peers are if there is none.
    #[must_use]
    pub fn ranges(&self) -> &[IpNet] {
        value!(self, Opt::Range, Ranges).map_or(&[], Vec::as_slice)
    }

    /// Options of the socket by their numbers, in the order in which they were given.
    pub(crate) fn socket_options(&self) -> &[SocketOption] {
        value!(self, Opt::SocketOption, SocketOptions).map_or(&[], Vec::as_slice)
    }

    /// A path.
    #[must_use]
    pub fn path(&self, option: Opt) -> Option<&OsString> {
        value!(self, option, Path)
    }

    /// The settings of a terminal, in the order in which they were given.
    pub(crate) fn settings(&self) -> &[Setting] {
        value!(self, Opt::Terminal, Settings).map_or(&[], Vec::as_slice)
    }

    /// A name or a list, as text.
    #[must_use]
    pub fn text(&self, option: Opt) -> Option<&str> {
        value!(self, option, Text).map(String::as_str)
    }

    /// The version of IP to use.
    pub(crate) fn family(&self) -> Option<Family> {
        self.ip_version(Opt::Family)
    }

    /// The version of IP to try first.
    pub(crate) fn preferred(&self) -> Option<Family> {
        self.ip_version(Opt::Prefer)
    }

    fn ip_version(&self, option: Opt) -> Option<Family> {
        Some(if self.text(option)? == "4" { Family::V4 } else { Family::V6 })
    }

    /// The local address to use.
    #[must_use]
    pub fn bind(&self) -> Option<&str> {
        self.text(Opt::Bind)
    }
}

/// Each option after a comma, as in an address.
impl fmt::Display for OptionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(option, value)| match value {
            Value::Flag(true) => write!(f, ",{}", option.name()),
            Value::Settings(settings) => {
                settings.iter().try_for_each(|setting| write!(f, ",{setting}"))
            }
            Value::SocketOptions(all) => {
                all.iter().try_for_each(|one| write!(f, ",{}={one}", option.name()))
            }
            value => write!(f, ",{}={value}", option.name()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_means_two_options() {
        let mut names: Vec<_> =
            ROWS.iter().flat_map(|row| row.aliases.iter().chain([&row.name])).collect();
        names.sort();
        assert!(names.is_sorted_by(|one, other| one < other));
    }
}
