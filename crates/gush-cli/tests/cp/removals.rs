//! `gush cp -r --delete`: each removal is reported, by a dry run, too, and nothing else is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem::discriminant;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::common::cp::{cp, names, stderr, stdout, succeeds, tree};
use crate::common::skipped;

/// What lines of `-v`, or of a dry run, report as removed.
fn removed(output: &str) -> Vec<String> {
    let mut names: Vec<_> = output
        .lines()
        .filter_map(|line| {
            let name = line.strip_prefix("removed ").or(line.strip_prefix("would remove "))?;
            Some(name.trim_matches('\'').to_owned())
        })
        .collect();
    names.sort();
    names
}

#[test]
fn what_goes_from_a_directory_that_stays_is_reported() {
    let files = ["a/f", "d/b/keep.o", "d/b/x", "d/b/c/y", "d/b/c/d/z", "d/b/e/keep.o", "d/b/e/x"];
    let dir = tree(&files);
    let options = ["-rT", "--delete", "--exclude=*.o", "-v", "a", "d"];
    let expected = ["d/b/c", "d/b/e/x", "d/b/x"];
    let dry = succeeds(dir.path(), &[&options[..], &["--dry-run"]].concat());
    assert_eq!(removed(&stdout(&dry)), expected);
    assert_eq!(removed(&stdout(&succeeds(dir.path(), &options))), expected);
    assert_eq!(names(&dir.path().join("d/b")), ["e", "keep.o"]);
    assert_eq!(names(&dir.path().join("d/b/e")), ["keep.o"]);
}

#[test]
fn a_directory_that_is_not_replaced_keeps_all() {
    let files = ["a/x", "d/x/b/f", "d/x/f", "d/x/z.keep", "d/x/0"];
    let dir = tree(&files);
    for dry in [&["--dry-run"][..], &[]] {
        let options = ["-rT", "--delete", "--exclude=*.keep", "-v", "a", "d"];
        let output = cp(dir.path(), &[&options[..], dry].concat());
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        let expected = "gush: cp: not replacing 'd/x': the filters keep something of it (remove it \
                        by hand, or copy without these filters)\n";
        assert_eq!(said, expected);
        assert!(removed(&stdout(&output)).is_empty(), "{}", stdout(&output));
        assert_eq!(names(&dir.path().join("d/x")), ["0", "b", "f", "z.keep"]);
    }
}

fn chattr(dir: &Path, how: &str, names: &[&str]) -> bool {
    let changed = Command::new("chattr").arg(how).args(names).current_dir(dir).output();
    changed.is_ok_and(|output| output.status.success())
}

#[test]
fn what_cannot_be_removed_keeps_nothing_else() {
    let files = ["a/f", "d/b/1", "d/b/2/kept", "d/b/2/x", "d/b/3/x", "d/b/4", "d/b/kept", "d/y"];
    let dir = tree(&files);
    let kept = ["d/b/2/kept", "d/b/kept"];
    if !chattr(dir.path(), "+i", &kept) {
        chattr(dir.path(), "-i", &kept);
        return skipped("no chattr, no root, or no such attribute here");
    }
    let options = ["-rT", "--delete", "-v", "a", "d"];
    let run = |more: &[&str]| cp(dir.path(), &[&options[..], more].concat());
    let outputs = [run(&["--dry-run"]), run(&["--json"]), run(&[])];
    let left = names(&dir.path().join("d/b"));
    chattr(dir.path(), "-i", &kept);
    let failures = |output: &Output| {
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(output);
        let lines = said.lines().filter(|line| line.contains("cannot remove"));
        let mut lines: Vec<_> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let remedy =
        "Operation not permitted (the file is immutable: chattr -i removes this attribute)";
    let expected = kept.map(|name| format!("gush: cp: cannot remove '{name}': {remedy}"));
    for output in &outputs {
        assert_eq!(failures(output), expected);
    }
    // The first run that was not dry has removed all that goes.
    let reported = ["d/b/1", "d/b/2/x", "d/b/3", "d/b/4", "d/y"];
    assert_eq!(removed(&stdout(&outputs[0])), reported);
    let records: BTreeSet<_> =
        records(&outputs[1]).into_iter().map(|(action, target, _)| (action, target)).collect();
    for name in reported {
        assert!(records.contains(&("removed".into(), name.into())), "{name}: {records:?}");
    }
    for name in kept {
        assert!(records.contains(&("failed".into(), name.into())), "{name}: {records:?}");
    }
    assert_eq!(left, ["2", "kept"]);
}

/// Action, target and message of each record.
fn records(output: &Output) -> Vec<(String, String, String)> {
    let mut records: Vec<_> = stdout(output)
        .lines()
        .map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let error = text(&record["error"]["message"]);
            let action = match record["action"].as_str().unwrap() {
                // Which name of a file is copied, and which is linked, depends on the threads.
                "hard-linked" | "symbolic-linked" | "recreated" => "copied".to_owned(),
                action => action.to_owned(),
            };
            (action, text(&record["target"]), error)
        })
        .collect();
    records.sort();
    records
}

struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }
}

/// A tree of few names, so that a second one has many of them as another kind.
fn random_tree(root: &Path, random: &mut Random) {
    fs::create_dir(root).unwrap();
    let mut dirs = vec![root.to_path_buf()];
    let mut files = Vec::new();
    for _ in 0..random.below(25) {
        let above = &dirs[random.below(dirs.len())];
        let path = above.join(random.one(&["a", "b", "c", "d", "x.o", "y.o", "k"]));
        if path.symlink_metadata().is_ok() {
            continue;
        }
        match random.below(9) {
            0..=2 => {
                fs::create_dir(&path).unwrap();
                dirs.push(path);
            }
            3 => symlink(random.one(&["a", "nowhere", "../b"]), &path).unwrap(),
            4 => mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap(),
            5 if !files.is_empty() => {
                fs::hard_link(&files[random.below(files.len())], &path).unwrap();
            }
            _ => {
                fs::write(&path, random.one(&["one", "two", "other"])).unwrap();
                files.push(path);
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq, Clone)]
enum Entry {
    Directory,
    File(u64, Vec<u8>),
    Link(String),
    Other,
}

/// Each entry below `d`, by the name that records give it.
fn entries(dir: &Path) -> BTreeMap<String, Entry> {
    let found = crate::common::cp::below(&dir.join("d"));
    let look = |name: &String| {
        let path = dir.join("d").join(name);
        let about = fs::symlink_metadata(&path).unwrap();
        match about.file_type() {
            kind if kind.is_dir() => Entry::Directory,
            kind if kind.is_symlink() => {
                Entry::Link(fs::read_link(&path).unwrap().into_os_string().into_string().unwrap())
            }
            kind if kind.is_fifo() => Entry::Other,
            _ => Entry::File(about.ino(), fs::read(&path).unwrap()),
        }
    };
    found.iter().map(|name| (format!("d/{name}"), look(name))).collect()
}

fn is_at_or_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The records against the trees before and after.
fn compare(
    records: &[(String, String, String)],
    before: &BTreeMap<String, Entry>,
    after: &BTreeMap<String, Entry>,
) -> Result<(), String> {
    let with = |action: &'static str| {
        let is_such = move |record: &&(String, String, String)| record.0 == action;
        records.iter().filter(is_such).map(|(_, target, _)| target)
    };
    for (path, was) in before {
        let is_reported = with("removed").any(|root| is_at_or_below(path, root));
        let is = after.get(path);
        let has_gone = is.is_none_or(|is| discriminant(is) != discriminant(was));
        // A link or special file takes the place of any other file by its own copy.
        let is_replaced = is.is_some() && *was != Entry::Directory && !is_reported;
        if is_reported != has_gone && !(has_gone && is_replaced) {
            return Err(format!("{path}: reported as removed: {is_reported}, gone: {has_gone}"));
        }
    }
    let mut removed = BTreeSet::new();
    for path in with("removed") {
        if !before.contains_key(path) || !removed.insert(path) {
            return Err(format!(
                "{path}: reported as removed, and was not there or reported before"
            ));
        }
    }
    let copied: BTreeSet<_> = records
        .iter()
        .filter(|(action, ..)| !["removed", "failed", "skipped"].contains(&action.as_str()))
        .map(|(_, target, _)| target.as_str())
        .collect();
    for (path, is) in after {
        let was = before.get(path);
        let has_changed = match (was, is) {
            (Some(Entry::File(_, was)), Entry::File(_, is)) => was != is,
            (was, is) => was != Some(is),
        };
        if has_changed && !copied.contains(path.as_str()) {
            return Err(format!("{path}: is new, and was not reported"));
        }
    }
    for path in copied {
        // What was put back has taken its place.
        let is_undone = with("failed").any(|root| is_at_or_below(path, root));
        if path != "d" && !after.contains_key(path) && !is_undone {
            return Err(format!("{path}: reported as copied, and is not there"));
        }
    }
    for path in with("failed") {
        let state = |of: &BTreeMap<String, Entry>| -> Vec<_> {
            of.iter()
                .filter(|(at, _)| is_at_or_below(at, path))
                .map(|(at, is)| (at.clone(), is.clone()))
                .collect()
        };
        if state(before) != state(after) {
            return Err(format!("{path}: reported as failed, and changed"));
        }
    }
    Ok(())
}

#[test]
fn a_dry_run_reports_what_the_copy_does() {
    const FEW: u32 = 60;
    const ALL: u32 = 400;
    let mut with_partial_removals = 0;
    for seed in 1..=u64::from(gush_test::few_or_all(FEW, ALL, "random trees")) {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let dir = tempfile::tempdir().unwrap();
        random_tree(&dir.path().join("a"), &mut random);
        random_tree(&dir.path().join("d"), &mut random);
        let mut options = vec![random.one(&["-rT", "-aT"]), "--delete"];
        options.push(random.one(&["--threads=1", "--threads=3"]));
        options.push(random.one(&[
            "--exclude=*.o",
            "--exclude=k",
            "--exclude=/b/a",
            "--include=a/",
            "--exclude=x.o/",
        ]));
        options.push(random.one(&[
            "--no-cache",
            "--checksum",
            "--atomic",
            "--commit-last=c",
            "--exclude=y.o",
            "--include=x.o",
        ]));
        // Which name of a file is kept, and which is made a link to it, depends on the threads.
        if options.contains(&"--checksum") {
            options.retain(|option| !option.starts_with("--threads"));
            options.push("--threads=1");
        }
        let state = || entries(dir.path());
        let run = |more: &[&str]| cp(dir.path(), &[&options[..], more, &["a", "d"]].concat());
        let before = state();
        let dry = run(&["--dry-run", "--json"]);
        let dry_lines = run(&["--dry-run"]);
        assert_eq!(state(), before, "seed {seed}: {options:?}: a dry run changed something");
        // A second target like the first, since a mirror has nothing left to do.
        let again = Command::new("cp").args(["-a", "d", "again"]).current_dir(dir.path()).status();
        assert!(again.unwrap().success());
        let copy = run(&["--json"]);
        let after = state();
        assert_eq!(records(&dry), records(&copy), "seed {seed}: {options:?}: {}", stderr(&copy));
        assert_eq!(dry.status.code(), copy.status.code(), "seed {seed}: {options:?}");
        if let Err(why) = compare(&records(&copy), &before, &after) {
            panic!("seed {seed}: {options:?}: {why}\n{:#?}\n{}", records(&copy), stderr(&copy));
        }
        fs::rename(dir.path().join("d"), dir.path().join("first")).unwrap();
        fs::rename(dir.path().join("again"), dir.path().join("d")).unwrap();
        let copy_lines = run(&["-v"]);
        let is_mirrored = |name: &str| {
            let is_such = |(action, target, _): &(String, String, String)| {
                action == "removed" && name == format!("'{target}'")
            };
            records(&copy).iter().any(is_such)
        };
        let reported = |text: String| -> Vec<String> {
            let text = text.replace("would remove", "removed").replace("would copy ", "");
            let text = text.replace("would update", "updated");
            // Which names of a linked target are removed first depends on the threads.
            let is_certain = |line: &&str| line.strip_prefix("removed ").is_none_or(is_mirrored);
            let mut lines: Vec<_> = text.lines().filter(is_certain).map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let seen = |output: &Output| (reported(stdout(output)), reported(stderr(output)));
        assert_eq!(seen(&dry_lines), seen(&copy_lines), "seed {seed}: {options:?}");
        with_partial_removals += u32::from(
            records(&copy)
                .iter()
                .any(|(action, target, _)| action == "removed" && target.matches('/').count() > 1),
        );
    }
    assert!(with_partial_removals > 3, "{with_partial_removals}");
}

/// A link that is broken leaves a file of the same name: no record of a removal, in neither run.
#[test]
fn records_of_linked_targets_are_those_of_a_dry_run() {
    for promise in ["-a", "--verify"] {
        let dir = tree(&["a/f1", "a/f2", "d/gone"]);
        fs::write(dir.path().join("a/f2"), "another").unwrap();
        fs::write(dir.path().join("d/f1"), "old").unwrap();
        fs::hard_link(dir.path().join("d/f1"), dir.path().join("d/f2")).unwrap();
        let run = |dry: &[&str]| {
            let options = [&["-rT", "--delete", "--json", promise][..], dry, &["a", "d"]].concat();
            records(&cp(dir.path(), &options))
        };
        let dry = run(&["--dry-run"]);
        assert_eq!(run(&[]), dry, "{promise}");
        let removed = dry.iter().filter(|(action, ..)| action == "removed").count();
        assert_eq!((dry.len(), removed), (4, 1), "{promise}: {dry:?}");
        assert_eq!(fs::read_to_string(dir.path().join("d/f2")).unwrap(), "another", "{promise}");
    }
}
