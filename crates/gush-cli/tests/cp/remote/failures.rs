//! Entries and options that fail or are refused.

use std::fs;

use super::{remote, remote_with_mounts};
use crate::common::cp::{fails, names, script, stderr, stdout};
use crate::common::{nobody, noise, skipped};

#[test]
fn entries_that_fail_are_named_and_the_others_arrive() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir -p s/in s/way t/s/way t/s; echo 1 >s/a; echo 2 >s/in/b; echo 3 >s/in/c; echo 4 >s/way/d
        rm -r t/s/way; echo guard >t/s/way; mkdir t/s/a; $C -r s missing h:t",
    );
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in ["t/s/a'", "cannot overwrite non-directory 't/s/way'", "cannot stat 'missing'"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(fs::read_to_string(dir.path().join("t/s/in/c")).unwrap(), "3\n");
    assert_eq!(fs::read_to_string(dir.path().join("t/s/way")).unwrap(), "guard\n");
}

#[test]
fn what_a_local_copy_would_not_overwrite_stays() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir x y t; echo x >x/a; echo y >y/a; mkfifo t/p; echo p >x/p; $C x/a y/a x/p h:t",
    );
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in ["'y/a' is not copied", "h: cannot replace 't/p': a special file has the name"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(fs::read_to_string(dir.path().join("t/a")).unwrap(), "x\n");
    assert!(!dir.path().join("t/p").is_file());
}

/// As a local copy, whatever is to replace it, and whichever name of a file comes first.
#[test]
fn a_directory_in_the_way_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir -p s t/a u/b v/l w/p; echo f >s/a; ln s/a s/b; ln -s a s/l; mkfifo s/p
        for to in t u v w; do $C -aT s h:$to; done",
    );
    let said = ["t/a", "u/b", "v/l", "w/p"].map(|path| {
        format!("gush: cp: h: cannot overwrite directory '{path}' with non-directory\n")
    });
    assert_eq!(stderr(&output), said.concat());
}

#[test]
fn directories_that_may_not_be_searched_do_not_end_the_copy() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "[ $(id -u) = 0 ] || { echo lacks; exit 0; }
        mkdir -p s/a s/no/in s/list/in s/z; for d in a no list z; do echo $d >s/$d/f; done
        chmod 0 s/no; chmod 444 s/list; chmod 777 .
        setpriv --reuid=65534 --regid=65534 --clear-groups $C -r s h:t; echo $?
        cat t/a/f t/z/f; ls t",
    );
    if stdout(&output) == "lacks\n" {
        return skipped("needs root, to become another user");
    }
    let said = stderr(&output);
    assert_eq!(stdout(&output), "1\na\nz\na\nlist\nno\nz\n", "{said}");
    for part in ["cannot access 's/no': Permission denied", "'s/list/f': Permission denied"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn sources_whose_content_is_not_sent_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(dir.path(), "mkdir t; mkfifo p; $C /proc/version /dev/null p h:t");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in [
        "'/proc/version' could not be read: its size is 0, and it has content",
        "'/dev/null' is a special file",
        "'p' is a special file",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(names(&dir.path().join("t")), [""; 0]);
}

/// sshd gives its children a socket, from which data goes through a pipe of the receiver.
#[test]
fn a_full_disk_fails_one_file_and_the_others_arrive() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote_with_mounts(
        dir.path(),
        "mount -t tmpfs -o size=4M none m; mkdir -p s/d; head -c 12M /dev/urandom >s/big; echo d >s/d/e
        cat >shell <<'END'
#!/usr/bin/python3
import os, socket, subprocess, sys
ours, theirs = socket.socketpair()
child = subprocess.Popen(sys.argv[2:], stdin=theirs)
theirs.close()
while data := os.read(0, 65536):
    ours.sendall(data)
ours.close()
sys.exit(child.wait())
END
        $C -r --json s h:m >records; echo $?; cat m/s/d/e; ls m/s; grep failed records",
    );
    let Some(output) = output else { return };
    let (said, out) = (stderr(&output), stdout(&output));
    let Some(record) = out.strip_prefix("1\nd\nd\n") else { panic!("{output:?}") };
    // What programs read is what the user does.
    for part in ["\"errno\":28", "\"hint\":\"the target is full: free some"] {
        assert!(record.contains(part), "{record}");
    }
    let bytes = said.split_once("(after ").and_then(|(_, rest)| rest.split_once(" bytes"));
    let delivered = format!("\"delivered_bytes\":{}", bytes.unwrap().0);
    assert!(record.contains(&delivered), "{delivered}: {record}");
    let why = "h: error writing 'm/s/big': No space left on device (after ";
    assert!(said.contains(why) && said.contains("bytes; the target is full: free some"), "{said}");
}

#[test]
fn a_full_disk_has_as_many_bytes_as_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("big"), noise(3 << 20, 1)).unwrap();
    for options in ["--streams 1", "--streams 3", "--compress"] {
        let output = remote_with_mounts(
            dir.path(),
            &format!("mount -t tmpfs -o size=2M none m; $C {options} --json big h:m/big"),
        );
        let Some(output) = output else { return };
        let (said, record) = (stderr(&output), stdout(&output));
        assert!(said.contains(" (after 2097152 bytes; the target is full"), "{options}: {said}");
        for part in ["\"bytes\":2097152", "\"delivered_bytes\":2097152"] {
            assert!(record.contains(part), "{options}: {record}");
        }
    }
}

#[test]
fn an_option_that_a_remote_copy_lacks_is_refused_before_anything_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "").unwrap();
    for option in ["-b", "-L", "--fsync", "-l", "-i", "--shard=0/2", "--parents"] {
        let said = fails(dir.path(), &["-r", "--rsh", "touch", option, "a", "h:t"]);
        assert!(said.contains("is not served in a copy to or from another"), "{option}: {said}");
        assert!(!said.contains("./NAME"), "{option}: {said}");
    }
    let said = fails(dir.path(), &["-b", "a", "h:t"]);
    assert!(said.contains("(a local file with a colon in its name is written ./NAME)"), "{said}");
    let said = fails(dir.path(), &["-r", "--rsh", "touch", "--resume", "a", "h:t"]);
    assert!(said.contains("requires -T or -t"), "{said}");
    for (words, why) in [
        (&["h:t"][..], "missing destination file operand after 'h:t'"),
        (&["-T", "a", "a", "h:t"], "extra operand 'h:t'"),
        (&["-T", "-t", "h:t", "a"], "cannot combine --target-directory"),
    ] {
        let said = fails(dir.path(), &[&["--rsh", "touch"], words].concat());
        assert!(said.contains(why), "{words:?}: {said}");
    }
    let said = fails(dir.path(), &["--numeric-ids", "a", "b"]);
    assert!(said.contains("--numeric-ids requires HOST:SOURCE or HOST:DEST"), "{said}");
    let said = fails(dir.path(), &["--rsh", "touch", "a", "b"]);
    assert!(said.contains("--rsh requires HOST:SOURCE or HOST:DEST"), "{said}");
    let said = fails(dir.path(), &["--rsh", "touch", "a", "-t", "-oProxyCommand=x:t"]);
    assert!(said.contains("cannot start with '-'"), "{said}");
    assert_eq!(names(dir.path()), ["a"]);
}

#[test]
fn by_the_name_of_cp_no_other_machine_is_offered() {
    let dir = tempfile::tempdir().unwrap();
    let output = script(
        dir.path(),
        "ln -s $G cp; echo a >a; ./cp --rsh touch a h:t; ./cp a h:u; ./cp --help | grep -c HOST",
    );
    assert!(stderr(&output).contains("--rsh"), "{output:?}");
    assert_eq!(stdout(&output), "0\n");
    assert_eq!(names(dir.path()), ["a", "cp", "h:u"]);
}

/// Programs read the operation apart from the message, wherever it has failed.
#[test]
fn the_record_of_an_error_names_the_operation_alone() {
    if let Err(why) = nobody() {
        return skipped(&why);
    }
    let why_not = "Permission denied";
    for (copy, message) in [
        ("./gush cp -rT s t", why_not),
        ("$C -rT s h:t", why_not),
        ("$C -rT h:s t", why_not),
        ("./gush cp missing t", "No such file"),
        ("$C missing h:t", "No such file"),
        ("$C h:missing t", "No such file"),
        ("./gush cp -r closed t2", why_not),
        ("$C -r closed h:t2", why_not),
        ("$C -r h:closed t2", why_not),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let output = remote(
            dir.path(),
            &format!(
                "cp $G gush; mkdir s t closed t2; echo f >s/f; echo f >closed/f; chmod 0 closed/f; chmod 777 . t2
                setpriv --reuid 65534 --regid 65534 --clear-groups {copy} --json | grep errno.:[12]"
            ),
        );
        let said = stdout(&output);
        let record: serde_json::Value = serde_json::from_str(&said).expect(&said);
        let part = |name: &str| record["error"][name].as_str().unwrap().to_owned();
        let (what, whole) = (part("what"), part("message"));
        assert!(whole.contains(message) && whole.contains('\''), "{copy}: {said}");
        assert!(what.starts_with("cannot ") && !what.contains([':', '\'']), "{copy}: {said}");
    }
}

#[test]
fn the_record_of_a_failed_write_names_no_path_either() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("big"), noise(3 << 20, 1)).unwrap();
    for copy in ["$G cp --method read-write big m", "$C big h:m", "$C h:big m"] {
        let script = format!("mount -t tmpfs -o size=2M none m; {copy} --json | grep errno.:28");
        let Some(output) = remote_with_mounts(dir.path(), &script) else { return };
        let said = stdout(&output);
        let record: serde_json::Value = serde_json::from_str(&said).expect(&said);
        assert_eq!(record["error"]["what"], "write failed on the target", "{copy}: {said}");
    }
}
