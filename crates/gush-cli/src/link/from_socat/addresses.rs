//! The kinds of addresses of socat(1), and their equivalents.

use std::borrow::Cow;
use std::net::IpAddr;
use std::path::Path;

use gush_link::address::{Address, AddressError, Family, Kind, Opt};

use super::options::{self, Advice, SocatOptions};
use super::switches::Families;
use super::{Report, did_you_mean, lexer, sockets};

/// A kind of address of socat by all names.
struct AddressRow {
    names: &'static [&'static str],
    /// The keyword of `gush link`.
    keyword: &'static str,
    argument: ArgumentForm,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ArgumentForm {
    /// A path, a name or a number.
    Name,
    /// The host and port of either version of IP; the digit of the version is added to the keyword.
    Place,
    /// A host and port, and nothing else.
    Exact,
    Command,
    /// A command for the shell that the user has chosen (SHELL).
    LoginShell,
    /// A proxy, and the host and port behind it. The proxy's port is this option, or this number.
    Proxied(&'static str, &'static str),
}

const fn row(
    names: &'static [&'static str],
    keyword: &'static str,
    argument: ArgumentForm,
) -> AddressRow {
    AddressRow { names, keyword, argument }
}

/// Alternatives to kinds of addresses that `gush link` lacks; a name that ends with `*` is a start.
const INSTEAD: &[(&[&str], &str)] = &[
    (&["readline"], "`rlwrap gush link - ...` edits lines"),
    (&["tun", "interface", "if"], "network interfaces are left to socat"),
    (&["ip", "ip4", "ip6", "ip-*", "ip4-*", "ip6-*"], "raw IP is left to socat"),
    (&["dtls*", "openssl-dtls*", "ssl-dtls*"], "DTLS is left to socat; tls is over TCP"),
    (&["datagram", "dgram", "sendto"], "with `socket-` before it the numbers of C are read"),
    (&["socks5-*"], "`ssh -R` listens on another host"),
    (&["posixmq*"], "a FIFO, or unix-recv, takes messages of other processes as well"),
    (&["sctp*", "dccp*"], "SCTP and DCCP are left to socat"),
];

use ArgumentForm::{Command, Exact, LoginShell, Name, Place, Proxied};

const SOCKS: ArgumentForm = Proxied("socksport", "1080");

const ROWS: &[AddressRow] = &[
    row(&["stdio", "-"], "-", Name),
    row(&["stdin"], "fd:0", Name),
    row(&["stdout"], "fd:1", Name),
    row(&["stderr"], "fd:2", Name),
    row(&["fd"], "fd", Name),
    row(&["gopen"], "gopen", Name),
    row(&["open", "file"], "file", Name),
    row(&["create", "creat"], "create", Name),
    row(&["pipe", "fifo", "echo"], "pipe", Name),
    row(&["socketpair"], "socketpair", Name),
    row(&["exec"], "exec", Command),
    row(&["system"], "shell", Command),
    row(&["shell"], "exec", LoginShell),
    row(&["pty"], "pty", Name),
    row(&["tcp", "tcp-connect", "inet"], "tcp", Place),
    row(&["tcp4", "tcp4-connect", "inet4"], "tcp4", Exact),
    row(&["tcp6", "tcp6-connect", "inet6"], "tcp6", Exact),
    row(&["tcp-listen", "tcp-l", "inet-listen", "inet-l"], "tcp-listen", Place),
    row(&["tcp4-listen", "tcp4-l", "inet4-listen", "inet4-l"], "tcp4-listen", Exact),
    row(&["tcp6-listen", "tcp6-l", "inet6-listen", "inet6-l"], "tcp6-listen", Exact),
    row(&["udp", "udp-connect"], "udp", Place),
    row(&["udp4", "udp4-connect"], "udp4", Exact),
    row(&["udp6", "udp6-connect"], "udp6", Exact),
    row(&["udp-sendto", "udp-send"], "udp-sendto", Place),
    row(&["udp4-sendto", "udp4-send"], "udp4-sendto", Exact),
    row(&["udp6-sendto", "udp6-send"], "udp6-sendto", Exact),
    row(&["udp-datagram", "udp-dgram"], "udp-datagram", Place),
    row(&["udp4-datagram", "udp4-dgram"], "udp4-datagram", Exact),
    row(&["udp6-datagram", "udp6-dgram"], "udp6-datagram", Exact),
    row(&["udp-recv"], "udp-recv", Place),
    row(&["udp4-recv"], "udp4-recv", Exact),
    row(&["udp6-recv"], "udp6-recv", Exact),
    row(&["udp-listen", "udp-l"], "udp-listen", Place),
    row(&["udp4-listen", "udp4-l"], "udp4-listen", Exact),
    row(&["udp6-listen", "udp6-l"], "udp6-listen", Exact),
    row(&["udp-recvfrom"], "udp-recvfrom", Place),
    row(&["udp4-recvfrom"], "udp4-recvfrom", Exact),
    row(&["udp6-recvfrom"], "udp6-recvfrom", Exact),
    row(&["unix-connect", "local"], "unix", Name),
    row(&["unix", "unix-client"], "unix-client", Name),
    row(&["unix-sendto", "unix-send"], "unix-sendto", Name),
    row(&["unix-recv"], "unix-recv", Name),
    row(&["unix-recvfrom"], "unix-recvfrom", Name),
    row(&["unix-listen", "unix-l"], "unix-listen", Name),
    row(&["abstract-connect"], "abstract", Name),
    row(&["abstract", "abstract-client"], "abstract-client", Name),
    row(&["abstract-sendto"], "abstract-sendto", Name),
    row(&["abstract-recv"], "abstract-recv", Name),
    row(&["abstract-recvfrom"], "abstract-recvfrom", Name),
    row(&["abstract-listen", "abstract-l"], "abstract-listen", Name),
    row(&["openssl", "ssl", "openssl-connect", "ssl-connect"], "tls", Place),
    row(&["openssl-listen", "ssl-listen", "openssl-l", "ssl-l"], "tls-listen", Place),
    row(&["socks", "socks4"], "socks4", SOCKS),
    row(&["socks4a"], "socks4a", SOCKS),
    row(&["socks5", "socks5-connect"], "socks5", SOCKS),
    row(&["vsock", "vsock-connect"], "vsock", Exact),
    row(&["vsock-listen", "vsock-l"], "vsock-listen", Exact),
    row(&["accept-fd", "accept"], "listen-fd", Name),
    row(&["proxy", "proxy-connect"], "http-connect", Proxied("proxyport", "8080")),
];

fn row_of(word: &str) -> Option<&'static AddressRow> {
    ROWS.iter().find(|row| row.names.iter().any(|name| name.eq_ignore_ascii_case(word)))
}

fn instead(word: &str) -> Option<&'static str> {
    let mut rows = INSTEAD.iter();
    let word = word.to_ascii_lowercase();
    let is_it = |name: &&str| match name.strip_suffix('*') {
        Some(start) => word.starts_with(start),
        None => word == **name,
    };
    let found = rows.find(|(names, _)| names.iter().any(&is_it));
    found.map(|&(_, why)| why)
}

/// Whether this is a name of socat's for a kind of address.
pub fn is_known(word: &str) -> bool {
    row_of(word).is_some() || instead(word).is_some() || sockets::is_numbered(word)
}

/// Does socat open the address for writing alone, without an option that says so?
pub fn only_writes(text: &str) -> bool {
    let head = lexer::split(text, ",")[0];
    let is_joined = lexer::split(text, "!!").len() > 1;
    !is_joined && ["create", "creat"].iter().any(|name| keyword(head).0.eq_ignore_ascii_case(name))
}

/// An address of ours for one of socat's; `A!!B` has two. With `is_shared` all clients of the other
/// address use it.
pub fn translated(
    text: &str,
    families: Families,
    is_shared: bool,
    report: &mut Report,
) -> Option<Address> {
    let parts = lexer::split(text, "!!");
    let is_joined = parts.len() > 1;
    let ours: Vec<_> = parts
        .iter()
        .map(|part| match single(part, is_joined, families, is_shared, report) {
            Some(ours) if is_shared => shared(ours, part, report),
            ours => ours,
        })
        .collect();
    let ours: Option<Vec<String>> = ours.into_iter().collect();
    let ours = ours?.join("!!");
    match ours.parse::<Address>() {
        Ok(ours) => Some(ours),
        // Each part has an equivalent, but they cannot be combined.
        Err(error) => {
            report.wrong(text, error.message());
            None
        }
    }
}

/// The address as one that all clients share.
fn shared(ours: String, text: &str, report: &mut Report) -> Option<String> {
    let kind = ours.parse::<Address>().ok()?.kind();
    match kind {
        // They are shared anyway.
        Kind::Stdio | Kind::Fd => Some(ours),
        // Link::new refuses two that serve.
        _ if has_fork(&ours) => Some(ours),
        _ if kind.takes(Opt::Shared) => Some(ours + ",shared"),
        _ => {
            let what = match () {
                () if kind.listens() => "one client",
                () if ours.starts_with("tls") => "a session of TLS",
                () => "a socket that may be one of unconnected datagrams",
            };
            let why = format!(
                "socat opens it once, for all clients of the other address, and no two can share {what}"
            );
            report.missing(text, &why);
            None
        }
    }
}

fn has_fork(ours: &str) -> bool {
    ours.parse::<Address>().is_ok_and(|address| address.options().is_on(Opt::Fork))
}

/// One address, which may be a part of `A!!B`.
fn single(
    text: &str,
    is_joined: bool,
    families: Families,
    is_shared: bool,
    report: &mut Report,
) -> Option<String> {
    if !lexer::is_closed(text) {
        report.wrong(text, "a quote is never closed");
        return None;
    }
    let pieces = lexer::split(text, ",");
    let (head, given) = (pieces[0], &pieces[1..]);
    let (word, argument) = keyword(head);
    if word.is_empty() {
        report.wrong(text, "an address of socat begins with its kind, or a path");
        return None;
    }
    let mut options = SocatOptions::read(given);
    let (word, argument) = match named_kind(word, argument, &mut options) {
        Ok((word, argument)) => (word, argument),
        Err(why) => {
            report.missing(head, why);
            return None;
        }
    };
    let (word, argument) = (word.as_ref(), argument.as_deref());
    let Some(row) = row_of(word) else {
        match instead(word) {
            Some(why) => report.missing(word, why),
            None => {
                let near = did_you_mean(word, names(is_joined));
                let listed = if near.is_empty() { "; gush link --help lists them" } else { "" };
                report.wrong("", &format!("unknown kind of address '{word}'{near}{listed}"));
            }
        }
        return None;
    };
    let is_name = head.strip_prefix(word).is_some_and(|rest| rest.starts_with(':'));
    if let Some(text) = argument.filter(|_| is_name && row.argument == Name)
        && lexer::split(text, ":").len() > 1
    {
        report.wrong(head, "socat takes one name here; a colon in a name is written \\:");
        return None;
    }
    let keyword = our_keyword(row, families, is_shared, &mut options);
    let head = match argument.map(|text| our_argument(row, &keyword, text, &mut options)) {
        None => {
            // socat ignores the directory where there is no name.
            options.take_directory(&keyword);
            keyword
        }
        Some(Some(argument)) => format!("{keyword}:{argument}"),
        Some(None) => {
            report.missing(head, "a program gets no word with a NUL byte");
            return None;
        }
    };
    adapt(&mut options, text, &head, row, families, report);
    settled(&head, options, text, is_shared, report)
}

/// Changes the options of `text` to those of the equivalent, which begins with `head`.
fn adapt(
    options: &mut SocatOptions,
    text: &str,
    head: &str,
    row: &AddressRow,
    families: Families,
    report: &mut Report,
) {
    let (keyword, argument) = lexer::split_once(head, ":");
    let is_proxy = keyword.starts_with("socks") || keyword == "http-connect";
    if let Some(family) = is_proxy.then(|| options.family()).flatten() {
        options.push(if family == Family::V4 { "family=4" } else { "family=6" });
    } else if let Some(family) = families.of_peers.filter(|_| calls_a_name(head)) {
        options.push(if family == Family::V4 { "prefer=4" } else { "prefer=6" });
    }
    if keyword == "http-connect" && !options.has("http-version") {
        options.push("http-version=1.0");
    }
    if matches!(row.argument, Command | LoginShell) {
        options.keep_errors_apart();
    }
    if !listens(keyword) && !keyword.ends_with("-datagram") {
        options.join_source_port();
    }
    if ["tcp", "exec", "shell", "unix:"].iter().any(|start| head.starts_with(start))
        && !options.has("seqpacket")
    {
        options.drop_empty_end();
    }
    let is_v6 = keyword.split('-').next().is_some_and(|start| start.ends_with('6'));
    if is_v6 && options.value("range").is_some_and(|range| !range.starts_with('[')) {
        let why = "an address of IPv6 takes a range of IPv6, such as [::ffff:127.0.0.0]/104";
        report.wrong(text, why);
    }
    if row.keyword == "unix-client" && options.has("bind") && !options.has("unlink-close") {
        // socat removes the name of UNIX-CONNECT alone.
        options.push("unlink-close=0");
    }
    if is_tried_once(row.keyword) {
        for option in options.take_all("retry forever interval intervall") {
            report.note(&option, "socat makes one attempt at this kind of address");
        }
    }
    if options.has("retry") && calls_a_name(head) {
        report.note("retry", "an unknown host is looked up again; with socat it is an error");
    }
    if keyword.starts_with("unix") && listens(keyword) {
        for (pieces, why) in options.set_early_when_made() {
            report.missing(&pieces, why);
        }
    }
    for (option, why) in options.take_wrong() {
        report.wrong(&option, why);
    }
    if keyword == "shell" {
        for option in options.take_all(options::PASSED_SIGNALS) {
            report.missing(&option, "a command of SYSTEM gets no signal of socat's: say EXEC");
        }
    }
    if keyword.starts_with("abstract") {
        options.change("bind", |name| format!("@{name}"));
    } else if keyword.starts_with("unix") {
        options.change("bind", path_name);
    }
    if keyword.starts_with("tls") && listens(keyword) {
        // socat requires a certificate of each client by default.
        let verify = options.take(VERIFY).unwrap_or_else(|| "1".to_owned());
        // Without a certificate socat looks at no name, and an empty one is any.
        if verify == "0" || options.value(COMMON_NAME) == Some("") {
            options.take(COMMON_NAME);
        }
        options.push(&format!("verify={verify}"));
    } else if keyword.starts_with("tls") {
        // By the rules of commonname= HOST is compared as well.
        match options.value(COMMON_NAME) {
            Some("") => {
                options.take(COMMON_NAME);
                report.missing(text, "gush link expects a name in every certificate");
            }
            None if options.value(VERIFY) != Some("0") => {
                options.push(&format!("commonname={}", lexer::split(argument, ":")[0]));
            }
            _ => {}
        }
    }
}

/// Kinds by numbers, and those of UDP-Lite, as the kinds that these are, with options.
fn named_kind<'a>(
    word: &'a str,
    argument: Option<&'a str>,
    options: &mut SocatOptions,
) -> Result<(Cow<'a, str>, Option<Cow<'a, str>>), &'static str> {
    let (word, argument) = match sockets::is_numbered(word) {
        true => {
            let argument = lexer::plain(argument.unwrap_or_default());
            let (word, argument) = sockets::named(word, &argument, options)?;
            (Cow::Owned(word), Some(Cow::Owned(argument)))
        }
        false => (Cow::Borrowed(word), argument.map(Cow::Borrowed)),
    };
    Ok(match word.split_at_checked("udplite".len()) {
        Some((start, role)) if start.eq_ignore_ascii_case("udplite") => {
            options.push("udplite");
            (format!("udp{role}").into(), argument)
        }
        _ => (word, argument),
    })
}

/// The keyword of `gush link`, with the version of IP or the type of socket that options say.
fn our_keyword(
    row: &AddressRow,
    families: Families,
    is_shared: bool,
    options: &mut SocatOptions,
) -> String {
    let keyword = row.keyword;
    match row.argument {
        Place => {
            let general = match keyword {
                // Those of a stream prefer it, and datagrams go to IPv4 first.
                _ if !listens(keyword) => families
                    .of_peers
                    .filter(|&family| family == Family::V6 && keyword.starts_with("udp")),
                // socat's IPv4 listener would refuse these.
                _ if options.has_ipv6() => None,
                _ => families.of_listeners,
            };
            with_family(keyword, options.family().or(general))
        }
        Name if keyword == "socketpair" => {
            // Datagrams, if no type is said.
            match options.take("socktype so-type type").as_deref() {
                Some("1") => "pipe:".to_owned(),
                _ => keyword.to_owned(),
            }
        }
        // Clients cannot share one of datagrams, to which a connection of streams fails.
        Name if is_shared || options.has("seqpacket") => {
            keyword.strip_suffix("-client").unwrap_or(keyword).to_owned()
        }
        _ => keyword.to_owned(),
    }
}

/// The argument as `gush link` takes it; `None` if a word of a command has a NUL byte.
fn our_argument(
    row: &AddressRow,
    keyword: &str,
    text: &str,
    options: &mut SocatOptions,
) -> Option<String> {
    Some(match row.argument {
        LoginShell => enclosed(&joined(&by_shell(lexer::plain(text), options))?),
        // A shell has rules of its own; other commands have socat's once more.
        Command if keyword == "shell" => enclosed(&lexer::plain(text)),
        Command => enclosed(&joined(&lexer::words(&lexer::plain(text)))?),
        Proxied(option, default)
            if keyword == "http-connect" || lexer::split(text, ":").len() == 3 =>
        {
            let port = options.take(option).unwrap_or_else(|| default.to_owned());
            let (proxy, target) = lexer::split_once(text, ":");
            options::protected(&lexer::plain(&format!("{proxy}:{port}:{target}")))
        }
        _ => {
            let name = lexer::plain(text);
            options::protected(&match options.take_directory(keyword) {
                Some(directory) => Path::new(&directory).join(name).display().to_string(),
                None if keyword.starts_with("unix") => path_name(name),
                None => name,
            })
        }
    })
}

/// A name in the file system as `gush link` says it, where an at sign begins an abstract one.
fn path_name(name: String) -> String {
    match name.starts_with('@') {
        true => format!("./{name}"),
        false => name,
    }
}

/// The names of kinds of addresses with an equivalent; in `A!!B` nothing listens.
pub fn names(is_joined: bool) -> impl Iterator<Item = &'static str> {
    let may_stand =
        move |row: &&AddressRow| !is_joined || !listens(row.keyword) && row.keyword != "listen-fd";
    ROWS.iter().filter(may_stand).flat_map(|row| row.names).copied()
}

/// The keyword and the argument. A number is a descriptor, and a slash before any colon makes a
/// path.
fn keyword(head: &str) -> (&str, Option<&str>) {
    let (word, argument) = match lexer::split(head, ":").as_slice() {
        [word] => (*word, None),
        [word, ..] => (*word, Some(&head[word.len() + 1..])),
        [] => ("", None),
    };
    match word {
        _ if word.contains('/') => ("gopen", Some(head)),
        _ if argument.is_none()
            && !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            ("fd", Some(head))
        }
        _ => (word, argument),
    }
}

/// Options of TLS.
const VERIFY: &str = "verify openssl-verify";
const COMMON_NAME: &str = "commonname openssl-commonname cn";

/// Is the port of this keyword local, not a peer's?
fn listens(keyword: &str) -> bool {
    ["-listen", "-recvfrom", "-recv"].iter().any(|end| keyword.ends_with(end))
}

/// Does socat ignore the options about further attempts at this keyword?
fn is_tried_once(keyword: &str) -> bool {
    ["-client", "-sendto", "-recv", "-recvfrom", "listen-fd"]
        .iter()
        .any(|end| keyword.ends_with(end))
}

/// The words of `SHELL:COMMAND`. The shell has its own name as `$0`, and its path as SHELL.
fn by_shell(command: String, options: &mut SocatOptions) -> Vec<String> {
    let chosen = options.take("shell");
    let variable = chosen.as_ref().map(|shell| format!("SHELL={shell}"));
    let shell = chosen.or_else(|| std::env::var("SHELL").ok());
    let shell = shell.unwrap_or_else(|| "/bin/sh".to_owned());
    let name = shell.rsplit('/').next().unwrap_or_default().to_owned();
    let set = variable.map(|variable| ["env".to_owned(), variable]);
    let words = [shell, "-c".to_owned(), command, name];
    set.into_iter().flatten().chain(words).collect()
}

/// Is the place after the keyword a host by its name, to which a stream is opened, by `tcp:` or a
/// proxy?
fn calls_a_name(head: &str) -> bool {
    let (keyword, place) = lexer::split_once(head, ":");
    let host = lexer::split(place, ":")[0];
    let is_stream =
        matches!(keyword, "tcp" | "tls" | "http-connect") || keyword.starts_with("socks");
    is_stream && !host.starts_with('[') && host.parse::<IpAddr>().is_err()
}

/// `tcp-listen` as `tcp4-listen`.
fn with_family(keyword: &str, family: Option<Family>) -> String {
    let digit = match family {
        None => return keyword.to_owned(),
        Some(Family::V4) => "4",
        Some(Family::V6) => "6",
    };
    let (protocol, rest) = keyword.split_at(keyword.find('-').unwrap_or(keyword.len()));
    format!("{protocol}{digit}{rest}")
}

/// A command of these words; `None` if one has a NUL byte.
fn joined(words: &[String]) -> Option<String> {
    let quoted = words.iter().map(|word| match shlex::split(word) {
        Some(same) if same == [word.as_str()] => Some(Cow::Borrowed(word.as_str())),
        _ => shlex::try_quote(word).ok(),
    });
    Some(quoted.collect::<Option<Vec<_>>>()?.join(" "))
}

/// A command within single quotes, which the address removes.
fn enclosed(command: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+@%".contains(c);
    match command.chars().all(is_plain) {
        true => command.to_owned(),
        false => format!("'{}'", command.replace('\'', r#"'"'"'"#)),
    }
}

/// The address as `gush link` displays it; options that it refuses are removed and reported.
fn settled(
    head: &str,
    mut options: SocatOptions,
    text: &str,
    is_shared: bool,
    report: &mut Report,
) -> Option<String> {
    let given = lexer::split(text, ",")[0];
    if let Err(error) = head.parse::<Address>() {
        // A keyword alone may be meant as a file's name, which is not ours.
        let why = error.message().replace(&format!("./{head}"), &format!("./{given}"));
        report.wrong(text, &why);
        return None;
    }
    loop {
        let ours = format!("{head}{options}");
        let error: AddressError = match ours.parse::<Address>() {
            Ok(address) => {
                let is_server = address.kind() == Kind::TlsListen;
                if is_server && !address.options().has(Opt::Certificate) {
                    report.missing(text, "a server of TLS without cert= serves no client");
                }
                return Some(address.to_string());
            }
            Err(error) => error,
        };
        let at = error.span().start;
        let Some(option) = options.remove_at(at.checked_sub(head.len())) else {
            report.wrong(text, error.message());
            return None;
        };
        match options.advice(&option, &head[..head.find(':').unwrap_or(head.len())], is_shared) {
            Some(Advice::Needless(why)) => report.note(&option.redacted(), why),
            Some(Advice::Instead(why)) => report.missing(&option.redacted(), why),
            None => {
                let why = option.by_own_name(error.message());
                report.wrong(&format!("{given}: {}", option.redacted()), &why);
            }
        }
    }
}
