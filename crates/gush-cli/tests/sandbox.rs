//! What a seccomp filter denies is gone round, or said: containers deny calls with EPERM, ENOSYS, EACCES.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{noise, skipped};
use tempfile::TempDir;

/// A call, its number where this test knows it, and a method that cannot do without it.
#[cfg(target_arch = "x86_64")]
const CALLS: &[(&str, u32, Option<&str>)] = &[
    ("ioctl", 16, Some("reflink")),
    ("sendfile", 40, Some("sendfile")),
    ("fstatfs", 138, None),
    ("fadvise64", 221, None),
    ("splice", 275, Some("splice")),
    ("vmsplice", 278, Some("vmsplice")),
    ("fallocate", 285, Some("read-mmap")),
    ("pipe2", 293, Some("splice")),
    ("preadv2", 327, None),
    ("copy_file_range", 326, Some("copy-file-range")),
    ("statx", 332, None),
    ("io_uring_setup", 425, Some("uring")),
    ("io_uring_enter", 426, Some("uring")),
];
#[cfg(not(target_arch = "x86_64"))]
const CALLS: &[(&str, u32, Option<&str>)] = &[];

const EPERM: i32 = 1;
const EACCES: i32 = 13;
const ENOSYS: i32 = 38;

/// The launcher, or none, which is told.
fn launcher(dir: &Path) -> Option<PathBuf> {
    common::denier(dir).map_err(|why| skipped(&why)).ok()
}

fn denied(launcher: &Path, errno: i32, number: u32, words: &[&Path]) -> Output {
    Command::new(launcher)
        .args([errno.to_string(), number.to_string()])
        .arg(env!("CARGO_BIN_EXE_gush"))
        .args(words)
        .env("LC_ALL", "C.UTF-8")
        .output()
        .unwrap()
}

#[test]
fn auto_goes_round_what_a_filter_denies() {
    let dir = TempDir::new().unwrap();
    let Some(launcher) = launcher(dir.path()) else { return };
    let bytes = noise(17 << 20, 1);
    let [small, large, target] = ["small", "large", "target"].map(|name| dir.path().join(name));
    fs::write(&small, &bytes[..70_000]).unwrap();
    fs::write(&large, &bytes).unwrap();
    for &(call, number, _) in CALLS {
        for errno in [EPERM, ENOSYS, EACCES] {
            for source in [&small, &large] {
                let _ = fs::remove_file(&target);
                let output = denied(&launcher, errno, number, &[Path::new("cp"), source, &target]);
                assert!(output.status.success(), "{call} denied with {errno}: {output:?}");
                let same = fs::read(&target).unwrap() == fs::read(source).unwrap();
                assert!(same, "{call} denied with {errno}");
            }
            let output = denied(&launcher, errno, number, &[Path::new("cat"), &small]);
            assert!(output.status.success(), "cat, {call} denied with {errno}: {output:?}");
            assert!(output.stdout == bytes[..70_000], "cat, {call} denied with {errno}");
        }
    }
}

#[test]
fn a_method_whose_call_is_denied_says_so_and_touches_nothing() {
    let dir = TempDir::new().unwrap();
    let Some(launcher) = launcher(dir.path()) else { return };
    let [source, target] = ["source", "target"].map(|name| dir.path().join(name));
    fs::write(&source, noise(70_000, 2)).unwrap();
    for &(call, number, method) in CALLS {
        let Some(method) = method else { continue };
        let _ = fs::remove_file(&target);
        let words = ["cp", "--method", method].map(Path::new);
        let words: Vec<_> = words.into_iter().chain([&*source, &*target]).collect();
        let output = denied(&launcher, EPERM, number, &words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{method} without {call}: {text}");
        assert!(text.contains("refused") && text.contains("EPERM"), "{method}: {text}");
        assert_eq!(fs::metadata(&target).map_or(0, |about| about.len()), 0, "{method}: {text}");
    }
}

#[test]
fn a_call_that_nothing_can_replace_is_named_when_it_is_denied() {
    let dir = TempDir::new().unwrap();
    let Some(launcher) = launcher(dir.path()) else { return };
    let [source, target] = ["source", "target"].map(|name| dir.path().join(name));
    fs::write(&source, noise(70_000, 3)).unwrap();
    let lseek = 8;
    let output = denied(&launcher, EPERM, lseek, &[Path::new("cp"), &source, &target]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("lseek failed on the source: Operation not permitted"), "{text}");
}

#[test]
fn a_pipe_writer_without_vmsplice_says_so_or_goes_another_way() {
    let dir = TempDir::new().unwrap();
    let Some(launcher) = launcher(dir.path()) else { return };
    const VMSPLICE: &str = "278";
    const EOPNOTSUPP: i32 = 95;
    for errno in [EPERM, ENOSYS, EOPNOTSUPP] {
        let text = |technique: &str| {
            let script = format!(
                "{} {errno} {VMSPLICE} {gush} pipe write {technique} --bytes 8M | {gush} pipe read --bytes 8M",
                launcher.display(),
                gush = env!("CARGO_BIN_EXE_gush"),
            );
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
        };
        for technique in ["--vmsplice", "--technique fresh"] {
            let said = text(technique);
            assert!(said.contains("vmsplice") && said.contains("technique"), "{technique}: {said}");
        }
        for technique in ["--technique socket", "--technique write", "--technique reservoir"] {
            let said = text(technique);
            assert!(said.contains("(8MiB piped)"), "{technique}: {said}");
        }
    }
}
