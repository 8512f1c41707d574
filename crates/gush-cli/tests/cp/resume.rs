//! `gush cp --resume`: a copy that was killed goes on, and ends as one that was not.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::cp::{cp, fails, names, script, stderr, stdout, succeeds, with_mounts};
use crate::common::{copied_gush, gush, nobody, skipped, strace};

const JOURNAL: &str = ".d.gush-journal";

/// A tree of so many files, with names of one file, links, modes and directories in directories.
fn tree(files: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("a");
    for number in 0..files {
        let above = root.join(format!("{}/{}", number % 7, number % 3));
        fs::create_dir_all(&above).unwrap();
        let path = above.join(format!("f{number}"));
        fs::write(&path, vec![number as u8; 100 + 37 * number]).unwrap();
        let bits = [0o644, 0o600, 0o4755, 0o444][number % 4];
        fs::set_permissions(&path, fs::Permissions::from_mode(bits)).unwrap();
        if number % 10 == 0 {
            fs::hard_link(&path, root.join(format!("{}/hard{number}", number % 7))).unwrap();
            symlink(format!("f{number}"), above.join(format!("soft{number}"))).unwrap();
        }
    }
    for (number, bits) in [(0, 0o777), (1, 0o700), (2, 0o555), (3, 0o2775)] {
        let path = root.join(number.to_string());
        fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
    }
    dir
}

/// All that a copy with -a keeps.
fn facts(root: &Path, with_times: bool) -> BTreeMap<PathBuf, String> {
    let mut facts = BTreeMap::new();
    let mut first: HashMap<u64, PathBuf> = HashMap::new();
    let mut waiting = vec![root.to_path_buf()];
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.push(path);
    }
    found.sort();
    for path in found {
        let about = fs::symlink_metadata(&path).unwrap();
        let name = path.strip_prefix(root).unwrap().to_path_buf();
        let content = match (about.is_file(), about.is_symlink()) {
            (true, _) => {
                let one = first.entry(about.ino()).or_insert_with(|| name.clone()).clone();
                format!("{one:?} {} {:?}", about.nlink(), fs::read(&path).unwrap())
            }
            (_, true) => format!("{:?}", fs::read_link(&path).unwrap()),
            _ => String::new(),
        };
        let times = if with_times { (about.mtime(), about.mtime_nsec()) } else { (0, 0) };
        facts.insert(name, format!("{:o} {times:?} {content}", about.mode()));
    }
    facts
}

fn lines(dir: &Path) -> usize {
    fs::read(dir.join(JOURNAL))
        .map_or(0, |journal| journal.iter().filter(|&&byte| byte == b'\n').count())
}

/// Copies, and kills the copy when the journal has so many lines. The names copied, as far as they
/// were reported.
fn copy_and_kill(dir: &Path, options: &[&str], at_lines: usize) -> Vec<String> {
    let mut child = gush()
        .arg("cp")
        .args(options)
        .args(["--resume", "--json", "a", "d"])
        .current_dir(dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reported = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        reported.read_to_string(&mut text).map(|_| text)
    });
    while child.try_wait().unwrap().is_none() {
        if lines(dir) >= at_lines {
            child.kill().unwrap();
            break;
        }
        std::thread::yield_now();
    }
    child.wait().unwrap();
    let text = reader.join().unwrap().unwrap();
    let records = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let copied = |record: &serde_json::Value| record["action"] == "copied";
    let name = |record: serde_json::Value| record["source"].as_str().unwrap().to_owned();
    records.filter(copied).map(name).collect()
}

/// What one kill can cost at most: the lines that wait for one more (`WAITING_LINES` of the
/// journal), and the file that each of two threads is at.
const TWICE_A_KILL: usize = 31 + 2;

fn campaign(options: &[&str], files: usize, kills: usize, most_twice: usize, mut random: u64) {
    let dir = tree(files);
    succeeds(dir.path(), &[options, &["a", "expected"]].concat());
    let mut copied: HashMap<String, usize> = HashMap::new();
    // The last one is not killed. Once the copy is complete there is no journal, and nothing to go
    // on with.
    for kill in 0..=kills {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let further = 1 + (random % (2 * files / kills) as u64) as usize;
        let at_lines = if kill < kills { lines(dir.path()) + further } else { usize::MAX };
        for name in copy_and_kill(dir.path(), options, at_lines) {
            *copied.entry(name).or_default() += 1;
        }
        if !dir.path().join(JOURNAL).exists() {
            break;
        }
    }
    let with_times = options.contains(&"-a");
    let expected = facts(&dir.path().join("expected"), with_times);
    let found = facts(&dir.path().join("d"), with_times);
    for (name, fact) in &expected {
        assert_eq!(found.get(name), Some(fact), "{options:?} {}", name.display());
    }
    assert_eq!(found.len(), expected.len());
    let twice: usize = copied.values().map(|times| times - 1).sum();
    assert!(twice <= most_twice, "{twice} of {files} twice");
    assert_eq!(names(dir.path()), ["a", "d", "expected"], "the journal is gone");
}

#[test]
fn a_copy_killed_ten_times_ends_as_one_that_was_not() {
    campaign(&["-a", "--threads=2"], 1000, 10, 10 * TWICE_A_KILL, 0x9E37_79B9_7F4A_7C15);
    campaign(&["-r", "--threads=1"], 500, 5, 5 * TWICE_A_KILL, 0x1234_5678_9ABC_DEF1);
    let fresh = ["-r", "--no-preserve=mode", "--threads=1"];
    campaign(&fresh, 500, 5, 5 * TWICE_A_KILL, 0x0FED_CBA9_8765_4321);
}

/// `cargo test -p gush-cli --test cp resume -- --ignored`.
#[test]
#[ignore = "a hundred kills take minutes"]
fn a_copy_killed_a_hundred_times_ends_as_one_that_was_not() {
    // Less than a tenth: on a starved machine, where every kill costs the most, more would be
    // right.
    campaign(&["-a"], 4_000, 100, 399, 0x2545_F491_4F6C_DD1D);
}

#[test]
fn a_file_that_changed_on_either_side_is_copied_again() {
    let dir = tree(60);
    fs::create_dir(dir.path().join("d")).unwrap();
    // One that cannot be copied keeps the journal.
    fs::create_dir_all(dir.path().join("d/4/1/f4/in the way")).unwrap();
    let options = ["-aT", "--resume", "a", "d"];
    let said = fails(dir.path(), &options);
    assert!(said.contains("cannot overwrite directory"), "{said}");
    fs::write(dir.path().join("a/1/1/f1"), "a change of the source").unwrap();
    fs::write(dir.path().join("d/2/2/f2"), "a change of the target").unwrap();
    fs::remove_file(dir.path().join("d/3/0/f3")).unwrap();
    fs::remove_dir_all(dir.path().join("d/4/1/f4")).unwrap();
    let output = succeeds(dir.path(), &[&options[..], &["--json"]].concat());
    let mut copied: Vec<String> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|record| record["action"] == "copied")
        .map(|record| record["source"].as_str().unwrap().to_owned())
        .collect();
    copied.sort();
    assert_eq!(copied, ["a/1/1/f1", "a/2/2/f2", "a/3/0/f3", "a/4/1/f4"]);
    assert_eq!(facts(&dir.path().join("a"), true), facts(&dir.path().join("d"), true));
    assert!(!dir.path().join(JOURNAL).exists());
}

#[test]
fn a_journal_that_was_torn_or_scribbled_on_costs_copies_and_nothing_else() {
    let dir = tree(40);
    fs::create_dir_all(dir.path().join("d/4/1/f4/in the way")).unwrap();
    fails(dir.path(), &["-aT", "--resume", "a", "d"]);
    let journal = dir.path().join(JOURNAL);
    let whole = fs::read(&journal).unwrap();
    fs::remove_dir_all(dir.path().join("d/4/1/f4")).unwrap();
    let mut scribbled = whole.clone();
    let middle = scribbled.len() / 2;
    scribbled[middle] ^= 1;
    let torn: [&[u8]; 4] = [&whole[..whole.len() - 5], &scribbled, &whole[..20], b""];
    // From the beginning, the files that are read-only already are the user's own.
    let tried = if rustix::process::geteuid().is_root() { &torn[..] } else { &torn[..2] };
    for text in tried {
        fs::write(&journal, text).unwrap();
        succeeds(dir.path(), &["-aT", "--resume", "a", "d"]);
        assert_eq!(facts(&dir.path().join("a"), true), facts(&dir.path().join("d"), true));
        assert!(!journal.exists());
    }
}

#[test]
fn the_journal_of_another_copy_is_refused() {
    let dir = tree(20);
    fs::create_dir_all(dir.path().join("d/4/1/f4/in the way")).unwrap();
    fails(dir.path(), &["-aT", "--resume", "a", "d"]);
    let said = fails(dir.path(), &["-rT", "--resume", "a", "d"]);
    let hint = "(remove it to copy from the beginning, with -T if the target is there)";
    assert_eq!(said, format!("gush: cp: {JOURNAL}: the journal of another copy {hint}\n"));
    fs::write(dir.path().join(JOURNAL), "my shopping list\n").unwrap();
    let said = fails(dir.path(), &["-aT", "--resume", "a", "d"]);
    let what = "no journal of gush, or one whose first line is damaged";
    assert_eq!(said, format!("gush: cp: {JOURNAL}: {what} {hint}\n"));
    assert_eq!(fs::read(dir.path().join(JOURNAL)).unwrap(), b"my shopping list\n");
    for (options, why) in [
        (&["-au"][..], "-u or -n"),
        (&["-an"], "-u or -n"),
        (&["-a", "--checksum"], "--checksum"),
        (&["-a", "--update=changed"], "--checksum"),
        (&["-ab"], "--backup"),
        (&["-al"], "-l or -s"),
        (&["-a", "--dry-run"], "--dry-run"),
        (&[], "--resume requires -r"),
    ] {
        let said = fails(dir.path(), &[options, &["--resume", "a", "e"]].concat());
        assert!(said.contains(why), "{options:?}: {said}");
    }
    let output = cp(dir.path(), &["-a", "--resume", "a/.", "e/."]);
    assert!(!output.status.success(), "{}", stderr(&output));
}

/// Root may write to any file. The copy that goes on made the file, and so may make it anew, also
/// in a directory that was complete before the lines of its files were written.
#[test]
fn a_copy_that_goes_on_replaces_its_own_files_that_nobody_may_write_to() {
    let user = match nobody() {
        Ok(user) => user,
        Err(why) => return skipped(&why),
    };
    let dir = tree(10);
    let program = copied_gush(dir.path());
    fs::create_dir_all(dir.path().join("d/4/1/f4/in the way")).unwrap();
    let text = format!(
        "chmod 777 . && chown -R {user}:{user} a d && chmod 444 a/1/1/f1
        chmod 555 a/1/1 a/5/2"
    );
    assert!(script(dir.path(), &text).status.success());
    let copies = || {
        let mut command = Command::new(&program);
        command.args(["cp", "-aT", "--resume", "a", "d"]).current_dir(dir.path());
        command.uid(user).gid(user).output().unwrap()
    };
    assert_eq!(copies().status.code(), Some(1), "the one in the way");
    let text = "rm -r d/4/1/f4 && chmod 644 a/1/1/f1 && echo more >>a/1/1/f1 && chmod 444 a/1/1/f1
        cp .d.gush-journal whole && grep -v '^done ' whole >.d.gush-journal && rm whole";
    assert!(script(dir.path(), text).status.success());
    let output = copies();
    assert!(output.status.success(), "{}", stderr(&output));
    let bits = fs::metadata(dir.path().join("d/1/1")).unwrap().permissions().mode();
    assert_eq!(bits & 0o777, 0o555);
    assert_eq!(facts(&dir.path().join("a"), true), facts(&dir.path().join("d"), true));
}

/// A name that a killed copy made, and had no time to note, is a name of the right file already.
#[test]
fn names_of_one_file_that_are_there_already_leave_no_temporary_one() {
    let dir = tempfile::tempdir().unwrap();
    let [source, target] = ["a", "d"].map(|name| dir.path().join(name));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("one"), "of two names").unwrap();
    fs::hard_link(source.join("one"), source.join("other")).unwrap();
    fs::write(source.join("x"), "").unwrap();
    // Keeps the journal.
    fs::create_dir_all(target.join("x/in the way")).unwrap();
    for option in ["--atomic", "--preallocate", "--method=read-write"] {
        for lost in [0, 1] {
            let _ = fs::remove_file(dir.path().join(JOURNAL));
            fails(dir.path(), &["-aT", "--resume", option, "a", "d"]);
            let journal = fs::read_to_string(dir.path().join(JOURNAL)).unwrap();
            let line = journal.lines().filter(|line| line.starts_with("done ")).nth(lost).unwrap();
            let rest = journal.replace(&format!("{line}\n"), "");
            fs::write(dir.path().join(JOURNAL), rest).unwrap();
            fails(dir.path(), &["-aT", "--resume", option, "a", "d"]);
            assert_eq!(names(&target), ["one", "other", "x"], "{option}");
            assert_eq!(fs::metadata(target.join("one")).unwrap().nlink(), 2, "{option}");
        }
    }
}

#[test]
fn temporary_names_that_a_killed_copy_left_go_with_the_copy_that_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let [source, target] = ["a", "d"].map(|name| dir.path().join(name));
    fs::create_dir_all(source.join("below")).unwrap();
    fs::create_dir_all(&target).unwrap();
    fs::write(source.join("below/f"), "new").unwrap();
    for option in ["--threads=2", "--keep-directory-symlink"] {
        let below = target.join("below");
        if option == "--keep-directory-symlink" {
            fs::rename(&below, target.join("elsewhere")).unwrap();
            symlink("elsewhere", &below).unwrap();
        } else {
            fs::create_dir(&below).unwrap();
        }
        fs::write(below.join("f"), "old").unwrap();
        // Looks like a temporary name, and is another's.
        fs::write(below.join(".f.gush-aaaaaa"), "").unwrap();
        let words = ["-aT", "--atomic", "--resume", option, "a", "d"];
        let mut traced = match strace(&["-e", "inject=renameat:signal=KILL"]) {
            Ok(traced) => traced,
            Err(why) => return skipped(&why),
        };
        traced.arg("cp").args(words).current_dir(dir.path());
        assert!(!traced.output().unwrap().status.success());
        assert_eq!(fs::read(below.join("f")).unwrap(), b"old");
        assert_eq!(names(&below).len(), 3, "the temporary name stays");
        succeeds(dir.path(), &words);
        assert_eq!(names(&below), [".f.gush-aaaaaa", "f"], "{option}");
        assert_eq!(fs::read(below.join("f")).unwrap(), b"new");
    }
}

/// Another user's journal could say that files are done which are not.
#[test]
fn the_journal_of_another_user_is_refused() {
    let user = match nobody() {
        Ok(user) => user,
        Err(why) => return skipped(&why),
    };
    let dir = tree(10);
    fs::create_dir_all(dir.path().join("d/4/1/f4/in the way")).unwrap();
    fails(dir.path(), &["-aT", "--resume", "a", "d"]);
    std::os::unix::fs::chown(dir.path().join(JOURNAL), Some(user), None).unwrap();
    let said = fails(dir.path(), &["-aT", "--resume", "a", "d"]);
    assert_eq!(said, format!("gush: cp: {JOURNAL}: no journal: not a file of this user\n"));
}

/// Whoever held the lock may have ended its copy meanwhile, and somebody else may have begun
/// another.
#[test]
fn a_journal_that_is_another_file_once_it_is_locked_is_not_written_to() {
    let dir = tree(5);
    let journal = dir.path().join(JOURNAL);
    let mut traced = match strace(&["-e", "inject=flock:delay_enter=2000000"]) {
        Ok(traced) => traced,
        Err(why) => return skipped(&why),
    };
    traced.args(["cp", "-a", "--resume", "a", "d"]).current_dir(dir.path());
    let mut copy = traced.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !journal.exists() {
        assert!(copy.try_wait().unwrap().is_none(), "no journal was seen");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // The next call of this copy is the one for the lock.
    fs::write(dir.path().join("other"), "").unwrap();
    fs::rename(dir.path().join("other"), &journal).unwrap();
    let output = copy.wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(
        said,
        format!("gush: cp: {JOURNAL}: another copy writes this journal (wait until it ends)\n")
    );
    assert_eq!(names(dir.path()), [JOURNAL, "a"]);
}

/// Neither version knows what the other meant by its lines, so nothing is taken for done.
#[test]
fn the_journals_of_another_version_and_of_another_copy_are_distinct_errors() {
    let dir = tree(20);
    succeeds(dir.path(), &["-a", "a", "d"]);
    fs::write(dir.path().join("d/1/1/f1"), "half").unwrap();
    let journal = dir.path().join(JOURNAL);
    let earlier = "gush-journal-2 1f85f98b6d9f9d2ac33c5c64d4a0a3a5 5e9dbf83\ndone 83b6e8c3f9f0bd2ac33c5c64d4a0a3a5 0e9dbf83\n";
    let later = "gush-journal-4 of 2031\nd/1/1/f1 done\n";
    for (lines, whose) in [(earlier, "an earlier"), (later, "a later")] {
        fs::write(&journal, lines).unwrap();
        let said = fails(dir.path(), &["-a", "--resume", "a", "d"]);
        let what = format!("a journal in the format of {whose} version of gush");
        let hint = "go on with the version that wrote it, or remove it to copy from the beginning, with -T if the target is there";
        assert_eq!(said, format!("gush: cp: {JOURNAL}: {what} ({hint})\n"));
        assert_eq!(fs::read_to_string(&journal).unwrap(), lines);
        assert_eq!(fs::read(dir.path().join("d/1/1/f1")).unwrap(), b"half");
    }
    // What the message says the user can do.
    fs::remove_file(&journal).unwrap();
    // -f for users other than root: some of the old files cannot be written.
    succeeds(dir.path(), &["-aTf", "--resume", "a", "d"]);
    assert_eq!(facts(&dir.path().join("a"), true), facts(&dir.path().join("d"), true));
    assert_eq!(names(dir.path()), ["a", "d"]);
}

/// Nothing good is removed for a source that cannot be read, however often the copy is tried.
#[test]
fn an_old_target_stays_while_its_source_cannot_be_read() {
    if let Err(why) = nobody() {
        return skipped(&why);
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("a/1", "new"), ("a/2", "new"), ("d/1", "old"), ("d/2", "old")] {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    }
    fs::set_permissions(dir.path().join("a/2"), fs::Permissions::from_mode(0o0)).unwrap();
    for path in ["", "a", "d"] {
        fs::set_permissions(dir.path().join(path), fs::Permissions::from_mode(0o777)).unwrap();
    }
    let program = crate::common::copied_gush(dir.path());
    for attempt in 0..3 {
        let mut command = Command::new(&program);
        command.args(["cp", "-rT", "--resume", "a", "d"]).current_dir(dir.path());
        let output = command.uid(65_534).gid(65_534).output().unwrap();
        let said = stderr(&output);
        assert!(said.contains("cannot open 'a/2' for reading"), "{attempt}: {said}");
        assert_eq!(fs::read(dir.path().join("d/2")).unwrap(), b"old", "{attempt}");
    }
}

/// The journal knows a target by more than size and time.
#[test]
fn a_target_that_looks_as_before_and_is_another_is_copied_again() {
    let dir = tree(60);
    fs::create_dir_all(dir.path().join("d/4/1/f4/in the way")).unwrap();
    let options = ["-aT", "--resume", "a", "d"];
    fails(dir.path(), &options);
    fs::remove_dir_all(dir.path().join("d/4/1/f4")).unwrap();
    let of_other_bytes = dir.path().join("d/1/1/f1");
    let about = fs::metadata(&of_other_bytes).unwrap();
    fs::write(&of_other_bytes, vec![b'X'; about.len() as usize]).unwrap();
    let file = fs::File::options().write(true).open(&of_other_bytes).unwrap();
    file.set_modified(about.modified().unwrap()).unwrap();
    let of_other_mode = dir.path().join("d/2/2/f2");
    fs::set_permissions(&of_other_mode, fs::Permissions::from_mode(0o0)).unwrap();
    succeeds(dir.path(), &options);
    assert_eq!(facts(&dir.path().join("a"), true), facts(&dir.path().join("d"), true));
}

#[test]
fn a_file_that_was_done_with_fewer_promises_is_copied_again() {
    let dir = tree(8);
    let at = |name: &str| dir.path().join(name);
    fs::write(at("a/blocked"), "").unwrap();
    fs::create_dir_all(at("d/blocked/by this")).unwrap();
    let about_file = |options: &[&str]| {
        let arguments = [&["-aT", "--resume", "--json"], options, &["a", "d"]].concat();
        let output = cp(dir.path(), &arguments);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let text = stdout(&output);
        let mut records =
            text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let record = records.find(|record| record["target"] == "d/1/1/f1").unwrap();
        (record["action"].as_str().unwrap().to_owned(), record["verified"] == true)
    };
    let (copied, skipped) = ("copied".to_owned(), "skipped".to_owned());
    assert_eq!(about_file(&[]), (copied.clone(), false));
    assert_eq!(about_file(&[]), (skipped.clone(), false));
    assert_eq!(about_file(&["--verify"]), (copied.clone(), true));
    assert_eq!(about_file(&["--fsync"]), (copied.clone(), false));
    assert_eq!(about_file(&["--verify", "--commit-last=none"]), (copied, true));
    // More than is asked for is enough.
    for options in [&[][..], &["--verify"], &["--fsync"], &["--verify", "--fsync"]] {
        assert_eq!(about_file(options), (skipped.clone(), false), "{options:?}");
    }
}

/// The journal's name is longer than the target's, and a directory's entry has 255 bytes at most.
#[test]
fn a_target_with_the_longest_name_has_a_journal_of_its_own() {
    let dir = tree(60);
    let [one, other] = ["a", "b"].map(|last| format!("{}{last}", "n".repeat(254)));
    let options = ["-a", "--resume", "-T", "a"];
    for target in [&one, &other] {
        let killed = script(
            dir.path(),
            &format!("ulimit -f 2; trap '' XFSZ; \"$G\" cp {} {target}", options.join(" ")),
        );
        assert!(!killed.status.success(), "a file is larger than that: {}", stderr(&killed));
    }
    assert_eq!(names(dir.path()).len(), 5, "two journals: {:?}", names(dir.path()));
    for target in [&one, &other] {
        succeeds(dir.path(), &[&options[..], &[target]].concat());
        assert_eq!(facts(&dir.path().join(target), true), facts(&dir.path().join("a"), true));
    }
    let mut expected = vec!["a".to_owned(), one, other];
    expected.sort();
    assert_eq!(names(dir.path()), expected);
}

/// As of a disk on USB, of a loop device, and of each mount of btrfs.
#[test]
fn a_copy_goes_on_where_both_sides_are_mounted_with_another_device_number() {
    for (mkfs, size) in [("mkfs.ext4 -q", "8M"), ("mkfs.xfs -q", "320M"), ("mkfs.btrfs -q", "120M")]
    {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            r#"
            truncate -s {size} image && truncate -s 1M other && mkdir n && {mkfs} image >&2 || exit 99
            first=$(losetup -f --show image) && mount $first m || exit 99
            mkdir m/a && echo one >m/a/one && echo two >m/a/two && head -c 1M /dev/urandom >m/a/z
            (ulimit -f 100 && $G cp -aT --resume m/a m/d) && exit
            device=$(stat -c %d m)
            umount m && losetup -d $first && mount -t tmpfs none n && third=$(losetup -f --show other)
            second=$(losetup -f --show image) && mount $second m || exit 99
            [ $device != $(stat -c %d m) ] || status=99
            $G cp -aT --resume --json m/a m/d && cmp m/a/z m/d/z || status=${{status-1}}
            umount m
            losetup -d $second $third
            exit ${{status-0}}"#
        );
        let Some(output) = with_mounts(dir.path(), &text) else { return };
        if output.status.code() == Some(99) {
            skipped(&format!("{mkfs}: {}", stderr(&output)));
            continue;
        }
        assert!(output.status.success(), "{mkfs}: {}", stderr(&output));
        let copied = stdout(&output).matches(r#""action":"copied""#).count();
        assert_eq!(copied, 1, "{mkfs}: {}", stdout(&output));
    }
}

/// As with NFS and some file systems of FUSE.
#[test]
fn a_file_system_without_an_id_and_with_another_device_number_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"
        command -v unionfs >/dev/null || exit 99
        mkdir a n rw ro && echo one >a/one && head -c 1M /dev/urandom >a/z
        unionfs -o cow rw=RW:ro=RO m && device=$(stat -c %d m) || exit
        (ulimit -f 100 && $G cp -aT --resume a m/d 2>/dev/null) && exit 1
        umount m && mount -t tmpfs none n && unionfs -o cow rw=RW:ro=RO m || exit
        [ $device != $(stat -c %d m) ] || status=99
        $G cp -aT --resume a m/d && cmp a/one m/d/one && cmp a/z m/d/z || status=${status-1}
        umount m
        exit ${status-0}"#;
    let Some(output) = with_mounts(dir.path(), text) else { return };
    if output.status.code() == Some(99) {
        return skipped(&format!("no unionfs with another device number: {}", stderr(&output)));
    }
    assert!(output.status.success(), "{}", stderr(&output));
    let why = "all files of 'm/d' are copied again: the source or the target is on another file system than before, \
               or its device number has changed";
    assert_eq!(stderr(&output), format!("gush: cp: warning: {why}\n"));
}

#[test]
fn what_is_unchanged_has_one_rule() {
    let dir = tempfile::tempdir().unwrap();
    for option in ["--checksum", "--update=changed"] {
        let said = fails(dir.path(), &["-aT", "--resume", option, "a", "b"]);
        assert!(said.contains("--resume decides itself what is unchanged"), "{option}: {said}");
    }
}
