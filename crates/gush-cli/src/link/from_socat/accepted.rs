//! Every line that the translation prints passes `gush link --check`: each kind of address with
//! each option, with pairs of its options and with each other address.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::FromArgMatches;
use gush_link::address::{Address, Kind, Opt, OptRow, Takes};
use tempfile::TempDir;

use super::{Report, addresses, options, translated};
use crate::console::Console;
use crate::link::messages::Messages;
use crate::link::options::LinkArgs;
use crate::link::{command, link};

/// The arguments of addresses by the start of socat's name; the longer start is first. `@` is a
/// directory with the files that addresses and options name.
const ARGUMENTS: &[(&str, &str)] = &[
    ("stdio", ""),
    ("stdin", ""),
    ("stdout", ""),
    ("stderr", ""),
    ("-", ""),
    ("fd", ":3"),
    ("socketpair", ""),
    ("socks", ":p:h:1"),
    ("proxy", ":p:h:1"),
    ("pty", ""),
    ("gopen", ":@/f"),
    ("openssl-l", ":1,cert=@/own.pem,cafile=@/own.crt"),
    ("openssl", ":h:1,cafile=@/own.crt"),
    ("ssl-l", ":1,cert=@/own.pem,cafile=@/own.crt"),
    ("ssl", ":h:1,cafile=@/own.crt"),
    ("open", ":@/f"),
    ("file", ":@/f"),
    ("creat", ":@/f"),
    ("pipe", ":@/p"),
    ("fifo", ":@/p"),
    ("echo", ""),
    ("exec", ":true"),
    ("system", ":true"),
    ("shell", ":true"),
    ("unix", ":@/s"),
    ("local", ":@/s"),
    ("abstract", ":a"),
    ("vsock-l", ":1"),
    ("vsock", ":2:1"),
    ("accept", ":3"),
];

/// Of each type of value two that socat takes, if there are two.
fn samples(option: Opt, takes: Takes) -> &'static [&'static str] {
    match (option, takes) {
        (Opt::Certificate | Opt::Key, _) => &["@/own.pem"],
        (Opt::CaFile, _) => &["@/own.crt"],
        (Opt::CaPath, _) => &["@/authorities"],
        (Opt::Credentials, _) => &["@/credentials"],
        (Opt::Directory | Opt::Chroot, _) => &["@"],
        (Opt::Bind, _) => &["127.0.0.1", "@/b"],
        // None is there.
        (Opt::NetNs, _) => &[],
        (Opt::Membership, _) => &["224.0.0.251:lo"],
        (_, Takes::Flag) => &["1", "0"],
        (_, Takes::Seconds) => &["2", "0.5"],
        (_, Takes::Mode) => &["600", "0"],
        (_, Takes::Ranges) => &["127.0.0.0:255.0.0.0", "[::1/128]"],
        (_, Takes::Path) => &["@/made"],
        (_, Takes::User | Takes::Group) => &["root", "0"],
        (_, Takes::TlsVersion) => &["TLS1.2", "TLS1.3"],
        (_, Takes::SocketOption) => &["1:9:1", "6:3:x00000001"],
        (_, Takes::HttpVersion) => &["1.0", "1.1"],
        (_, Takes::Name | Takes::Text) => &["lo", "localhost"],
        _ => &["1", "0"],
    }
}

/// An option of socat's or of ours: the name, ours if there is one, and sample values.
struct Sample {
    name: &'static str,
    ours: Option<Opt>,
    values: &'static [&'static str],
}

impl Sample {
    /// As it follows an address: without a value, and with each.
    fn forms(&self) -> impl Iterator<Item = String> {
        let name = self.name;
        let with_value = self.values.iter().map(move |value| format!(",{name}={value}"));
        [format!(",{name}")].into_iter().chain(with_value)
    }
}

fn options_of_socat() -> Vec<Sample> {
    let sample = |name, row: &OptRow| {
        let values = samples(row.option, row.takes);
        Sample { name, ours: Some(row.option), values }
    };
    let own = Opt::all().flat_map(|row| {
        [row.name].iter().chain(row.aliases).map(move |name| sample(*name, row)).collect::<Vec<_>>()
    });
    let is_own = |name: &str| Opt::all().any(|row| row.name == name || row.aliases.contains(&name));
    let names = options::every_name().into_iter().filter(|(name, _)| !is_own(name));
    let of_tables = names.map(|(name, ours)| match Opt::all().find(|row| row.name == ours) {
        Some(row) => sample(name, row),
        None => Sample { name, ours: None, values: &["1"] },
    });
    let settings = ["b9600", "cs8", "icanon", "ixon", "min", "intr"];
    let of_terminals =
        settings.map(|name| Sample { name, ours: Some(Opt::Terminal), values: &["1", "0"] });
    own.chain(of_tables).chain(of_terminals).collect()
}

/// Kinds with which options are tried as well that they do not take.
const UNTAKEN: [Kind; 2] = [Kind::File, Kind::Tcp];

/// Kinds whose options are tried in pairs: of these the options of all others consist.
const WITH_PAIRS: [Kind; 6] =
    [Kind::File, Kind::Pty, Kind::Exec, Kind::TcpListen, Kind::Tls, Kind::UnixListen];

/// Translates lines, and starts what is printed as far as its addresses are opened.
struct Starts {
    dir: TempDir,
    console: Console,
    messages: Messages,
    /// By the words before the addresses.
    known: HashMap<Vec<String>, LinkArgs>,
    /// How many lines were printed, and were accepted.
    accepted: usize,
    refused: usize,
    /// Lines that are not accepted, or are refused without a reason.
    lies: Vec<String>,
}

impl Starts {
    fn new() -> Self {
        let dir = TempDir::new().expect("a directory");
        let own = gush_link::Pair::make(&dir.path().join("own"), &["h".to_owned()]);
        let own = own.expect("a certificate and its key");
        let read = |path: &PathBuf| std::fs::read_to_string(path).expect("a file");
        let (certificate, key) = (read(&own.certificate), read(&own.key));
        let write = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), text).expect("room");
        };
        write("own.pem", &(certificate.clone() + &key));
        write("credentials", "name:password\n");
        write("f", "");
        std::fs::create_dir(dir.path().join("authorities")).expect("room");
        write("authorities/0a1b2c3d.0", &certificate);
        Self {
            dir,
            console: Console::new("gush link"),
            messages: Messages::default(),
            known: HashMap::new(),
            accepted: 0,
            refused: 0,
            lies: Vec::new(),
        }
    }

    /// Is the line translated? If so, is it accepted?
    fn is_translated(&mut self, words: &[&str]) -> bool {
        let dir = self.dir.path().display().to_string();
        let words: Vec<_> = words.iter().map(|word| word.replace('@', &dir)).collect();
        let socats = words.join(" ").replace(&dir, "@");
        let mut report = Report::default();
        let translation = translated(words, &mut report).filter(|_| report.is_whole());
        let Some(translation) = translation else {
            self.refused += 1;
            let mut reasons = report.missing.iter().chain(&report.wrong).peekable();
            if reasons.peek().is_none() || reasons.any(|why| why.trim().is_empty()) {
                self.lies.push(format!("{socats}: refused without a reason"));
            }
            return false;
        };
        match self.check(&translation.words) {
            Ok(()) => self.accepted += 1,
            Err(why) => {
                let line = translation.words.join(" ").replace(&dir, "@");
                self.lies.push(format!("{socats}\n  {line}\n  {}", why.replace(&dir, "@")));
            }
        }
        true
    }

    fn check(&mut self, words: &[String]) -> Result<(), String> {
        let (before, addresses) = words.split_at(words.len() - 2);
        if !self.known.contains_key(before) {
            let words = ["link"].into_iter().chain(before.iter().map(String::as_str));
            let found = command().try_get_matches_from(words.chain(["a:", "b:"]));
            let options = found.and_then(|found| LinkArgs::from_arg_matches(&found));
            let mut options = options.map_err(|error| error.to_string())?;
            options.check = true;
            self.known.insert(before.to_vec(), options);
        }
        let options = self.known.get_mut(before).expect("it is there");
        options.first = addresses[0].clone().into();
        options.second = addresses[1].clone().into();
        let link = link(options, &self.console, &self.messages)?;
        link.check().map_err(|failure| failure.to_string())
    }
}

/// Each kind of address of socat's with an argument, once of those that mean the same here, and our
/// kind.
fn kinds() -> Vec<(String, Kind)> {
    let mut seen = BTreeSet::new();
    let mut kinds = Vec::new();
    for name in addresses::names(false) {
        let own = ARGUMENTS.iter().find(|(start, _)| name.starts_with(start));
        let listens = ["-listen", "-l", "-recv", "-recvfrom"].iter().any(|end| name.ends_with(end));
        let argument = match own {
            Some((_, argument)) => argument,
            None if listens => ":1",
            None => ":h:1",
        };
        let address = format!("{name}{argument}");
        // One is only read, another only written.
        let found = [&["-u", &address, "-"][..], &["-U", &address, "-"], &[&address, "-"]]
            .into_iter()
            .find_map(|words| {
                let mut report = Report::default();
                let words = words.iter().map(|&word| word.to_owned()).collect();
                translated(words, &mut report).filter(|_| report.is_whole())
            });
        let found = found.unwrap_or_else(|| panic!("{address} has no equivalent"));
        let ours = found.words[found.words.len() - 2].clone();
        let kind = ours.parse::<Address>().expect("an address").kind();
        if seen.insert(ours) {
            kinds.push((address, kind));
        }
    }
    kinds
}

/// Tries the address with each option, and with pairs of options. Of a kind that was tried each
/// option is tried in one direction.
fn try_options(starts: &mut Starts, address: &str, kind: Kind, is_new: bool, options: &[Sample]) {
    let mut taken = BTreeMap::new();
    for option in options {
        let ours = option.ours.filter(|&ours| kind.takes(ours));
        if ours.is_none() && !(is_new && UNTAKEN.contains(&kind)) {
            continue;
        }
        let is_first = is_new && ours.is_some_and(|ours| !taken.contains_key(&ours));
        for form in option.forms() {
            let with = format!("{address}{form}");
            let mut is_translated = starts.is_translated(&["-u", &with, "-"]);
            if !is_first {
                continue;
            }
            for words in [
                &["-u", "-", &with] as &[&str],
                &[&with, "-"],
                &[&with, "TCP-L:2,fork"],
                &["TCP-L:2,fork", &with],
            ] {
                is_translated |= starts.is_translated(words);
            }
            if let Some(ours) = ours.filter(|_| is_translated) {
                taken.insert(ours, form);
            }
        }
    }
    if !WITH_PAIRS.contains(&kind) {
        return;
    }
    let forms: Vec<_> = taken.values().collect();
    for (at, one) in forms.iter().enumerate() {
        for other in &forms[at + 1..] {
            starts.is_translated(&[&format!("{address}{one}{other}"), "-"]);
        }
    }
}

fn try_addresses(starts: &mut Starts, first: &str, second: &str) {
    starts.is_translated(&[first, second]);
    starts.is_translated(&["-u", first, second]);
    starts.is_translated(&["-U", first, &format!("{second},fork")]);
    starts.is_translated(&[&format!("{first}!!{second}"), "-"]);
}

#[test]
fn every_printed_line_passes_a_check() {
    let (kinds, options) = (kinds(), options_of_socat());
    // Versions of IP are of one kind.
    let mut known = BTreeSet::new();
    let kinds: Vec<_> =
        kinds.iter().map(|(address, kind)| (address, *kind, known.insert(*kind))).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut starts = Starts::new();
        while let Some(&(address, kind, is_new)) = kinds.get(next.fetch_add(1, Ordering::Relaxed)) {
            try_options(&mut starts, address, kind, is_new, &options);
            for (other, _, is_other_new) in &kinds {
                if is_new && *is_other_new {
                    try_addresses(&mut starts, address, other);
                }
            }
        }
        starts
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let all = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    let lies: Vec<_> = all.iter().flat_map(|starts| &starts.lies).cloned().collect();
    assert!(lies.is_empty(), "{}", lies.join("\n"));
    let total = |count: fn(&Starts) -> usize| all.iter().map(count).sum::<usize>();
    let counts = (total(|starts| starts.accepted), total(|starts| starts.refused));
    // The loops have reached both.
    assert!(counts.0 > 15_000 && counts.1 > 5_000, "{counts:?}");
}
