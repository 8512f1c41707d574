//! `gush cp` where system calls fail, are interrupted or denied, and the order of its system calls.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::cp::{shares_blocks, stderr};
use crate::common::{noise, skipped, strace, words_of};
use rustix::io::Errno;

#[test]
fn interrupted_calls_are_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().canonicalize().unwrap();
    let (source, target) = (real.join("a"), real.join("d/b"));
    fs::create_dir(real.join("d")).unwrap();
    fs::write(&source, noise(10_000, 2)).unwrap();
    if std::os::unix::fs::chown(&source, Some(12), Some(34)).is_err() {
        return skipped("an owner other than one's own to be kept needs root");
    }
    let calls = [
        "openat",
        "ftruncate",
        "fchmod",
        "fchown",
        "utimensat",
        "fsetxattr",
        "fgetxattr",
        "flistxattr",
        "fsync",
        "linkat",
        "renameat",
        "unlinkat",
        "faccessat2",
        "close",
        "copy_file_range",
        "ioctl",
        "pread64",
        "fallocate",
        "fstat",
        "fstatfs",
        "lseek",
    ];
    let log = real.join("log");
    let copy = |is_new: bool, options: &[&str], expression: &str| {
        let paths: Vec<_> = [&source, &target, &real.join("d")]
            .into_iter()
            .flat_map(|path| ["-P".to_owned(), path.to_str().unwrap().to_owned()])
            .collect();
        let mut all: Vec<&str> = paths.iter().map(String::as_str).collect();
        all.extend(["-o", log.to_str().unwrap(), "-e", expression]);
        let _ = fs::remove_file(&target);
        if !is_new {
            fs::write(&target, "old").unwrap();
        }
        let output = strace(&all)?.arg("cp").args(options).args([&source, &target]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{options:?}, {expression}: {}", stderr(&output));
        let equal = fs::read(&target).unwrap() == noise(10_000, 2);
        assert!(equal, "{options:?}, {expression}");
        Ok::<_, String>(fs::read_to_string(&log).unwrap())
    };
    let mut met = BTreeSet::new();
    for (is_new, options) in [
        (true, &["-a", "--fsync"][..]),
        (true, &["--preallocate", "--sparse=always"]),
        (false, &["-p"]),
        (false, &["-a", "--atomic", "--fsync", "-b"]),
        (false, &["--atomic"]),
        (false, &["--method=read-write"]),
        (false, &["--remove-destination"]),
        (false, &["-lf"]),
    ] {
        // Without a fault first: only calls that are made can be interrupted.
        let calm = match copy(is_new, options, &format!("trace={}", calls.join(","))) {
            Ok(calm) => calm,
            Err(why) => return skipped(&why),
        };
        for call in calls {
            let is_made = |line: &&str| {
                let line = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
                line.strip_prefix(call).is_some_and(|rest| rest.starts_with('('))
            };
            let made = calm.lines().filter(is_made).count();
            for time in 1..=made.min(2) {
                let inject = format!("inject={call}:error=EINTR:when={time}");
                let log = copy(is_new, options, &inject).expect("strace, as before");
                if log.contains("(INJECTED)") {
                    met.insert(call);
                }
            }
        }
    }
    // A clone that is interrupted is made again, and no byte is left to copy.
    let shares = shares_blocks();
    let is_made = |call: &&str| !(shares && *call == "copy_file_range");
    let never: Vec<_> =
        calls.into_iter().filter(is_made).filter(|call| !met.contains(call)).collect();
    assert!(never.is_empty(), "no copy made these calls, so nothing was tried: {never:?}");
}

#[test]
fn each_call_that_fails_is_reported_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().canonicalize().unwrap();
    let (source, target) = (real.join("a"), real.join("b"));
    fs::write(&source, noise(10_000, 3)).unwrap();
    for (options, path, inject, message) in [
        (&["-v"][..], &target, "close:error=EIO:when=1", "failed to close"),
        (&["-p"], &target, "utimensat:error=EIO", "preserving times for"),
        (&["-p"], &target, "fchmod:error=EIO", "preserving permissions for"),
        (&["--fsync"], &target, "fsync:error=EIO", "cannot sync"),
        (&["--method=read-write"], &source, "read,pread64:error=EIO", "error reading"),
        (&["-v"], &source, "fstat,newfstatat:error=EIO:when=1", "cannot stat"),
        (&["-v"], &source, "openat:error=EMFILE", "cannot open"),
    ] {
        let errno = if inject.contains("EMFILE") { Errno::MFILE } else { Errno::IO };
        let _ = fs::remove_file(&target);
        let inject = format!("inject={inject}");
        let traced = ["-P", path.to_str().unwrap(), "-e", &inject];
        let mut traced = match strace(&traced) {
            Ok(traced) => traced,
            Err(why) => return skipped(&why),
        };
        let output = traced.arg("cp").args(options).args([&source, &target]).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{inject}: {said}");
        let start = format!("gush: cp: {message} '{}'", path.display());
        let why = format!(": {}", words_of(errno));
        assert!(said.starts_with(&start) && said.contains(&why), "{inject}: {said}");
    }
}

#[test]
fn a_denied_call_is_done_without() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(300_000, 4);
    fs::write(dir.path().join("a"), &content).unwrap();
    let all = "copy_file_range,ioctl,splice,sendfile,fallocate,fadvise64,fstatfs";
    for error in ["EPERM", "ENOSYS", "EACCES"] {
        let inject = format!("inject={all}:error={error}");
        let mut traced = match strace(&["-e", &inject]) {
            Ok(traced) => traced,
            Err(why) => return skipped(&why),
        };
        let output = traced.args(["cp", "-a", "a", "b"]).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{error}: {}", stderr(&output));
        assert!(fs::read(dir.path().join("b")).unwrap() == content, "{error}");
        fs::remove_file(dir.path().join("b")).unwrap();
    }
}

#[test]
fn a_new_file_is_private_until_its_owner_is_right() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "x").unwrap();
    if std::os::unix::fs::chown(dir.path().join("a"), Some(12), Some(34)).is_err() {
        return skipped("giving files away needs root and its capabilities");
    }
    fs::set_permissions(dir.path().join("a"), PermissionsExt::from_mode(0o644)).unwrap();
    let log = dir.path().join("log");
    let options = [
        "-o",
        log.to_str().unwrap(),
        "-e",
        "trace=openat,utimensat,fchown,flistxattr,fchmod,close",
    ];
    let mut traced = match strace(&options) {
        Ok(traced) => traced,
        Err(why) => return skipped(&why),
    };
    let output = traced.args(["cp", "-a", "a", "b"]).current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let log = fs::read_to_string(log).unwrap();
    let created = log.lines().position(|line| line.contains("\"b\"") && line.contains("O_EXCL"));
    let after: Vec<_> = log.lines().skip(created.unwrap()).collect();
    assert!(after[0].contains("0600"), "{}", after[0]);
    let order: Vec<_> = after
        .iter()
        .filter_map(|line| {
            ["utimensat", "fchown", "flistxattr", "fchmod"].into_iter().find(|c| line.contains(c))
        })
        .collect();
    assert_eq!(order, ["utimensat", "fchown", "flistxattr", "fchmod"], "{log}");
}
