//! The options of socat's addresses that have another name here, need no equivalent, or have an
//! alternative elsewhere. Any other option is copied, and refused by the parser if no address takes
//! it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs};

use gush_link::address::{Family, Opt, Takes};
use nix::libc;

use super::lexer;

/// Why `gush link` does not take an option.
#[derive(Debug, Clone, Copy)]
pub enum Advice {
    /// It is the default.
    Needless(&'static str),
    /// Something else does it.
    Instead(&'static str),
}

/// Options under another name. Spaces separate names here and below.
const RENAMED: &[(&str, &str)] = &[
    ("forever", "retry=forever"),
    ("openpty ptmx", "pty"),
    ("raw", "stty-raw"),
    ("cfmakeraw termios-cfmakeraw", "raw"),
    ("pty-wait-slave", "wait-slave"),
    ("sid", "setsid"),
    ("v6only", "ipv6only"),
    ("proxyauthfile proxy-authorization-file", "credentials"),
    ("listen-backlog", "backlog"),
    ("sndbuf-late so-sndbuf-late", "sndbuf"),
    ("rcvbuf-late so-rcvbuf-late", "rcvbuf"),
    ("lseek32-set lseek64-set", "seek"),
    ("lseek32-end lseek64-end", "seek-end"),
    ("setlk setlk-wr f-setlk f-setlk-wr", "lock=write"),
    ("setlk-rd f-setlk-rd", "lock=read"),
    ("setlkw setlkw-wr f-setlkw f-setlkw-wr lock lockw", "lock=wait-write"),
    ("setlkw-rd f-setlkw-rd", "lock=wait-read"),
    ("flock-ex-nb flock-nb", "lock=flock"),
    ("flock flock-ex", "lock=wait-flock"),
    ("flock-sh-nb", "lock=flock-shared"),
    ("flock-sh", "lock=wait-flock-shared"),
    (
        "timestamp so-timestamp recvttl ip-recvttl iprecvttl recvtos ip-recvtos iprecvtos \
         recvopts ip-recvopts iprecvopts pktinfo ip-pktinfo ippktinfo recvpktinfo \
         ipv6-recvpktinfo recvhoplimit ipv6-recvhoplimit recvtclass ipv6-recvtclass",
        "ancillary",
    ),
    (
        "sockopt sockopt-int sockopt-bin sockopt-listen setsockopt-int setsockopt-bin \
         setsockopt-listen setsockopt-socket setsockopt-connected sockopt-conn sockopt-sock",
        "setsockopt",
    ),
    ("o_creat", "create"),
];

/// Options with a value that `gush link` says without one, or in another way.
const VALUES: &[(&str, &str, &str)] = &[
    (SOCKET_TYPE, "5", "seqpacket"),
    ("ftruncate truncate ftruncate32 ftruncate64", "0", "trunc"),
];

/// Options that the kernel keeps as an int: the level and the name of each (setsockopt(2)).
const SOCKET_OPTIONS: &[(&str, i32, i32)] = &[
    ("debug so-debug", libc::SOL_SOCKET, libc::SO_DEBUG),
    ("dontroute so-dontroute", libc::SOL_SOCKET, libc::SO_DONTROUTE),
    ("rcvlowat so-rcvlowat", libc::SOL_SOCKET, libc::SO_RCVLOWAT),
    ("nocheck no-check so-no-check", libc::SOL_SOCKET, libc::SO_NO_CHECK),
    ("passcred so-passcred", libc::SOL_SOCKET, libc::SO_PASSCRED),
    ("cork tcp-cork", libc::IPPROTO_TCP, libc::TCP_CORK),
    ("quickack tcp-quickack", libc::IPPROTO_TCP, libc::TCP_QUICKACK),
    ("defer-accept tcp-defer-accept", libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT),
    ("syncnt tcp-syncnt", libc::IPPROTO_TCP, libc::TCP_SYNCNT),
    ("linger2 tcp-linger2", libc::IPPROTO_TCP, libc::TCP_LINGER2),
    ("window-clamp tcp-window-clamp", libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP),
    ("mtudiscover ip-mtu-discover ipmtudiscover", libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
    ("ipoptions ip-options", libc::IPPROTO_IP, libc::IP_OPTIONS),
    // UDPLITE_SEND_CSCOV and UDPLITE_RECV_CSCOV of linux/udp.h.
    ("udplite-send-cscov", libc::IPPROTO_UDPLITE, 10),
    ("udplite-recv-cscov", libc::IPPROTO_UDPLITE, 11),
];

const NEEDLESS: &[(&str, &str)] = &[
    ("interval intervall", "without retry= there is one attempt"),
    ("nonblock o-nonblock ndelay o-ndelay o_ndelay", "nothing waits in a call anyway"),
    ("cloexec noinherit o-noinherit", "programs that are started inherit no descriptor"),
    ("noctty o-noctty o_noctty", "no file becomes the controlling terminal"),
    ("ctty tiocsctty controlling-tty", "a pty is its program's controlling terminal"),
    ("reuseaddr so-reuseaddr", "this kind has no port that lingers"),
    ("largefile o-largefile o_largefile", "files are opened this way anyway"),
    ("binary o-binary text o-text", "only Cygwin has this option"),
    (
        "ai-addrconfig addrconfig ai-passive passive",
        "addresses are looked up for the versions of IP that the address says",
    ),
    ("tightsocklen unix-tightsocklen", "names of sockets have their own length"),
    ("openpty ptmx", "a pseudo-terminal is made this way anyway"),
    ("pty-interval pty-intervall", "an opened slave is looked for often"),
    ("shut-down", "the end of data is a shutdown wherever there is one"),
    (
        "openssl-compress compress fips openssl-fips egd openssl-egd pseudo openssl-pseudo",
        "gush link has TLS without OpenSSL",
    ),
    ("oobinline so-oobinline", "an urgent byte is passed on in its place"),
    ("unlink-close", "nothing was made that could stay"),
    ("ignorecr", "lines of a proxy's answer may end without CR"),
    ("children-shutup", "the failure of a client is a warning anyway"),
];

/// Of those above, the ones that are needless with one value alone: is that 0, and why is another
/// refused?
const NEEDLESS_AS: &[(&str, bool, &str)] = &[
    ("unlink-close", true, "rm(1) removes the file afterwards"),
    (
        "cloexec noinherit o-noinherit",
        false,
        "a program gets no descriptors but two, whose numbers are fdin= and fdout=",
    ),
    ("tightsocklen unix-tightsocklen", false, "names of sockets are not made longer"),
];

const INSTEAD: &[(&str, &str)] = &[
    ("linger so-linger", "a close that waits would delay the other connections"),
    (SOCKET_TYPE, "gush link has streams, and Unix sockets of packets (5)"),
    (
        "setlk setlk-wr setlk-rd setlkw setlkw-wr setlkw-rd f-setlk f-setlk-wr f-setlk-rd \
         f-setlkw f-setlkw-wr f-setlkw-rd lock lockw flock flock-ex flock-ex-nb flock-nb \
         flock-sh flock-sh-nb",
        "a lock is for a file or an inherited descriptor",
    ),
    (
        "su su-d substuser substuser-delayed setuid setgid su-e substuser-early setuid-early \
         setgid-early",
        "start gush as that user: `setpriv --reuid USER --regid GROUP --init-groups gush link ...`",
    ),
    ("chroot chroot-early", "start gush there: `chroot DIR gush link ...`"),
    (
        "tcpwrap tcpwrapper tcpwrappers wrap libwrap tcpwrap-etc tcpwrap-dir allow-table \
         hosts-allow tcpwrap-hosts-allow-table deny-table hosts-deny tcpwrap-hosts-deny-table",
        "range= says whose connections are accepted",
    ),
    ("netns", "`ip netns exec NAME gush link ...` opens both addresses there"),
    (
        "direct o-direct o_direct",
        "`dd iflag=direct` reads past the cache, and `dd oflag=direct` writes",
    ),
    (
        "cipher ciphers cipherlist openssl-cipherlist openssl-ciphersuites",
        "every cipher that gush link offers is safe; min-version= and max-version= choose among them",
    ),
    (
        "f-setpipe-sz pipesz",
        "--pipe-size limits the pipes of a relay; others belong to the programs at both ends",
    ),
    (
        "sigint sighup sigquit",
        "a signal ends the link, and the link its programs; exec:'sh -c COMMAND',sigint passes it on",
    ),
    (
        "res-* nsaddr dns nameserver defnames dnsrch igntc recurse retrans stayopen usevc",
        "resolv.conf(5) says how names are resolved, and by which servers",
    ),
    ("ai-all ai-v4mapped v4mapped", "an address without a version of IP, such as tcp:, takes both"),
    ("proxy-resolve resolve resolv", "the proxy resolves HOST, which may be an address"),
    (
        "ioctl* fiosetown siocspgrp",
        "a program for the device makes its calls of ioctl(2), such as eject(1)",
    ),
    ("dh dhparam* openssl-dhparam*", "gush link agrees on keys by elliptic curves alone"),
    ("method openssl-method", "min-version= and max-version= choose the version of TLS"),
    (
        "maxfraglen maxsendfrag openssl-maxfraglen openssl-maxsendfrag",
        "records of TLS have up to 16 KiB",
    ),
    (
        "bs0 bs1 bsdly cr0 cr1 cr2 cr3 crdly ff0 ff1 ffdly nl0 nl1 nldly tab0 tab1 tab2 tab3 \
         tabdly xtabs vt0 vt1 vtdly ofill ofdel olcuc iuclc xcase flusho pendin csize swtc \
         swtch vswtc",
        "stty(1) sets what no terminal of today has: `stty -F DEVICE ...`",
    ),
    (
        "acceptconn so-acceptconn error so-error peercred so-peercred protocol so-protocol \
         prototype so-prototype tcp-info info ip-mtu ipmtu mtu",
        "the kernel reports it, and nothing sets it",
    ),
    (
        "attach-filter attachfilter detach-filter detachfilter so-attach-filter \
         so-detach-filter rcvtimeo so-rcvtimeo sndtimeo so-sndtimeo sndlowat so-sndlowat so-bsdcompat bsdcompat \
         so-security-* security* ip-hdrincl iphdrincl hdrincl tcp-md5sig md5sig ip-recverr \
         iprecverr recverr ip-router-alert iprouteralert routeralert ip-retopts ipretopts \
         retopts ip-pktoptions ippktoptions pktoptions pktopts ip-add-source-membership \
         add-source-membership source-membership join-source-group ipv6-* authhdr dstopts \
         hopopts hoplimit rthdr recvdstopts recvhopopts recvrthdr",
        "setsockopt=LEVEL:NAME:VALUE sets any option by its numbers",
    ),
    ("setsockopt-string sockopt-string", "setsockopt=LEVEL:NAME:xBYTES takes the bytes of a text"),
    (
        "async o-async directory o-directory o_directory rsync o-rsync o_rsync",
        "gush link opens no file with this flag",
    ),
    ("shut-close", "a close would lose answers: the end of data is a shutdown"),
    ("sitout-eio", "a program's terminal ends with the program; pty waits for the next one"),
    (SEEK_CUR, "seek=OFFSET counts from the start of the file, and seek-end=OFFSET from its end"),
    (
        "ftruncate truncate ftruncate32 ftruncate64",
        "trunc empties a file; truncate(1) cuts it elsewhere",
    ),
    (
        "unlink unlink-early unlink-late delete remove new",
        "rm(1) removes a file: an existing one is written, or refused with excl",
    ),
    (
        "setsid sid setpgid pgid",
        "setsid(1) starts gush in a new session; a program has a process group of its own",
    ),
    (
        "user-early uid-e group-early gid-e perm-early perm-late",
        "chown(1) and chmod(1) change what exists; mode=, user= and group= are of what is made",
    ),
    (
        "end-close close",
        "a program of EXEC gets SIGTERM with the link's end; SYSTEM leaves one running",
    ),
    ("fork", "only listeners and connections of streams have more than one peer"),
    (
        PASSWORDS,
        "every user can see arguments; credentials=FILE names a file that holds USER:PASSWORD",
    ),
    ("login dash", "a login shell is exec:'bash -l'"),
    ("path", "PATH=... gush link sets where programs are found"),
    ("history noprompt noecho prompt", "`rlwrap` edits lines"),
];

/// Of these the last counts.
const ONE_OF: [&[Opt]; 3] = [
    &[Opt::ReadOnly, Opt::WriteOnly, Opt::ReadWrite],
    &[Opt::Cr, Opt::Crnl],
    &[Opt::Seek, Opt::SeekEnd],
];
const SEEK_CUR: &str = "seek-cur lseek-cur lseek32-cur lseek64-cur";
const PASSWORDS: &str = "proxyauth proxy-auth proxy-authorization sockspass";
const SOURCE_PORT: &str = "sourceport sp";
const SOCKET_TYPE: &str = "socktype so-type type";
const FAMILY: &str = "pf protocol-family";
/// Options that pass a signal on to the program.
pub const PASSED_SIGNALS: &str = "sighup sigint sigquit";
const MADE_EARLY: &[(&str, &str)] =
    &[("perm-early", "mode"), ("user-early uid-e", "user"), ("group-early gid-e", "group")];

/// Also without a prefix.
const FILE_ATTRIBUTES: &str =
    "secrm unrm compr immutable nodump dirsync topdir journal journal-data";

/// A part of a command line for messages, without passwords, also those within quotes.
pub fn without_passwords(text: &str) -> String {
    let shown = |piece: &str| {
        let lower = piece.to_ascii_lowercase();
        let values = PASSWORDS.split(' ').filter_map(|name| {
            let option = format!("{name}=");
            lower.find(&option).map(|at| at + option.len())
        });
        values.min().map_or_else(|| piece.to_owned(), |at| format!("{}...", &piece[..at]))
    };
    lexer::split(text, ",").into_iter().map(shown).collect::<Vec<_>>().join(",")
}

/// A name that ends with `*` is the start of others.
fn is_in(names: &str, name: &str) -> bool {
    names.split(' ').any(|known| match known.strip_suffix('*') {
        Some(start) => name.get(..start.len()).is_some_and(|word| word.eq_ignore_ascii_case(start)),
        None => known.eq_ignore_ascii_case(name),
    })
}

/// Is this an option of socat that no address takes under this name?
pub fn is_known(name: &str) -> bool {
    let mut rows = [RENAMED, NEEDLESS, INSTEAD].into_iter().flatten();
    let joined = [FAMILY, SOURCE_PORT, "proxyport", FILE_ATTRIBUTES];
    joined.iter().any(|names| is_in(names, name)) || rows.any(|(names, _)| is_in(names, name))
}

/// Every name of the tables that is no start of others, and ours for it.
#[cfg(test)]
pub fn every_name() -> Vec<(&'static str, &'static str)> {
    let same = |&(names, _): &(&'static str, &'static str)| (names, "");
    let renamed = RENAMED.iter().copied();
    let said = VALUES.iter().map(|&(names, _, ours)| (names, ours));
    let by_numbers = SOCKET_OPTIONS.iter().map(|&(names, ..)| (names, "setsockopt"));
    let others =
        [FAMILY, SOURCE_PORT, "proxyport socksport", FILE_ATTRIBUTES].map(|names| (names, ""));
    let rows = renamed.chain(said).chain(by_numbers).chain(others);
    rows.chain(NEEDLESS.iter().chain(INSTEAD).map(same))
        .flat_map(|(names, ours)| {
            let ours = ours.split('=').next().unwrap_or_default();
            names.split(' ').map(move |name| (name.trim_end_matches('*'), ours))
        })
        .filter(|(name, _)| !name.is_empty())
        .collect()
}

/// An option of an address, translated.
#[derive(Debug)]
pub struct Translated {
    /// The text given to socat.
    text: String,
    /// socat's name of the option.
    pub name: String,
    ours: String,
    value: Option<String>,
}

/// The options of one address.
#[derive(Debug)]
pub struct SocatOptions(Vec<Translated>);

impl SocatOptions {
    /// Parses options. socat ignores empty ones, and of several with one name the last counts.
    pub fn read(pieces: &[&str]) -> Self {
        let mut all: Vec<Translated> = Vec::new();
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            let one = Translated::read(piece);
            all.retain(|before| !before.is_replaced_by(&one));
            if !one.asks_for_nothing() {
                all.push(one);
            }
        }
        let is = |one: &Translated, option| named(&one.ours) == Some(option);
        // Nothing is written there.
        if all.iter().any(|one| is(one, Opt::ReadOnly)) {
            all.retain(|one| !is(one, Opt::Append));
        }
        // The number of attempts counts without `forever` alone.
        if all.iter().any(|one| is_in("forever", &one.name)) {
            all.retain(|one| !is_in("retry", &one.name));
        }
        // Each of socat's options asks for one of the facts.
        let mut is_asked = false;
        all.retain(|one| !one.is_ancillary() || !std::mem::replace(&mut is_asked, true));
        Self(all)
    }

    /// The directory in which a file is named, which kinds with a file have.
    pub fn take_directory(&mut self, keyword: &str) -> Option<String> {
        let is_file = ["file", "create", "gopen", "pipe"].contains(&keyword);
        if is_file { self.take("chdir cd") } else { None }
    }

    /// Removes the option with one of these names, and returns its value.
    pub fn take(&mut self, names: &str) -> Option<String> {
        let at = self.0.iter().position(|one| is_in(names, &one.name))?;
        self.0.remove(at).value
    }

    /// Removes the options with one of these names, and returns them as socat has them.
    pub fn take_all(&mut self, names: &str) -> Vec<String> {
        let taken = self.0.extract_if(.., |one| is_in(names, &one.name));
        taken.map(|one| one.text).collect()
    }

    /// The value of the option with one of these names, as it is written.
    pub fn value(&self, names: &str) -> Option<&str> {
        self.0.iter().find(|one| is_in(names, &one.name))?.value.as_deref()
    }

    /// Adds an option of ours.
    pub fn push(&mut self, option: &str) {
        self.0.push(Translated::read(option));
    }

    /// Is this an option of ours?
    pub fn has(&self, ours: &str) -> bool {
        self.0.iter().any(|one| one.ours.eq_ignore_ascii_case(ours))
    }

    /// Changes the value of an option of ours.
    pub fn change(&mut self, ours: &str, change: impl Fn(String) -> String) {
        for one in self.0.iter_mut().filter(|one| one.ours.eq_ignore_ascii_case(ours)) {
            one.value = one.value.take().map(&change);
        }
    }

    /// The version of IP that `pf=` names.
    pub fn family(&mut self) -> Option<Family> {
        let value = self.take(FAMILY)?;
        Some(if value.ends_with('6') { Family::V6 } else { Family::V4 })
    }

    /// Is an option about IPv6?
    pub fn has_ipv6(&self) -> bool {
        self.0.iter().any(|one| {
            let has_brackets = one.value.as_ref().is_some_and(|value| value.starts_with('['));
            is_in("ipv6only ipv6-v6only", &one.name)
                || has_brackets && is_in("bind so-bind sourceport sp range", &one.name)
        })
    }

    /// Why an option that an address of this kind refuses is not needed, or what to use instead.
    pub fn advice(&self, refused: &Translated, kind: &str, is_shared: bool) -> Option<Advice> {
        let find = |rows: &[(&str, &'static str)]| {
            rows.iter().find(|(names, _)| is_in(names, &refused.name)).map(|&(_, why)| why)
        };
        let is_append = |one: &Translated| named(&one.ours) == Some(Opt::Append);
        if [is_append, is_place].iter().any(|is| is(refused))
            && [is_append, is_place].iter().all(|is| is(refused) || self.0.iter().any(is))
        {
            return Some(Advice::Instead(
                "socat appends whatever the offset: keep append to write, the offset to read",
            ));
        }
        let is_other_place = |one: &Translated| is_place(one) && one.name != refused.name;
        if is_place(refused) && self.0.iter().any(is_other_place) {
            return Some(Advice::Instead(
                "socat fails at an offset before the file: keep the last",
            ));
        }
        let is_other_lock = |one: &Translated| one.ours == "lock" && one.name != refused.name;
        if refused.ours == "lock" && self.0.iter().any(is_other_lock) {
            return Some(Advice::Instead("gush link takes one lock of a file"));
        }
        let name = refused.name.to_ascii_lowercase();
        if ["fs-", "ext2-", "ext3-"].iter().any(|start| name.starts_with(start))
            || is_in(FILE_ATTRIBUTES, &name)
        {
            return Some(Advice::Instead("chattr(1) sets attributes of files"));
        }
        // Of other sockets it limits accept(2) and handshakes.
        let is_datagrams = kind.starts_with("udp")
            || ["unix-recv", "unix-recvfrom", "unix-sendto"].contains(&kind);
        if is_in("so-rcvtimeo rcvtimeo", &refused.name) && is_datagrams {
            return Some(Advice::Needless("nothing waits in a call anyway"));
        }
        // At the end socat shuts a socket down and kills a program, unless it is to close alone.
        if is_in("end-close close", &refused.name)
            && (is_shared || !["exec", "shell"].contains(&kind))
        {
            return Some(Advice::Needless("the end is closed once no client uses it"));
        }
        // 0 and 1 are a group of its own.
        let is_own = refused.value.as_deref().is_none_or(|value| ["0", "1"].contains(&value));
        if is_own && is_in("setpgid pgid", &refused.name) && ["exec", "shell"].contains(&kind) {
            return Some(Advice::Needless("a program has a process group of its own"));
        }
        let is_zero = refused.is_off();
        let differs = |&&(names, as_zero, _): &&(&str, bool, _)| {
            is_in(names, &refused.name) && is_zero != as_zero
        };
        if let Some(&(.., why)) = NEEDLESS_AS.iter().find(differs) {
            return Some(Advice::Instead(why));
        }
        find(NEEDLESS).map(Advice::Needless).or_else(|| find(INSTEAD).map(Advice::Instead))
    }

    /// socat's `pty` leaves the program's standard error alone, unlike that of `gush link`.
    pub fn keep_errors_apart(&mut self) {
        let has = |name: &str| self.0.iter().any(|one| one.ours.eq_ignore_ascii_case(name));
        if has("pty") && !has("stderr") {
            self.0.push(Translated::read("stderr=0"));
        }
    }

    /// What is set first of the name of a socket is set once it is there. Returns what is set again
    /// later, and why it is refused.
    pub fn set_early_when_made(&mut self) -> Vec<(String, &'static str)> {
        let mut refused = Vec::new();
        for (names, ours) in MADE_EARLY {
            let is_same = |one: &&Translated| {
                named(&one.ours).is_some_and(|option| option.row().name == *ours)
            };
            match self.0.iter().find(is_same).map(|one| one.text.clone()) {
                Some(later) => refused.extend(self.take_all(names).into_iter().map(|early| {
                    (format!("{early},{later}"), "gush link sets it once: give one of them")
                })),
                None => {
                    for one in self.0.iter_mut().filter(|one| is_in(names, &one.name)) {
                        (*ours).clone_into(&mut one.ours);
                    }
                }
            }
        }
        refused
    }

    /// Removes what socat refuses and `gush link` would take. Returns it, and why it is refused.
    pub fn take_wrong(&mut self) -> Vec<(String, &'static str)> {
        let why = |one: &Translated| {
            if one.value.as_deref().is_some_and(|value| is_no_octal(&one.ours, value)) {
                Some("a number that begins with 0 is octal")
            } else if one.value.is_some() && is_in(PASSED_SIGNALS, &one.name) {
                Some("it takes no value")
            } else if is_in("ispeed ospeed", &one.name) {
                Some("socat takes a code of termios.h; bN sets both speeds, in bits a second")
            } else {
                None
            }
        };
        let wrong = |one: &Translated| why(one).map(|why| (one.redacted(), why));
        let taken: Vec<_> = self.0.iter().filter_map(wrong).collect();
        self.0.retain(|one| why(one).is_none());
        taken
    }

    /// An empty write is no end of a stream, and nothing at all.
    pub fn drop_empty_end(&mut self) {
        for one in self.0.iter_mut().filter(|one| is_in("shut-null", &one.name)) {
            one.ours = "shut-none".to_owned();
        }
    }

    /// Of a connection, `sourceport=` is the port of `bind=`.
    pub fn join_source_port(&mut self) {
        let Some(at) = self.0.iter().position(|one| is_in(SOURCE_PORT, &one.name)) else { return };
        let port = self.0[at].value.clone().unwrap_or_default();
        let host = self.take("bind so-bind").unwrap_or_default();
        if let Some(one) = self.0.iter_mut().find(|one| is_in(SOURCE_PORT, &one.name)) {
            one.ours = "bind".to_owned();
            one.value = Some(format!("{host}:{port}"));
        }
    }

    /// Removes the option at this byte of the options' text.
    pub fn remove_at(&mut self, at: Option<usize>) -> Option<Translated> {
        let at = at?;
        let mut end = 0;
        let found = self.0.iter().position(|one| {
            end += one.to_string().len();
            at < end
        });
        found.map(|found| self.0.remove(found))
    }
}

/// Each after a comma.
impl fmt::Display for SocatOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|one| one.fmt(f))
    }
}

impl Translated {
    /// The option without a password, for messages.
    pub fn redacted(&self) -> String {
        without_passwords(&self.text)
    }

    /// A message about the option of ours, with the name that was given to socat.
    pub fn by_own_name(&self, message: &str) -> String {
        let row = named(&self.ours).map(|option| option.row().name);
        let as_word = |name: &str| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
            message.match_indices(name).map(|(at, _)| at..at + name.len()).find(|word| {
                !message[..word.start].ends_with(is_part)
                    && !message[word.end..].starts_with(is_part)
            })
        };
        match row.and_then(as_word).or_else(|| as_word(&self.ours)) {
            Some(word) => {
                format!("{}{}{}", &message[..word.start], self.name, &message[word.end..])
            }
            None => message.to_owned(),
        }
    }

    /// Is this the same option, of which the last counts?
    fn is_replaced_by(&self, later: &Self) -> bool {
        let is_one_of = |group: &&[Opt]| {
            [self, later].iter().all(|one| named(&one.ours).is_some_and(|one| group.contains(&one)))
        };
        if ONE_OF.iter().any(is_one_of) {
            // socat seeks to each, and fails at one before the file's begin.
            return !self.value.as_deref().is_some_and(|value| value.starts_with('-'));
        }
        if !self.ours.eq_ignore_ascii_case(&later.ours) {
            return false;
        }
        // The locks of fcntl(2) and of flock(2) do not see each other.
        let is_flock = |one: &Self| one.value.as_deref().is_some_and(|kind| kind.contains("flock"));
        if self.ours == "lock" && is_flock(self) != is_flock(later) {
            return false;
        }
        if is_in("retry forever", &self.name) {
            return self.name.eq_ignore_ascii_case(&later.name);
        }
        // Those given by numbers are options of their own, and so are those with one name of ours.
        match self.ours.eq_ignore_ascii_case("setsockopt") || self.is_ancillary() {
            true if self.is_ancillary() || socket_option(&self.name, None).is_some() => {
                self.name.eq_ignore_ascii_case(&later.name)
            }
            is_apart => !is_apart,
        }
    }

    fn is_off(&self) -> bool {
        self.value.as_deref() == Some("0")
    }

    fn is_ancillary(&self) -> bool {
        self.ours == "ancillary"
    }

    /// For socat `readbytes=0` is no limit.
    fn asks_for_nothing(&self) -> bool {
        if is_in("forever", &self.name) {
            return self.text.ends_with("=0");
        }
        if self.is_ancillary() {
            return self.is_off();
        }
        let value = self.value.as_deref().unwrap_or_default();
        let digits = value.trim_start_matches("0x").trim_start_matches("0X");
        is_in("readbytes bytes", &self.name)
            && !digits.is_empty()
            && digits.bytes().all(|digit| digit == b'0')
    }

    fn read(piece: &str) -> Self {
        let (name, value) = match lexer::split(piece, "=").as_slice() {
            [name, _, ..] => (lexer::plain(name), Some(lexer::plain(&piece[name.len() + 1..]))),
            _ => (lexer::plain(piece), None),
        };
        let renamed = RENAMED.iter().find(|(names, _)| is_in(names, &name));
        let (ours, value) = match renamed.map(|(_, ours)| ours.split_once('=').ok_or(*ours)) {
            Some(Ok((ours, value))) => (ours.to_owned(), Some(value.to_owned())),
            Some(Err(ours)) => (ours.to_owned(), value),
            None => (name.clone(), value),
        };
        let is_said = |(names, said, _): &&(&str, &str, &str)| {
            is_in(names, &name) && value.as_deref() == Some(*said)
        };
        let (ours, value) = match VALUES.iter().find(is_said) {
            Some((_, _, ours)) => ((*ours).to_owned(), None),
            None => (ours, value),
        };
        let (ours, value) = match socket_option(&name, value.as_deref()) {
            Some(option) => ("setsockopt".to_owned(), Some(option)),
            None => (ours, value),
        };
        let value = value.map(|value| decimal(&ours, value));
        // Of these socat ignores what a flag says (applyopts_flags in xioopts.c).
        let is_access = named(&ours).is_some_and(|option| ONE_OF[0].contains(&option));
        let value = value.filter(|value| !(is_access && ["0", "1"].contains(&value.as_str())));
        // A number of socat's is 1 where it has no value.
        let value = value.or_else(|| (ours == "seek-end").then(|| "1".to_owned()));
        Self { text: piece.to_owned(), name, ours, value }
    }
}

/// The value of an option of ours, where socat reads a number that begins with 0x as hexadecimal,
/// and with 0 as octal. As the value of `setsockopt` the latter is decimal there, and octal here.
fn decimal(ours: &str, value: String) -> String {
    if let Some((socket_option, number)) = value.rsplit_once(':')
        && ours == "setsockopt"
        && is_octal(number)
    {
        return format!("{socket_option}:{}", number.trim_start_matches('0'));
    }
    let (sign, digits) = value.split_at(usize::from(value.starts_with('-')));
    let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => u64::from_str_radix(digits, 8).ok().filter(|_| is_octal(digits)),
    };
    match number.filter(|_| is_number(ours)) {
        Some(number) => format!("{sign}{number}"),
        None => value,
    }
}

/// An option of ours by its name.
fn named(ours: &str) -> Option<Opt> {
    let is = |name: &&str| name.eq_ignore_ascii_case(ours);
    let row = Opt::all().find(|row| is(&row.name) || row.aliases.iter().any(is))?;
    Some(row.option)
}

/// Does it set where a file is read or written?
fn is_place(one: &Translated) -> bool {
    matches!(named(&one.ours), Some(Opt::Seek | Opt::SeekEnd)) || is_in(SEEK_CUR, &one.name)
}

/// Does an option of ours take what is a number to socat?
fn is_number(ours: &str) -> bool {
    named(ours).is_some_and(|option| match option.row().takes {
        Takes::Count | Takes::Retries | Takes::Size | Takes::Offset => true,
        Takes::Seconds => [Opt::KeepIdle, Opt::KeepInterval].contains(&option),
        _ => false,
    })
}

/// Does the text begin as an octal number of socat's?
fn is_octal(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Is a value left by [`decimal`] no number to socat, for a digit beyond 7?
fn is_no_octal(ours: &str, value: &str) -> bool {
    is_number(ours) && is_octal(value.strip_prefix('-').unwrap_or(value))
}

impl fmt::Display for Translated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ",{}", self.ours)?;
        match &self.value {
            Some(value) if is_in("range", &self.ours) => {
                write!(f, "={}", protected(masked(value).as_deref().unwrap_or(value)))
            }
            Some(value) => write!(f, "={}", protected(value)),
            None => Ok(()),
        }
    }
}

/// An option of [`SOCKET_OPTIONS`] as the value of `setsockopt=`.
fn socket_option(name: &str, value: Option<&str>) -> Option<String> {
    let (_, level, option) = SOCKET_OPTIONS.iter().find(|(names, ..)| is_in(names, name))?;
    Some(format!("{level}:{option}:{}", value.unwrap_or("1")))
}

/// `10.0.0.0:255.0.0.0` as `10.0.0.0/8`, and a name as its address of this moment, as with socat;
/// `None` if the mask is not contiguous.
fn masked(range: &str) -> Option<String> {
    let (network, mask) = range.split_once([':', '/'])?;
    let ones = match mask.parse::<Ipv4Addr>().map(u32::from) {
        Ok(mask) => Some(mask.leading_ones()).filter(|&ones| mask.count_ones() == ones)?,
        Err(_) => mask.parse().ok().filter(|ones| *ones <= u32::BITS)?,
    };
    let addresses = (network, 0).to_socket_addrs().ok()?;
    let network = addresses.map(|address| address.ip()).find(IpAddr::is_ipv4)?;
    Some(format!("{network}/{ones}"))
}

/// Text escaped for an address of `gush link`.
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
