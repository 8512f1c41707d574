//! Which method serves which pair of ends: the table, asked of the running kernel.

mod common;

use common::{
    Source, SourceKind, Target, TargetKind, is_root, methods_served_here, noise, not_applicable,
    skipped, within,
};
use gush::{Choice, Errno, MethodName, Mover, Tuning};

/// The required answer of a named method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Served,
    /// The kernel says no, before anything was touched.
    Refused(Errno),
    /// The method itself says no, with a reason.
    Cannot,
    /// Either, by the file system or the fragments in the pipe.
    ServedOr(Errno),
}

use Answer::{Cannot, Refused, Served, ServedOr};

/// Three superblocks: that of the temporary files, the visible tmpfs, and the memfds' own.
fn superblock_of_source(kind: SourceKind) -> u8 {
    match kind {
        SourceKind::Tmpfs => 1,
        SourceKind::Memfd => 2,
        SourceKind::Block => 3,
        _ => 0,
    }
}

fn superblock_of_target(kind: TargetKind) -> u8 {
    match kind {
        TargetKind::Tmpfs => 1,
        TargetKind::Memfd => 2,
        TargetKind::Block => 3,
        _ => 0,
    }
}

/// The table "Which fd takes what" (probed on Linux 6.18), by method.
fn expected(method: MethodName, from: SourceKind, to: TargetKind) -> Answer {
    let same = superblock_of_source(from) == superblock_of_target(to);
    let from_file = from.has_offsets() && from != SourceKind::Block;
    let to_file = to.has_offsets() && to != TargetKind::Block;
    let from_pipe = matches!(from, SourceKind::Pipe | SourceKind::Fifo);
    let to_pipe = matches!(to, TargetKind::Pipe | TargetKind::Fifo);
    let by_offsets = from.has_offsets() && to.takes_offsets();
    match method {
        MethodName::ReadWrite => Served,
        MethodName::Reflink if !by_offsets || !from_file => Cannot,
        MethodName::Reflink if same => ServedOr(Errno::OPNOTSUPP),
        MethodName::Reflink => Refused(Errno::XDEV),
        MethodName::CopyFileRange if !from_file || !to_file => Refused(Errno::INVAL),
        MethodName::CopyFileRange if to == TargetKind::Append => Refused(Errno::BADF),
        MethodName::CopyFileRange if !same => Refused(Errno::XDEV),
        // It would cut them.
        MethodName::Sendfile if from.is_datagram() => Cannot,
        // A device reports no size, so the last datagram could be held back before Linux 6.5.
        MethodName::Sendfile
            if from == SourceKind::Block
                && matches!(
                    to,
                    TargetKind::Seqpacket | TargetKind::UnixDatagram | TargetKind::Udp
                ) =>
        {
            Cannot
        }
        MethodName::Sendfile if from_pipe => Refused(Errno::INVAL),
        MethodName::Sendfile if !from.has_offsets() && !to_pipe => Refused(Errno::INVAL),
        MethodName::Sendfile | MethodName::Splice | MethodName::Vmsplice
            if to == TargetKind::Append =>
        {
            Refused(Errno::INVAL)
        }
        // Fragments of odd sizes cannot go past the page cache.
        MethodName::Splice | MethodName::Vmsplice
            if to == TargetKind::Direct && !from.has_offsets() =>
        {
            Cannot
        }
        MethodName::CopyFileRange
        | MethodName::Sendfile
        | MethodName::Splice
        | MethodName::Vmsplice => Served,
        MethodName::MmapWrite => [Cannot, Served][usize::from(from.has_offsets())],
        MethodName::MmapCopy | MethodName::ReadMmap if by_offsets && to == TargetKind::Block => {
            Refused(Errno::OPNOTSUPP)
        }
        _ => [Cannot, Served][usize::from(by_offsets)],
    }
}

const BEFORE: &[u8] = b"what was there before";

/// Moves by `choice` and compares with the expected answer.
fn check(choice: Choice, from: SourceKind, to: TargetKind, expected: Answer) -> Result<(), String> {
    let content = noise(1, 40_960);
    let source = Source::new(from, &content, 1, false)?;
    let target = Target::new(to, BEFORE, 2, false)?;
    let mut tuning = Tuning::default();
    if from.is_datagram() || to.is_datagram() {
        tuning = tuning.buffer_bytes(4096);
    }
    let append = to == TargetKind::Append;
    let answer = Mover::new(&source.fd, &target.fd)
        .method(choice)
        .length_bytes(content.len() as u64)
        .tuning(tuning)
        .run();
    let untouched = |source: Source, target: Target| {
        if from.has_offsets() && source.position() != 0 {
            return Err(format!("the source's position is {}", source.position()));
        }
        if to.takes_offsets() && target.position() != 0 {
            return Err(format!("the target's position is {}", target.position()));
        }
        if source.rest()[..content.len()] != content {
            return Err("the source is not what it was".to_owned());
        }
        let got = target.content();
        let is_as_before = match to {
            TargetKind::Block => {
                got.starts_with(BEFORE) && got[BEFORE.len()..].iter().all(|&byte| byte == 0)
            }
            to if to.has_offsets() => got == BEFORE,
            _ => got.is_empty(),
        };
        if is_as_before { Ok(()) } else { Err(format!("{} bytes in the target", got.len())) }
    };
    match (answer, expected) {
        (Ok(report), Served | ServedOr(_)) => {
            if let Choice::Only(name) = choice
                && report.methods.iter().any(|used| used.name != name)
            {
                return Err(format!("replaced: {}", report.explain()));
            }
            if report.bytes != content.len() as u64 {
                return Err(format!("reported {} bytes", report.bytes));
            }
            let got = target.content();
            let got = if append { &got[BEFORE.len()..] } else { &got[..] };
            match to {
                TargetKind::Null => Ok(()),
                TargetKind::Block if got[..content.len()] == content => Ok(()),
                _ if got == content => Ok(()),
                _ => Err(format!("{} bytes arrived, or others", got.len())),
            }
        }
        (Err(error), ServedOr(errno)) if error.is_refused() => {
            let reported = error.io_error().and_then(Errno::from_io_error);
            if reported == Some(errno) { Ok(()) } else { Err(error.to_string()) }
        }
        (Err(error), Refused(_) | Cannot) if error.is_refused() => {
            let reported = error.io_error().and_then(Errno::from_io_error);
            let wanted = if let Refused(errno) = expected { Some(errno) } else { None };
            if reported != wanted || error.delivered_bytes() + error.in_flight_bytes() > 0 {
                return Err(error.to_string());
            }
            untouched(source, target)
        }
        (Ok(report), _) => Err(format!("served: {}", report.explain())),
        (Err(error), _) => Err(format!("{error}: {:?}", error.io_error())),
    }
}

fn sources() -> impl Iterator<Item = SourceKind> {
    SourceKind::ALL.iter().copied().filter(|&kind| kind != SourceKind::Block || is_root())
}

fn targets() -> impl Iterator<Item = TargetKind> {
    TargetKind::ALL.iter().copied().filter(|&kind| kind != TargetKind::Block || is_root())
}

fn say_if_devices_are_left_out() {
    if !is_root() {
        skipped("rows and columns of block devices: a loop device needs root");
    }
}

fn check_all(choice: Choice, answer: impl Fn(SourceKind, TargetKind) -> Answer) -> Vec<String> {
    let pairs = sources().flat_map(|from| targets().map(move |to| (from, to)));
    let pairs = pairs.map(|(from, to)| (from, to, answer(from, to)));
    let judge = |(from, to, wanted)| {
        let name = format!("{choice}: {from:?} -> {to:?}");
        let why = within(30, &name, move || check(choice, from, to, wanted)).err()?;
        Some(format!("{name}: expected {wanted:?}: {why}"))
    };
    gush_test::side_by_side(pairs, judge).into_iter().flatten().collect()
}

#[test]
fn every_method_serves_the_pairs_of_the_table_and_leaves_the_others_untouched() {
    say_if_devices_are_left_out();
    let wrong: Vec<_> = methods_served_here(MethodName::ALL)
        .into_iter()
        .flat_map(|method| check_all(Choice::Only(method), |from, to| expected(method, from, to)))
        .collect();
    assert!(wrong.is_empty(), "{} pairs:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn auto_serves_every_pair() {
    say_if_devices_are_left_out();
    let wrong = check_all(Choice::Auto, |_, _| Served);
    assert!(wrong.is_empty(), "{} pairs:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_method_serves_some_pair() {
    for method in methods_served_here(MethodName::ALL) {
        let is_served = sources()
            .flat_map(|from| targets().map(move |to| (from, to)))
            .filter(|&(from, to)| matches!(expected(method, from, to), Served | ServedOr(_)))
            .any(|(from, to)| check(Choice::Only(method), from, to, Served).is_ok());
        if method == MethodName::Reflink && !is_served {
            not_applicable("no file system here shares blocks: reflink serves no pair");
        } else {
            assert!(is_served, "{method} serves nowhere");
        }
    }
}

#[test]
fn sendfile_moves_small_files_between_local_file_systems() {
    if !methods_served_here(MethodName::ALL).contains(&MethodName::Sendfile) {
        return skipped("sendfile is denied");
    }
    const LARGE: usize = 16 << 20;
    for (bytes, expected) in [
        (1, MethodName::Sendfile),
        (40_960, MethodName::Sendfile),
        (LARGE - 1, MethodName::Sendfile),
        (LARGE, MethodName::ReadWrite),
    ] {
        let content = noise(3, bytes);
        let source = Source::new(SourceKind::Memfd, &content, 1, false).expect("a source");
        let target = Target::new(TargetKind::Tmpfs, b"", 2, false).expect("a target");
        let mover = Mover::new(&source.fd, &target.fd).length_bytes(bytes as u64);
        let report = mover.run().expect("a move");
        assert_eq!(report.main_method(), Some(expected), "{bytes}: {}", report.explain());
        assert!(report.refusals.is_empty(), "{bytes}: {}", report.explain());
        assert!(target.content() == content, "{bytes}");
    }
}

#[test]
fn an_excluded_method_moves_nothing_on_several_threads_either() {
    needs!(copy_file_range);
    let file = || tempfile::tempfile_in("/dev/shm").expect("a file in memory");
    let (source, content) = (file(), noise(1, 20 << 20));
    std::os::unix::fs::FileExt::write_all_at(&source, &content, 0).expect("the source");
    for threads in [0, 1, 2] {
        let target = file();
        let mover = Mover::new(&source, &target).source_offset_bytes(0).threads(threads);
        let report = mover.exclude(&[MethodName::ReadWrite]).run().expect("a copy");
        let used: Vec<_> = report.methods.iter().map(|used| used.name).collect();
        assert!(!used.contains(&MethodName::ReadWrite), "{threads}: {}", report.explain());
        assert_eq!(report.bytes, content.len() as u64);
    }
}
