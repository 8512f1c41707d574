//! From the text to the address.

use std::ffi::OsString;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::Address;
use super::error::{AddressError, Fault, did_you_mean, fault};
use super::kinds::{Form, KEYWORDS, Kind, keyword};
use super::options::{self, Opt, Options, Row};
use super::scan::{find, pieces, unquoted};
use super::target::{Bind, Command, Family, Inherited, Local, Remote, Standard, Target, UnixName};
use super::value::{Value, number, ranges};

/// What fits `sun_path` beside the zero byte that ends a path or begins an abstract name (unix(7)).
const UNIX_NAME_BYTES: usize = 107;

/// Pairs that contradict each other.
const CONFLICTS: &[(Opt, Opt)] = &[
    (Opt::ReadOnly, Opt::WriteOnly),
    (Opt::ReadOnly, Opt::Append),
    (Opt::ReadOnly, Opt::Truncate),
    (Opt::Append, Opt::Seek),
    (Opt::Pty, Opt::Pipes),
];

pub(super) fn address(text: &str) -> Result<Address, AddressError> {
    let mut kind = None;
    parse(text, &mut kind).map_err(|fault| AddressError::new(fault, text, kind))
}

fn parse(text: &str, kind_seen: &mut Option<Kind>) -> Result<Address, Fault> {
    let pieces = pieces(text)?;
    let head = classify(text, pieces[0].clone())?;
    *kind_seen = Some(head.kind);
    let target = target(text, &head)?;
    let (options, places) = read_options(text, head.kind, &pieces[1..])?;
    let mut address = Address { target, options };
    if head.form == Form::Create {
        for option in [Opt::Create, Opt::Truncate] {
            address.options.0.entry(option).or_insert(Value::Flag(true));
        }
    }
    check(&address.options, &places)?;
    settle_bind(&mut address, &places)?;
    Ok(address)
}

/// The first piece: a keyword and what follows its colon.
struct Head {
    kind: Kind,
    form: Form,
    /// The whole argument; empty at the end where there is none.
    argument: Range<usize>,
    has_colon: bool,
}

fn classify(text: &str, head: Range<usize>) -> Result<Head, Fault> {
    let whole = &text[head.clone()];
    if whole.is_empty() {
        return fault(head, "an address is missing here");
    }
    let path =
        Head { kind: Kind::Path, form: Form::Plain, argument: head.clone(), has_colon: false };
    if whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(Head { kind: Kind::Fd, ..path });
    }
    let colon = find(text, head.clone(), b':');
    let word = head.start..colon.unwrap_or(head.end);
    if let Some((kind, form)) = keyword(&text[word.clone()]) {
        let argument = colon.map_or(head.end, |colon| colon + 1)..head.end;
        return Ok(Head { kind, form, argument, has_colon: colon.is_some() });
    }
    if colon.is_none() || text[word.clone()].contains('/') {
        return Ok(path);
    }
    let name = &text[word.clone()];
    let message = match did_you_mean(name, KEYWORDS.iter().map(|(name, ..)| *name)).as_str() {
        "" => format!(
            "there is no kind of address '{name}'; a file of this name is written ./{whole}"
        ),
        hint => format!("there is no kind of address '{name}'{hint}"),
    };
    fault(word, message)
}

/// Is this text read as a path by itself, without a keyword?
pub(super) fn is_path(text: &str) -> bool {
    matches!(classify(text, 0..text.len()), Ok(Head { kind: Kind::Path, has_colon: false, .. }))
}

fn target(text: &str, head: &Head) -> Result<Target, Fault> {
    let Head { kind, form, ref argument, has_colon } = *head;
    let family = match form {
        Form::V4 => Some(Family::V4),
        Form::V6 => Some(Family::V6),
        _ => None,
    };
    let nothing = argument.is_empty();
    if !has_colon && nothing && !matches!(kind, Kind::Stdio | Kind::Pipe | Kind::Zero | Kind::Null)
    {
        return fault(
            argument.clone(),
            format!("{} needs more, after a colon: {}", kind.name(), kind.grammar()),
        );
    }
    let plain = |target| match nothing {
        true => Ok(target),
        false => fault(argument.clone(), format!("{} takes nothing after its colon", kind.name())),
    };
    match kind {
        Kind::Stdio => plain(Target::Stdio(match form {
            Form::Input => Standard::Input,
            Form::Output => Standard::Output,
            _ => Standard::Both,
        })),
        Kind::Zero => plain(Target::Zero),
        Kind::Null => plain(Target::Null),
        Kind::Path => path(text, argument).map(Target::Path),
        Kind::File => path(text, argument).map(Target::File),
        Kind::Pipe if nothing => Ok(Target::Pipe(None)),
        Kind::Pipe => path(text, argument).map(|path| Target::Pipe(Some(path))),
        Kind::Fd => descriptor(&text[argument.clone()]).map_or_else(
            || fault(argument.clone(), "no number of a descriptor, such as 3"),
            |n| Ok(Target::Fd(n)),
        ),
        Kind::Exec => command(text, argument).map(Target::Exec),
        Kind::Shell => command(text, argument).map(Target::Shell),
        Kind::Tcp => remote(text, argument, family).map(Target::Tcp),
        Kind::Udp => remote(text, argument, family).map(Target::Udp),
        Kind::TcpListen => local(text, argument, family).map(Target::TcpListen),
        Kind::UdpListen => local(text, argument, family).map(Target::UdpListen),
        Kind::Unix => unix_name(text, argument, form).map(Target::Unix),
        Kind::UnixListen => unix_name(text, argument, form).map(Target::UnixListen),
        Kind::ListenFd => inherited(text, argument).map(Target::ListenFd),
    }
}

fn path(text: &str, piece: &Range<usize>) -> Result<PathBuf, Fault> {
    let bytes = unquoted(text, piece.clone())?;
    match bytes.contains(&0) {
        _ if bytes.is_empty() => fault(piece.clone(), "a path is missing here"),
        true => fault(piece.clone(), "a path cannot hold a zero byte"),
        false => Ok(PathBuf::from(OsString::from_vec(bytes))),
    }
}

fn descriptor(text: &str) -> Option<i32> {
    number(text)
}

fn inherited(text: &str, piece: &Range<usize>) -> Result<Inherited, Fault> {
    let bytes = unquoted(text, piece.clone())?;
    match String::from_utf8(bytes) {
        Ok(name) if name.is_empty() => {
            fault(piece.clone(), "a descriptor's number or name is missing here")
        }
        Ok(name) if name.bytes().all(|byte| byte.is_ascii_digit()) => descriptor(&name)
            .map_or_else(
                || fault(piece.clone(), "no number of a descriptor, such as 3"),
                |n| Ok(Inherited::Number(n)),
            ),
        Ok(name) => Ok(Inherited::Name(name)),
        Err(_) => fault(piece.clone(), "a descriptor's name is text"),
    }
}

fn command(text: &str, piece: &Range<usize>) -> Result<Command, Fault> {
    let command = Command(text[piece.clone()].to_owned());
    let words = shlex::split(&command.line());
    match words {
        None => {
            fault(piece.clone(), "a shell would find a quote that is never closed in this command")
        }
        Some(_) if text[piece.clone()].contains('\0') => {
            fault(piece.clone(), "a command cannot hold a zero byte")
        }
        Some(words) if words.first().is_none_or(String::is_empty) => {
            fault(piece.clone(), "a command is missing here")
        }
        Some(_) => Ok(command),
    }
}

fn unix_name(text: &str, piece: &Range<usize>, form: Form) -> Result<UnixName, Fault> {
    let bytes = unquoted(text, piece.clone())?;
    let name = match bytes.strip_prefix(b"@") {
        _ if form == Form::Abstract => UnixName::Abstract(bytes),
        Some(name) => UnixName::Abstract(name.to_owned()),
        None => UnixName::Path(path(text, piece)?),
    };
    let bytes = match &name {
        UnixName::Path(path) => path.as_os_str().len(),
        UnixName::Abstract(name) => name.len(),
    };
    match bytes {
        0 => fault(piece.clone(), "a socket's name is missing here"),
        1..=UNIX_NAME_BYTES => Ok(name),
        _ => fault(
            piece.clone(),
            format!(
                "{bytes} bytes: the kernel takes at most {UNIX_NAME_BYTES}; change to the directory and name it shorter"
            ),
        ),
    }
}

fn remote(text: &str, piece: &Range<usize>, family: Option<Family>) -> Result<Remote, Fault> {
    let (host, port) = host_and_port(text, piece)?;
    let Some(host) = host else {
        return fault(piece.clone(), "a host and a port are needed, such as localhost:80");
    };
    if text[host.clone()].is_empty() {
        return fault(host, "a host is missing before the colon");
    }
    let host = self::host(text, &host, family)?;
    if number::<u16>(&text[port.clone()]) == Some(0) {
        return fault(port, "nothing can be reached at port 0");
    }
    Ok(Remote { family, host, port: self::port(text, &port)? })
}

fn local(text: &str, piece: &Range<usize>, family: Option<Family>) -> Result<Local, Fault> {
    let (host, port) = host_and_port(text, piece)?;
    let host = match host {
        Some(host) if !matches!(&text[host.clone()], "" | "*") => {
            Some(self::host(text, &host, family)?)
        }
        _ => None,
    };
    Ok(Local { family, host, port: self::port(text, &port)? })
}

/// `HOST:PORT`, `[IPv6]:PORT` or `PORT`.
fn host_and_port(
    text: &str,
    piece: &Range<usize>,
) -> Result<(Option<Range<usize>>, Range<usize>), Fault> {
    let whole = &text[piece.clone()];
    if whole.starts_with('[') {
        let Some(end) = whole.find(']') else {
            return fault(piece.start..piece.start + 1, "this bracket is never closed");
        };
        let after = piece.start + end + 1;
        return match text[after..piece.end].strip_prefix(':') {
            Some(_) => Ok((Some(piece.start..after), after + 1..piece.end)),
            None => fault(after..piece.end, "a colon and a port are needed behind the bracket"),
        };
    }
    let Some(colon) = whole.rfind(':') else {
        return Ok((None, piece.clone()));
    };
    let host = piece.start..piece.start + colon;
    if text[host.clone()].contains(':') {
        return fault(host, "an IPv6 address stands in brackets, such as [::1]:80");
    }
    Ok((Some(host), piece.start + colon + 1..piece.end))
}

/// A name, or an address without its brackets.
fn host(text: &str, piece: &Range<usize>, family: Option<Family>) -> Result<String, Fault> {
    let host = &text[piece.clone()];
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']').unwrap_or(inner);
        let (address, zone) = inner.split_once('%').unwrap_or((inner, "lo"));
        let is_zone = !zone.is_empty()
            && zone.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        return match address.parse::<Ipv6Addr>() {
            Ok(_) if family == Some(Family::V4) => {
                fault(piece.clone(), "an IPv6 address where IPv4 is asked for")
            }
            Ok(_) if is_zone => Ok(inner.to_owned()),
            _ => fault(piece.clone(), "no IPv6 address stands within the brackets"),
        };
    }
    if let Some((at, c)) =
        host.char_indices().find(|&(_, c)| !c.is_alphanumeric() && !"-_.".contains(c))
    {
        let at = piece.start + at;
        return fault(at..at + c.len_utf8(), "no host name holds this character");
    }
    let is_dotted = host.split('.').count() == 4
        && host.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit());
    match host.parse::<Ipv4Addr>() {
        Ok(_) if family == Some(Family::V6) => {
            fault(piece.clone(), "an IPv4 address where IPv6 is asked for")
        }
        Err(_) if is_dotted => fault(piece.clone(), "no IPv4 address: four numbers up to 255"),
        _ => Ok(host.to_owned()),
    }
}

fn port(text: &str, piece: &Range<usize>) -> Result<String, Fault> {
    let port = &text[piece.clone()];
    if port.is_empty() {
        return fault(
            piece.clone(),
            "a port is missing here: a number up to 65535, or a service name such as http",
        );
    }
    if port.bytes().all(|byte| byte.is_ascii_digit()) {
        return match number::<u16>(port) {
            Some(port) => Ok(port.to_string()),
            None => fault(piece.clone(), "ports end at 65535"),
        };
    }
    let is_service = port.starts_with(|c: char| c.is_ascii_alphanumeric())
        && port.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_+./*".contains(&byte));
    match is_service {
        true => Ok(port.to_owned()),
        false => {
            fault(piece.clone(), "no port: a number up to 65535, or a service name such as http")
        }
    }
}

/// Where each option stands in the text, for what is found wrong later.
type Places = Vec<(Opt, Range<usize>)>;

fn read_options(
    text: &str,
    kind: Kind,
    given: &[Range<usize>],
) -> Result<(Options, Places), Fault> {
    let mut options = Options::default();
    let mut places = Places::new();
    for piece in given {
        if let Some(networks) = further_ranges(text, piece, &places) {
            add_ranges(&mut options, networks);
            continue;
        }
        let equals = find(text, piece.clone(), b'=');
        let name = piece.start..equals.unwrap_or(piece.end);
        let row = row_for(text, kind, &name)?;
        let value = equals.map(|equals| equals + 1..piece.end);
        let bytes = value.clone().map(|value| unquoted(text, value)).transpose()?;
        let value = Value::read(row.takes, bytes).or_else(|why| {
            let place = value.filter(|value| !value.is_empty()).unwrap_or_else(|| piece.clone());
            fault(place, format!("{} {why}", row.name))
        })?;
        match value {
            Value::Ranges(networks) => add_ranges(&mut options, networks),
            _ if options.has(row.option) => {
                return fault(name, format!("{} is given twice", row.name));
            }
            value => drop(options.0.insert(row.option, value)),
        }
        places.push((row.option, piece.clone()));
    }
    Ok((options, places))
}

/// `range=A,B`: no option is called like a network, so one after `range=` belongs to it.
fn further_ranges(text: &str, piece: &Range<usize>, places: &Places) -> Option<Vec<ipnet::IpNet>> {
    matches!(places.last(), Some((Opt::Range, _))).then(|| ranges(&text[piece.clone()]))?
}

fn add_ranges(options: &mut Options, mut more: Vec<ipnet::IpNet>) {
    match options.0.entry(Opt::Range).or_insert(Value::Ranges(Vec::new())) {
        Value::Ranges(networks) => networks.append(&mut more),
        other => *other = Value::Ranges(more),
    }
}

fn row_for(text: &str, kind: Kind, name: &Range<usize>) -> Result<&'static Row, Fault> {
    let word = &text[name.clone()];
    if word.is_empty() {
        return fault(
            name.clone(),
            "an option is missing here; a comma that belongs to a path needs a backslash before it",
        );
    }
    match options::named(word) {
        Some(row) if row.kinds.contains(&kind) => Ok(row),
        Some(row) => {
            let kinds: Vec<_> = row.kinds.iter().map(|kind| kind.name()).collect();
            let message = format!(
                "{} takes no option '{word}'; it belongs to {}",
                kind.name(),
                kinds.join(", ")
            );
            fault(name.clone(), message)
        }
        None => {
            let hint = did_you_mean(word, options::taken_by(kind).map(|row| row.name));
            fault(name.clone(), format!("{} takes no option '{word}'{hint}", kind.name()))
        }
    }
}

fn check(options: &Options, places: &Places) -> Result<(), Fault> {
    for (option, place) in places {
        let needs = option.row().needs;
        if !needs.is_empty() && !needs.iter().any(|&needed| options.has(needed)) {
            let names: Vec<_> = needs.iter().map(|needed| needed.name()).collect();
            return fault(
                place.clone(),
                format!("{} needs {} too", option.name(), names.join(" or ")),
            );
        }
    }
    let both = CONFLICTS.iter().find(|&&(one, other)| options.is_on(one) && options.is_on(other));
    if let Some(&(one, other)) = both {
        let named = places.iter().rfind(|(option, _)| [one, other].contains(option));
        let place = named.map_or(0..0, |(_, place)| place.clone());
        return fault(place, format!("{} and {} contradict each other", one.name(), other.name()));
    }
    Ok(())
}

/// A listener's `bind=HOST` is the host of its address; a connection's stays an option.
fn settle_bind(address: &mut Address, places: &Places) -> Result<(), Fault> {
    let Some(text) = address.options.bind().map(str::to_owned) else {
        return Ok(());
    };
    let place = places
        .iter()
        .find(|(option, _)| *option == Opt::Bind)
        .map_or(0..0, |(_, place)| place.clone());
    let bind = bind(&text).or_else(|why| fault(place.clone(), format!("bind: {}", why.message)))?;
    match &mut address.target {
        Target::TcpListen(local) | Target::UdpListen(local) => {
            if local.host.is_some() || bind.port.is_some() {
                return fault(place, "bind takes a HOST here, and only where the address has none");
            }
            local.host = bind.host;
            address.options.0.remove(&Opt::Bind);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// `HOST`, `HOST:PORT` or `:PORT`.
fn bind(text: &str) -> Result<Bind, Fault> {
    let all = 0..text.len();
    if text.starts_with('[') && text.ends_with(']') || !text.contains(':') {
        return Ok(Bind { host: Some(host(text, &all, None)?), port: None });
    }
    let (host_part, port_part) = host_and_port(text, &all)?;
    let host = match host_part {
        Some(piece) if !piece.is_empty() => Some(host(text, &piece, None)?),
        _ => None,
    };
    Ok(Bind { host, port: Some(port(text, &port_part)?) })
}

impl Bind {
    /// Reads the value of `bind=`.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    ///
    /// ```
    /// use gush_net::address::Bind;
    /// let bind = Bind::read("[::1]:99").unwrap();
    /// assert_eq!((bind.host.as_deref(), bind.port.as_deref()), (Some("::1"), Some("99")));
    /// ```
    pub fn read(text: &str) -> Result<Self, String> {
        bind(text).map_err(|fault| fault.message)
    }
}
