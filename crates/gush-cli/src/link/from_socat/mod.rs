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

use std::borrow::Cow;
use std::ffi::OsString;
use std::net::IpAddr;
use std::process::ExitCode;

use gush_link::address::{Address, AddressError, Opt, Target};
use gush_link::gush_net::Direction;
use gush_link::{Link, Settings};

use crate::talk::Talker;

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
pub fn run(arguments: &str, talker: &Talker) -> ExitCode {
    let mut report = Report::default();
    let line = line(arguments, &mut report);
    let Some(line) = line.filter(|_| report.is_whole()) else { return report.refused(talker) };
    report.notes(talker);
    talker.page(format!("{line}\n").as_bytes())
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
    /// The parts that socat refuses itself, and why.
    wrong: Vec<String>,
}

impl Report {
    /// Have all parts an equivalent?
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.wrong.is_empty()
    }

    /// Reports the parts without an equivalent. Notes are about a command, but expansions may be
    /// why there is none.
    pub fn refused(&self, talker: &Talker) -> ExitCode {
        self.wrong.iter().for_each(|part| talker.say(format_args!("socat refuses it: {part}")));
        self.missing.iter().for_each(|part| talker.say(format_args!("no equivalent: {part}")));
        self.unexpanded.iter().for_each(|note| talker.say(format_args!("note: {note}")));
        ExitCode::FAILURE
    }

    /// Reports differences of the equivalent, none of which loses or changes data.
    pub fn notes(&self, talker: &Talker) {
        for note in self.unexpanded.iter().chain(&self.notes) {
            talker.say(format_args!("note: {note}"));
        }
    }

    fn note(&mut self, part: &str, why: &str) {
        self.notes.push(format!("{part}: {why}"));
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
        _ => format!("{part}: {why}"),
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
    let parsed = switches::read(words, report);
    let [first, second] = parsed.addresses.as_slice() else {
        // A refused switch may be alone.
        if !parsed.addresses.is_empty() || report.is_whole() {
            let why = "socat takes two addresses, after all switches";
            report.wrong(&parsed.addresses.join(" "), why);
        }
        return None;
    };
    let mut of_second = Report::default();
    let second = addresses::translated(second, parsed.families, false, &mut of_second);
    // socat opens the first address once, before it listens at the second.
    let is_shared = second.as_deref().is_some_and(serves_many);
    let first = addresses::translated(first, parsed.families, is_shared, report);
    report.append(of_second);
    let (mut first, mut second) = (first?, second?);
    if let Some((option, file)) = &parsed.lock {
        // What clients inherit is opened for each of them, and the other address before.
        let is_opened_first =
            !is_shared || any_part(&first, |part| part.options().is_on(Opt::Shared));
        let (holder, is_read) = match is_opened_first {
            true => (&mut first, parsed.one_way != Some(Direction::Back)),
            false => (&mut second, parsed.one_way != Some(Direction::Forward)),
        };
        let locks = |part: &Address| {
            [Opt::LockFile, Opt::WaitLock].iter().any(|&option| part.options().has(option))
        };
        if any_part(holder, locks) {
            report.missing(holder, "an address has one lock file");
            return None;
        }
        *holder = with_option(holder, &format!("{option}={}", options::protected(file)), is_read);
    }
    if let Some(value) = &parsed.large_messages {
        let part = format!("-b {value}");
        match takes_datagrams(&first) || takes_datagrams(&second) {
            true => report.missing(&part, "gush link makes no datagram larger than 65536 bytes"),
            false => report.note(&part, "streams need no such size"),
        }
    }
    let is_one_way = parsed.one_way.is_some();
    for address in [&first, &second] {
        if any_part(address, filters_other_family) {
            let why = "an address of IPv6 takes a range of IPv6, such as [::ffff:127.0.0.0]/104";
            report.wrong(address, why);
        }
        if parsed.families.in_system_order && any_part(address, sends_to_a_name) {
            let why = "datagrams go to the first IPv4 address of a name; UDP6 takes the other kind";
            report.missing(address, why);
        }
        if !is_one_way && only_receives(address) {
            let why = "it only receives, which -u or -U says: without them socat ends after the \
                 end of the other side";
            report.missing(address, why);
        }
    }
    let (source, target) = match parsed.one_way {
        Some(Direction::Back) => (&second, &first),
        _ => (&first, &second),
    };
    let message_bytes = parsed.message_bytes;
    let settings = Settings { one_way: is_one_way, message_bytes, ..Settings::default() };
    if let (Ok(source), Ok(target)) = (source.parse(), target.parse())
        && let Err(failure) = Link::new(source, target, settings)
    {
        report.missing("", &failure.to_string());
        return None;
    }
    let mut words = parsed.words;
    // In one direction there is no other side to wait for.
    let mut lingers = parsed.lingers || is_one_way;
    if !lingers && (escapes(&first) || escapes(&second)) {
        // That key is to end the link.
        words.extend(["-t", "0.5"].map(str::to_owned));
        lingers = true;
    }
    let is_converted = match parsed.one_way {
        None => keep_line_ends(&mut first, &mut second, true),
        Some(Direction::Forward) => keep_line_ends(&mut first, &mut second, false),
        Some(Direction::Back) => keep_line_ends(&mut second, &mut first, false),
    };
    if let Err(why) = is_converted {
        report.missing("", why);
        return None;
    }
    for address in [&first, &second] {
        note_differences(address, is_one_way, report);
    }
    // socat passes every failure on as an end of data, and waits for readers.
    words.insert(0, "--graceful".to_owned());
    let reads = match parsed.one_way {
        Some(Direction::Forward) => [true, false],
        Some(Direction::Back) => [false, true],
        None => [true, true],
    };
    let pairs = [first, second].into_iter().zip(reads);
    words.extend(pairs.map(|(address, is_read)| match is_read {
        true => making_files(address),
        false => address,
    }));
    Some(Translation { words, log_file: parsed.log_file, lingers })
}

/// The ends of lines at an address, as it is read and as it is written.
fn line_ends(address: &str) -> [Option<Opt>; 2] {
    let of =
        |part: &Address| [Opt::Crnl, Opt::Cr].into_iter().find(|&ends| part.options().is_on(ends));
    match address.parse::<Address>() {
        Ok(parsed) => match parsed.target() {
            Target::Joined(parts) => [of(&parts[0]), of(&parts[1])],
            _ => [of(&parsed); 2],
        },
        Err(_) => [None; 2],
    }
}

/// socat converts the ends of one side to those of the other, and nothing where they are equal;
/// `gush link` converts either side's to LF and back. Removes the options where they are equal.
fn keep_line_ends(
    source: &mut String,
    target: &mut String,
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
        return Err("gush link converts the ends of lines at one side, or from crnl to cr");
    }
    for address in [source, target] {
        let without = |part: &str| {
            let is_kept = |piece: &&str| *piece != "crnl" && *piece != "cr";
            lexer::split(part, ",").into_iter().filter(is_kept).collect::<Vec<_>>().join(",")
        };
        *address =
            lexer::split(address, "!!").into_iter().map(without).collect::<Vec<_>>().join("!!");
    }
    Ok(())
}

/// Notes what differs without an option that says so.
fn note_differences(address: &str, is_one_way: bool, report: &mut Report) {
    let Ok(parsed) = address.parse::<Address>() else { return };
    let only_read =
        [Opt::ReadOnly, Opt::WriteOnly].into_iter().find(|&only| parsed.options().is_on(only));
    if let Some(only) = only_read.filter(|_| !is_one_way) {
        let why = "the other direction is left out; socat fails at its first byte";
        report.note(&format!("{address}: {}", only.name()), why);
    }
    let is_file = |part: &Address| matches!(part.target(), Target::Path(_) | Target::File(_));
    if any_part(address, |part| {
        let named = [Opt::User, Opt::Group];
        is_file(part) && named.iter().any(|&option| part.options().has(option))
    }) {
        report.note(address, "socat also gives away a file that exists, as `chown` does");
    }
    let runs_program =
        any_part(address, |part| matches!(part.target(), Target::Exec(_) | Target::Shell(_)));
    if let Some(name) = unset_variable(address).filter(|_| runs_program) {
        report.missing(name, "gush link does not set it for programs");
    }
    if any_part(address, |part| {
        part.options().is_on(Opt::Pty) && !part.options().is_on(Opt::Setsid)
    }) {
        report.note(
            address,
            "the pty is the controlling terminal of a new session, as by setsid,ctty",
        );
    }
}

/// A variable of socat's in a command that `gush link` does not set for programs. A text such as
/// `env | grep SOCAT_OPENSSL` looks for those that it sets.
fn unset_variable(command: &str) -> Option<&str> {
    const SET: [&str; 4] = ["SOCAT_PEERADDR", "SOCAT_PEERPORT", "SOCAT_SOCKADDR", "SOCAT_SOCKPORT"];
    let known: Vec<String> = gush_link::open::variables_of_some().collect();
    let set = SET.into_iter().chain(known.iter().map(String::as_str));
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

/// Does the address serve all its clients?
fn serves_many(address: &str) -> bool {
    any_part(address, |part| part.options().is_on(Opt::Fork))
}

/// Does the address send datagrams to a name that may have addresses of both kinds?
fn sends_to_a_name(part: &Address) -> bool {
    match part.target() {
        Target::Udp(to) | Target::UdpSendto(to) | Target::UdpDatagram(to) => {
            to.family.is_none() && to.host.parse::<IpAddr>().is_err()
        }
        _ => false,
    }
}

/// Has an address of IPv6 alone a network of IPv4 in `range=`?
fn filters_other_family(part: &Address) -> bool {
    let text = part.to_string();
    let is_v6 = text.split([':', '-']).next().is_some_and(|keyword| keyword.ends_with('6'));
    is_v6 && part.options().ranges().iter().any(|range| range.addr().is_ipv4())
}

/// Is the address one that is never written, as `A!!B` is where B is another?
fn only_receives(address: &str) -> bool {
    let Ok(address) = address.parse::<Address>() else { return false };
    match address.target() {
        Target::Joined(parts) => parts[1].kind().only_receives(),
        _ => address.kind().only_receives(),
    }
}

/// May the address be a socket of datagrams?
fn takes_datagrams(address: &str) -> bool {
    any_part(address, |part| part.kind().takes_datagrams())
}

/// Has a part of the address `escape=`?
fn escapes(address: &str) -> bool {
    any_part(address, |part| part.options().byte(Opt::Escape).is_some())
}

/// The address with an option of the part that is opened first.
fn with_option(address: &str, option: &str, is_read: bool) -> String {
    match address.parse::<Address>().as_ref().map(Address::target) {
        Ok(Target::Joined(parts)) if is_read => {
            let [read, written] = parts.each_ref().map(ToString::to_string);
            format!("{read},{option}!!{written}")
        }
        _ => format!("{address},{option}"),
    }
}

/// The address, where socat would create a missing file (GOPEN) and `gush link` does not, because it
/// is read. A missing device is none.
fn making_files(address: String) -> String {
    let Ok(parsed) = address.parse::<Address>() else { return address };
    match parsed.target() {
        Target::Joined(parts) => {
            let [read, written] = parts.each_ref().map(ToString::to_string);
            format!("{}!!{written}", making_files(read))
        }
        Target::Path(path) if !path.starts_with("/dev") && !parsed.options().has(Opt::Create) => {
            address + ",create"
        }
        _ => address,
    }
}

fn any_part(address: &str, has: impl Fn(&Address) -> bool) -> bool {
    match address.parse::<Address>() {
        Ok(address) => match address.target() {
            Target::Joined(parts) => parts.iter().any(has),
            _ => has(&address),
        },
        Err(_) => false,
    }
}

/// A word quoted for a shell; `None` if it holds a zero byte.
fn quoted(word: &str) -> Option<Cow<'_, str>> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => Some(word.into()),
        false => shlex::try_quote(word).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(arguments: &str) -> String {
        let mut report = Report::default();
        let line = super::line(arguments, &mut report);
        assert!(report.is_whole(), "{arguments}: {report:?}");
        let line = line.unwrap_or_else(|| panic!("{arguments}"));
        let words = line.strip_prefix("gush link --graceful ");
        format!("gush link {}", words.unwrap_or_else(|| panic!("{arguments}: {line}")))
    }

    fn missing(arguments: &str) -> String {
        let mut report = Report::default();
        super::line(arguments, &mut report);
        assert!(!report.is_whole(), "{arguments} has an equivalent");
        [report.missing, report.wrong].concat().join("\n")
    }

    #[test]
    fn everyday_command_lines_have_an_equivalent() {
        let cases = [
            ("- TCP:localhost:80", "gush link - tcp:localhost:80"),
            ("socat STDIO TCP4:localhost:www", "gush link - tcp4:localhost:www"),
            (
                "TCP-LISTEN:8080,fork,reuseaddr TCP4:10.0.0.2:80",
                "gush link tcp4-listen:8080,fork,reuseaddr tcp4:10.0.0.2:80",
            ),
            ("-4 TCP-L:1,bind=127.0.0.1 -", "gush link tcp4-listen:127.0.0.1:1 -"),
            ("- TCP6:[::1]:80", "gush link - 'tcp6:[::1]:80'"),
            ("./f,creat=0 /dev/ttyS0", "gush link ./f,create=0 /dev/ttyS0"),
            ("GOPEN:f!!- TCP:h:1", "gush link 'f,create!!-' tcp:h:1"),
            ("-u f/g -", "gush link -u f/g,create -"),
            ("-U f/g -", "gush link -U f/g -"),
            ("f/g TCP-L:1,fork", "gush link f/g,shared,create tcp4-listen:1,fork"),
            ("- TCP-L:1,fork", "gush link - tcp4-listen:1,fork"),
            ("-U EXEC:a!!- TCP-L:1,fork", "gush link -U 'exec:a,shared!!-' tcp4-listen:1,fork"),
            ("TCP:h:1 UDP-L:1", "gush link tcp:h:1 udp4-listen:1"),
            ("-d -d -u OPEN:a,rdonly -", "gush link --log info -u file:a,rdonly -"),
            ("-U OPEN:a,creat,append TCP:h:1", "gush link -U file:a,append,create tcp:h:1"),
            ("-T30 -t 2 -v -x - /tmp/s", "gush link -T 30 -t 2 -v -x - /tmp/s,create"),
            ("-t1 - /dev/null", "gush link -t 1 - /dev/null"),
            ("-t1 - ./f9,rdonly", "gush link -t 1 - ./f9,rdonly,create"),
            (
                "SOCKS5:p:h:22 SOCKS5:q:h:22,socksport=9",
                "gush link socks5:p:1080:h:22 socks5:q:9:h:22",
            ),
            ("SOCKS4:p:h:22 -", "gush link socks4:p:1080:h:22 -"),
            (
                "SOCKS4A:p:h:22,socksport=9,socksuser=me -",
                "gush link socks4a:p:9:h:22,socksuser=me -",
            ),
            ("TCP-L:1,fork,cool-write -", "gush link tcp4-listen:1,fork,cool-write -"),
            ("TCP:h:1,cool-write -", "gush link tcp:h:1,cool-write -"),
            (
                "TCP:h:1,fork,interval=5,max-children=3 EXEC:a",
                "gush link tcp:h:1,fork,max-children=3,interval=5 exec:a",
            ),
            ("- OPENSSL:h:1,fork,forever", "gush link - tls:h:1,fork,retry=forever,commonname=h"),
            ("SSL:[::1]:1,cn=x -", "gush link 'tls:[::1]:1,commonname=x' -"),
            ("SSL:[::1]:1 -", "gush link 'tls:[::1]:1,commonname=[::1]' -"),
            ("SSL:h:1,verify=0 -", "gush link tls:h:1,verify=0 -"),
            ("FILE:f TCP:h:1,fork", "gush link file:f,shared tcp:h:1,fork"),
            ("-L/run/l TCP-L:1,fork EXEC:a", "gush link tcp4-listen:1,fork,lockfile=/run/l exec:a"),
            ("-W l - TCP-L:1,fork", "gush link - tcp4-listen:1,fork,waitlock=l"),
            ("-L l FILE:f TCP-L:1,fork", "gush link file:f,shared,lockfile=l tcp4-listen:1,fork"),
            ("-L a\\,b - TCP-L:1", r#"gush link "-,lockfile=a\\,b" tcp4-listen:1"#),
            ("TCP:h:1,waitlock=l -", "gush link tcp:h:1,waitlock=l -"),
            // With -u the second part is not opened.
            ("-u -L l OPEN:a!!OPEN:b -", "gush link -u 'file:a,lockfile=l!!file:b' -"),
            ("-U -L l OPEN:a!!OPEN:b -", "gush link -U 'file:a!!file:b,lockfile=l' -"),
            ("-u - OPEN:f,creat,setlkw", "gush link -u - file:f,create,lock=wait-write"),
            ("-u /dev/null -,setlk", "gush link -u /dev/null -,lock=write"),
            ("-u OPEN:f,flock-sh -", "gush link -u file:f,lock=wait-flock-shared -"),
            (
                "--experimental TCP-L:1,netns=x TCP:10.0.0.1:2",
                "gush link tcp4-listen:1,netns=x tcp:10.0.0.1:2",
            ),
            ("TCP-L:1,fork,su=nobody EXEC:a", "gush link tcp4-listen:1,fork,run-as=nobody exec:a"),
            (
                "- EXEC:a,su-d=u,chroot=/x,setgid=5",
                "gush link - exec:a,run-as=u,setgid=5,chroot=/x",
            ),
            ("-u PIPE:f,nonblock -", "gush link -u pipe:f,nonblock -"),
            (
                "-u EXEC:'a $SOCAT_OPENSSL_X509_COMMONNAME' -",
                r#"gush link -u "exec:'a "'$SOCAT_OPENSSL_X509_COMMONNAME'"'" -"#,
            ),
            (
                "SYSTEM:'env | grep SOCAT_OPENSSL' -",
                "gush link \"shell:'env | grep SOCAT_OPENSSL'\" -",
            ),
            ("-u -b 65536 UDP:h:1 -", "gush link -u -b 65536 udp:h:1 -"),
            ("-b 65536 - UNIX-SEND:s", "gush link -b 65536 - unix-sendto:s"),
            ("-t0 -T 0 - -", "gush link -t 1ms - -"),
            ("-r a -R'b c' - -", "gush link --tee a --tee-back 'b c' - -"),
            ("-b 1048576 - TCP:h:1", "gush link - tcp:h:1"),
            ("-U -R a - -", "gush link -U --tee-back a - -"),
            ("-U -r a - -", "gush link -U - -"),
            ("-u -R a - -", "gush link -u - -"),
            ("-lf/var/log/s -lu - -", "gush link --log-format timed - - 2>>/var/log/s"),
            ("TCP:h:1,sourceport=53,bind=10.0.0.1 -", "gush link tcp:h:1,bind=10.0.0.1:53 -"),
            ("TCP:h:1,sp=53 -", "gush link tcp:h:1,bind=:53 -"),
            ("TCP-L:1,sp=53 -", "gush link tcp4-listen:1,sourceport=53 -"),
            ("UDP-DATAGRAM:h:1,sp=53 -", "gush link udp-datagram:h:1,sourceport=53 -"),
            ("TCP:h:1,lowport,ip-tos=0x10 -", "gush link tcp:h:1,lowport,tos=16 -"),
            ("TCP-L:1,so-reuseport,ttl=4 -", "gush link tcp4-listen:1,reuseport,ttl=4 -"),
            ("TCP:h:1,shut-null -", "gush link tcp:h:1,shut-none -"),
            ("UNIX-CONNECT:s,shut-null -", "gush link unix:s,shut-none -"),
            ("UNIX:s ABSTRACT:t", "gush link unix-client:s unix-client:@t"),
            ("UNIX:s TCP-L:1,fork", "gush link unix:s,shared tcp4-listen:1,fork"),
            ("SOCKETPAIR SOCKETPAIR,socktype=1", "gush link socketpair pipe:"),
            ("- UDPLITE4-SENDTO:h:1,shut-null", "gush link - udp4-sendto:h:1,udplite,shut-null"),
            (
                "-u UDPLITE-L:1,udplite-recv-cscov=8 -",
                "gush link -u udp4-listen:1,udplite,setsockopt=136:11:8 -",
            ),
            (
                "TCP:h:1,cork,mtudiscover=2,setsockopt=6:2:x00020000 -",
                "gush link tcp:h:1,setsockopt=6:3:1,setsockopt=0:10:2,setsockopt=6:2:512 -",
            ),
            (
                "-u UDP-RECVFROM:1,ip-recvttl,so-timestamp SYSTEM:'echo $SOCAT_IP_TTL'",
                "gush link -u udp4-recvfrom:1,ancillary \"shell:'echo \"'$SOCAT_IP_TTL'\"'\"",
            ),
            (
                "-u UDP-RECV:1,ip-pktinfo,null-eof -",
                "gush link -u udp4-recv:1,null-eof,ancillary -",
            ),
            ("UDP4-RECV:1!!UDP4-SENDTO:h:2 -", "gush link 'udp4-recv:1!!udp4-sendto:h:2' -"),
            ("SOCKET-CONNECT:2:6:x0050c0000201 -", "gush link tcp4:192.0.2.1:80 -"),
            (
                "SOCKET-LISTEN:10:6:x0050x00000000x00000000000000000000000000000001,fork -",
                "gush link 'tcp6-listen:[::1]:80,fork' -",
            ),
            (
                "PROXY:p:h:1,pf=ip4,http-version=1.1 SOCKS4:p:h:1,pf=ip6",
                "gush link http-connect:p:8080:h:1,http-version=1.1,family=4 socks4:p:1080:h:1,family=6",
            ),
            ("TCP:h:1,end-close TCP-L:2,fork", "gush link tcp:h:1,shared tcp4-listen:2,fork"),
            (
                "-U CREATE:f,chdir=/tmp SYSTEM:pwd,umask=0066",
                "gush link -U file:/tmp/f,create,trunc shell:pwd,umask=66",
            ),
            ("-U OPEN:f,o-noatime,ftruncate=0 -", "gush link -U file:f,trunc,noatime -"),
            (
                "TCP:h:1,setsockopt-int=6:3:1,setsockopt-int=1:9:1,cork,cork=0 -",
                "gush link tcp:h:1,setsockopt=6:3:1,setsockopt=1:9:1,setsockopt=6:3:0 -",
            ),
            ("TCP:h:1,interval=1 -", "gush link tcp:h:1 -"),
            ("UNIX:s,type=5,bind=t -", "gush link unix:s,bind=t,seqpacket -"),
            ("UNIX-L:s,umask=177,mode=660 -", "gush link unix-listen:s,mode=660,umask=177 -"),
            ("UNIX-L:s,umask=007 -", "gush link unix-listen:s,umask=7 -"),
            ("-u - CREATE:f,umask=027", "gush link -u - file:f,umask=27,create,trunc"),
            ("-s -u OPEN:f,readbytes=9 -", "gush link -u file:f,readbytes=9 -"),
            ("- EXEC:a,fdin=3,fdout=4", "gush link - exec:a,fdin=3,fdout=4"),
            ("TCP-L:1,listen-timeout=2 -", "gush link tcp4-listen:1,accept-timeout=2 -"),
            ("TCP:h:1,pf=ip6,forever -", "gush link tcp6:h:1,retry=forever -"),
            (
                "-,rawer,escape=0x0f /dev/ttyS0,b9600",
                "gush link -t 0.5 -,raw,escape=0x0f /dev/ttyS0,b9600",
            ),
            ("-t3 -,raw,escape=29 TCP:h:1", "gush link -t 3 -,raw,echo,escape=0x1d tcp:h:1"),
            ("-u -,escape=0x03 OPEN:a", "gush link -u -,escape=0x03 file:a"),
            ("PROXY:p:h:22 -", "gush link http-connect:p:8080:h:22,http-version=1.0 -"),
            (
                "PROXY:p:h:22,proxyport=3128,proxyauthfile=/etc/p -",
                "gush link http-connect:p:3128:h:22,credentials=/etc/p,http-version=1.0 -",
            ),
            ("\"EXEC:'cat -n',pty,ctty,stderr\" -", "gush link \"exec:'cat -n',pty,stderr\" -"),
            ("SYSTEM:'echo a\\,b; cat' -", "gush link \"shell:'echo a,b; cat'\" -"),
            ("FILE:/tmp/a\\\\,b,cloexec -", r#"gush link "file:/tmp/a\\,b" -"#),
            (
                "UNIX-LISTEN:s,reuseaddr,unlink-early,mode=600 STDERR",
                "gush link unix-listen:s,mode=600,unlink fd:2",
            ),
            ("ABSTRACT-CONNECT:n ABSTRACT-LISTEN:m", "gush link unix:@n unix-listen:@m"),
            ("UDP4-SENDTO:h:53 PIPE", "gush link udp4-sendto:h:53 pipe:"),
            ("-b 1400 - UDP-SENDTO:h:53", "gush link -b 1400 - udp-sendto:h:53"),
            ("-b0x10 - UNIX-SEND:/s,bind=/o", "gush link -b 16 - unix-sendto:/s,bind=/o"),
            (
                "UDP4-DATAGRAM:224.0.0.9:6,bind=:6,ip-add-membership=224.0.0.9:eth0,broadcast -",
                "gush link udp4-datagram:224.0.0.9:6,bind=:6,broadcast,membership=224.0.0.9:eth0 -",
            ),
            ("-u UDP-RECV:5,reuseaddr -", "gush link -u udp4-recv:5,reuseaddr -"),
            ("0 1", "gush link fd:0 fd:1"),
            (
                "OPENSSL:h:443,pf=ip4,cafile=/ca,openssl-min-proto-version=TLS1.3,snihost=x -",
                "gush link tls4:h:443,cafile=/ca,commonname=h,sni=x,min-version=1.3 -",
            ),
            (
                "OPENSSL-LISTEN:443,fork,cert=/c,verify=0 -",
                "gush link tls4-listen:443,fork,cert=/c,verify=0 -",
            ),
            ("SSL-L:443,cert=/c -", "gush link tls4-listen:443,cert=/c,verify -"),
            ("SSL-L:1,cert=/c,verify=0,cn=x -", "gush link tls4-listen:1,cert=/c,verify=0 -"),
            ("SSL-L:1,cert=/c,cn=\"\" -", "gush link tls4-listen:1,cert=/c,verify -"),
            ("SSL-L:1,cert=/c,cn=x -", "gush link tls4-listen:1,cert=/c,verify,commonname=x -"),
            ("-6 UDP-L:1 UDP-RECVFROM:2", "gush link udp6-listen:1 udp6-recvfrom:2"),
            ("-0 UDP-L:1 UDP-RECVFROM:2", "gush link udp-listen:1 udp-recvfrom:2"),
            ("UDP-L:1 UDP-RECVFROM:2", "gush link udp4-listen:1 udp4-recvfrom:2"),
            ("TCP-L:1,bind=[::1] TCP:h:2", "gush link 'tcp-listen:[::1]:1' tcp:h:2"),
            ("TCP-L:1,ipv6only=0 -", "gush link tcp-listen:1,ipv6only=0 -"),
            ("TCP-L:1,pf=ip6 -", "gush link tcp6-listen:1 -"),
            ("TCP-L:1,range=localhost:255.0.0.0 -", "gush link tcp4-listen:1,range=127.0.0.0/8 -"),
            ("-u UDP-RECV:1,so-timestamp,ip-recvttl=0 -", "gush link -u udp4-recv:1,ancillary -"),
            ("-u UDP-RECV:1,ip-recvttl,ip-recvttl=0 -", "gush link -u udp4-recv:1 -"),
            ("TCP-L:1,range=10.0.0.0:255.128.0.0 -", "gush link tcp4-listen:1,range=10.0.0.0/9 -"),
            ("PTY,raw PTY,rawer", "gush link pty,raw,echo pty,raw"),
            ("PTY,raw,echo=0 PTY,cfmakeraw", "gush link pty,raw,echo=0 pty,raw"),
            ("PTY,wait-slave PTY,pty-wait-slave", "gush link pty,wait-slave pty,wait-slave"),
            ("TCP:h:1,crlf OPEN:f,crnl", "gush link tcp:h:1 file:f"),
            ("TCP:h:1,cr TCP:i:1,cr", "gush link tcp:h:1 tcp:i:1"),
            ("TCP:h:1,crlf OPEN:f", "gush link tcp:h:1,crnl file:f"),
            ("-u TCP:h:1,crlf OPEN:f,cr", "gush link -u tcp:h:1,crnl file:f,cr"),
            ("-u TCP:h:1,crlf!!-,cr OPEN:f,crlf", "gush link -u 'tcp:h:1!!-' file:f"),
            ("-u OPEN:f,seek=010 -", "gush link -u file:f,seek=8 -"),
            ("-u -,readbytes=0100 -", "gush link -u -,readbytes=64 -"),
            ("TCP:h:1,mss=01000,keepidle=010 -", "gush link tcp:h:1,keepidle=8,mss=512 -"),
            ("TCP:h:1,setsockopt=6:4:010 -", "gush link tcp:h:1,setsockopt=6:4:10 -"),
            ("TCP:h:1,connect-timeout=010 -", "gush link tcp:h:1,connect-timeout=10 -"),
            (r#""OPEN:\"a'b'c\"" -"#, r#"gush link "file:a\\'b\\'c" -"#),
            (
                "EXEC:bash,ptmx,stderr,setsid,sane PTY,sane,echo=0",
                "gush link exec:bash,pty,stderr,setsid pty,echo=0",
            ),
        ];
        for (socat, gush) in cases {
            assert_eq!(line(socat), gush, "{socat}");
        }
    }

    #[test]
    fn each_difference_is_noted() {
        for (arguments, notes) in [
            ("- TCP:h:1", 1),
            ("-t1 - TCP:h:1", 0),
            ("-u - TCP:h:1", 0),
            ("-U - TCP:h:1", 0),
            ("- TUN", 0),
            ("-,escape=1 TCP:h:1", 0),
            ("-t1 - GOPEN:file", 0),
            ("-t1 - ./file,create", 0),
            ("-t1 - ./file,rdonly!!-", 0),
            ("-u - ./file", 0),
            ("-t1 -T5 - TCP:h:1", 1),
            ("-t1 -T0 - TCP:h:1", 0),
            ("-t1 - EXEC:a,pty,setsid,sane", 1),
            ("-t1 - EXEC:a,pty", 1),
            ("-t1 TCP:h:1 EXEC:a", 0),
            ("-t1 - OPEN:f,rdonly", 1),
            ("-u - OPEN:f,creat,user=root", 1),
            ("-lf /log -t1 - TCP:h:1", 1),
        ] {
            let mut report = Report::default();
            super::line(arguments, &mut report);
            assert_eq!(report.notes.len(), notes, "{arguments}: {report:?}");
        }
    }

    #[test]
    fn a_command_keeps_its_quotes_for_the_shell() {
        let line = line(r#"'SYSTEM:echo \"it'"\\'"'s\" $HOME' -"#);
        let words = shlex::split(&line).expect("a line for a shell");
        let address: gush_link::address::Address = words[2].parse().expect("an address");
        let gush_link::address::Target::Shell(command) = address.target() else {
            panic!("{line}");
        };
        // socat removes the outermost quotes of an address, unless they are escaped.
        assert_eq!(command.line(), "echo \"it's\" $HOME");
    }

    #[test]
    fn a_program_gets_the_words_that_socat_would_give_it() {
        use gush_link::address::{Address, Target};
        for (socat, words) in [
            (r"EXEC:cat -n", &["cat", "-n"] as &[_]),
            (r"EXEC:echo a #b c", &["echo", "a", "#b", "c"]),
            (r##"EXEC:echo "#q"  b\\tc"##, &["echo", "#q", "b\tc"]),
            (r#"EXEC:"sh -c 'echo a b' [x "y"]""#, &["sh", "-c", "echo a b", "[x \"y\"]"]),
            (r#"EXEC:a {"b c"} $HOME *"#, &["a", "{\"b c\"}", "$HOME", "*"]),
            (
                r#"SYSTEM:if [ "a b" = 'c' ]; then $(cat "d")"#,
                &["if [ \"a b\" = 'c' ]; then $(cat \"d\")"],
            ),
        ] {
            let mut report = Report::default();
            let translated = translated(vec![socat.to_owned(), "-".to_owned()], &mut report);
            let ours = &translated.unwrap_or_else(|| panic!("{socat}: {report:?}")).words[1];
            let found = match ours.parse::<Address>().expect("an address").target() {
                Target::Exec(command) => command.words(),
                Target::Shell(command) => vec![command.line().to_owned()],
                _ => panic!("{ours}"),
            };
            assert_eq!(found, words, "{socat} {ours}");
        }
    }

    #[test]
    fn a_part_without_an_equivalent_is_named_with_the_reason() {
        let cases = [
            ("TUN:10.0.0.1/24 -", "unknown kind of address 'TUN'"),
            ("SCTP:h:1 -", "unknown kind of address 'SCTP'"),
            ("TCP:h:1,crlf OPEN:f,cr", "ends of lines"),
            ("-u TCP:h:1,cr OPEN:f,crlf", "ends of lines"),
            ("TCP:h:1,crlf!!- OPEN:f,crlf", "ends of lines"),
            ("READLINE -", "rlwrap"),
            ("IP:h:1 -", "raw IP"),
            ("IP6-DATAGRAM:h:1 -", "raw IP"),
            ("OPENSSL-DTLS-LISTEN:1 -", "TLS over TCP alone"),
            ("-u OPEN:f,creat,trunc -", "only read"),
            ("-U - OPEN:f,trunc", "only read"),
            ("SENDTO:2:2:17:x0050c0000201 -", "`socket-`"),
            ("SOCKS5-LISTEN:p:1080:0.0.0.0:80 -", "no SOCKS server to listen"),
            ("POSIXMQ-SEND:/q -", "no POSIX message queue"),
            ("SOCKET-CONNECT:2:6:x -", "socat takes DOMAIN:PROTOCOL:ADDRESS"),
            ("SOCKET-LISTEN:16:0:x -", "of sockets by numbers gush link has"),
            ("SOCKET-DATAGRAM:1:2:0:x2f746d702f7300 -", "answers of its receiver alone"),
            ("UNIX-CONNECT:s,socktype=2 -", "Unix sockets of packets"),
            ("UNIX:s,type=5,shut-null -", "shut-null"),
            ("SSL-L:443 -", "cert"),
            ("SSL:h:1,cn= -", "a name in every certificate"),
            ("SSL:h:1,snihost=10.0.0.1 -", "which an address is not"),
            ("TCP-L:1,hosts-allow=/etc/hosts.allow -", "range= says"),
            ("-u CREATE:f,fs-noatime -", "chattr(1)"),
            ("TCP:h:1,netns=x -", "ip netns exec"),
            ("UDP:h:1,netns=x -", "ip netns exec"),
            ("EXEC:a,end-close -", "SYSTEM leaves one running"),
            ("-ly - -", "-ly: "),
            ("-L a -W b - -", "-W: socat takes one lock"),
            ("-L a TCP-L:1,lockfile=b -", "an address has one lock file"),
            ("-L l TCP-L:1,fork,su=nobody PIPE", "its lock file could not be removed"),
            ("OPEN:f,setlk,flock-ex-nb -", "takes one lock of a file"),
            ("EXEC:a,su=nobody,setuid=5 -", "setuid=5: "),
            ("UDP:h:1,fork -", "only listeners and connections"),
            ("TCP-L:1,fork TCP:h:1,fork", "both addresses say fork"),
            ("PTY,setlk -", "a lock is for"),
            ("TCP-L:1,fork OPEN:f,su=nobody", "does not get its rights back"),
            ("PTY,su=nobody -", "setpriv"),
            ("-Q - -", "unknown switch '-Q'"),
            ("-b abc - -", "-b abc: not a number of bytes"),
            ("-b 0 - -", "-b 0: not a number of bytes"),
            ("-b 70000 - UNIX-SEND:x", "no datagram larger"),
            ("-r 'x.$PROGNAME' - -", "socat expands variables"),
            ("PIPE::::: -", "socat takes one name here"),
            ("TCP:h:1,md5sig=1 -", "md5sig=1: setsockopt="),
            ("TCP:h:1,res-retry=1 -", "resolv.conf(5)"),
            ("OPEN:f,immutable -", "chattr(1)"),
            ("TCP:h:1,no-such-option -", "unknown option 'no-such-option' of tcp"),
            ("-,setsid -", "setsid(1)"),
            ("'SYSTEM:echo $SOCAT_PEERADDR $SOCAT_PID' -", "SOCAT_PID: gush link does not set it"),
            ("SYSTEM:'printenv SOCAT_PID' -", "SOCAT_PID: gush link does not set it"),
            ("UDP-RECV:1 -", "only receives"),
            ("-b 65508 - UDP:h:1", "at most 65507 bytes"),
            ("-U -b 65536 UDP:h:1 -", "at most 65507 bytes"),
            ("TCP-LISTEN:1,range=10.0.0.0:255.0.255.0 -", "takes networks"),
            ("TCP6-LISTEN:1,range=127.0.0.0/8 -", "takes a range of IPv6"),
            ("-0 UDP:localhost:1 -", "datagrams go to the first IPv4 address"),
            ("-6 UDP-RECV:1,range=127.0.0.0/8 -", "takes a range of IPv6"),
            ("-u OPEN:f,seek-end=0,ignoreeof -", "exec:'tail -c 0 -f FILE'"),
            ("EXEC:a,rawer -", "raw needs pty too"),
            ("EXEC:a,sane -", "exec COMMAND',pty"),
            ("EXEC:a,pty,raw,sane -", "stty(1) sets it"),
            ("PTY,echo=0,sane -", "stty(1) sets it"),
            ("OPEN:/dev/ttyS0,sane -", "stty -F DEVICE"),
            ("EXEC:a,wait-slave -", "which belongs to pty"),
            ("-", "two addresses"),
            ("- - -", "two addresses"),
            ("NOSUCH:a -", "'NOSUCH'"),
            ("TCP:h -", "TCP:h"),
            ("TCP-L:1,fork TCP-L:2,fork", "both addresses say fork"),
            ("TCP-L:1 TCP-L:2,fork", "TCP-L:1: socat opens it once"),
            ("OPENSSL:h:1 TCP-L:2,fork", "OPENSSL:h:1: socat opens it once"),
            ("EXEC:cat!!SYSTEM:cat -", "EXEC:cat!!SYSTEM:cat: one of the two may be a program"),
            ("TCP-L:1!!STDOUT -", "TCP-L:1!!STDOUT: clients come to it"),
            ("-!!TCP:h:1!!- -", "one address is read and one is written"),
            ("'unclosed", "never closed"),
            ("\"SYSTEM:echo \\\"it's\\\"\" -", "never closed"),
        ];
        for (socat, why) in cases {
            let missing = missing(socat);
            assert!(missing.contains(why), "{socat}: {missing}");
        }
    }

    /// The word that a message suggests.
    fn suggested(missing: &str) -> Option<&str> {
        missing.split_once("did you mean '")?.1.split('\'').next()
    }

    /// `word` with two letters in the middle changed about, and with the last one written twice.
    fn mistyped(word: &str) -> Vec<String> {
        let (before, rest) = word.split_at(word.len() / 2);
        let about = rest.get(1..2).map(|next| [before, next, &rest[..1], &rest[2..]].concat());
        about.into_iter().chain([[word, &word[word.len() - 1..]].concat()]).collect()
    }

    #[test]
    fn every_suggested_name_of_socat_has_an_equivalent_in_its_place() {
        let said = |arguments: &str| {
            let mut report = Report::default();
            super::line(arguments, &mut report);
            [report.missing, report.wrong].concat().join("\n")
        };
        let mut suggestions = 0;
        for (before, after) in [("", " -"), ("", "!!- -"), ("-!!", " -")] {
            for wrong in addresses::names(false).flat_map(mistyped) {
                let missing = said(&format!("{before}{wrong}:x:1{after}"));
                let Some(near) = suggested(&missing) else { continue };
                let then = said(&format!("{before}{near}:x:1{after}"));
                let is_refused =
                    then.contains("unknown kind") || then.contains("clients come to it");
                assert!(!is_refused, "{before}{wrong}{after}: {missing}\n{then}");
                suggestions += 1;
            }
        }
        assert!(suggestions > 100, "{suggestions}");
        for wrong in ["-stat", "--statistcs", "--experimentl", "--exprimental"] {
            let missing = said(&format!("{wrong} - -"));
            let Some(near) = suggested(&missing) else { continue };
            assert_eq!(said(&format!("{near} - -")), "", "{wrong}: {missing}");
        }
    }

    /// socat looks for an at sign nowhere, and binds a socket of its own kind.
    #[test]
    fn names_of_unix_sockets_stay_what_they_are_for_socat() {
        for (socats, ours) in [
            ("- ABSTRACT-SENDTO:x,bind=y", "gush link - abstract-sendto:x,bind=@y"),
            ("- ABSTRACT-CLIENT:x,bind=y", "gush link - abstract-client:x,bind=@y"),
            ("- UNIX-SENDTO:@x,bind=@y", "gush link - unix-sendto:./@x,bind=./@y"),
            ("- UNIX-SENDTO:x,bind=y", "gush link - unix-sendto:x,bind=y"),
            ("- UNIX-CONNECT:@x", "gush link - unix:./@x"),
        ] {
            let ours = ours.replace("abstract-sendto:", "unix-sendto:@");
            let ours = ours.replace("abstract-client:", "unix-client:@");
            assert_eq!(line(socats), ours, "{socats}");
        }
    }

    #[test]
    fn what_differs_is_refused_with_its_own_reason() {
        let datagrams = missing("UDP-SENDTO:h:1 TCP-L:2,fork");
        assert!(!datagrams.contains("TLS") && datagrams.contains("datagrams"), "{datagrams}");
        assert!(missing("OPENSSL:h:1 TCP-L:2,fork").contains("TLS"));
        assert!(missing("-b 1048576 - UDP:h:1").contains("65536"));
    }

    #[test]
    fn what_socat_refuses_itself_is_not_said_to_lack_an_equivalent() {
        for arguments in [
            "-",
            "- - -",
            "",
            "-Q - -",
            "-b abc - -",
            "-b 9223372036854775808 - -",
            "-t x - -",
            "-u -U - -",
            "NOSUCH:a -",
            "PIPE::::: -",
            "'unclosed",
            "-b",
        ] {
            let mut report = Report::default();
            super::line(arguments, &mut report);
            assert_eq!(
                (report.missing.len(), report.wrong.len()),
                (0, 1),
                "{arguments}: {report:?}"
            );
        }
        // One without addresses is not asked for any.
        for arguments in ["-V", "-h", "-?", "-ly"] {
            let mut report = Report::default();
            super::line(arguments, &mut report);
            assert_eq!(
                (report.missing.len(), report.wrong.len()),
                (1, 0),
                "{arguments}: {report:?}"
            );
        }
    }

    #[test]
    fn every_part_without_an_equivalent_is_named_at_once() {
        let missing = missing("-ly TUN TCP:h:1,md5sig=1,noopt=3");
        assert_eq!(missing.lines().count(), 4, "{missing}");
    }
}
