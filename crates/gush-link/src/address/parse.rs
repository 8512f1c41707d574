//! Parses the text of an address.

use std::net::IpAddr;
use std::ops::Range;

use super::Address;
use super::argument::{Argument, bind};
use super::error::{AddressError, Fault, fault};
use super::options::{self, Opt, OptRow, OptionSet};
use super::scan::{find, find_all, pieces, unquoted};
use super::suggest;
use super::terminal::Setting;
use super::value::{Value, ranges};
use crate::kind::{Form, Kind, Locator, keyword};

/// Pairs of options that contradict each other.
pub(super) const CONFLICTS: &[(Opt, Opt)] = &[
    (Opt::ReadOnly, Opt::WriteOnly),
    (Opt::ReadOnly, Opt::ReadWrite),
    (Opt::WriteOnly, Opt::ReadWrite),
    (Opt::ReadOnly, Opt::Append),
    (Opt::ReadOnly, Opt::Truncate),
    (Opt::Append, Opt::Seek),
    (Opt::Append, Opt::SeekEnd),
    (Opt::Seek, Opt::SeekEnd),
    (Opt::Pty, Opt::Pipes),
    (Opt::Pty, Opt::NoFork),
    (Opt::Pipes, Opt::NoFork),
    (Opt::Pty, Opt::InputNumber),
    (Opt::Pty, Opt::OutputNumber),
    (Opt::Cr, Opt::Crnl),
    (Opt::SourcePort, Opt::LowPort),
    (Opt::LockFile, Opt::WaitLock),
    (Opt::RunAs, Opt::SetUser),
    // A program begins in the new root.
    (Opt::Directory, Opt::Chroot),
    // An end is one client's.
    (Opt::Shared, Opt::ShutNull),
    (Opt::Shared, Opt::NullEof),
    (Opt::Shared, Opt::NoFork),
];

// socat's keywords are a family and roles, such as `udp4-recvfrom`.
const SOCAT_FAMILIES: &[&str] = &[
    "abstract",
    "dccp",
    "dtls",
    "if",
    "inet",
    "interface",
    "ip",
    "openssl",
    "posixmq",
    "proxy",
    "pty",
    "readline",
    "sctp",
    "sendto",
    "socks",
    "socks4a",
    "ssl",
    "stderr",
    "tun",
    "udp",
    "udplite",
    "unix",
    "vsock",
];
const SOCAT_ROLES: &[&str] = &[
    "c", "client", "connect", "datagram", "dtls", "listen", "recv", "recvfrom", "send", "sendto",
    "server",
];

/// Is `word` a keyword of socat that gush lacks?
fn is_of_socat(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let (family, roles) = match word.split_once('-') {
        Some((family, roles)) => (family, Some(roles)),
        None => (word.as_str(), None),
    };
    let name = family.strip_suffix(['4', '6']).unwrap_or(family);
    let is_family = SOCAT_FAMILIES.contains(&name) || family == "socket" && roles.is_some();
    is_family && roles.is_none_or(|roles| roles.split('-').all(|role| SOCAT_ROLES.contains(&role)))
}

pub(super) fn address(text: &str) -> Result<Address, AddressError> {
    let mut kind = None;
    first_of(text, &mut kind).map_err(|fault| AddressError::new(fault, text, kind))
}

/// `A|B`: alternatives, or one alone.
fn first_of(text: &str, kind_seen: &mut Option<Kind>) -> Result<Address, Fault> {
    *kind_seen = begun(text);
    let alternatives = alternatives(text)?;
    if alternatives.len() == 1 {
        return joined(text, kind_seen, &|_| true);
    }
    let refuses = |kind: Kind| kind.row().listens || kind.row().is_datagrams;
    let mut choices = Vec::new();
    for piece in alternatives {
        let read = |text: &str, seen: &mut _| joined(text, seen, &|kind| !refuses(kind));
        let choice = within(text, &piece, kind_seen, read)?;
        let row = choice.kind().row();
        if refuses(choice.kind()) {
            *kind_seen = Some(Kind::FirstOf);
            let why = if row.listens {
                "clients come to it"
            } else {
                "it opens whether or not a peer is there"
            };
            return fault(
                piece,
                format!("nothing falls back from {} or to it: {why}", choice.kind().name()),
            );
        }
        choices.push(without_fork(choice, piece)?);
    }
    Ok(Address { locator: Locator::FirstOf(choices), options: OptionSet::default() })
}

/// The kind that a text begins with, which is known even if a quote is never closed.
fn begun(text: &str) -> Option<Kind> {
    let word = text.split([':', ',']).next().unwrap_or_default();
    keyword(word).map(|(kind, _)| kind)
}

/// The pieces between `|`. A command extends to the end: its own `|` is the shell's.
fn alternatives(text: &str) -> Result<Vec<Range<usize>>, Fault> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for at in find_all(text, "|")? {
        let word = text[start..at].split(':').next().unwrap_or_default();
        if keyword(word).is_some_and(|(kind, _)| kind.row().runs_program) {
            break;
        }
        pieces.push(start..at);
        start = at + 1;
    }
    pieces.push(start..text.len());
    Ok(pieces)
}

/// `A!!B`, or a single address of a kind that `fits`.
fn joined(
    text: &str,
    kind_seen: &mut Option<Kind>,
    fits: &dyn Fn(Kind) -> bool,
) -> Result<Address, Fault> {
    let seams = find_all(text, "!!")?;
    let at = match seams.as_slice() {
        [] => return parse(text, kind_seen, fits),
        [at] => *at,
        [_, further, ..] => {
            return fault(*further..*further + 2, "one address is read and one is written: A!!B");
        }
    };
    let mut part = |piece: Range<usize>, may_be_program: bool| {
        let fits = |kind: Kind| !kind.listens() && (may_be_program || !kind.row().runs_program);
        let address = within(text, &piece, kind_seen, |text, seen| parse(text, seen, &fits))?;
        match address.kind().listens() {
            true => fault(piece, "clients come to it, both to read and to write"),
            false => without_fork(address, piece),
        }
    };
    let read = part(0..at, true)?;
    let written = part(at + 2..text.len(), !read.kind().row().runs_program)?;
    if read.kind().row().runs_program && written.kind().row().runs_program {
        return fault(at + 2..text.len(), "one of the two may be a program, not both");
    }
    let locator = Locator::Joined(Box::new([read, written]));
    Ok(Address { locator, options: OptionSet::default() })
}

/// A part of an address serves no clients.
fn without_fork(part: Address, piece: Range<usize>) -> Result<Address, Fault> {
    match part.calls() {
        true => fault(piece, "fork is for a whole address: each connection reads and writes"),
        false => Ok(part),
    }
}

/// Parses a part of the text; the span of a fault is that in the whole text.
fn within(
    text: &str,
    piece: &Range<usize>,
    kind_seen: &mut Option<Kind>,
    read: impl Fn(&str, &mut Option<Kind>) -> Result<Address, Fault>,
) -> Result<Address, Fault> {
    read(&text[piece.clone()], kind_seen).map_err(|Fault { span, message }| Fault {
        span: span.start + piece.start..span.end + piece.start,
        message,
    })
}

/// A single address. Suggests a keyword of a kind that `fits` for a mistyped one.
fn parse(
    text: &str,
    kind_seen: &mut Option<Kind>,
    fits: &dyn Fn(Kind) -> bool,
) -> Result<Address, Fault> {
    *kind_seen = begun(text);
    let pieces = pieces(text)?;
    let head = classify(text, pieces[0].clone(), fits)?;
    *kind_seen = Some(head.kind);
    let locator = locator(text, &head)?;
    let (options, places) = read_options(text, head.kind, &pieces[1..])?;
    let mut address = Address { locator, options };
    for &option in head.form.implies() {
        address.options.0.entry(option).or_insert(Value::Flag(true));
    }
    check(head.kind, &address.options, &places)?;
    settle_bind(&mut address, &places)?;
    check_namespace(&address, &places)?;
    Ok(address)
}

/// Names, and zones of addresses, are looked up outside of the namespace of `netns=`.
fn check_namespace(address: &Address, places: &Spans) -> Result<(), Fault> {
    let Some((_, place)) = places.iter().find(|(option, _)| *option == Opt::NetNs) else {
        return Ok(());
    };
    let local = address.options.bind().and_then(|text| bind(text, None).ok()?.host);
    let names = |host: &str| host.parse::<IpAddr>().is_err();
    let host = address.locator.internet().and_then(|(_, host)| host);
    match host.into_iter().chain(local.as_deref()).any(names) {
        true => {
            fault(place.clone(), "netns takes hosts in numbers: names are looked up outside of it")
        }
        false => Ok(()),
    }
}

/// The first piece: a keyword, and the argument after the colon.
struct Head {
    kind: Kind,
    form: Form,
    /// Empty, at the end of the piece, if there is none.
    argument: Range<usize>,
    has_colon: bool,
}

fn classify(text: &str, head: Range<usize>, fits: &dyn Fn(Kind) -> bool) -> Result<Head, Fault> {
    let whole = &text[head.clone()];
    if whole.is_empty() {
        return fault(head, "an address is missing here");
    }
    let path =
        Head { kind: Kind::Path, form: Form::Plain, argument: head.clone(), has_colon: false };
    if whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(Head { kind: Kind::Fd, ..path });
    }
    let colon = find(text, head.clone(), ":");
    let word = head.start..colon.unwrap_or(head.end);
    if let Some((kind, form)) = keyword(&text[word.clone()]) {
        let argument = colon.map_or(head.end, |colon| colon + 1)..head.end;
        return Ok(Head { kind, form, argument, has_colon: colon.is_some() });
    }
    let name = &text[word.clone()];
    if colon.is_none() {
        return match reserved(name) {
            Some(message) => fault(word, message),
            None => Ok(path),
        };
    }
    if name.contains('/') {
        return Ok(path);
    }
    let port = whole.strip_prefix(name).and_then(|rest| rest.strip_prefix(':'));
    let is_port = !name.is_empty() && port.is_some_and(|port| port.parse::<u16>().is_ok());
    let message = match suggest::kind(name, fits).as_str() {
        "" if is_port => format!(
            "unknown kind of address '{name}'; did you mean tcp:{whole}, or the file ./{whole}?"
        ),
        "" => format!("unknown kind of address '{name}'; a file of this name is written ./{whole}"),
        hint => format!("unknown kind of address '{name}'{hint}"),
    };
    fault(word, message)
}

/// Why a bare word, such as `pipes`, is not taken for a file name.
fn reserved(word: &str) -> Option<String> {
    let file = format!("a file of this name is written ./{word}");
    if let Some(row) = options::named(word) {
        let kinds: Vec<_> = row.kinds().map(|kind| kind.grammar()).collect();
        let usage = row.usage();
        return Some(format!(
            "'{word}' alone is not an address but an option: {}; {file}",
            kinds.iter().map(|kind| format!("{kind},{usage}")).collect::<Vec<_>>().join(", ")
        ));
    }
    if Setting::names().any(|name| name.eq_ignore_ascii_case(word)) {
        return Some(format!(
            "'{word}' alone is not an address but a setting of a terminal: pty,{word}; {file}"
        ));
    }
    is_of_socat(word).then(|| format!("gush has no kind of address '{word}', as socat has; {file}"))
}

/// Does this text without a keyword parse as a path?
pub(crate) fn is_path(text: &str) -> bool {
    matches!(
        classify(text, 0..text.len(), &|_| true),
        Ok(Head { kind: Kind::Path, has_colon: false, .. })
    )
}

fn locator(text: &str, head: &Head) -> Result<Locator, Fault> {
    let Head { kind, form, argument: ref piece, has_colon } = *head;
    let argument = Argument { text, piece: piece.clone(), kind, form };
    if !has_colon && argument.is_empty() && !kind.row().stands_alone {
        return fault(
            piece.clone(),
            format!(
                "{} needs more, after a colon: {}; a file of this name is written ./{}",
                kind.name(),
                kind.grammar(),
                &text[..piece.start]
            ),
        );
    }
    Locator::read(&argument)
}

/// The range of each option in the text, for errors found later.
type Spans = Vec<(Opt, Range<usize>)>;

fn read_options(
    text: &str,
    kind: Kind,
    given: &[Range<usize>],
) -> Result<(OptionSet, Spans), Fault> {
    let mut options = OptionSet::default();
    let mut places = Spans::new();
    for piece in given {
        if let Some(networks) = further_ranges(text, piece, &places) {
            options.add(Opt::Range, Value::Ranges(networks));
            continue;
        }
        let equals = equals_of(text, piece);
        let name = name_of(text, piece);
        if let Some(setting) = setting(text, kind, piece, &name)? {
            options.add(Opt::Terminal, Value::Settings(vec![setting]));
            places.push((Opt::Terminal, piece.clone()));
            continue;
        }
        let row = row_for(text, kind, &name, given)?;
        let value = equals.map(|equals| equals + 1..piece.end);
        let bytes = value.clone().map(|value| unquoted(text, value)).transpose()?;
        let value = Value::read(row.takes, bytes).or_else(|why| {
            let place = value.filter(|value| !value.is_empty()).unwrap_or_else(|| piece.clone());
            fault(place, format!("{} {why}", row.name))
        })?;
        if !options.add(row.option, value) {
            return fault(name, format!("{} is given twice", row.name));
        }
        places.push((row.option, piece.clone()));
    }
    Ok((options, places))
}

fn equals_of(text: &str, piece: &Range<usize>) -> Option<usize> {
    find(text, piece.clone(), "=")
}

fn name_of(text: &str, piece: &Range<usize>) -> Range<usize> {
    piece.start..equals_of(text, piece).unwrap_or(piece.end)
}

/// A terminal setting, if the kind may be a terminal and the name is no option.
fn setting(
    text: &str,
    kind: Kind,
    piece: &Range<usize>,
    name: &Range<usize>,
) -> Result<Option<Setting>, Fault> {
    let word = &text[name.clone()];
    if !kind.takes(Opt::Terminal) || options::named(word).is_some() {
        return Ok(None);
    }
    let value = (name.end < piece.end).then(|| &text[name.end + 1..piece.end]);
    match Setting::read(word, value) {
        None => Ok(None),
        Some(Ok(setting)) => Ok(Some(setting)),
        Some(Err(why)) => fault(piece.clone(), format!("{word} {why}")),
    }
}

/// The networks after the first comma of `range=A,B`: no option is named like a network.
fn further_ranges(text: &str, piece: &Range<usize>, places: &Spans) -> Option<Vec<ipnet::IpNet>> {
    matches!(places.last(), Some((Opt::Range, _))).then(|| ranges(&text[piece.clone()]))?
}

fn row_for(
    text: &str,
    kind: Kind,
    name: &Range<usize>,
    pieces: &[Range<usize>],
) -> Result<&'static OptRow, Fault> {
    let word = &text[name.clone()];
    if word.is_empty() {
        return fault(
            name.clone(),
            "an option is missing here; a comma that belongs to a path needs a backslash before it",
        );
    }
    match options::named(word) {
        Some(row) if kind.takes(row.option) => Ok(row),
        Some(row) => {
            let kinds: Vec<_> = row.kinds().map(|kind| kind.name()).collect();
            let message = format!(
                "{} takes no option '{word}', which belongs to {}",
                kind.name(),
                kinds.join(", ")
            );
            fault(name.clone(), message)
        }
        None => {
            let named = |piece| options::named(&text[name_of(text, piece)]);
            let standing: Vec<Opt> =
                pieces.iter().filter_map(named).map(|row| row.option).collect();
            let hint = suggest::option(word, kind, &standing);
            fault(name.clone(), format!("unknown option '{word}' of {}{hint}", kind.name()))
        }
    }
}

fn check(kind: Kind, options: &OptionSet, places: &Spans) -> Result<(), Fault> {
    for (option, place) in places {
        let needs = option.row().needs;
        let asked = needs.iter().any(|&needed| kind.takes(needed));
        if asked && !needs.iter().any(|&needed| options.has(needed)) {
            let names: Vec<_> = needs.iter().map(|needed| needed.name()).collect();
            let name = match option {
                Opt::Terminal => "a terminal setting",
                option => option.name(),
            };
            return fault(place.clone(), format!("{name} needs {} too", names.join(" or ")));
        }
    }
    let is_on = |option| options.has(option) && options.flag(option) != Some(false);
    let both = CONFLICTS.iter().find(|&&(one, other)| is_on(one) && is_on(other));
    if let Some(&(one, other)) = both {
        let named = places.iter().rfind(|(option, _)| [one, other].contains(option));
        let place = named.map_or(0..0, |(_, place)| place.clone());
        return fault(place, format!("{} and {} contradict each other", one.name(), other.name()));
    }
    #[cfg(feature = "tls")]
    if options.text(Opt::MinVersion) > options.text(Opt::MaxVersion).or(Some("1.3")) {
        let named = places.iter().find(|(option, _)| *option == Opt::MinVersion);
        let place = named.map_or(0..0, |(_, place)| place.clone());
        return fault(place, "min-version is above max-version");
    }
    Ok(())
}

/// Moves a listener's `bind=HOST` into the address's host. A connection's `bind=` stays an option.
fn settle_bind(address: &mut Address, places: &Spans) -> Result<(), Fault> {
    let Some(text) = address.options.bind().map(str::to_owned) else {
        return Ok(());
    };
    let place = places
        .iter()
        .find(|(option, _)| *option == Opt::Bind)
        .map_or(0..0, |(_, place)| place.clone());
    // Of a Unix socket it is the name.
    if address.kind().row().is_unix {
        return Ok(());
    }
    let family = address.locator.internet().and_then(|(family, _)| family);
    let bind = bind(&text, family)
        .or_else(|why| fault(place.clone(), format!("bind: {}", why.message)))?;
    let Some(local) = address.locator.local_mut() else { return Ok(()) };
    if local.host.is_some() || bind.port.is_some() {
        return fault(place, "bind takes a HOST here, and only where the address has none");
    }
    local.host = bind.host;
    address.options.0.remove(&Opt::Bind);
    Ok(())
}
