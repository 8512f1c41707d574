//! The seam sees all calls that the kernel sees: the seam's counts equal those of strace.

use std::any::Any;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use gush::faults::{Injection, Plan};
use gush::pipe::{Technique, Writer};
use gush::{Choice, Control, MethodName, Mover, Progress};

use crate::common::{Source, SourceKind as S, Target, TargetKind as T, noise};

/// Small enough for any pipe, and several pages.
const LEN: usize = 13_001;

const MOVES: &[(Choice, S, T)] = &[
    (Choice::Auto, S::File, T::File),
    (Choice::Auto, S::File, T::Pipe),
    (Choice::Auto, S::Pipe, T::File),
    (Choice::Auto, S::Pipe, T::UnixStream),
    (Choice::Auto, S::Tcp, T::Tcp),
    (Choice::Auto, S::Tmpfs, T::Null),
    (Choice::Only(MethodName::CopyFileRange), S::File, T::File),
    (Choice::Only(MethodName::Sendfile), S::File, T::UnixStream),
    (Choice::Only(MethodName::Splice), S::UnixStream, T::File),
    (Choice::Only(MethodName::Vmsplice), S::File, T::Pipe),
    (Choice::Only(MethodName::Vmsplice), S::Pipe, T::Memfd),
    (Choice::Only(MethodName::MmapWrite), S::File, T::Pipe),
    (Choice::Only(MethodName::MmapCopy), S::File, T::File),
    (Choice::Only(MethodName::ReadMmap), S::File, T::File),
    (Choice::Only(MethodName::ReadWrite), S::Pipe, T::Pipe),
    (Choice::Only(MethodName::ReadWrite), S::UnixStream, T::File),
    (Choice::Only(MethodName::Direct), S::File, T::File),
    (Choice::Only(MethodName::Uring), S::File, T::File),
];

/// Calls of a thread that are no calls of the engine: the allocator's, the C library's, the locks
/// of this test; and `close`, whose answer nobody could do anything with, with the check before
/// that std makes in debug builds (F_GETFD).
const OTHERS: &[&str] = &[
    "brk",
    "futex",
    "close",
    "fcntl(F_GETFD)",
    "getrandom",
    "rt_sigprocmask",
    "rt_sigaction",
    "sigaltstack",
];

/// The rings are mapped by the crate `io-uring`.
const OF_RINGS: &[&str] = &["mmap", "munmap"];

type Tally = BTreeMap<String, u64>;

/// The work between two marks; the returned value is dropped after the second mark.
type Work = Box<dyn FnOnce() -> Box<dyn Any>>;

/// Each work by name, with the function that makes the ends.
fn works() -> Vec<(String, Box<dyn Fn() -> Work>)> {
    let mut works: Vec<(String, Box<dyn Fn() -> Work>)> = Vec::new();
    for &(choice, from, to) in MOVES {
        for observed in [false, true] {
            let name = if observed { "observed, " } else { "" };
            let name = format!("{name}{choice}: {from:?} -> {to:?}");
            works.push((name, Box::new(move || a_move(choice, from, to, observed))));
        }
    }
    for technique in [Technique::Fresh, Technique::Socket, Technique::Write] {
        works.push((format!("writer: {technique:?}"), Box::new(move || a_writer(technique))));
    }
    works
}

fn a_move(choice: Choice, from: S, to: T, observed: bool) -> Work {
    let source = Source::new(from, &noise(1, LEN), 1, false).expect("a source").filled();
    let target = Target::new(to, b"", 2, false).expect("a target");
    if observed && matches!(to, T::UnixStream | T::Tcp) {
        // A named method by reference is refused without the flag.
        rustix::io::ioctl_fionbio(&target.fd, true).expect("O_NONBLOCK");
    }
    Box::new(move || {
        let mut go_on = |_: &Progress| Control::Continue;
        let mut mover = Mover::new(&source.fd, &target.fd).method(choice);
        if observed {
            mover = mover.observe(&mut go_on);
        }
        assert_eq!(mover.run().expect("a move").bytes, LEN as u64);
        Box::new((source, target))
    })
}

fn a_writer(technique: Technique) -> Work {
    let (mut from, to) = std::io::pipe().expect("a pipe");
    let reader = std::thread::spawn(move || std::io::copy(&mut from, &mut std::io::sink()));
    Box::new(move || {
        let mut writer =
            Writer::with(to, technique).map_err(|refused| refused.errno).expect("a writer");
        // More than one huge page: only then does `Fresh` look whether the reader has taken it.
        for _ in 0..9 {
            let buffer = writer.buffer().expect("a buffer");
            let len = buffer.len();
            writer.commit(buffer, len).expect("room");
        }
        writer.flush().expect("a flush");
        drop(writer);
        Box::new(reader)
    })
}

/// A call that strace shows, and nobody else makes.
fn mark(name: &str) {
    let _ = std::fs::metadata(format!("/a mark of the tests/{name}"));
}

#[test]
#[ignore = "run under strace by the test below"]
fn child_works_between_marks() {
    for (nth, (_, prepare)) in works().iter().enumerate() {
        // The first of each probes the kernel, and lets the allocator take what it needs.
        for round in ["warm", "counted"] {
            let work = prepare();
            let seen = Arc::new(Mutex::new(Vec::with_capacity(1 << 20)));
            let log = seen.clone();
            let guard = Plan::new(move |call, _| {
                log.lock().expect("log").push(call);
                Injection::None
            })
            .install();
            mark(&format!("{round} {nth} begins"));
            let left = work();
            mark(&format!("{round} {nth} ends"));
            drop(guard);
            drop(left);
            if round == "counted" {
                let seen = seen.lock().expect("log");
                let names: Vec<_> = seen.iter().map(|call| call.name()).collect();
                println!("seam {nth}={}", names.join(" "));
            }
        }
    }
}

/// `fcntl(3, F_GETFL) = 0` is a call named `fcntl(F_GETFL)`, as in the engine. One number may have
/// two names (`BTRFS_IOC_CLONE or FICLONE`), and another thread's call may come in between
/// (`<unfinished ...>`).
fn name_of(line: &str) -> Option<String> {
    let (name, arguments) = line.split_once('(')?;
    let second = arguments.split([',', ')', '<']).nth(1).unwrap_or_default().trim();
    let second = second.rsplit(" or ").next().unwrap_or_default();
    Some(match name {
        "fcntl" | "ioctl" => format!("{name}({second})"),
        _ => name.to_owned(),
    })
}

/// The calls, between the marks, of the thread that set them.
fn straced(trace: &str, nth: usize) -> Tally {
    let begin = format!("/counted {nth} begins\"");
    let end = format!("/counted {nth} ends\"");
    let mut lines = trace.lines().skip_while(|line| !line.contains(&begin));
    let thread = lines.next().and_then(|line| line.split(' ').next()).expect("a mark");
    let mut repeats = false;
    let own = lines.take_while(|line| !line.contains(&end)).filter_map(|line| {
        let rest = line.strip_prefix(thread)?.trim_start();
        // The kernel makes such a call again by itself, after work that no program sees: one call,
        // shown twice.
        let begins = !rest.starts_with("<...") && !rest.starts_with("---");
        let is_repeated = begins && std::mem::take(&mut repeats);
        repeats |= rest.contains("= ? ERESTART");
        (begins && !is_repeated).then(|| name_of(rest))?
    });
    own.fold(Tally::new(), |mut tally, name| {
        *tally.entry(name).or_default() += 1;
        tally
    })
}

fn seen_by_the_seam(said: &str, nth: usize) -> Tally {
    let start = format!("seam {nth}=");
    let line = said.lines().find_map(|line| line.split_once(&start)).expect("its list").1;
    // Neither copying memory nor a request to a ring is a system call.
    let calls = line.split(' ').filter(|call| *call != "memcpy" && !call.starts_with("io_uring("));
    calls.fold(Tally::new(), |mut tally, name| {
        *tally.entry(name.to_owned()).or_default() += 1;
        tally
    })
}

#[test]
fn the_seam_sees_every_call_that_strace_sees() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("trace");
    let probe = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    if !probe.as_ref().is_ok_and(|output| output.status.success()) {
        skip!("strace is missing, or may not trace: {probe:?}");
    }
    let output = Command::new("strace")
        .args(["-f", "-qq", "-o"])
        .arg(&log)
        .arg(std::env::current_exe().expect("own path"))
        .args(["--exact", "strace::child_works_between_marks", "--ignored", "--nocapture"])
        // One heap, which grows by brk(2): what is mapped is then the engine's.
        .env("MALLOC_ARENA_MAX", "1")
        .env("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=33554432")
        .stdin(Stdio::null())
        .output()
        .expect("strace");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let trace = std::fs::read_to_string(&log).expect("a trace");
    let mut wrong = Vec::new();
    let works = works();
    for (nth, (name, _)) in works.iter().enumerate() {
        let mut kernel = straced(&trace, nth);
        let mut seam = seen_by_the_seam(&said, nth);
        let rings = name.contains("uring");
        for tally in [&mut kernel, &mut seam] {
            tally.retain(|name, _| {
                let name = name.as_str();
                !(OTHERS.contains(&name) || rings && OF_RINGS.contains(&name))
            });
        }
        assert!(!kernel.is_empty(), "strace saw nothing: {name}");
        if kernel != seam {
            wrong.push(format!("{name}:\n strace {kernel:?}\n seam   {seam:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), works.len(), wrong.join("\n"));
}
