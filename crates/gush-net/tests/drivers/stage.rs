//! The two ends of a row with their peers, and where every byte is afterwards.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gush::Errno;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::SeekFrom;
use rustix::net::SendFlags;

use crate::account::{Account, Fate};
use crate::case::{Case, Scene, To};
use crate::common::{SourceKind, TargetKind, noise, open_source, open_target, read_all};
use crate::hands::Reported;

/// The length of each datagram of a source but the last.
const MESSAGE_BYTES: usize = 1400;

/// The room of a small file system.
pub const ROOM_BYTES: usize = 64 << 10;

/// A reader that leaves takes so much before.
const LEAVES_AFTER_BYTES: usize = 100_000;

pub struct Stage {
    case: Case,
    pub source: OwnedFd,
    pub target: OwnedFd,
    messages: Vec<Vec<u8>>,
    feeder: Option<JoinHandle<Option<OwnedFd>>>,
    taker: Option<JoinHandle<Vec<Vec<u8>>>>,
    /// Nothing more will be sent to the taker.
    done: Arc<AtomicBool>,
}

/// The signs that the peers see of each other.
#[derive(Clone, Debug, Default)]
struct Seen {
    sent: Arc<AtomicUsize>,
    arrived: Arc<AtomicUsize>,
}

impl Stage {
    pub fn set(case: Case) -> Result<Self, String> {
        let messages = messages(case);
        let (seen, done) = (Seen::default(), Arc::new(AtomicBool::new(false)));
        let (source, feeder) = if case.from.has_offsets() {
            let (file, _) = open_source(case.from)?;
            File::from(file.try_clone().expect("dup")).write_all(&messages.concat()).expect("room");
            rustix::fs::seek(&file, SeekFrom::Start(0)).expect("a position");
            (file, None)
        } else {
            let (near, far) = open_source(case.from)?;
            if case.scene == (Scene::Urgent { in_line: true }) {
                rustix::net::sockopt::set_socket_oobinline(&near, true).expect("SO_OOBINLINE");
            }
            let (far, pieces, watch) = (far.expect("a stream"), messages.clone(), seen.clone());
            (near, Some(thread::spawn(move || feed(far, pieces, case, &watch))))
        };
        let (target, taker) = target(case, &seen, &done)?;
        let mut stage = Self { case, source, target, messages, feeder, taker, done };
        if case.scene == Scene::Reset {
            // All has been sent, and the reset is there, before anybody reads.
            stage.feeder.take().map(JoinHandle::join);
            wait_for(&stage.source, PollFlags::ERR);
        }
        if case.scene == Scene::NoReader && stage.feeder.is_some() {
            // A source with nothing yet may be asked by `read`, which takes what comes before the
            // target is found broken.
            wait_for(&stage.source, PollFlags::IN);
        }
        Ok(stage)
    }

    /// Closes the target, and counts the bytes in each place.
    pub fn settle(self, reported: Reported) -> Result<Account, String> {
        let Self { case, source, target, messages, feeder, taker, done } = self;
        let kept =
            (taker.is_none() && case.scene != Scene::NoReader).then(|| contents(case, &target));
        done.store(true, Ordering::Release);
        drop(target);
        let arrived = match taker {
            Some(taker) => Some(taker.join().map_err(|_| "the reader panicked")?),
            None => kept.flatten().map(|all| vec![all]),
        };
        let left = left(case, &source, feeder);
        let sent = messages.concat();
        let (delivered, in_flight) = (reported.delivered as usize, reported.in_flight as usize);
        let taken = delivered + in_flight;
        if let Some(arrived) = arrived {
            let all = arrived.concat();
            // What a reader that leaves has not taken is delivered all the same.
            let shown = if case.scene == Scene::Leaves { all.len() } else { delivered };
            if sent.get(..shown) != Some(&all) || shown > delivered {
                return Err(format!("{} bytes arrived, and {reported:?}", all.len()));
            }
            let whole = case.from.is_datagram() && case.to.is_datagram();
            // To a SOCK_SEQPACKET peer an empty record would be the end.
            let takes_empty = case.to != To::Kind(TargetKind::Seqpacket);
            let mut expected = messages.iter().filter(|message| takes_empty || !message.is_empty());
            if whole && reported.fate != Fate::Refused {
                let same = arrived.iter().all(|message| Some(message) == expected.next());
                let rest: usize = expected.map(Vec::len).sum();
                if !same || rest + delivered != sent.len() {
                    return Err(format!("other messages: {:?}", sizes(&arrived)));
                }
            }
        }
        if sent.get(taken..) != Some(&left) {
            let reported = format!("{reported:?}, {} bytes left", left.len());
            return Err(format!("what is left in the source is not what comes next: {reported}"));
        }
        Ok(Account { fate: reported.fate, delivered, in_flight, left: left.len() })
    }
}

fn sizes(messages: &[Vec<u8>]) -> Vec<usize> {
    messages.iter().map(Vec::len).collect()
}

/// The pieces to send: one piece, or a datagram a piece.
fn messages(case: Case) -> Vec<Vec<u8>> {
    static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| noise(3, 10 << 20));
    let content = &CONTENT[..case.bytes];
    let mut pieces: VecDeque<Vec<u8>> = match case.scene {
        _ if case.from.is_datagram() => content.chunks(MESSAGE_BYTES).map(<[u8]>::to_vec).collect(),
        Scene::Pause | Scene::Urgent { .. } => {
            let (first, second) = content.split_at(case.bytes / 2);
            [first.to_vec(), second.to_vec()].into()
        }
        _ => [content.to_vec()].into(),
    };
    if case.scene == Scene::Empties {
        pieces.push_front(Vec::new());
        pieces.insert(2, Vec::new());
        // The last bytes end a relay that is cut: what is empty must come before.
        let last = pieces.len() - 1;
        pieces.insert(last, Vec::new());
    }
    pieces.into()
}

/// Sends everything; returns the far end where the source has no end, or must not lose the peer.
fn feed(far: OwnedFd, pieces: Vec<Vec<u8>>, case: Case, seen: &Seen) -> Option<OwnedFd> {
    let middle = pieces.len() / 2;
    let mut before = 0;
    for (at, piece) in pieces.iter().enumerate() {
        if at == middle && case.scene == Scene::Pause {
            while seen.arrived.load(Ordering::Acquire) < before {
                thread::sleep(Duration::from_micros(100));
            }
        }
        let is_urgent = matches!(case.scene, Scene::Urgent { .. }) && at == middle;
        let put = if is_urgent {
            send_urgently(&far, piece, case)
        } else {
            send(&far, piece, case, seen)
        };
        before += piece.len();
        if put.is_err() {
            return None;
        }
    }
    if case.scene == Scene::Reset {
        let linger = Some(Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&far, linger).expect("SO_LINGER");
    }
    (!case.from.ends()).then_some(far)
}

fn send(far: &OwnedFd, piece: &[u8], case: Case, seen: &Seen) -> Result<(), Errno> {
    let mut rest = piece;
    loop {
        match rustix::io::write(far, rest) {
            Ok(put) => {
                seen.sent.fetch_add(put, Ordering::Release);
                rest = &rest[put..];
                if rest.is_empty() || case.from.is_datagram() {
                    return Ok(());
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN | Errno::NOBUFS) => thread::sleep(Duration::from_micros(200)),
            Err(errno) => return Err(errno),
        }
    }
}

/// An urgent byte first; in line that is a byte of the piece, and otherwise a byte that no reader
/// gets.
fn send_urgently(far: &OwnedFd, piece: &[u8], case: Case) -> Result<(), Errno> {
    let in_line = case.scene == Scene::Urgent { in_line: true };
    let (urgent, rest) = if in_line { piece.split_at(1) } else { (&b"!"[..], piece) };
    rustix::net::send(far, urgent, SendFlags::OOB)?;
    send(far, rest, case, &Seen::default())
}

type Taker = JoinHandle<Vec<Vec<u8>>>;

fn target(
    case: Case,
    seen: &Seen,
    done: &Arc<AtomicBool>,
) -> Result<(OwnedFd, Option<Taker>), String> {
    let failed = |error: std::io::Error| error.to_string();
    let kind = match case.to {
        To::Full => return Ok((device("/dev/full")?, None)),
        To::Room => return Ok((small_file_system().ok_or("no file system")?, None)),
        To::Kind(TargetKind::Null) => return Ok((device("/dev/null")?, None)),
        To::Kind(TargetKind::File) => {
            return Ok((tempfile::tempfile().map_err(failed)?.into(), None));
        }
        To::Kind(TargetKind::Append) => return Ok((crate::common::append_file(), None)),
        To::Kind(kind) => kind,
    };
    let (near, far) = open_target(kind)?;
    if case.scene == Scene::NoReader {
        let is_tcp = kind == TargetKind::Tcp;
        if is_tcp {
            let linger = Some(Duration::ZERO);
            rustix::net::sockopt::set_socket_linger(&far, linger).expect("SO_LINGER");
        }
        drop(far);
        if is_tcp {
            wait_for(&near, PollFlags::ERR);
        }
        return Ok((near, None));
    }
    let (seen, done) = (seen.clone(), done.clone());
    Ok((near, Some(thread::spawn(move || take(far, kind, case, &seen, &done)))))
}

fn device(path: &str) -> Result<OwnedFd, String> {
    let file = File::options().write(true).open(path).map_err(|error| error.to_string())?;
    Ok(file.into())
}

/// Held to write while a program is started: until its execve(2) the new process has copies of all
/// descriptors.
pub static FORKING: RwLock<()> = RwLock::new(());

/// A new file on a small file system, mounted in the namespace of a thread that ends: the kernel
/// unmounts it when the file is closed.
pub fn small_file_system() -> Option<OwnedFd> {
    let dir = tempfile::tempdir().ok()?;
    let mount = |words: &[&str]| {
        let _forking = FORKING.write();
        let status =
            Command::new("mount").args(words).arg(dir.path()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let made = || {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).ok()?;
        let forking = FORKING.write();
        let private = Command::new("mount").args(["--make-rprivate", "/"]).status().ok()?;
        drop(forking);
        let room = format!("size={ROOM_BYTES}");
        if !private.success() || !mount(&["-t", "tmpfs", "-o", &room, "none"]) {
            return None;
        }
        File::create_new(dir.path().join("file")).ok().map(OwnedFd::from)
    };
    thread::scope(|scope| scope.spawn(made).join().expect("no panic"))
}

/// Reads the arriving bytes, message by message.
fn take(
    far: OwnedFd,
    kind: TargetKind,
    case: Case,
    seen: &Seen,
    done: &AtomicBool,
) -> Vec<Vec<u8>> {
    if case.scene == Scene::Stuffed {
        // Until the sender has written nothing more for a while: from a file, until the pipe is
        // full.
        let full = || (seen.sent.load(Ordering::Acquire), unread_bytes(&far));
        let mut before = (usize::MAX, 0);
        while full() != before {
            before = full();
            thread::sleep(Duration::from_millis(15));
        }
    }
    // How long a silence must be to be the end, where nothing else shows it.
    let silence = match kind {
        // Its line discipline works in a thread of the kernel's.
        TargetKind::Terminal => Some(25),
        TargetKind::UnixDatagram | TargetKind::Udp => Some(3),
        _ => None,
    };
    let (mut all, mut got) = (Vec::new(), 0);
    let mut buf = vec![0; 256 << 10];
    loop {
        let was_done = done.load(Ordering::Acquire);
        if let Some(milliseconds) = silence
            && !is_readable(&far, milliseconds)
        {
            if was_done {
                return all;
            }
            continue;
        }
        let most = if case.scene == Scene::Leaves { LEAVES_AFTER_BYTES - got } else { buf.len() };
        match rustix::io::read(&far, &mut buf[..most]) {
            Ok(0) if silence.is_none() => return all,
            Ok(bytes) => {
                all.push(buf[..bytes].to_vec());
                got += bytes;
                seen.arrived.store(got, Ordering::Release);
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return all,
        }
        if case.scene == Scene::Leaves && got == LEAVES_AFTER_BYTES {
            return all;
        }
    }
}

fn unread_bytes(fd: &OwnedFd) -> u64 {
    rustix::io::ioctl_fionread(fd).unwrap_or(0)
}

fn is_readable(fd: &OwnedFd, milliseconds: i64) -> bool {
    let timeout = Timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    matches!(rustix::event::poll(&mut fds, Some(&timeout)), Ok(1..))
}

fn wait_for(fd: &OwnedFd, events: PollFlags) {
    rustix::event::poll(&mut [PollFd::new(fd, events)], None).expect("poll");
}

/// The content of a target without a reader, where the target keeps bytes.
fn contents(case: Case, target: &OwnedFd) -> Option<Vec<u8>> {
    let forgets = matches!(case.to, To::Full | To::Kind(TargetKind::Null));
    (!forgets).then(|| read_all(target))
}

/// The bytes that a plain reader still gets from the source.
fn left(case: Case, source: &OwnedFd, feeder: Option<JoinHandle<Option<OwnedFd>>>) -> Vec<u8> {
    if case.from.has_offsets() {
        let position = rustix::fs::seek(source, SeekFrom::Current(0)).expect("a position");
        return read_all(source).get(position as usize..).unwrap_or_default().to_vec();
    }
    let silence = if case.from == SourceKind::Terminal { 25 } else { 3 };
    let mut rest = Vec::new();
    let mut buf = vec![0; 256 << 10];
    loop {
        if !is_readable(source, silence) {
            // A source without an end has given all once its feeder has sent all.
            if !case.from.ends() && feeder.as_ref().is_none_or(JoinHandle::is_finished) {
                break;
            }
            continue;
        }
        match rustix::io::read(source, &mut buf) {
            Ok(0) if case.from.ends() => break,
            Ok(bytes) => rest.extend_from_slice(&buf[..bytes]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            // After a reset nothing more comes.
            Err(_) => break,
        }
    }
    feeder.map(|feeder| feeder.join().expect("the feeder"));
    rest
}
