//! The same answer of the kernel has the same remedy in every command.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::common::cp::{script, stderr, with_files, with_mounts};
use crate::common::skipped;

/// The commands that read `from`, as words of a shell.
fn readers(from: &str) -> Vec<String> {
    [
        format!("cp {from} copy"),
        format!("cat {from}"),
        format!("pv -q {from}"),
        format!("link -u file:{from} null:"),
    ]
    .into()
}

/// The commands that write to `to`, with standard input from the file `a`.
fn writers(to: &str) -> Vec<String> {
    [
        format!("cp a {to}"),
        format!("tee {to}"),
        format!("pv -q -o {to} a"),
        format!("link -u file:a file:{to},create"),
        format!("link -u --tee {to} file:a null:"),
    ]
    .into()
}

/// The commands that start the program `name`.
fn starters(name: &str) -> Vec<String> {
    [
        format!("pv -q -- {name}"),
        format!("link -u exec:{name} null:"),
        format!("lab run --no-store --warmup 0 --rounds 1 {name}"),
    ]
    .into()
}

/// Every command prints `remedy`.
fn all_print(dir: &Path, commands: &[String], remedy: &str) {
    for command in commands {
        let said = stderr(&script(dir, &format!("\"$G\" {command} <a >out")));
        assert!(said.contains(remedy), "gush {command}: {said}");
    }
}

#[test]
fn a_full_target_has_one_remedy() {
    let dir = with_files(&[("a", b"a")]);
    let mut commands = writers("/dev/full");
    commands.extend(["cat a >/dev/full", "yes >/dev/full"].map(str::to_owned));
    for command in &commands {
        let said = stderr(&script(dir.path(), &format!("<a \"$G\" {command}")));
        // `--tee` reports the copy next to the link, whose failure is not that of a move.
        if !command.contains("--tee") {
            assert!(
                said.contains("the target is full: free some space on its file system)"),
                "gush {command}: {said}"
            );
        }
    }
}

#[test]
fn links_in_a_circle_and_long_names_have_one_remedy() {
    let dir = with_files(&[("a", b"a")]);
    symlink("loop", dir.path().join("loop")).unwrap();
    all_print(dir.path(), &readers("loop"), "symbolic links lead in a circle");
    let long = "x".repeat(256);
    all_print(dir.path(), &readers(&long), "a name has at most 255 bytes");
    all_print(dir.path(), &writers(&long), "a name has at most 255 bytes");
}

#[test]
fn a_program_that_cannot_start_has_one_remedy() {
    let dir = with_files(&[("a", b"a"), ("text", b"no program"), ("odd", b"#!/no/such/sh\n")]);
    for name in ["text", "odd"] {
        let path = dir.path().join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let names = |name: &str| starters(&dir.path().join(name).display().to_string());
    // execvp(3), by which the others start a program, gives such a file to a shell.
    let by_lab = names("text").split_off(2);
    all_print(dir.path(), &by_lab, "(the file is not a program for this machine: ");
    all_print(dir.path(), &names("odd"), "(the file is there, but not the interpreter");
    // The lab takes such a file for one of comparisons.
    let by_others = &names("a")[..2];
    all_print(dir.path(), by_others, "(the file is not executable: chmod +x");
    all_print(dir.path(), &starters("./")[..2], "(it is a directory, and no program)");
    // The lab asks for programs first, and leaves out a command without its own.
    all_print(dir.path(), &starters("no-such-program")[..2], "no such program in PATH");
}

/// GNU's names keep GNU's messages.
#[test]
fn what_a_user_may_not_use_has_one_remedy_and_a_directory_another() {
    let dir = with_files(&[("a", b"a")]);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let text = |command: &str| {
        format!(
            "cp \"$G\" gush; cp gush cp; cp gush cat; cp gush tee; chmod 755 gush cp cat tee
             chmod 644 a; mkdir -p d; echo s >s; chmod 600 s
             as='setpriv --reuid 65534 --regid 65534 --clear-groups'; $as true || exit 99
             $as ./{command} <a >out"
        )
    };
    let remedy = "(`namei -l PATH` shows the owner and mode of each part of a path)";
    let by_gush = ["cp s d", "cp a d/b", "cat s", "tee d/b", "pv -q s", "generate man d/m"];
    let by_gush = by_gush.map(|command| (format!("gush {command}"), remedy));
    let by_gnu = ["cp s d", "cp a d/b", "cat s", "tee d/b"].map(|name| (name.to_owned(), ""));
    for (command, remedy) in by_gush.into_iter().chain(by_gnu) {
        let output = script(dir.path(), &text(&command));
        if output.status.code() == Some(99) {
            return skipped(&format!("setpriv: {}", stderr(&output)));
        }
        let ends = format!("Permission denied {remedy}");
        assert!(
            stderr(&output).ends_with(&format!("{}\n", ends.trim_end())),
            "{command}: {output:?}"
        );
    }
    let said = stderr(&script(dir.path(), "\"$G\" pv -q d"));
    assert!(said.contains("(a directory has no bytes to move: name a file in it)"), "{said}");
}

#[test]
fn a_full_target_is_explained_once() {
    let dir = with_files(&[]);
    let text = "mkdir s m; for i in 1 2 3; do head -c 3M /dev/urandom >s/$i; done
        mount -t tmpfs -o size=1M none m || exit 99
        \"$G\" cp -r s m/a; rm -r m/a
        \"$G\" cp -r --rsh 'sh -c \"shift; exec \\\"\\$@\\\"\" sh' --remote-gush \"$G\" s h:m/b";
    let Some(output) = with_mounts(dir.path(), text) else { return };
    if output.status.code() == Some(99) {
        return skipped(&stderr(&output));
    }
    let said = stderr(&output);
    assert_eq!(said.matches("No space left on device").count(), 6, "{said}");
    assert_eq!(said.matches("the target is full").count(), 2, "{said}");
}

#[test]
fn a_program_that_runs_cannot_be_written() {
    let dir = with_files(&[("a", b"a")]);
    for command in writers("s") {
        // cp knows a better one: -f puts a new file in the place of the program.
        if command.starts_with("cp ") {
            continue;
        }
        let said = stderr(&script(
            dir.path(),
            &format!(
                "cp /bin/sleep s; ./s 600 & p=$!; \
                      until [ \"$(readlink /proc/$p/exe)\" = \"$(readlink -f s)\" ]; do sleep 0.01; done; \
                      \"$G\" {command} <a >out; kill $p"
            ),
        ));
        assert!(said.contains("(a program that runs cannot be written)"), "gush {command}: {said}");
    }
}

#[test]
fn a_file_system_that_is_read_only_or_without_inodes_has_one_remedy() {
    let dir = with_files(&[("a", b"a")]);
    fs::create_dir(dir.path().join("m")).unwrap();
    for (mount, commands, remedy) in [
        ("mount -t tmpfs -o ro none m", writers("m/b"), "(the file system is mounted read-only: "),
        (
            "mount -t tmpfs -o nr_inodes=1 none m",
            writers("m/b"),
            "(no inodes are left on its file system: remove files (`df -i` counts them))",
        ),
    ] {
        for command in commands {
            let text = format!("{mount} || exit 99; \"$G\" {command} <a >out");
            let Some(output) = with_mounts(dir.path(), &text) else { return };
            if output.status.code() == Some(99) {
                return skipped(&stderr(&output));
            }
            assert!(
                stderr(&output).contains(remedy),
                "{mount}: gush {command}: {}",
                stderr(&output)
            );
        }
    }
}

#[test]
fn a_missing_directory_has_one_remedy() {
    let dir = with_files(&[("a", b"a")]);
    let commands = ["cp a no/b", "tee no/b", "pv -q -o no/b a", "pv -q -P no/b a"];
    all_print(dir.path(), &commands.map(str::to_owned), "(mkdir -p 'no' makes the directory)");
}

#[test]
fn an_attribute_of_a_directory_has_one_remedy() {
    let dir = with_files(&[("a", b"a")]);
    fs::create_dir(dir.path().join("d")).unwrap();
    for (command, what) in [
        ("cp a d/b", "its directory"),
        ("tee d/b", "its directory"),
        ("pv -q -P d/b a", "its directory"),
        ("generate man d", "the file"),
        ("generate man d/b", "its directory"),
    ] {
        let text = format!("chattr +i d || exit 99; \"$G\" {command} <a >out; chattr -i d");
        let output = script(dir.path(), &text);
        if output.status.code() == Some(99) {
            return skipped(&format!("chattr: {}", stderr(&output)));
        }
        let remedy = format!("({what} is immutable: chattr -i removes this attribute)");
        assert!(stderr(&output).contains(&remedy), "gush {command}: {}", stderr(&output));
    }
}

#[test]
fn attributes_of_a_file_have_one_remedy() {
    let dir = with_files(&[("a", b"a"), ("b", b"b")]);
    for command in writers("b") {
        let text = format!("chattr +i b || exit 99; \"$G\" {command} <a >out; chattr -i b");
        let output = script(dir.path(), &text);
        if output.status.code() == Some(99) {
            return skipped(&format!("chattr: {}", stderr(&output)));
        }
        let remedy = "(the file is immutable: chattr -i removes this attribute)";
        assert!(stderr(&output).contains(remedy), "gush {command}: {}", stderr(&output));
    }
}

#[test]
fn descriptors_that_are_used_up_have_one_remedy() {
    let dir = with_files(&[("a", b"a")]);
    // The loader needs one descriptor besides the standard ones, and each of these commands two.
    for command in ["cp a b", "tee b c", "pv -q -o b a"] {
        let closed = "3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-";
        let text = format!("exec <a >out {closed}; exec prlimit --nofile=4:4 \"$G\" {command}");
        let said = stderr(&script(dir.path(), &text));
        assert!(
            said.contains("(raise the limit on open files (ulimit -n))"),
            "gush {command}: {said}"
        );
    }
}
