//! Each call that a copy of a small tree makes fails once: the failure is reported with a path, all
//! else is copied, and nothing outside the target is touched.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common::cp::{shares_blocks, stderr};
use crate::common::{not_applicable, skipped, strace, words_of};
use rustix::io::Errno;

/// Calls about files. Others (memory, signals, threads) are no part of a copy.
const CALLS: &str = "openat,openat2,newfstatat,fstat,statx,copy_file_range,pread64,pwrite64,utimensat,flistxattr,\
    fgetxattr,fsetxattr,fchmod,mkdirat,getdents64,close,readlinkat,symlinkat,linkat,mknodat,fchown,\
    fchownat,lseek,fstatfs";
const ENTRIES: [&str; 7] = ["f", "b", "b/g", "b/h", "b/c", "b/c/l", "z"];

fn field() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("a");
    fs::create_dir_all(root.join("b/c")).unwrap();
    for name in ["f", "b/g", "z"] {
        fs::write(root.join(name), name.repeat(100)).unwrap();
    }
    fs::hard_link(root.join("f"), root.join("b/h")).unwrap();
    symlink("../../f", root.join("b/c/l")).unwrap();
    fs::write(dir.path().join("outside"), "guarded").unwrap();
    dir
}

fn copy(dir: &Path, options: &[&str]) -> Result<Output, String> {
    let mut traced = strace(options)?;
    traced.args(["cp", "-aT", "--threads=1", "a", "d"]).current_dir(dir);
    Ok(traced.output().unwrap())
}

/// Of each call, which ones the copy makes: the first and the last number, counted from the start
/// of the program.
fn calls_of_a_copy() -> Result<BTreeMap<String, (usize, usize)>, String> {
    let dir = field();
    let trace = format!("trace={CALLS}");
    let output = copy(dir.path(), &["-o", "calls", "-e", &trace])?;
    assert!(output.status.success(), "{}", stderr(&output));
    let text = fs::read_to_string(dir.path().join("calls")).unwrap();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut found: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut has_begun = false;
    for line in text.lines() {
        let Some((before, rest)) = line.split_once('(') else { continue };
        let Some(name) = before.split_whitespace().last() else { continue };
        has_begun |= rest.starts_with("AT_FDCWD, \"a\"");
        let count = counts.entry(name.to_owned()).or_default();
        *count += 1;
        if has_begun {
            found.entry(name.to_owned()).or_insert((*count, *count)).1 = *count;
        }
    }
    Ok(found)
}

/// Every path that a message names, from the root of the tree on: of `a/b` and `d/b`, `b`.
fn named(said: &str) -> Vec<PathBuf> {
    let words = said.split(['\'', ':', ' ', '\n']);
    let below = |word: &str| {
        let path = Path::new(word);
        path.strip_prefix("a").or_else(|_| path.strip_prefix("d")).map(Path::to_path_buf).ok()
    };
    words.filter_map(below).collect()
}

fn state(path: &Path) -> Option<String> {
    let about = fs::symlink_metadata(path).ok()?;
    let content = match (about.is_dir(), about.is_symlink()) {
        (true, _) => String::new(),
        (_, true) => format!("{:?}", fs::read_link(path).unwrap()),
        _ => fs::read_to_string(path).unwrap(),
    };
    Some(format!("{:o} {} {} {content}", about.mode(), about.mtime(), about.mtime_nsec()))
}

/// Copies with one call failing, and looks whether the error is reported with a path, all else
/// copied, and nothing else touched. `false` where the copy did without the call.
fn is_reported(call: &str, number: usize, (errno, text): (&str, &str)) -> bool {
    let dir = field();
    let inject = format!("inject={call}:error={errno}:when={number}");
    let output = copy(dir.path(), &["-e", &inject]).unwrap();
    let said = stderr(&output);
    let case = format!("{inject}: {:?}: {said}", output.status);
    let excused = match output.status.code() {
        Some(0) => Vec::new(),
        Some(1) => {
            assert!(said.contains(text), "{case}");
            let named = named(&said);
            assert!(!named.is_empty(), "{case}");
            named
        }
        _ => panic!("{case}"),
    };
    for entry in ENTRIES {
        let is_excused = excused.iter().any(|path| Path::new(entry).starts_with(path));
        let [from, to] = ["a", "d"].map(|root| state(&dir.path().join(root).join(entry)));
        assert!(is_excused || from == to, "{entry}: {from:?} {to:?}: {case}");
    }
    let outside = fs::read_to_string(dir.path().join("outside")).unwrap();
    assert_eq!(outside, "guarded", "{case}");
    let expected = ["a", "d", "outside"];
    for name in crate::common::cp::names(dir.path()) {
        assert!(expected.contains(&name.as_str()), "{name}: {case}");
    }
    output.status.code() == Some(1)
}

#[test]
fn every_call_may_fail_and_all_else_is_copied() {
    let calls = match calls_of_a_copy() {
        Ok(calls) => calls,
        Err(why) => return skipped(&why),
    };
    let mut failures = 0;
    for (call, (first, last)) in &calls {
        for number in *first..=*last {
            failures += usize::from(is_reported(call, number, ("EIO", &words_of(Errno::IO))));
        }
    }
    assert!(failures > 20, "{failures} of {calls:?}");
}

/// Errors by which file systems refuse one entry: a quota, space, a name too long for them, links
/// that they do not have.
#[test]
fn an_entry_that_the_file_system_refuses_is_reported_and_all_else_is_copied() {
    let cases = [
        ("openat", "EDQUOT", Errno::DQUOT),
        ("openat", "ENAMETOOLONG", Errno::NAMETOOLONG),
        ("openat", "EROFS", Errno::ROFS),
        ("openat", "ELOOP", Errno::LOOP),
        ("copy_file_range", "EDQUOT", Errno::DQUOT),
        ("copy_file_range", "ENOSPC", Errno::NOSPC),
        ("mkdirat", "EDQUOT", Errno::DQUOT),
        ("mkdirat", "EROFS", Errno::ROFS),
        ("mkdirat", "ENAMETOOLONG", Errno::NAMETOOLONG),
        ("symlinkat", "EPERM", Errno::PERM),
        ("linkat", "EPERM", Errno::PERM),
        ("linkat", "EMLINK", Errno::MLINK),
    ];
    let calls = match calls_of_a_copy() {
        Ok(calls) => calls,
        Err(why) => return skipped(&why),
    };
    let shares = shares_blocks();
    for (call, name, errno) in cases {
        if shares && call == "copy_file_range" {
            not_applicable(&format!("{call} {name}: a clone copies no byte"));
            continue;
        }
        let text = words_of(errno);
        let Some(&(first, last)) = calls.get(call) else {
            panic!("no copy calls {call}: {calls:?}")
        };
        let reported = (first..=last).filter(|&number| is_reported(call, number, (name, &text)));
        assert!(reported.count() > 0, "{call} {name}");
    }
}
