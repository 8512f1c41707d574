//! Files that are truncated while they are moved.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gush::{Call, Choice, Error, MethodName, Mover};

use crate::common::{child, file_of, methods_served_here, noise, read_all};

const LEN: usize = 13_001;

/// The bytes left of a file that is truncated again and again.
const KEPT: usize = 4096 * 7 + 3;
/// From 16 MiB on a move takes all threads offered.
const SHARED: usize = 17 << 20;
const ROUNDS: u64 = 24;

/// Where nothing changes, the file is large enough for the threads that the test asks for.
fn is_shared(choice: Choice, content: &[u8]) -> bool {
    let (source, target) = (file_of(content), file_of(b""));
    let report = Mover::new(&source, &target).method(choice).threads(3).run().expect("a copy");
    report.methods[0].threads > 1
}

#[test]
#[ignore = "run as a child process: SIGBUS would end it"]
fn child_survives_truncations() {
    let choice: Choice = std::env::var("METHOD").expect("METHOD").parse().expect("a method");
    let cut_target = std::env::var("CUT").expect("CUT") == "target";
    let content = noise(1, SHARED);
    let Choice::Only(name) = choice else { panic!("a method by name") };
    assert_eq!(is_shared(choice, &content), name.is_parallel());
    let mut felt = 0;
    for round in 0..ROUNDS {
        let (source, target) = (file_of(&content), file_of(b""));
        let cut = File::from(if cut_target { &target } else { &source }.try_clone().expect("dup"));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let truncating = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_micros(60 * round));
            while !stopped.load(Ordering::Relaxed) {
                cut.set_len(KEPT as u64).expect("cut");
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        });
        let mover = Mover::new(&source, &target).method(choice).threads(1 + round as usize % 3);
        let outcome = mover.run();
        stop.store(true, Ordering::Relaxed);
        truncating.join().expect("the other thread");
        felt += u32::from(
            outcome.as_ref().is_ok_and(|report| report.bytes < SHARED as u64) || outcome.is_err(),
        );
        if !cut_target {
            let bytes = outcome.as_ref().map_or_else(Error::delivered_bytes, |report| report.bytes);
            let bytes = usize::try_from(bytes).expect("a small file");
            // A read that a truncation overtakes may see the zeros after the new end, as cp's does.
            let arrived = read_all(&target);
            let same = arrived.chunks(4096).zip(content.chunks(4096)).enumerate();
            let cut = |got: &[u8], is: &[u8]| got.iter().zip(is).all(|(g, i)| g == i || *g == 0);
            let wrong = same.filter(|&(page, (got, is))| {
                page * 4096 < bytes
                    && got != &is[..got.len()]
                    && (page * 4096 + 4096 < KEPT || !cut(got, is))
            });
            assert_eq!(wrong.count(), 0, "other bytes: {outcome:?}");
        }
    }
    // Plain writes do not feel it when the target is cut: what lies before them becomes a hole.
    let feels = !cut_target || matches!(name, MethodName::MmapCopy | MethodName::ReadMmap);
    assert!(felt > 0 || !feels, "no truncation came in time: nothing was tried");
}

#[test]
fn truncation_while_mapped_is_an_error_and_never_sigbus() {
    let mut wrong = Vec::new();
    use MethodName::{MmapCopy, MmapWrite, ReadMmap, ReadWrite, Splice};
    for method in methods_served_here(&[MmapWrite, MmapCopy, ReadMmap, ReadWrite, Splice]) {
        for cut in ["source", "target"] {
            let env = [("METHOD", method.as_str()), ("CUT", cut)];
            let (survived, said) = child(&[], "changing::child_survives_truncations", &env);
            if !survived {
                wrong.push(format!("{method}, {cut} truncated: {said}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_calls_that_are_counted_show_in_the_report() {
    let (source, target) = (file_of(&noise(1, LEN)), file_of(b""));
    let choice = Choice::Only(MethodName::ReadWrite);
    let report = Mover::new(&source, &target).method(choice).run().expect("a copy");
    assert_eq!(report.methods.len(), 1);
    assert!(report.methods[0].calls.get(Call::Write) >= 1);
    assert_eq!(report.methods[0].bytes, LEN as u64);
}
