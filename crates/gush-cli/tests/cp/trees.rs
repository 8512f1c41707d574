//! `gush cp -r`: trees as the command line sees them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::cp::{cp, fails, names, script, stderr, stdout, succeeds, with_mounts};
use crate::common::{copied_gush, nobody, skipped, strace};

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    dir
}

fn read(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).unwrap_or_else(|error| format!("{name}: {error}"))
}

#[test]
fn files_that_the_kernel_makes_up_are_copied_from_trees() {
    let dir = tree(&[("a/plain", "plain")]);
    // /etc/mtab of most systems is such a link.
    let made_up =
        ["/proc/version", "/proc/filesystems", "/sys/kernel/notes", "/proc/sys/kernel/ostype"];
    let made_up: Vec<_> = made_up.iter().filter(|path| fs::File::open(path).is_ok()).collect();
    assert!(made_up.contains(&&"/proc/version"), "{made_up:?}");
    for (number, path) in made_up.iter().enumerate() {
        symlink(path, dir.path().join(format!("a/{number}"))).unwrap();
    }
    for options in ["-rL", "-aL", "-rL --threads=1", "-rL --atomic", "-rL --verify", "-rL --resume"]
    {
        let words: Vec<_> = options.split(' ').chain(["a", "d"]).collect();
        succeeds(dir.path(), &words);
        for (number, path) in made_up.iter().enumerate() {
            let copied = fs::read(dir.path().join(format!("d/{number}"))).unwrap();
            assert!(copied == fs::read(path).unwrap(), "{options}: {path}");
        }
        assert_eq!(read(dir.path(), "d/plain"), "plain", "{options}");
        fs::remove_dir_all(dir.path().join("d")).unwrap();
    }
    // Of the file system itself, too.
    succeeds(dir.path(), &["-r", "--no-preserve=mode", "/proc/sys/kernel/random", "d"]);
}

#[test]
fn parents_get_their_modes_though_the_copy_fails_or_is_interrupted() {
    // Both lack a right that the copy needs, and give others one that a directory under way
    // withholds.
    let make = "umask 0; mkdir -p x/y/z d; mkfifo x/y/z/fifo; chmod 575 x; chmod 577 x/y";
    // An ordinary user cannot remove what is in them otherwise.
    let tidy = "chmod -R u+w .";
    let cases = [
        ("a missing file", "\"$G\" cp --parents x/y/z/missing d", "1"),
        ("a missing directory", "\"$G\" cp --parents x/y/missing/f d", "1"),
        // Nobody writes to the FIFO, so the copy waits.
        (
            "an interrupt",
            "\"$G\" cp --parents x/y/z/fifo d & until test -d d/x/y/z; do sleep 0.01; done; \
             kill -TERM $!; wait $!",
            "143",
        ),
    ];
    for (what, run, status) in cases {
        let dir = tempfile::tempdir().unwrap();
        let output =
            script(dir.path(), &format!("{make}; {run}; echo $?; stat -c %a d/x d/x/y; {tidy}"));
        let said = stderr(&output);
        assert_eq!(stdout(&output), format!("{status}\n575\n577\n"), "{what}: {said}");
    }
}

#[test]
fn parents_keep_their_times_when_an_atomic_copy_is_interrupted() {
    // Removing the temporary file changes the time of the directory that the file is in.
    let text = "mkdir -p x/y d; head -c 64K /dev/zero >x/y/f; touch -d @1000000000 x/y x
        \"$G\" cp -p --atomic --limit=1 --parents x/y/f d &
        until test -d d/x/y; do sleep 0.01; done
        kill -TERM $!; wait $!; echo $?; ls -A d/x/y; stat -c %Y d/x d/x/y";
    let dir = tempfile::tempdir().unwrap();
    let output = script(dir.path(), text);
    assert_eq!(stdout(&output), "143\n1000000000\n1000000000\n", "{}", stderr(&output));
}

#[test]
fn parents_of_many_operands_need_no_more_descriptors_than_those_of_one() {
    // Two descriptors a directory, of which each operand has one of its own.
    let text = "mkdir -p x/{1..40} d; for n in {1..40}; do echo $n >x/$n/f; done
        ulimit -n 16; \"$G\" cp -p --parents x/{1..40}/f d; echo $?";
    let dir = tempfile::tempdir().unwrap();
    let output = script(dir.path(), text);
    assert_eq!(stdout(&output), "0\n", "{}", stderr(&output));
    assert_eq!(read(dir.path(), "d/x/40/f"), "40\n");
}

#[test]
fn a_tree_copied_into_itself_lacks_only_itself() {
    let dir = tree(&[("a/f", "f"), ("a/b/g", "g"), ("a/z/h", "h")]);
    let said = fails(dir.path(), &["-r", "a", "a/b/c"]);
    assert_eq!(said, "gush: cp: cannot copy a directory, 'a', into itself, 'a/b/c'\n");
    assert_eq!(read(dir.path(), "a/b/c/f"), "f");
    assert_eq!(read(dir.path(), "a/b/c/b/g"), "g");
    assert_eq!(read(dir.path(), "a/b/c/z/h"), "h");
    assert!(!dir.path().join("a/b/c/b/c").exists());
}

#[test]
fn each_entry_has_a_record_of_json() {
    let dir = tree(&[("a/f", "four"), ("a/b/g", "g")]);
    fs::create_dir_all(dir.path().join("d/a/b")).unwrap();
    fs::create_dir(dir.path().join("d/a/f")).unwrap();
    let output = cp(dir.path(), &["-r", "--json", "a", "d"]);
    assert_eq!(output.status.code(), Some(1));
    let mut records: Vec<(String, String, bool)> = stdout(&output)
        .lines()
        .map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| record[name].as_str().unwrap().to_owned();
            (text("source"), text("action"), record["error"].is_null())
        })
        .collect();
    records.sort();
    let expected = [
        ("a", "directory", true),
        ("a/b", "directory", true),
        ("a/b/g", "copied", true),
        ("a/f", "failed", false),
    ];
    let expected: Vec<_> =
        expected.map(|(name, action, well)| (name.to_owned(), action.to_owned(), well)).into();
    assert_eq!(records, expected);
}

#[test]
fn progress_of_a_tree_ends_in_the_sum_of_all_files() {
    let dir = tree(&[("a/f", "four"), ("a/b/g", "g")]);
    let output = succeeds(dir.path(), &["-r", "--progress=always", "a", "d"]);
    let said = stderr(&output);
    let last = said.lines().last().unwrap_or_default().to_owned();
    assert!(last.starts_with("gush: cp: 2 files, 5 B, "), "{said}");
}

#[test]
fn another_file_system_is_left_out_and_its_directory_made() {
    let dir = tree(&[("a/f", "f")]);
    let script =
        "mkdir -p a/m && mount -t tmpfs none a/m && echo x >a/m/x && $G cp -ax a d && $G cp -a a e";
    let Some(output) = with_mounts(dir.path(), script) else { return };
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(names(&dir.path().join("d")), ["f", "m"]);
    assert!(names(&dir.path().join("d/m")).is_empty());
    assert_eq!(read(dir.path(), "e/m/x"), "x\n");
}

fn as_nobody(dir: &Path, user: u32, arguments: &[&str]) -> Output {
    let program = copied_gush(dir);
    fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = Command::new(program);
    command.arg("cp").args(arguments).current_dir(dir).env("LC_ALL", "C.UTF-8");
    command.uid(user).gid(user).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_directory_that_cannot_be_read_is_reported_and_made() {
    let user = match nobody() {
        Ok(user) => user,
        Err(why) => return skipped(&why),
    };
    let dir = tree(&[("a/b/f", "f"), ("a/c/g", "g"), ("a/x/h", "h")]);
    fs::set_permissions(dir.path().join("a/b"), fs::Permissions::from_mode(0o711)).unwrap();
    fs::set_permissions(dir.path().join("a/x/h"), fs::Permissions::from_mode(0o600)).unwrap();
    let output = as_nobody(dir.path(), user, &["-r", "a", "d"]);
    // The first message, of either, has the remedy.
    let said = stderr(&output);
    assert_eq!(said.matches(" (`namei -l PATH` ").count(), 1, "{said}");
    let mut said: Vec<_> = said.lines().map(|line| line.split(" (").next().unwrap()).collect();
    said.sort_unstable();
    let expected = [
        "gush: cp: cannot access 'a/b': Permission denied",
        "gush: cp: cannot open 'a/x/h' for reading: Permission denied",
    ];
    assert_eq!(said, expected);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(read(dir.path(), "d/c/g"), "g");
    assert!(names(&dir.path().join("d/b")).is_empty());
}

#[test]
fn a_directory_closed_to_its_owner_is_filled_and_closed_again() {
    let user = match nobody() {
        Ok(user) => user,
        Err(why) => return skipped(&why),
    };
    let dir = tree(&[("a/b/f", "f")]);
    fs::set_permissions(dir.path().join("a/b"), fs::Permissions::from_mode(0o555)).unwrap();
    for (options, target) in [("-r", "d"), ("-rp", "e"), ("-a", "g")] {
        let output = as_nobody(dir.path(), user, &[options, "a", target]);
        assert!(output.status.success(), "{options}: {}", stderr(&output));
        let made = dir.path().join(target).join("b");
        assert_eq!(fs::metadata(&made).unwrap().mode() & 0o7777, 0o555, "{options}");
        assert_eq!(read(&made, "f"), "f");
    }
}

#[test]
fn a_tree_is_copied_within_a_low_limit_of_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    for chain in 0..8 {
        let deep = dir.path().join(format!("a/{chain}")).join("d/".repeat(60));
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("f"), "deep").unwrap();
    }
    for number in 0..100 {
        fs::write(dir.path().join(format!("a/3/d/{number}")), "one of many").unwrap();
    }
    for (limit, threads) in [(32, 1), (128, 8)] {
        let script = format!(
            "(ulimit -n {limit} && $G cp -a --threads {threads} a b) && diff -r a b && rm -r b"
        );
        let output = crate::common::cp::script(dir.path(), &script);
        assert!(output.status.success(), "{script}: {}{}", stdout(&output), stderr(&output));
    }
}

#[test]
fn a_tree_deep_and_wide_is_copied_within_a_low_limit_of_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let mut at = dir.path().join("a");
    // More entries in each directory than one part of a listing has, and directories on both sides
    // of the way down.
    let long = "n".repeat(200);
    for level in 0..5 {
        fs::create_dir_all(at.join("a/leaf")).unwrap();
        fs::create_dir_all(at.join("z/leaf")).unwrap();
        for number in 0..600 {
            fs::write(at.join(format!("{long}{number}")), level.to_string()).unwrap();
        }
        at.push("m");
    }
    for threads in [1, 8] {
        let script =
            format!("(ulimit -n 32 && $G cp -a --threads {threads} a b) && diff -r a b && rm -r b");
        let output = crate::common::cp::script(dir.path(), &script);
        assert!(output.status.success(), "{script}: {}{}", stdout(&output), stderr(&output));
    }
}

#[test]
fn descriptors_that_the_limit_promised_and_others_took_are_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("a").join("d/".repeat(60));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("f"), "deep").unwrap();
    // Descriptors above the lowest free one.
    let script = "ulimit -n 64 && for fd in {20..63}; do eval \"exec $fd</dev/null\"; done; exec $G cp -a a b";
    let output = crate::common::cp::script(dir.path(), script);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(read(&dir.path().join("b").join("d/".repeat(60)), "f"), "deep");
}

#[test]
fn a_target_among_its_sources_is_reported_once() {
    let dir = tree(&[("a/f", "f"), ("d/g", "g")]);
    let said = fails(dir.path(), &["-r", "a", "d", "d"]);
    assert_eq!(said, "gush: cp: cannot copy a directory, 'd', into itself, 'd/d'\n");
    assert_eq!(names(&dir.path().join("d/d")), ["g"]);
}

#[test]
fn a_circle_of_links_is_reported() {
    let dir = tree(&[("a/b/f", "f")]);
    symlink("..", dir.path().join("a/b/up")).unwrap();
    let said = fails(dir.path(), &["-rL", "a", "d"]);
    assert_eq!(said, "gush: cp: cannot copy cyclic symbolic link 'a/b/up'\n");
    assert_eq!(read(dir.path(), "d/b/f"), "f");
}

#[test]
fn a_tree_is_atomic_and_verified_file_by_file() {
    let dir = tree(&[("a/f", "new"), ("a/b/g", "g"), ("d/a/f", "old")]);
    let old = fs::metadata(dir.path().join("d/a/f")).unwrap().ino();
    succeeds(dir.path(), &["-r", "--atomic", "--verify", "--fsync", "a", "d"]);
    assert_eq!(read(dir.path(), "d/a/f"), "new");
    assert_eq!(read(dir.path(), "d/a/b/g"), "g");
    assert_ne!(fs::metadata(dir.path().join("d/a/f")).unwrap().ino(), old);
    assert_eq!(names(&dir.path().join("d/a")), ["b", "f"]);
}

/// The system calls of a copy of so many files.
fn calls(options: &str, files: usize) -> Result<usize, String> {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("a")).unwrap();
    for number in 0..files {
        fs::write(dir.path().join(format!("a/{number}")), "some bytes").unwrap();
    }
    let mut traced = strace(&["-o", "calls"])?;
    let output = traced.args(["cp", options, "--threads", "1", "a", "d"]).current_dir(dir.path());
    let output = output.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    // A debug build asks before each close whether the descriptor is open.
    let calls = read(dir.path(), "calls");
    Ok(calls.lines().filter(|call| !call.contains("F_GETFD")).count())
}

#[test]
fn a_file_of_a_tree_takes_no_more_calls_than_with_gnu() {
    // GNU cp 9.1 takes 11 and 15 calls on tmpfs. The state is read from the open file: its name is
    // not looked at. Of a new file nothing is asked: the first one in a new directory has shown the
    // owner of all.
    for (options, most) in [("-r", 8), ("-a", 11)] {
        let counted = calls(options, 100).and_then(|few| Ok((few, calls(options, 200)?)));
        let (few, many) = match counted {
            Ok(counted) => counted,
            Err(why) => return skipped(&why),
        };
        assert!(many - few <= most * 100, "{options}: {few} calls, then {many}");
        assert!(many > few + 500, "{options}: {few} calls, then {many}");
    }
}

#[test]
fn a_link_to_a_directory_outside_is_named_and_its_remedy() {
    let dir = tree(&[("a/b/f", "f"), ("d/x", ""), ("out/y", "")]);
    symlink("../out", dir.path().join("d/b")).unwrap();
    let options = ["-rT", "--keep-directory-symlink", "a", "d"];
    let said = fails(dir.path(), &options);
    let text =
        "not entering 'd/b': a symbolic link out of the target's tree (--no-confine follows it)";
    assert!(said.contains(text), "{said}");
    succeeds(dir.path(), &[&options[..], &["--no-confine"]].concat());
    assert_eq!(read(dir.path(), "out/f"), "f");
}

#[test]
fn a_backup_is_reported_in_the_directory_as_it_was_written() {
    let dir = tree(&[("a/f", "new"), ("d/f", "old")]);
    let output = succeeds(dir.path(), &["-rbv", "a/.", "d"]);
    let said = stdout(&output);
    assert!(said.contains("'a/./f' -> 'd/./f' (backup: 'd/./f~')"), "{said}");
}

#[test]
fn each_file_of_a_directory_keeps_its_own_owner() {
    let dir = tree(&[]);
    // The first file has the owner that new files get, and so have the last ones; the group of a
    // set-group-ID directory is another one.
    let script = "mkdir -p a/b && cd a && touch 0 1 2 3 b/0 b/1 b/2 b/3 && ln 3 again || exit 1
        chown 1:1 1 b/1 && chown 2:0 2 && chown 0:2 b/2 b && chgrp 3 b/3 && chmod 2775 b || exit 99
        cd .. && for options in -a '-a --threads 1' '-r --preserve=ownership' -aL '-a --atomic'; do
            $G cp $options a d && (cd a && find . -printf '%p %U:%G\\n' | sort) >wanted &&
            (cd d && find . -printf '%p %U:%G\\n' | sort) | diff - wanted && rm -r d || exit 2
        done";
    let output = crate::common::cp::script(dir.path(), script);
    if output.status.code() == Some(99) {
        return skipped("no right to give files away");
    }
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn the_list_of_a_directory_comes_to_no_file_whose_mode_is_kept() {
    let dir = tree(&[("a/f", "f"), ("a/b/g", "g"), ("d/a/old", "old")]);
    let script = "setfacl -d -m u:1:rwx d/a || exit 99
        $G cp -a a d && getfacl -R -n -p d/a/f d/a/b/g && getfacl -d -p d/a/b";
    let output = crate::common::cp::script(dir.path(), script);
    if output.status.code() == Some(99) {
        return skipped(&format!("no access control lists: {}", stderr(&output).trim()));
    }
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!stdout(&output).contains("user:1:"), "{}", stdout(&output));
    // Without the mode of the source, the list comes to all.
    let script = "setfacl -d -m u:1:rwx d/a && $G cp -r a/f d/a/n && $G cp -r a/b d/a/c && getfacl -n -p d/a/n d/a/c/g";
    let output = crate::common::cp::script(dir.path(), script);
    assert_eq!(stdout(&output).matches("user:1:").count(), 2, "{}", stdout(&output));
}

/// After a kill between mkdir(2) and chmod(2) nothing would show that bits are still to come.
#[test]
fn a_new_read_only_directory_is_writable_from_the_first() {
    let mut traced = match strace(&["-o", "calls", "-e", "trace=mkdirat,mkdir"]) {
        Ok(traced) => traced,
        Err(why) => return skipped(&why),
    };
    let dir = tempfile::tempdir().unwrap();
    let text = "mkdir -p a/d && chmod 555 a/d a";
    assert!(script(dir.path(), text).status.success());
    traced.args(["cp", "-rT", "a", "t"]).current_dir(dir.path());
    assert!(traced.status().unwrap().success());
    let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
    let made = calls.lines().filter(|call| call.contains(", 0755)")).count();
    assert_eq!(made, 2, "{calls}");
    let bits = fs::metadata(dir.path().join("t/d")).unwrap().permissions().mode();
    assert_eq!(bits & 0o777, 0o555);
    assert!(script(dir.path(), "chmod -R u+w .").status.success());
}
