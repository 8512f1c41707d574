//! Holes of 20 GiB cost nothing: neither copying nor verifying reads them.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::common::cp::{stderr, with_files};
use crate::common::{bounded, gush, noise, skipped, strace};

const SIZE: u64 = 20 << 30;
const AT: u64 = 7 << 30;
const DATA_BYTES: usize = 300_000;
/// A guard: who reads 20 GiB of holes takes minutes, and who does not less than a second.
const PATIENCE_SECONDS: u32 = 60;

/// A file of 20 GiB with data at the start, in the middle, and written zeros after those.
fn make_sparse(path: &Path) {
    let file = fs::File::create(path).unwrap();
    file.write_all_at(&noise(DATA_BYTES, 1), 0).unwrap();
    file.write_all_at(&noise(DATA_BYTES, 2), AT).unwrap();
    file.write_all_at(&[0; DATA_BYTES], AT + DATA_BYTES as u64).unwrap();
    file.set_len(SIZE).unwrap();
}

fn check_sparse(path: &Path, title: &str) {
    let stat = fs::metadata(path).unwrap();
    assert_eq!(stat.len(), SIZE, "{title}");
    // xfs reserves more than was written, and the copy ends before that is given back.
    assert!(stat.blocks() * 512 < 16 << 20, "{title}: {} blocks", stat.blocks());
    let file = fs::File::open(path).unwrap();
    let mut got = vec![1; 2 * DATA_BYTES];
    for (at, seed) in [(0, 1), (AT, 2)] {
        file.read_exact_at(&mut got, at).unwrap();
        assert!(got[..DATA_BYTES] == noise(DATA_BYTES, seed), "{title}: other data at {at}");
        assert!(got[DATA_BYTES..].iter().all(|byte| *byte == 0), "{title}: no zeros after {at}");
    }
}

/// The bytes that calls of a trace have read, and how many calls there were.
fn reads(log: &str) -> (u64, usize) {
    let answers = log.lines().filter(|line| line.contains("read")).filter_map(|line| {
        line.rsplit_once(" = ").and_then(|(_, answer)| answer.trim().parse::<u64>().ok())
    });
    (answers.sum(), log.lines().count())
}

#[test]
fn holes_are_read_neither_to_make_holes_nor_to_verify() {
    let dir = with_files(&[]);
    let real = dir.path().canonicalize().unwrap();
    let (source, target, log) = (real.join("a"), real.join("b"), real.join("log"));
    make_sparse(&source);
    for options in [
        &["--sparse=always"][..],
        &["--sparse=always", "--verify"],
        &["--verify"],
        &["--verify", "--method=read-write"],
        &["--verify", "--method=splice"],
        &["--verify", "--atomic", "--sparse=always", "--buffer-size=2K"],
    ] {
        let is_by_splice = options.contains(&"--method=splice");
        if is_by_splice
            && crate::common::refused::methods_served_here(&[gush::MethodName::Splice]).is_empty()
        {
            continue;
        }
        let _ = fs::remove_file(&target);
        let calls = "read,pread64,preadv2,lseek,fallocate,copy_file_range,splice";
        let all = ["-o", log.to_str().unwrap(), "-e", calls];
        let mut traced = match strace(&all) {
            Ok(traced) => traced,
            Err(why) => return skipped(&why),
        };
        traced.arg("cp").args(options).args([&source, &target]);
        let output = bounded(PATIENCE_SECONDS, &traced).output().unwrap();
        let title = format!("{options:?}");
        assert!(output.status.success(), "{title}: {}", stderr(&output));
        check_sparse(&target, &title);
        let (bytes, calls) = reads(&fs::read_to_string(&log).unwrap());
        assert!(bytes < 64 << 20, "{title}: {bytes} bytes were read");
        assert!(calls < 2000, "{title}: {calls} calls");
    }
}

#[test]
fn what_was_verified_is_reported_with_a_hash_or_as_compared() {
    let dir = with_files(&[("small", b"small")]);
    make_sparse(&dir.path().join("a"));
    let record = |source: &str, options: &[&str]| -> serde_json::Value {
        let mut command = gush();
        command.arg("cp").args(options).args(["--json", source, "b"]).current_dir(dir.path());
        let output = bounded(PATIENCE_SECONDS, &command).output().unwrap();
        assert!(output.status.success(), "{source} {options:?}: {}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let compared = record("a", &["--verify"]);
    assert_eq!((&compared["verified"], &compared["blake3"]), (&true.into(), &().into()));
    let hashed = record("small", &["--verify"]);
    assert_eq!(hashed["verified"], true);
    assert_eq!(hashed["blake3"], blake3::hash(b"small").to_hex().as_str());
    assert_eq!(record("small", &[])["verified"], false);
}

#[test]
fn a_sparse_target_that_lost_bytes_is_noticed() {
    let dir = with_files(&[]);
    let real = dir.path().canonicalize().unwrap();
    let (source, target) = (real.join("a"), real.join("b"));
    make_sparse(&source);
    // The call says it has written everything and has written nothing.
    let inject = "inject=write,pwrite64:retval=4096:when=2";
    let all = ["-P", target.to_str().unwrap(), "-e", inject];
    let mut traced = match strace(&all) {
        Ok(traced) => traced,
        Err(why) => return skipped(&why),
    };
    let arguments = ["cp", "--verify", "--method=read-write", "--buffer-size=4K"];
    traced.args(arguments).args([&source, &target]);
    let output = bounded(PATIENCE_SECONDS, &traced).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("failed: the copy differs from the source at byte"), "{said}");
}
