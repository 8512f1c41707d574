//! `--from-socat`: translates a command line of socat(1), or reports the parts without an
//! equivalent.
//!
//! Three tables hold the differences: switches, kinds of addresses, options of addresses. Anything
//! else is copied, and then parsed, so that no address is printed that `gush link` would refuse.

#[cfg(test)]
mod accepted;
mod addresses;
mod lexer;
mod options;
mod sockets;
mod switches;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Component, Path};
use std::process::ExitCode;

use gush_link::address::{Address, AddressError, Kind, Locator, Opt};
use gush_link::gush_net::Direction;
use gush_link::{Link, Settings};

use self::switches::Parsed;
use crate::console::Console;

/// Joins unquoted arguments after `--from-socat` to a single one.
pub fn as_one_word(words: Vec<OsString>) -> Vec<OsString> {
    let [flag, socats @ ..] = words.as_slice() else { return words };
    if flag != "--from-socat" || socats.len() < 2 {
        return words;
    }
    let texts = socats.iter().map(|word| word.to_str()).collect::<Option<Vec<_>>>();
    match texts.and_then(|texts| shlex::try_join(texts).ok()) {
        Some(line) => vec![flag.clone(), line.into()],
        None => words,
    }
}

/// Prints the equivalent of `arguments`, as they follow `socat` in a shell.
pub fn run(arguments: &str, console: &Console) -> ExitCode {
    let mut report = Report::default();
    let line = line(arguments, &mut report);
    let Some(line) = line.filter(|_| report.is_whole()) else { return report.refused(console) };
    report.notes(console);
    console.page(format!("{line}\n").as_bytes())
}

/// A further line of the error about a word of socat's.
pub fn pointer(error: &AddressError) -> &'static str {
    let word = &error.text()[error.span()];
    let is_keyword = error.kind().is_none();
    match if is_keyword { addresses::is_known(word) } else { options::is_known(word) } {
        true => {
            "\n  this word is socat's: gush link --from-socat 'ARGS' prints the equivalent, or why there is none"
        }
        false => "",
    }
}

/// What is reported besides the command.
#[derive(Debug, Default)]
pub struct Report {
    notes: Vec<String>,
    /// The expansions of a shell.
    unexpanded: Option<String>,
    /// The parts without an equivalent, and why.
    missing: Vec<String>,
    /// The parts that `gush link` does not understand, and that socat may refuse itself.
    wrong: Vec<String>,
}

impl Report {
    /// Have all parts an equivalent?
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.wrong.is_empty()
    }

    /// Reports the parts without an equivalent. Notes are about a command, but expansions may be
    /// why there is none.
    pub fn refused(&self, console: &Console) -> ExitCode {
        self.wrong.iter().for_each(|part| console.say(part));
        self.missing.iter().for_each(|part| console.say(format_args!("no equivalent: {part}")));
        self.unexpanded.iter().for_each(|note| console.say(format_args!("note: {note}")));
        ExitCode::FAILURE
    }

    /// Reports differences of the equivalent, none of which loses or changes data.
    pub fn notes(&self, console: &Console) {
        for note in self.unexpanded.iter().chain(&self.notes) {
            console.say(format_args!("note: {note}"));
        }
    }

    fn note(&mut self, part: &str, why: &str) {
        self.notes.push(because(part, why));
    }

    /// Adds what is reported of a later part.
    fn append(&mut self, later: Self) {
        self.notes.extend(later.notes);
        self.missing.extend(later.missing);
        self.wrong.extend(later.wrong);
    }

    fn missing(&mut self, part: &str, why: &str) {
        self.missing.push(because(part, why));
    }

    fn wrong(&mut self, part: &str, why: &str) {
        self.wrong.push(because(part, why));
    }
}

fn because(part: &str, why: &str) -> String {
    match part {
        "" => why.to_owned(),
        _ => format!("{}: {why}", options::without_passwords(part)),
    }
}

/// The arguments of `gush link` for a command line of socat.
pub struct Translation {
    pub words: Vec<String>,
    /// The file for messages.
    pub log_file: Option<String>,
    /// Is the wait for the other side after an end bounded, or is there none?
    pub lingers: bool,
}

/// The equivalent command line, if there is one.
fn line(arguments: &str, report: &mut Report) -> Option<String> {
    let Some(mut words) = shlex::split(arguments) else {
        report.wrong(arguments, "a quote is never closed");
        return None;
    };
    if words.first().is_some_and(|word| word == "socat" || word.ends_with("/socat")) {
        words.remove(0);
    }
    let expansions = lexer::expansions(arguments);
    if !expansions.is_empty() {
        let parts = expansions.join(" ");
        report.unexpanded = Some(format!(
            "{parts}: a shell expands these before socat sees them; gush link takes them as written"
        ));
    }
    let Translation { words, log_file, lingers } = translated(words, report)?;
    if !lingers {
        report.notes.push(
            "socat ends 0.5 s after one side has ended; without -t TIME gush link waits for the other".to_owned(),
        );
    }
    let words = ["gush", "link"].into_iter().chain(words.iter().map(String::as_str));
    let mut line = words.map(quoted).collect::<Option<Vec<_>>>()?.join(" ");
    if let Some(log) = log_file {
        line += &format!(" 2>>{}", quoted(&log)?);
    }
    Some(line)
}

/// The equivalent of the arguments of socat, if there is one.
pub fn translated(words: Vec<String>, report: &mut Report) -> Option<Translation> {
    let mut parsed = switches::read(words, report);
    let [first, second] = parsed.addresses.as_slice() else {
        // A refused switch may be alone.
        if !parsed.addresses.is_empty() || report.is_whole() {
            report.wrong("", "socat takes two addresses, after all switches");
        }
        return None;
    };
    let mut of_second = Report::default();
    let second = addresses::translated(second, parsed.families, false, &mut of_second);
    // socat opens the first address once, before it listens at the second.
    let is_shared = second.as_ref().is_some_and(|second| any_part(second, serves_many));
    let first = addresses::translated(first, parsed.families, is_shared, report);
    report.append(of_second);
    let mut both = [first?, second?];
    if any_part(&both[1], becomes_program) {
        // Nothing passes through socat.
        parsed.relay_nothing();
        if any_part(&both[0], serves_many) {
            both[1] = both[1].clone().without(&[Opt::NoFork]);
            report.note("nofork", "gush passes the bytes of each client on to its program");
        }
    }
    report_switches(&parsed, &both, report);
    let reads = [Direction::Back, Direction::Forward].map(|way| parsed.one_way != Some(way));
    if let Some((option, file)) = &parsed.lock {
        // What clients inherit is opened for each of them, and the other address before.
        let is_second = is_shared && !any_part(&both[0], |part| part.options().is_on(Opt::Shared));
        let holder = &mut both[usize::from(is_second)];
        let locks = |part: &Address| {
            [Opt::LockFile, Opt::WaitLock].iter().any(|&option| part.options().has(option))
        };
        if any_part(holder, locks) {
            report.missing(&holder.to_string(), "an address has one lock file");
            return None;
        }
        let option = format!("{option}={}", options::protected(file));
        *holder = with_option(holder, &option, reads[usize::from(is_second)]);
    }
    for at in [0, 1] {
        report_misuse(&parsed, at, &both[at], report);
    }
    let is_one_way = parsed.one_way.is_some();
    let is_reversed = parsed.one_way == Some(Direction::Back);
    let settings = Settings {
        one_way: is_one_way,
        reversed: is_reversed,
        message_bytes: parsed.message_bytes,
        ..Settings::default()
    };
    let [first, second] = &mut both;
    let (source, target) = if is_reversed { (second, first) } else { (first, second) };
    if let Err(failure) = Link::new(source.clone(), target.clone(), settings) {
        report.missing("", &failure.to_string());
        return None;
    }
    if let Err(why) = keep_line_ends(source, target, !is_one_way) {
        report.missing("", why);
        return None;
    }
    let mut words = parsed.words;
    // In one direction there is no other side to wait for.
    let mut lingers = parsed.lingers || is_one_way;
    if !lingers && any_of(&both, |part| part.options().byte(Opt::Escape).is_some()) {
        // That key is to end the link.
        words.extend(["-t", "0.5"].map(str::to_owned));
        lingers = true;
    }
    let forks = any_of(&both, serves_many);
    for (address, is_read) in both.iter().zip(reads) {
        note_differences(address, forks, parsed.is_renamed, report);
        if is_read && is_shared_peer(address) {
            let why = "an empty datagram ends no client, as all share this address";
            report.note(&address.to_string(), why);
        }
    }
    // socat passes every failure on as an end of data, and waits for readers.
    words.insert(0, "--graceful".to_owned());
    words.extend(both.iter().zip(reads).map(|(address, is_read)| match is_read {
        true => as_read(address),
        false => address.to_string(),
    }));
    Some(Translation { words, log_file: parsed.log_file, lingers })
}

/// Reports the switches whose equivalent depends on the addresses.
fn report_switches(parsed: &Parsed, both: &[Address; 2], report: &mut Report) {
    if parsed.is_sloppy {
        let why = "an error ends gush link with status 1, where socat -s goes on without what has \
             failed, and ends with 0, or 255 if an address cannot be opened";
        // Those of peers that are not let in, or of one connection of many, are none.
        let listens = |part: &Address| {
            part.kind().listens() || part.kind().only_receives() || serves_many(part)
        };
        match any_of(both, listens) {
            true => report.note("-s", why),
            false => report.missing("-s", why),
        }
    }
    if let Some(value) = &parsed.large_messages {
        let part = format!("-b {value}");
        match any_of(both, |part| part.kind().takes_datagrams()) {
            true => report.missing(&part, "gush link makes no datagram larger than 65536 bytes"),
            false => report.note(&part, "streams need no such size"),
        }
    }
}

/// Reports a use of the address at this place that `gush link` refuses, or socat itself.
fn report_misuse(parsed: &Parsed, at: usize, address: &Address, report: &mut Report) {
    let (text, ways) = (&parsed.addresses[at], [Direction::Forward, Direction::Back]);
    let (is_one_way, is_written) = (parsed.one_way.is_some(), parsed.one_way != Some(ways[at]));
    let used = if is_one_way { address.side(is_written) } else { address.parts() };
    let is_split = is_one_way || matches!(address.locator(), Locator::Joined(_));
    let any_written = |is: fn(&Address) -> bool| address.side(true).into_iter().any(is);
    let cases = [
        (
            is_written && any_written(appends_after_a_place),
            "GOPEN appends whatever the offset: OPEN writes there",
        ),
        (
            !is_one_way
                && (address.options().is_on(Opt::WriteOnly) || addresses::only_writes(text)),
            "it is only written, which -u or -U says: without them socat fails when it reads there",
        ),
        (
            is_split && used.into_iter().any(has_no_other_side),
            "used in one direction it has no peer: socat waits there for ever, or fills it",
        ),
        (
            parsed.families.of_peers.is_none() && any_part(address, sends_to_a_name),
            "datagrams go to the first IPv4 address of a name; UDP6 takes the other kind",
        ),
        (
            !is_one_way && any_written(|part| part.kind().only_receives()),
            "it only receives, which -u or -U says: without them socat ends after the end of the \
             other side",
        ),
    ];
    for (_, why) in cases.into_iter().filter(|&(is_so, _)| is_so) {
        report.missing(text, why);
    }
}

/// The ends of lines at an address, as it is read and as it is written.
fn line_ends(address: &Address) -> [Option<Opt>; 2] {
    let of = |part: &Address| LINE_ENDS.into_iter().find(|&ends| part.options().is_on(ends));
    match address.locator() {
        Locator::Joined(parts) => parts.each_ref().map(of),
        _ => [of(address); 2],
    }
}

const LINE_ENDS: [Opt; 2] = [Opt::Crnl, Opt::Cr];

/// socat converts the ends of one side to those of the other, and nothing where they are equal;
/// `gush link` converts either side's to LF and back. Removes the options where they are equal.
fn keep_line_ends(
    source: &mut Address,
    target: &mut Address,
    is_two_way: bool,
) -> Result<(), &'static str> {
    let ([read, answered], [asked, written]) = (line_ends(source), line_ends(target));
    let back = is_two_way.then_some((asked, answered));
    let ways = [Some((read, written)), back];
    let differs = |(from, to): (Option<Opt>, Option<Opt>)| {
        from.is_some() && from == to || (from, to) == (Some(Opt::Cr), Some(Opt::Crnl))
    };
    if !ways.into_iter().flatten().any(differs) {
        return Ok(());
    }
    if !ways.into_iter().flatten().all(|(from, to)| from == to) {
        return Err("gush link converts the ends of lines at one side, or from crnl to cr; a \
             second link, as exec:'gush link - ...', does the other side");
    }
    for address in [source, target] {
        *address = address.clone().without(&LINE_ENDS);
    }
    Ok(())
}

/// Notes what differs without an option that says so.
fn note_differences(address: &Address, forks: bool, is_renamed: bool, report: &mut Report) {
    let shown = address.to_string();
    let runs_program =
        any_part(address, |part| matches!(part.locator(), Locator::Exec(_) | Locator::Shell(_)));
    if runs_program && is_renamed {
        report.missing("-lp", "the names of the variables that programs get begin with SOCAT_");
    }
    if let Some(name) = unset_variable(&shown, forks).filter(|_| runs_program) {
        let why = match name {
            OWN_NUMBER => "all clients have one process: $$ of a shell is the program's own number",
            _ => "gush link does not set it for programs",
        };
        report.missing(name, why);
    }
    if serves_many(address) && !address.kind().listens() {
        report.note(&shown, "interval= is waited for; for socat it is over when a connection ends");
    }
    if any_part(address, |part| {
        part.options().is_on(Opt::Pty) && !part.options().is_on(Opt::Setsid)
    }) {
        report.note(
            &shown,
            "the pty is the controlling terminal of a new session, as by setsid,ctty",
        );
    }
}

const OWN_NUMBER: &str = "SOCAT_PID";

/// A variable of socat's in a command that `gush link` does not set for programs. A text such as
/// `env | grep SOCAT_OPENSSL` looks for those that it sets.
fn unset_variable(command: &str, forks: bool) -> Option<&str> {
    const SET: [&str; 6] = [
        "SOCAT_PEERADDR",
        "SOCAT_PEERPORT",
        "SOCAT_SOCKADDR",
        "SOCAT_SOCKPORT",
        "SOCAT_PPID",
        "SOCAT_VERSION",
    ];
    let known: Vec<String> = gush_link::open::variables_of_some().collect();
    let own = (!forks).then_some(OWN_NUMBER);
    let set = SET.into_iter().chain(own).chain(known.iter().map(String::as_str));
    let mut names = command.match_indices("SOCAT_").map(|(at, _)| {
        let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let name = command[at..].split(is_end).next().unwrap_or_default();
        (name, command[..at].ends_with(['$', '{']))
    });
    let is_unset = |&(name, is_read): &(&str, bool)| {
        !set.clone().any(|set| set == name || !is_read && set.starts_with(name))
    };
    names.find(is_unset).map(|(name, _)| name)
}

/// The nearest of socat's `names` to a mistyped `word`, in the same case, as the end of a sentence.
fn did_you_mean(word: &str, names: impl Iterator<Item = &'static str>) -> String {
    let Some(name) = gush_text::nearest(word, names) else { return String::new() };
    let is_upper = !word.chars().any(char::is_lowercase);
    let shown = if is_upper { name.to_uppercase() } else { name.to_owned() };
    // A switch that differs in case alone.
    if shown == word { String::new() } else { format!("; did you mean '{shown}'?") }
}

/// Does socat set the place of a file that it then appends to (GOPEN)?
fn appends_after_a_place(part: &Address) -> bool {
    let is_placed = [Opt::Seek, Opt::SeekEnd].iter().any(|&option| part.options().has(option));
    is_placed && matches!(part.locator(), Locator::Path(path) if !is_device(path))
}

/// Is it the name of a device, which may not be there yet, and not of a file next to devices?
fn is_device(path: &Path) -> bool {
    let mut above = path.components();
    path.starts_with("/dev")
        && !path.starts_with("/dev/shm")
        && !above.any(|part| part == Component::ParentDir)
        && !path.is_file()
}

fn serves_many(part: &Address) -> bool {
    part.options().is_on(Opt::Fork)
}

fn becomes_program(part: &Address) -> bool {
    part.options().is_on(Opt::NoFork)
}

/// Is it both sides of itself, of which `gush link` closes the one that is not used?
fn has_no_other_side(part: &Address) -> bool {
    matches!(part.locator(), Locator::Pipe(None)) || part.kind() == Kind::SocketPair
}

/// Does the address send datagrams to a name that may have addresses of both kinds?
fn sends_to_a_name(part: &Address) -> bool {
    match part.locator() {
        Locator::Udp(to) | Locator::UdpSendto(to) | Locator::UdpDatagram(to) => {
            to.family.is_none() && to.host.parse::<IpAddr>().is_err()
        }
        _ => false,
    }
}

/// The address with an option of the part that is opened first.
fn with_option(address: &Address, option: &str, is_read: bool) -> Address {
    let text = match address.locator() {
        Locator::Joined(parts) if is_read => {
            let [read, written] = &**parts;
            format!("{read},{option}!!{written}")
        }
        _ => format!("{address},{option}"),
    };
    text.parse().unwrap_or_else(|_| address.clone())
}

/// Is the address, as it is read, the only peer of datagrams of all clients?
fn is_shared_peer(address: &Address) -> bool {
    address.side(false).iter().any(|part| {
        matches!(part.kind(), Kind::Udp | Kind::UdpListen) && part.options().is_on(Opt::Shared)
    })
}

/// The address as socat reads it. socat creates a missing file (GOPEN), but no device, where
/// `gush link` does not, and takes an empty datagram of one peer for the end.
fn as_read(address: &Address) -> String {
    let has = |option| address.options().has(option);
    match address.locator() {
        Locator::Joined(parts) => {
            let [read, written] = &**parts;
            format!("{}!!{written}", as_read(read))
        }
        Locator::Udp(_) | Locator::UdpListen(_) if !has(Opt::NullEof) && !has(Opt::Shared) => {
            format!("{address},null-eof")
        }
        Locator::Path(path) if !path.starts_with("/dev") && !has(Opt::Create) => {
            format!("{address},create")
        }
        _ => address.to_string(),
    }
}

fn any_of(both: &[Address; 2], has: impl Fn(&Address) -> bool) -> bool {
    both.iter().any(|address| any_part(address, &has))
}

fn any_part(address: &Address, has: impl Fn(&Address) -> bool) -> bool {
    address.parts().into_iter().any(has)
}

/// A word quoted for a shell; `None` if it holds a zero byte.
fn quoted(word: &str) -> Option<Cow<'_, str>> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => Some(word.into()),
        false => shlex::try_quote(word).ok(),
    }
}
