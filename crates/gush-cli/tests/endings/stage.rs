//! One cell of the table: a link between two peers, played to the end, and compared with the model.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{PoisonError, mpsc};
use std::thread;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::PATIENCE;
use crate::common::gush;
use crate::common::link::{Running, eventually};
use crate::endings::{Act, Ending, Pair, There, WHOLE_BYTES};
use crate::kinds::{Abilities, Kind};
use crate::model::{Arrives, Learned, Outcome, Status};
use crate::place::{Place, Seat, prepare};
use crate::port::FORKING;
use crate::proxy::{CONNECT, Proxy, SOCKS, TARGET};
use crate::puppet;
use crate::script::{Marks, Player, Report, Saw, Step};

const ENDER: &str = "ender";
const OTHER: &str = "other";

/// Plays the cell, and reports every difference from the model.
pub fn play(ending: &Ending, pair: &Pair) -> Result<(), String> {
    let dir = TempDir::new().unwrap();
    let marks = Marks(dir.path().to_owned());
    let peers = [
        (pair.ender, ENDER, started(ENDER, OTHER, pair.ender, ending.steps_of_ender(pair))),
        (pair.other, OTHER, started(OTHER, ENDER, pair.other, ending.steps_of_other(pair))),
    ];
    let (mut addresses, mut held) = (Vec::new(), Vec::new());
    let mut places = Vec::new();
    for (kind, name, steps) in peers {
        let is_ender = name == ENDER;
        let is_first = is_ender == pair.ender_is_first;
        let is_source = is_ender == ending.ender_sends;
        let (address, place) = match (is_ender, ending.there) {
            (false, There::Nothing) => nowhere(kind.kind, dir.path(), &mut held),
            (false, There::Stranger) => stranger(kind.kind),
            (false, There::Full) => (full(dir.path()), Place::Elsewhere),
            _ => {
                let seat = Seat { is_first, is_source, is_two_way: pair.is_two_way() };
                prepare(kind.kind, seat, dir.path(), name, &steps)
            }
        };
        let is_elsewhere = matches!(place, Place::Elsewhere) && !kind.is_program;
        if is_elsewhere || matches!(place, Place::HearsUdp(_)) || ending.there != There::Peer {
            marks.set(&format!("ready.{name}"));
        }
        let address = if is_first && ending.forks { address + ",fork" } else { address };
        addresses.insert(if is_first { 0 } else { addresses.len() }, address);
        places.push((name, steps, place));
    }
    if ending.act == Act::Shrink {
        let file = File::options().write(true).open(dir.path().join(ENDER)).unwrap();
        file.set_len(WHOLE_BYTES).unwrap();
    }
    let mut link = start(ending, pair, &addresses);
    let reports: Vec<_> = places
        .into_iter()
        .map(|(name, steps, place)| enter(name, steps, place, &mut link, &marks))
        .collect();
    match ending.act {
        Act::Nothing => {}
        Act::Terminate => {
            marks.wait("heard");
            link.signal(Signal::TERM);
        }
        Act::Shrink => {
            marks.wait("heard");
            let file = File::options().write(true).open(dir.path().join(ENDER)).unwrap();
            file.set_len(crate::endings::SHRUNK_BYTES).unwrap();
            marks.set("cut");
        }
    }
    let (status, output, said) = link.finish();
    // Only now: peers that wait for it stay in place until the link has ended by itself.
    marks.set("over");
    let mut reports = reports.into_iter().map(|report| {
        report.map(|receiver| receiver.recv_timeout(PATIENCE).expect("its peer comes to an end"))
    });
    let [ender, other] = [(ENDER, pair.ender), (OTHER, pair.other)].map(|(name, kind)| {
        let played = reports.next().flatten();
        match kind.is_program && (name == ENDER || ending.there == There::Peer) {
            true => of_program(dir.path(), name),
            false => played.unwrap_or(Report::NONE),
        }
    });
    let outcome = (ending.outcome)(pair);
    let found = Found { ending, pair, outcome, ender, other, status, output, said: &said };
    let wrong = found.wrong();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "gush link {addresses:?}\n  {}\n  ender: {ender:?}\n  other: {other:?}\n{said}",
            wrong.join("\n  ")
        )),
    }
}

/// Both begin once both are in place. The first byte of a datagram or of a FIFO makes the
/// connection, and cannot wait for the other side; nor can a datagram socket detect when the peer
/// is in place.
fn started(name: &str, other: &str, kind: &Abilities, steps: Vec<Step>) -> Vec<Step> {
    let mut all = vec![Step::Mark(format!("ready.{name}"))];
    if !matches!(kind.kind, Kind::Udp | Kind::Fifo) {
        all.push(Step::Await(format!("ready.{other}")));
    }
    all.extend(steps);
    all
}

/// An address that cannot be opened, and who is there in spite of that: a proxy that refuses.
/// `held` keeps ports from others while nobody listens there.
fn nowhere(kind: Kind, dir: &Path, held: &mut Vec<OwnedFd>) -> (String, Place) {
    let missing = dir.join("no/such/place");
    let refusing = |name: &str, proxy: &'static Proxy| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("{name}:{}:{TARGET}", listener.local_addr().unwrap());
        (address, Place::Refuses(listener, proxy))
    };
    let mut closed_port = || {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let closed = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        // Bound and not listening: connecting is refused, and nobody else gets the port.
        bind(&closed, &any).unwrap();
        let place = SocketAddr::try_from(getsockname(&closed).unwrap()).unwrap();
        held.push(closed);
        place
    };
    let address = match kind {
        Kind::Socks => return refusing("socks5", &SOCKS),
        Kind::Connect => return refusing("http-connect", &CONNECT),
        Kind::Tcp => format!("tcp:{}", closed_port()),
        Kind::Tls => format!("tls:{},verify=0", closed_port()),
        Kind::Udp => {
            // It takes datagrams of its own peer alone.
            let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
            let place = taken.local_addr().unwrap();
            taken.connect(place).unwrap();
            held.push(taken.into());
            format!("udp:{place}")
        }
        Kind::Unix => format!("unix:{}", missing.display()),
        Kind::File => format!("file:{}", missing.display()),
        _ => format!("exec:{}", missing.display()),
    };
    (address, Place::Elsewhere)
}

/// An address of a kind at a server of TCP that knows nothing of that.
fn stranger(kind: Kind) -> (String, Place) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    let address = match kind {
        Kind::Tls => format!("tls:{place},verify=0"),
        Kind::Socks => format!("socks5:{place}:{TARGET}"),
        _ => format!("http-connect:{place}:{TARGET}"),
    };
    (address, Place::AcceptsTcp(listener))
}

fn full(dir: &Path) -> String {
    format!("file:{}", gush_test::device("full", dir).display())
}

fn start(ending: &Ending, pair: &Pair, addresses: &[String]) -> Running {
    let mut command = gush();
    command.args(["link", "--log", "info", "--json"]).args(ending.options);
    let is_one_way = !pair.is_two_way() && ending.there != There::Nothing;
    if is_one_way {
        command.arg("-u");
    }
    command.args(addresses);
    if [pair.ender.kind, pair.other.kind].contains(&Kind::Standard) {
        command.stdin(Stdio::piped());
    }
    // Until its exec the new process holds every socket of this one: a peer that closed now would
    // not be noticed.
    let _forking = FORKING.write().unwrap_or_else(PoisonError::into_inner);
    Running::of(command)
}

/// Has a peer play its script in a thread; none where the link starts the peer.
fn enter(
    name: &str,
    steps: Vec<Step>,
    place: Place,
    link: &mut Running,
    marks: &Marks,
) -> Option<mpsc::Receiver<Report>> {
    if matches!(place, Place::Elsewhere) {
        return None;
    }
    let connects = place.connects();
    let listening = if connects { link.place() } else { String::new() };
    let standard: (Option<OwnedFd>, Option<OwnedFd>) = match place {
        Place::Standard => (Some(link.stdin().into()), Some(link.stdout().into())),
        _ => (None, None),
    };
    let marks = marks.clone();
    let (sender, receiver) = mpsc::channel();
    let named = thread::Builder::new().name(name.to_owned());
    named
        .spawn(move || {
            let port = place.take(|| listening, || standard).unwrap();
            let Some(port) = port else { return };
            let mut player = Player { port, marks: &marks, report: Report::NONE, is_slow: false };
            player.play(&steps);
            let Player { port, report, .. } = player;
            drop(port);
            let _ = sender.send(report);
        })
        .unwrap();
    Some(receiver)
}

/// A program's report about itself; the program must be gone. A program ended before the first word
/// has reported nothing.
fn of_program(dir: &Path, name: &str) -> Report {
    let Some((report, id)) = puppet::report(dir, name) else {
        return Report { saw: puppet::ended_by(dir, name), ..Report::NONE };
    };
    eventually("the program has gone", || {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_none_or(|rest| rest.is_empty() || rest.starts_with(" Z"))
    });
    report
}

struct Found<'a> {
    ending: &'a Ending,
    pair: &'a Pair,
    outcome: Outcome,
    ender: Report,
    other: Report,
    status: ExitStatus,
    output: Vec<u8>,
    said: &'a str,
}

impl Found<'_> {
    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut check = |holds: bool, what: String| {
            if !holds {
                wrong.push(what);
            }
        };
        let Outcome { arrives, other_learns, ender_learns, status, ended } = self.outcome;
        let has_ended = match status {
            Status::Code(code) => self.status.code() == Some(code),
            Status::Death(signal) => {
                let number = if signal == "SIGTERM" { Signal::TERM } else { Signal::PIPE };
                self.status.signal() == Some(number.as_raw())
            }
        };
        check(has_ended, format!("ended by {:?}, not by {status:?}", self.status));
        // A peer reads what a link writes to its standard output: nothing else is written there.
        check(self.output.is_empty(), format!("{} bytes of output", self.output.len()));
        let records: Vec<_> = self.said.lines().filter(|line| line.starts_with('{')).collect();
        check(records.len() == 1, format!("{} records", records.len()));
        let record: Value = serde_json::from_str(records.last().unwrap_or(&"{}")).unwrap();
        check(record["ended"] == ended, format!("ended {}, not {ended}", record["ended"]));
        let has_error = status != Status::Code(0) && ended != "interrupted";
        let error = &record["error"]["message"];
        check(error.is_string() == has_error, format!("the record's error is {error}"));
        let limit = self.ending.limit_seconds.filter(|_| matches!(ended, "idle" | "lingered"));
        let seconds = record["seconds"].as_f64().unwrap_or_default();
        check(limit.is_none_or(|limit| seconds >= limit), format!("over after {seconds} s"));
        let (ender, other) = (&self.ender, &self.other);
        // A program that was at work has time to report SIGTERM, unless the link says that it
        // waited for that in vain.
        let deaths = [ender, other].iter().filter(|peer| peer.saw == Saw::Death).count();
        let killed = self.said.matches("does not end after SIGTERM and is killed").count();
        let is_explained = self.ending.act != Act::Terminate || deaths <= killed;
        check(
            is_explained,
            format!("{deaths} programs died without a report, {killed} were killed after SIGTERM"),
        );
        for (peer, kind, learned, name) in [
            (ender, self.pair.ender, ender_learns, "who ends"),
            (other, self.pair.other, other_learns, "the other"),
        ] {
            if let Some(seen) = learned.seen_by(kind).filter(|_| self.looks(name == "who ends")) {
                check(seen.contains(&peer.saw), format!("{name} saw {:?}: {seen:?}", peer.saw));
            }
        }
        self.check_bytes(arrives, &record, &mut check);
        wrong
    }

    /// Does a peer see the signs of an end? The source of a link of one direction does on a socket
    /// alone.
    fn looks(&self, is_ender: bool) -> bool {
        let kind = if is_ender { self.pair.ender } else { self.pair.other };
        let is_source = is_ender == self.ending.ender_sends;
        let is_one_way = !self.pair.is_two_way() && self.ending.there != There::Nothing;
        !is_one_way || !is_source || kind.is_connection
    }

    fn check_bytes(&self, arrives: Arrives, record: &Value, check: &mut impl FnMut(bool, String)) {
        let (ender, other) = (&self.ender, &self.other);
        if self.ending.act != Act::Shrink {
            check(ender.sound && other.sound, "other bytes came than were sent".into());
        }
        let (from, to) = if self.ending.ender_sends { (ender, other) } else { (other, ender) };
        let source_is_first = self.pair.ender_is_first == self.ending.ender_sends;
        let (way, opposite) =
            if source_is_first { ("forward", "back") } else { ("back", "forward") };
        let count = |way: &str, what: &str| {
            record[format!("{way}_{what}")].as_u64().unwrap_or_default() as usize
        };
        let passed = count(way, "bytes");
        let taken = passed + count(way, "lost_bytes");
        // A file plays nothing: its content is what it sends.
        let plays = self.pair.ender.kind != Kind::File;
        if self.ending.there == There::Peer {
            check(to.heard_bytes <= passed, format!("{} heard of {passed} passed", to.heard_bytes));
        }
        // One that was ended by a signal could not say how much it had sent.
        let was_ended = |peer: &Report| matches!(peer.saw, Saw::Terminated | Saw::Death);
        if plays && !was_ended(from) {
            check(taken <= from.sent_bytes, format!("{taken} taken of {} sent", from.sent_bytes));
        }
        let steps = (self.ending.steps_of_ender(self.pair), self.ending.steps_of_other(self.pair));
        let sum = |steps: &[Step]| {
            steps.iter().map(|step| if let Step::Send(count) = step { *count } else { 0 }).sum()
        };
        let (sent, answered): (usize, usize) = (sum(&steps.0), sum(&steps.1));
        if arrives == Arrives::All && self.ending.ender_sends && self.ending.there == There::Peer {
            check(other.heard_bytes == sent, format!("{} of {sent} arrived", other.heard_bytes));
            check(passed == sent, format!("{passed} counted, {sent} sent"));
        }
        let has_whole_answer =
            matches!(self.outcome.ender_learns, Learned::End | Learned::EndThenOver);
        if has_whole_answer && self.looks(true) && !was_ended(ender) {
            let (heard, counted) = (ender.heard_bytes, count(opposite, "bytes"));
            check(heard == answered, format!("{heard} of {answered} came back"));
            check(counted == answered, format!("{counted} counted, {answered} answered"));
        }
        for (peer, steps, kind) in
            [(ender, &steps.0, self.pair.ender), (other, &steps.1, self.pair.other)]
        {
            let wanted = steps.iter().filter_map(|step| match step {
                Step::Hear(count) => Some(*count),
                _ => None,
            });
            let (wanted, heard) = (wanted.max().unwrap_or(0), peer.heard_bytes);
            check(was_ended(peer) || heard >= wanted, format!("{heard} heard of {wanted}"));
            if steps.contains(&Step::Flood) {
                let is_reported = peer.refused || (kind.is_program && peer.saw != Saw::Nothing);
                check(is_reported, "who sends without end is not refused".into());
            }
        }
    }
}
