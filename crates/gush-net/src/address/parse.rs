//! From the text to the address.

use std::ops::Range;

use super::Address;
use super::argument::{
    bind, command, descriptor, inherited, local, path, remote, through, unix_name,
};
use super::error::{AddressError, Fault, did_you_mean, fault};
use super::kinds::{Form, KEYWORDS, Kind, is_of_socat, keyword};
use super::options::{self, Opt, Options, Row};
use super::scan::{find, pieces, unquoted};
use super::target::{Family, Standard, Target};
use super::value::{Value, ranges};

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
    // An unclosed quote hides where pieces end, but not what kind of address it stands in.
    let word = text.split([':', ',']).next().unwrap_or_default();
    *kind_seen = keyword(word).map(|(kind, _)| kind);
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
    let message = match did_you_mean(name, KEYWORDS.iter().map(|(name, ..)| *name)).as_str() {
        "" => format!(
            "there is no kind of address '{name}'; a file of this name is written ./{whole}"
        ),
        hint => format!("there is no kind of address '{name}'{hint}"),
    };
    fault(word, message)
}

/// Why a word alone, such as `pty`, is not taken for the name of a file.
fn reserved(word: &str) -> Option<String> {
    let file = format!("a file of this name is written ./{word}");
    if let Some(row) = options::named(word) {
        let kinds: Vec<_> = row.kinds.iter().map(|kind| kind.grammar()).collect();
        let usage = row.usage();
        return Some(format!(
            "'{word}' alone is no address but an option: {}; {file}",
            kinds.iter().map(|kind| format!("{kind},{usage}")).collect::<Vec<_>>().join(", ")
        ));
    }
    is_of_socat(word).then(|| format!("gush has no kind of address '{word}', as socat has; {file}"))
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
            format!(
                "{} needs more, after a colon: {}; a file of this name is written ./{}",
                kind.name(),
                kind.grammar(),
                &text[..argument.start]
            ),
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
        Kind::Socks5 => through(text, argument).map(Target::Socks5),
        Kind::HttpConnect => through(text, argument).map(Target::HttpConnect),
        Kind::TcpListen => local(text, argument, family).map(Target::TcpListen),
        Kind::UdpListen => local(text, argument, family).map(Target::UdpListen),
        Kind::Unix => unix_name(text, argument, form).map(Target::Unix),
        Kind::UnixListen => unix_name(text, argument, form).map(Target::UnixListen),
        Kind::ListenFd => inherited(text, argument).map(Target::ListenFd),
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
