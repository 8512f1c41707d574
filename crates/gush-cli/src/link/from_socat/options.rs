//! The options of socat's addresses that have another name here, or none.

use std::fmt;
use std::net::Ipv4Addr;

use gush_link::address::{AddressError, Family};

use super::{did_you_mean, lexer};

/// Why an option that `gush link` does not take is not taken.
#[derive(Debug, Clone, Copy)]
pub enum Verdict {
    /// Without the option the same happens.
    Needless(&'static str),
    Missing(&'static str),
}

/// Further names of socat's options (`socat -hhh`), each with the usual one, known to the tables below.
const ALIASES: &[(&str, &str)] = &[
    ("add-membership", "membership"),
    ("attach-filter", "attachfilter"),
    ("cipherlist", "cipher"),
    ("close", "end-close"),
    ("dash", "login"),
    ("delete", "unlink"),
    ("detach-filter", "detachfilter"),
    ("ext2-compr", "compr"),
    ("ext2-dirsync", "dirsync"),
    ("ext2-immutable", "immutable"),
    ("ext2-journal-data", "journal-data"),
    ("ext2-noatime", "fs-noatime"),
    ("ext2-nodump", "nodump"),
    ("ext2-notail", "notail"),
    ("ext2-sync", "fs-sync"),
    ("ext2-topdir", "topdir"),
    ("ext2-unrm", "unrm"),
    ("ext3-append", "fs-append"),
    ("ext3-compr", "compr"),
    ("ext3-dirsync", "dirsync"),
    ("ext3-immutable", "immutable"),
    ("ext3-journal-data", "journal-data"),
    ("ext3-noatime", "fs-noatime"),
    ("ext3-nodump", "nodump"),
    ("ext3-notail", "notail"),
    ("ext3-secrm", "secrm"),
    ("ext3-sync", "fs-sync"),
    ("ext3-topdir", "topdir"),
    ("ext3-unrm", "unrm"),
    ("f-setlk", "setlk"),
    ("f-setlk-rd", "setlk-rd"),
    ("f-setlk-wr", "setlk"),
    ("f-setlkw", "setlkw"),
    ("f-setlkw-rd", "setlkw-rd"),
    ("f-setlkw-wr", "setlkw"),
    ("fs-compr", "compr"),
    ("fs-dirsync", "dirsync"),
    ("fs-immutable", "immutable"),
    ("fs-journal-data", "journal-data"),
    ("fs-nodump", "nodump"),
    ("fs-notail", "notail"),
    ("fs-secrm", "secrm"),
    ("fs-topdir", "topdir"),
    ("fs-unrm", "unrm"),
    ("gid-e", "group-early"),
    ("ip-freebind", "freebind"),
    ("ip-hdrincl", "hdrincl"),
    ("ip-mtu", "mtu"),
    ("ip-pktoptions", "pktopts"),
    ("ip-retopts", "retopts"),
    ("ip-router-alert", "routeralert"),
    ("ipfreebind", "freebind"),
    ("iphdrincl", "hdrincl"),
    ("ipmtu", "mtu"),
    ("ipmtudiscover", "mtudiscover"),
    ("ipmulticastloop", "multicastloop"),
    ("ipmulticastttl", "multicastttl"),
    ("ippktinfo", "pktinfo"),
    ("ippktoptions", "pktopts"),
    ("iprecverr", "recverr"),
    ("iprecvopts", "recvopts"),
    ("iprecvtos", "recvtos"),
    ("iprecvttl", "recvttl"),
    ("ipretopts", "retopts"),
    ("iprouteralert", "routeralert"),
    ("iptos", "tos"),
    ("ipv6-add-membership", "join-group"),
    ("ipv6-authhdr", "authhdr"),
    ("ipv6-dstopts", "dstopts"),
    ("ipv6-hoplimit", "hoplimit"),
    ("ipv6-hopopts", "hopopts"),
    ("ipv6-rthdr", "rthdr"),
    ("journal", "journal-data"),
    ("libwrap", "tcpwrap"),
    ("lockw", "setlkw"),
    ("lseek64-cur", "seek-cur"),
    ("lseek64-end", "seek-end"),
    ("maxseg-late", "mss-late"),
    ("multicast-loop", "multicastloop"),
    ("multicast-ttl", "multicastttl"),
    ("new", "unlink-early"),
    ("no-check", "nocheck"),
    ("o_direct", "direct"),
    ("o_directory", "directory"),
    ("o_dsync", "dsync"),
    ("o_largefile", "largefile"),
    ("o_ndelay", "ndelay"),
    ("o_noctty", "noctty"),
    ("o_nofollow", "nofollow"),
    ("o_rdwr", "rdwr"),
    ("o_rsync", "rsync"),
    ("o_sync", "sync"),
    ("openssl-dhparams", "dh"),
    ("pktoptions", "pktopts"),
    ("proxy-auth", "proxyauth"),
    ("proxy-resolve", "resolve"),
    ("pty-intervall", "pty-interval"),
    ("remove", "unlink"),
    ("resolv", "resolve"),
    ("security-authentication", "securityauthentication"),
    ("security-encryption-network", "securityencryptionnetwork"),
    ("security-encryption-transport", "securityencryptiontransport"),
    ("so-acceptconn", "acceptconn"),
    ("so-attach-filter", "attachfilter"),
    ("so-bsdcompat", "bsdcompat"),
    ("so-detach-filter", "detachfilter"),
    ("so-error", "error"),
    ("so-no-check", "nocheck"),
    ("so-passcred", "passcred"),
    ("so-peercred", "peercred"),
    ("so-security-authentication", "securityauthentication"),
    ("so-security-encryption-network", "securityencryptionnetwork"),
    ("so-security-encryption-transport", "securityencryptiontransport"),
    ("swtch", "swtc"),
    ("tcp-info", "info"),
    ("tcp-md5sig", "md5sig"),
    ("tcpwrap-hosts-allow-table", "hosts-allow"),
    ("tcpwrap-hosts-deny-table", "hosts-deny"),
    ("tcpwrapper", "tcpwrap"),
    ("termios-cfmakeraw", "cfmakeraw"),
    ("termios-rawer", "rawer"),
    ("uid-e", "user-early"),
    ("v6only", "ipv6only"),
    ("vswtc", "swtc"),
    ("wrap", "tcpwrap"),
];

/// Options under another name.
const RENAMED: &[(&[&str], &str)] = &[
    (&["forever"], "retry=forever"),
    (&["openpty", "ptmx"], "pty"),
    (&["cfmakeraw"], "raw"),
    (&["pty-wait-slave"], "wait-slave"),
    (&["proxyauthfile", "proxy-authorization-file"], "credentials"),
    (&["listen-backlog"], "backlog"),
    (&["sndbuf-late", "so-sndbuf-late"], "sndbuf"),
    (&["rcvbuf-late", "so-rcvbuf-late"], "rcvbuf"),
    (&["lseek32-set", "lseek64-set"], "seek"),
];

const NEEDLESS: &[(&[&str], &str)] = &[
    (&["nonblock", "o-nonblock", "ndelay", "o-ndelay"], "nothing waits in a call anyway"),
    (&["cloexec", "noinherit", "o-noinherit"], "programs that are started inherit no descriptor"),
    (&["noctty", "o-noctty"], "no file becomes the controlling terminal"),
    (&["ctty", "tiocsctty", "controlling-tty"], "a pty is its program's controlling terminal"),
    (&["coolwrite", "cool-write"], "a client that goes away fails alone"),
    (&["reuseaddr", "so-reuseaddr"], "this kind has no port that lingers"),
    (&["largefile", "o-largefile", "rdwr", "o-rdwr"], "files are opened this way anyway"),
    (&["binary", "o-binary", "text", "o-text"], "only Cygwin has this option"),
    (&["tightsocklen", "unix-tightsocklen"], "names of sockets have their own length"),
    (&["openpty", "ptmx"], "a pseudo-terminal is made this way anyway"),
    (&["pty-interval"], "an opened slave is looked for often"),
    (&["end-close"], "an end is closed when both sides have ended"),
    (&["shut-down"], "the end of data is a shutdown wherever there is one"),
    (
        &[
            "openssl-compress",
            "compress",
            "fips",
            "openssl-fips",
            "egd",
            "openssl-egd",
            "pseudo",
            "openssl-pseudo",
        ],
        "gush link has TLS without OpenSSL",
    ),
    (&["oobinline", "so-oobinline"], "an urgent byte is passed on in its place"),
    (&["setsid", "sid"], "only programs have sessions"),
    (&["unlink-close"], "nothing was made that could stay"),
];

const SOCKET_OPTION: &str = "this socket option is left to the kernel";
const LOCK: &str = "flock(1) takes locks: `flock FILE gush link ...`";
const USER: &str =
    "start gush as that user: `setpriv --reuid USER --regid GROUP --init-groups gush link ...`";
const PLACE: &str = "start gush there: `chroot DIR gush link ...`";
const FILE_FLAG: &str = "chattr(1) sets attributes of files";
const LIBWRAP: &str = "range= says whose connections are accepted; libwrap is left to socat";
const ANCILLARY: &str = "ancillary messages are not logged";
const MULTICAST: &str = "multicast and broadcast are left to socat";
const RESOLVER: &str = "resolv.conf(5) says how names are looked up: RES_OPTIONS=... gush link";
const IOCTL: &str = "calls by number are left to socat";
const TERMINAL: &str = "stty(1) sets it: `stty -F DEVICE ...`";
const PROGRAMS_TERMINAL: &str = "with pty a program has a terminal, which it sets itself: shell:'stty SETTING; exec COMMAND',pty";
const NEW_TERMINAL: &str =
    "the program that opens the pseudo-terminal sets it: `stty SETTING` there";
const TLS: &str = "rustls chooses ciphers and versions that are safe today";

/// Of a terminal; a kind of address that is none does not take them.
const SPEEDS: &[&str] = &[
    "b0", "b50", "b75", "b110", "b134", "b150", "b200", "b300", "b600", "b1200", "b1800", "b2400",
    "b4800", "b9600", "b19200", "b38400", "b57600", "b115200", "b230400", "b460800", "b500000",
    "b576000", "b921600", "b1000000", "b1152000", "b1500000", "b2000000", "b2500000", "b3000000",
    "b3500000", "b4000000", "ispeed", "ospeed",
];
const MODES: &[&str] = &[
    "brkint", "clocal", "cread", "crtscts", "cs5", "cs6", "cs7", "cs8", "cstopb", "discard",
    "echo", "echoctl", "echoe", "echok", "echoke", "echonl", "echoprt", "eof", "eol", "eol2",
    "erase", "hupcl", "icanon", "icrnl", "iexten", "ignbrk", "igncr", "ignpar", "imaxbel", "inlcr",
    "inpck", "intr", "isig", "istrip", "ixany", "ixoff", "ixon", "kill", "lnext", "min", "noflsh",
    "ocrnl", "onlcr", "onlret", "onocr", "opost", "parenb", "parmrk", "parodd", "quit", "raw",
    "rawer", "reprint", "start", "stop", "susp", "time", "tostop", "werase",
];

const MISSING: &[(&[&str], &str)] = &[
    (
        &[
            "tos",
            "ip-tos",
            "ttl",
            "ip-ttl",
            "ipttl",
            "ipoptions",
            "ip-options",
            "mtudiscover",
            "ip-mtu-discover",
            "mtu",
            "hoplimit",
            "unicast-hops",
            "ipv6-unicast-hops",
            "tclass",
            "ipv6-tclass",
            "freebind",
            "transparent",
            "ip-transparent",
            "hdrincl",
            "routeralert",
            "retopts",
            "pktopts",
            "authhdr",
            "dstopts",
            "hopopts",
            "rthdr",
        ],
        SOCKET_OPTION,
    ),
    (
        &[
            "priority",
            "so-priority",
            "linger",
            "so-linger",
            "linger2",
            "tcp-linger2",
            "mss",
            "tcp-maxseg",
            "maxseg",
            "mss-late",
            "tcp-maxseg-late",
            "cork",
            "tcp-cork",
            "defer-accept",
            "tcp-defer-accept",
            "syncnt",
            "tcp-syncnt",
            "window-clamp",
            "tcp-window-clamp",
            "quickack",
            "tcp-quickack",
            "info",
            "md5sig",
            "rcvlowat",
            "so-rcvlowat",
            "sndlowat",
            "so-sndlowat",
            "reuseport",
            "so-reuseport",
            "dontroute",
            "so-dontroute",
            "debug",
            "so-debug",
            "nocheck",
            "passcred",
            "peercred",
            "bsdcompat",
            "error",
            "acceptconn",
        ],
        SOCKET_OPTION,
    ),
    (
        &[
            "if",
            "so-bindtodevice",
            "bindtodevice",
            "interface",
            "attachfilter",
            "detachfilter",
            "securityauthentication",
            "securityencryptionnetwork",
            "securityencryptiontransport",
            "fiosetown",
            "siocspgrp",
            "usevc",
        ],
        SOCKET_OPTION,
    ),
    (
        &[
            "type",
            "so-type",
            "socktype",
            "protocol",
            "prototype",
            "so-protocol",
            "so-prototype",
            "sockopt",
            "setsockopt",
            "sockopt-bin",
            "setsockopt-bin",
            "sockopt-int",
            "setsockopt-int",
            "sockopt-string",
            "setsockopt-string",
            "sockopt-listen",
            "setsockopt-listen",
            "ioctl",
            "ioctl-void",
            "ioctl-int",
            "ioctl-intp",
            "ioctl-bin",
            "ioctl-string",
            "i-pop-all",
            "i-push",
        ],
        IOCTL,
    ),
    (
        &[
            "timestamp",
            "so-timestamp",
            "pktinfo",
            "ip-pktinfo",
            "recverr",
            "ip-recverr",
            "recvopts",
            "ip-recvopts",
            "recvtos",
            "ip-recvtos",
            "recvttl",
            "ip-recvttl",
            "ip-recvdstaddr",
            "ip-recvif",
            "recvdstopts",
            "ipv6-recvdstopts",
            "recvhoplimit",
            "ipv6-recvhoplimit",
            "recvhopopts",
            "ipv6-recvhopopts",
            "recvpktinfo",
            "ipv6-recvpktinfo",
            "recvrthdr",
            "ipv6-recvrthdr",
            "ipv6-recvtclass",
            "ipv6-recvpathmtu",
            "ipv6-recverr",
            "ipv6-pktinfo",
        ],
        ANCILLARY,
    ),
    (
        &[
            "broadcast",
            "so-broadcast",
            "membership",
            "ip-add-membership",
            "ip-membership",
            "ip-add-source-membership",
            "join-group",
            "ipv6-join-group",
            "multicast-if",
            "ip-multicast-if",
            "multicastloop",
            "ip-multicast-loop",
            "multicastttl",
            "ip-multicast-ttl",
            "udp-ignore-peerport",
        ],
        MULTICAST,
    ),
    (
        &[
            "res-debug",
            "res-aaonly",
            "res-usevc",
            "res-primary",
            "res-igntc",
            "res-recurse",
            "res-defnames",
            "res-stayopen",
            "res-dnsrch",
            "aaonly",
            "primary",
            "igntc",
            "recurse",
            "defnames",
            "stayopen",
            "dnsrch",
        ],
        RESOLVER,
    ),
    (
        &[
            "tcpwrap",
            "tcpwrappers",
            "tcpwrap-dir",
            "tcpwrap-etc",
            "allow-table",
            "deny-table",
            "hosts-allow",
            "hosts-deny",
        ],
        LIBWRAP,
    ),
    (
        &[
            "setlk",
            "setlk-wr",
            "setlkw",
            "setlkw-wr",
            "setlk-rd",
            "setlkw-rd",
            "flock",
            "flock-ex",
            "flock-ex-nb",
            "flock-nb",
            "flock-sh",
            "flock-sh-nb",
            "lock",
            "lockfile",
            "waitlock",
        ],
        LOCK,
    ),
    (
        &[
            "su",
            "substuser",
            "su-d",
            "substuser-delayed",
            "su-e",
            "substuser-early",
            "setuid",
            "setuid-early",
            "setgid",
            "setgid-early",
        ],
        USER,
    ),
    (&["chroot", "chroot-early"], PLACE),
    (
        &[
            "secrm",
            "unrm",
            "compr",
            "fs-sync",
            "immutable",
            "fs-append",
            "nodump",
            "fs-noatime",
            "journal-data",
            "notail",
            "dirsync",
            "topdir",
            "ext2-secrm",
            "ext2-append",
        ],
        FILE_FLAG,
    ),
    (
        &[
            "sync",
            "o-sync",
            "dsync",
            "o-dsync",
            "rsync",
            "o-rsync",
            "direct",
            "o-direct",
            "noatime",
            "o-noatime",
            "nofollow",
            "o-nofollow",
            "async",
            "o-async",
            "nshare",
            "rshare",
            "directory",
            "o-directory",
        ],
        "files are opened without this flag of open(2)",
    ),
    (
        &[
            "seek-cur",
            "lseek-cur",
            "seek-end",
            "lseek-end",
            "lseek32-cur",
            "lseek32-end",
            "lseek32-cur",
            "lseek32-end",
        ],
        "seek=OFFSET counts from the start of the file; append writes at its end, and exec:'tail -c 0 -f FILE' reads from there on",
    ),
    (
        &["ftruncate", "ftruncate32", "ftruncate64", "truncate"],
        "trunc empties a file; truncate(1) cuts it elsewhere",
    ),
    (
        &["unlink-late", "unlink", "unlink-early"],
        "rm(1) removes a file: an existing one is written, or refused with excl",
    ),
    (&["umask"], "mode=OCTAL sets the permissions of what is made"),
    (
        &["user-early", "group-early", "perm-early"],
        "chown(1) and chmod(1) change what is there already",
    ),
    (&["perm-late", "mode", "perm"], "this kind makes no name that has permissions"),
    (&["lowport"], "bind=:PORT names one port"),
    (
        &["sourceport", "sp"],
        "a listener does not choose the ports of its clients; range= chooses hosts",
    ),
    (
        &["accept-timeout", "listen-timeout"],
        "`timeout TIME gush link ...` ends one that nobody calls",
    ),
    (&["fork"], "only a listener serves more than one peer"),
    (
        PASSWORDS,
        "a password in arguments is there for all to see: credentials=FILE, which holds USER:PASSWORD",
    ),
    (&["resolve"], "the proxy looks the name up"),
    (&["ignorecr"], "the answer of a proxy has to end its lines by CR LF"),
    (&["socksport", "socksuser"], "SOCKS 4 is left to socat"),
    (&["login"], "a login shell is exec:'bash -l'"),
    (&["path"], "PATH=... gush link sets where programs are found"),
    (&["fdin", "fdout"], "shell:'COMMAND 3<&0 4>&1' gives other numbers"),
    (&["nofork"], "the program is always a process of its own"),
    (&["setpgid", "pgid"], "a program leads a group of its own anyway, or with setsid a session"),
    (
        &["sighup", "sigint", "sigquit"],
        "a signal ends gush link, and then its program, by SIGTERM; Ctrl-C on a terminal with raw passes as a byte without this option",
    ),
    (&["readbytes", "bytes"], "`head -c BYTES` ends a stream after so many"),
    (&["shut-null", "null-eof"], "an empty datagram is no end of data here"),
    (&["history", "noprompt", "noecho", "prompt"], "`rlwrap` edits lines"),
    (
        &[
            "method",
            "openssl-method",
            "cipher",
            "ciphers",
            "openssl-cipherlist",
            "dhparams",
            "dhparam",
            "dh",
            "openssl-dhparam",
            "openssl-max-proto-version",
            "max-version",
        ],
        TLS,
    ),
    (
        &[
            "sane", "xcase", "iuclc", "olcuc", "swtc", "dsusp", "pendin", "flusho", "ofdel",
            "ofill", "nl0", "nl1", "nldly", "cr0", "cr1", "cr2", "cr3", "crdly", "tab0", "tab1",
            "tab2", "tab3", "tabdly", "xtabs", "bs0", "bs1", "bsdly", "vt0", "vt1", "vtdly", "ff0",
            "ff1", "ffdly", "csize",
        ],
        TERMINAL,
    ),
];

/// Options that some kinds of addresses take, for the kinds that do not.
const BY_GROUP: &[(&[&str], &str)] = &[
    (SPEEDS, TERMINAL),
    (MODES, TERMINAL),
    (&["ipv6only", "ipv6-v6only"], "only a listener could take both versions of IP"),
    (&["append", "o-append"], "a shell opens such an output: `gush link ... >>FILE`"),
    (OWNERS, "this kind makes no name that has an owner"),
    (
        &["shut-close"],
        "what is only written is closed anyway; a socket is closed when both sides have ended",
    ),
];

const PASSWORDS: &[&str] = &["proxyauth", "proxy-authorization"];

const OWNERS: &[&str] =
    &["uid", "uid-l", "user", "user-late", "owner", "gid", "gid-l", "group", "group-late"];

fn is_in(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// The usual name of an option of socat.
fn usual(name: &str) -> &str {
    let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name));
    alias.map_or(name, |&(_, usual)| usual)
}

/// Every name of an option that socat has and no address of ours, or only some.
pub fn names() -> impl Iterator<Item = &'static str> {
    let tables = [RENAMED, NEEDLESS, MISSING, BY_GROUP].into_iter().flatten();
    let names = tables.flat_map(|(names, _)| *names).chain(TAKEN).copied();
    names.chain(ALIASES.iter().map(|&(alias, _)| alias))
}

#[cfg(test)]
pub fn reasons() -> impl Iterator<Item = &'static str> {
    MISSING.iter().chain(BY_GROUP).map(|&(_, why)| why).chain([PROGRAMS_TERMINAL, NEW_TERMINAL])
}

/// The nearest name of an option of socat, where no address of ours knows `given` and the error names none itself; `refusal` tells
/// why an option with a value would be refused in its place.
pub fn hint(given: &One, error: &AddressError, refusal: impl Fn(&str) -> Option<String>) -> String {
    let is_unknown = error.text()[error.span()] == given.ours
        && !error.message().contains(';')
        && !is_known(&given.name);
    let with_value = |name: &str| match &given.value {
        Some(value) => format!("{name}={}", protected(value)),
        None => name.to_owned(),
    };
    match is_unknown {
        true => did_you_mean(&given.name, names(), |name| refusal(&with_value(name))),
        false => String::new(),
    }
}

/// Options taken out before an address of ours is asked for its own.
const TAKEN: &[&str] =
    &["pf", "protocol-family", "sourceport", "sp", "proxyport", "verify", "openssl-verify"];

/// Has socat an option of this name that has another name here, or none?
pub fn is_known(name: &str) -> bool {
    let name = usual(name);
    let tables = [RENAMED, NEEDLESS, MISSING, BY_GROUP];
    let mut rows = tables.into_iter().flatten();
    is_in(TAKEN, name) || rows.any(|(names, _)| is_in(names, name))
}

/// Kinds of addresses of ours that make a new pseudo-terminal: the first always, the others with `pty`.
const MAKERS: [&str; 3] = ["pty", "exec", "shell"];
/// socat obeys the options in their order: `sane` behind a change of the terminal undoes that change.
const NEW_IS_SANE: Verdict = Verdict::Needless("a new pseudo-terminal is sane already");

/// One option of an address, in words of ours.
#[derive(Debug)]
pub struct One {
    /// The text given to socat.
    text: String,
    /// socat's name of the option.
    pub name: String,
    ours: String,
    value: Option<String>,
    /// No option before this one changes a terminal.
    finds_terminal_new: bool,
}

/// The options of one address.
#[derive(Debug)]
pub struct Given(Vec<One>);

impl Given {
    /// Reads the options, which stand between commas behind an address. socat skips empty ones, and obeys the options in their order:
    /// of several with one name the last counts.
    pub fn read(pieces: &[&str]) -> Self {
        let mut all: Vec<One> = Vec::new();
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            let one = One::read(piece);
            all.retain(|before| !before.name.eq_ignore_ascii_case(&one.name));
            all.push(one);
        }
        let mut options = Self(all);
        let mut is_new = true;
        for one in &mut options.0 {
            one.finds_terminal_new = is_new;
            is_new &= !is_in(MODES, &one.name) && !is_in(&["cfmakeraw"], &one.name);
        }
        options.join_source_port();
        options.keep_echo();
        options
    }

    /// Takes out the option of one of these names, and returns the value.
    pub fn take(&mut self, names: &[&str]) -> Option<String> {
        let at = self.0.iter().position(|one| is_in(names, &one.name))?;
        self.0.remove(at).value
    }

    /// The version of IP that `pf=` names.
    pub fn family(&mut self) -> Option<Family> {
        let value = self.take(&["pf", "protocol-family"])?;
        Some(if value.ends_with('6') { Family::V6 } else { Family::V4 })
    }

    /// Is an option about IPv6?
    pub fn has_ipv6(&self) -> bool {
        self.0.iter().any(|one| {
            let has_brackets = one.value.as_ref().is_some_and(|value| value.starts_with('['));
            is_in(&["ipv6only", "ipv6-v6only"], &one.name)
                || has_brackets
                    && is_in(&["bind", "so-bind", "sourceport", "sp", "range"], &one.name)
        })
    }

    /// Why an option of an address of ours of this kind is not taken, where this is known.
    pub fn verdict(&self, refused: &One, kind: &str) -> Option<Verdict> {
        let find = |rows: &[(&[&str], &'static str)]| {
            rows.iter().find(|(names, _)| is_in(names, &refused.name)).map(|&(_, why)| why)
        };
        let may_make = MAKERS.contains(&kind);
        let makes = may_make && (kind == MAKERS[0] || self.0.iter().any(|one| one.ours == "pty"));
        if makes && refused.finds_terminal_new && is_in(&["sane"], &refused.name) {
            return Some(NEW_IS_SANE);
        }
        let missing = || match find(MISSING).or_else(|| find(BY_GROUP))? {
            TERMINAL if kind == MAKERS[0] => Some(NEW_TERMINAL),
            TERMINAL if may_make => Some(PROGRAMS_TERMINAL),
            why => Some(why),
        };
        find(NEEDLESS).map(Verdict::Needless).or_else(|| missing().map(Verdict::Missing))
    }

    /// socat's `raw` does not change echo, and ours does.
    fn keep_echo(&mut self) {
        let is_raw = |one: &One| is_in(&["raw"], &one.name);
        let decides = |one: &One| is_in(&["rawer", "cfmakeraw", "echo"], &one.name);
        if self.0.iter().any(is_raw) && !self.0.iter().any(decides) {
            self.0.push(One::read("echo"));
        }
    }

    /// `sourceport=` is the port of `bind=`.
    fn join_source_port(&mut self) {
        let names = &["sourceport", "sp"];
        let Some(at) = self.0.iter().position(|one| is_in(names, &one.name)) else { return };
        let port = self.0[at].value.clone().unwrap_or_default();
        let host = self.take(&["bind", "so-bind"]).unwrap_or_default();
        if let Some(one) = self.0.iter_mut().find(|one| is_in(names, &one.name)) {
            one.ours = "bind".to_owned();
            one.value = Some(format!("{host}:{port}"));
        }
    }

    /// Takes out the option that stands at this byte of the options' text.
    pub fn remove_at(&mut self, at: Option<usize>) -> Option<One> {
        let at = at?;
        let mut end = 0;
        let found = self.0.iter().position(|one| {
            end += one.to_string().len();
            at < end
        });
        found.map(|found| self.0.remove(found))
    }
}

/// Each behind a comma.
impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|one| one.fmt(f))
    }
}

impl One {
    /// The option in a message, which may go into a log: without a password.
    pub fn shown(&self) -> String {
        match self.text.split_once('=') {
            Some((name, _)) if is_in(PASSWORDS, &self.name) => format!("{name}=..."),
            _ => self.text.clone(),
        }
    }

    fn read(piece: &str) -> Self {
        let (name, value) = match lexer::split(piece, "=").as_slice() {
            [name, _, ..] => (lexer::plain(name), Some(lexer::plain(&piece[name.len() + 1..]))),
            _ => (lexer::plain(piece), None),
        };
        let name = usual(&name).to_owned();
        let renamed = RENAMED.iter().find(|(names, _)| is_in(names, &name));
        let (ours, value) = match renamed.map(|(_, ours)| ours.split_once('=').ok_or(*ours)) {
            Some(Ok((ours, value))) => (ours.to_owned(), Some(value.to_owned())),
            Some(Err(ours)) => (ours.to_owned(), value),
            None => (name.clone(), value),
        };
        let value = match is_in(&["range"], &name) {
            true => value.map(|value| masked(&value).unwrap_or(value)),
            false => value,
        };
        Self { text: piece.to_owned(), name, ours, value, finds_terminal_new: true }
    }
}

impl fmt::Display for One {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ",{}", self.ours)?;
        match &self.value {
            Some(value) => write!(f, "={}", protected(value)),
            None => Ok(()),
        }
    }
}

/// `10.0.0.0:255.0.0.0` as `10.0.0.0/8`, where the mask is a row of ones before a row of zeros.
fn masked(range: &str) -> Option<String> {
    let (network, mask) = range.split_once(':')?;
    let network: Ipv4Addr = network.parse().ok()?;
    let mask = u32::from(mask.parse::<Ipv4Addr>().ok()?);
    let ones = mask.leading_ones();
    (mask.count_ones() == ones).then(|| format!("{network}/{ones}"))
}

/// Text for an address of ours: a backslash stands before each character with a meaning there.
pub fn protected(text: &str) -> String {
    let mut protected = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, ',' | '\\' | '\'' | '"') {
            protected.push('\\');
        }
        protected.push(letter);
    }
    protected
}
