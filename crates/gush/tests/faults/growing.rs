//! A clone of a file that grows or shrinks around the call.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;

use gush::faults::{Injection, Plan};
use gush::{Call, Choice, MethodName, Mover};

use crate::common::mount::{in_own_namespace, knows, mounted, run};
use crate::common::{noise, not_applicable, read_all, runs};

const GROWS_BY_BYTES: usize = 5000;

/// A plan that lets the file grow at the first call that clones.
fn growing(path: &Path, rest: &[u8]) -> Plan {
    let mut rest = Some((path.to_owned(), rest.to_owned()));
    Plan::new(move |call, _| {
        if (call == Call::Ficlone || call == Call::FicloneRange)
            && let Some((path, rest)) = rest.take()
        {
            let file = File::options().append(true).open(path);
            file.and_then(|mut file| file.write_all(&rest)).expect("more bytes");
        }
        Injection::None
    })
}

fn a_clone_is_counted_and_keeps_its_length(point: &Path) {
    let reflink = Choice::Only(MethodName::Reflink);
    for (at_first_bytes, length_bytes, old_bytes, choice) in [
        (10_001, None, 0, reflink),
        (8192, None, 0, reflink),
        (8192, Some(8192), 0, reflink),
        (10_001, Some(10_001), 0, Choice::Auto),
        (10_001, None, 100_000, Choice::Auto),
        (10_001, Some(10_001), 100_000, Choice::Auto),
    ] {
        let content = noise(3, at_first_bytes + GROWS_BY_BYTES);
        let path = point.join("growing");
        std::fs::write(&path, &content[..at_first_bytes]).expect("the source");
        let old = noise(4, old_bytes);
        std::fs::write(point.join("target"), &old).expect("the target");
        let source = File::open(&path).expect("the source");
        let target = File::options().read(true).write(true).open(point.join("target"));
        let target: OwnedFd = target.expect("the target").into();
        let mut mover = Mover::new(&source, &target).method(choice).source_offset_bytes(0);
        if let Some(length_bytes) = length_bytes {
            mover = mover.length_bytes(length_bytes as u64);
        }
        let plan = growing(&path, &content[at_first_bytes..]).install();
        let report = mover.run().expect("a clone");
        drop(plan);
        let expected_bytes = length_bytes.unwrap_or(content.len());
        let case = format!("{at_first_bytes}, {length_bytes:?}, over {old_bytes}");
        assert_eq!(report.bytes, expected_bytes as u64, "{case}: {}", report.explain());
        let mut expected = old;
        expected.resize(expected.len().max(expected_bytes), 0);
        expected[..expected_bytes].copy_from_slice(&content[..expected_bytes]);
        let got = read_all(&target);
        assert_eq!(got.len(), expected.len(), "{case}: {}", report.explain());
        assert!(got == expected, "{case}: other bytes");
    }
}

/// A clone is the file as it was at one moment, whatever becomes of the file before and after.
fn a_clone_of_a_file_that_changes_is_of_one_moment(point: &Path) {
    const AT_FIRST_BYTES: usize = 10_001;
    // Which look at a size, counted from the clone on, comes before the change; `None` for a change
    // before the clone.
    let cases = [None, Some(0), Some(1), Some(2)];
    for (before_look, then_bytes) in
        cases.into_iter().flat_map(|at| [(at, 0), (at, 5000), (at, 15_001)])
    {
        let content = noise(5, AT_FIRST_BYTES.max(then_bytes));
        let (path, target_path) = (point.join("changing"), point.join("clone"));
        std::fs::write(&path, &content[..AT_FIRST_BYTES]).expect("the source");
        std::fs::write(&target_path, "").expect("the target");
        let source = File::open(&path).expect("the source");
        let target = File::options().read(true).write(true).open(target_path);
        let target: OwnedFd = target.expect("the target").into();
        let (mut looks, mut change) = (None, Some((path, content[..then_bytes].to_owned())));
        let plan = Plan::new(move |call, _| {
            let is_due = match before_look {
                None => call == Call::Ficlone,
                Some(_) => call == Call::Fstat && looks == before_look,
            };
            if is_due && let Some((path, content)) = change.take() {
                std::fs::write(path, content).expect("other content");
            }
            match call {
                Call::Ficlone => looks = Some(0),
                Call::Fstat => looks = looks.map(|looks| looks + 1),
                _ => {}
            }
            Injection::None
        });
        let guard = plan.install();
        let mover = Mover::new(&source, &target).method(Choice::Only(MethodName::Reflink));
        let report = mover.source_offset_bytes(0).run();
        drop(guard);
        let case = format!("{before_look:?}, {then_bytes}");
        let report = report.unwrap_or_else(|error| panic!("{case}: {error}"));
        let got = read_all(&target);
        assert_eq!(report.bytes, got.len() as u64, "{case}: {}", report.explain());
        let expected_bytes = before_look.map_or(then_bytes, |_| AT_FIRST_BYTES);
        assert!(got == content[..expected_bytes], "{case}: other bytes");
    }
}

fn on(mkfs: &str, mebibytes: u64) {
    let dir = tempfile::tempdir().expect("a directory");
    let point = mounted(mkfs, mebibytes, dir.path());
    a_clone_is_counted_and_keeps_its_length(&point);
    a_clone_of_a_file_that_changes_is_of_one_moment(&point);
    run("umount", &[point.to_str().expect("a path")]);
}

#[test]
#[ignore = "run in a namespace of its own by the test below"]
fn child_clones_on_xfs() {
    on("mkfs.xfs", 320);
}

#[test]
#[ignore = "run in a namespace of its own by the test below"]
fn child_clones_on_btrfs() {
    on("mkfs.btrfs", 160);
}

#[test]
fn a_clone_of_a_file_that_grows_or_shrinks_is_counted_and_keeps_its_length() {
    for file_system in ["xfs", "btrfs"] {
        let mkfs = format!("mkfs.{file_system}");
        if !knows(file_system) {
            not_applicable(&format!("the kernel has no {file_system}"));
        } else if !runs(&mkfs, &["-V"]) {
            gush_test::skipped(&format!("{mkfs} is missing"));
        } else if let Err(reason) =
            in_own_namespace(&format!("growing::child_clones_on_{file_system}"))
        {
            gush_test::skipped(&reason);
        }
    }
}
