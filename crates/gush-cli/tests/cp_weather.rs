//! `gush cp` in bad weather: full and read-only file systems, users without rights, sources that change.

mod common;

use std::fs;

use common::cp::{script, stderr, stdout, with_mounts};
use common::{noise, skipped};

#[test]
fn a_full_file_system_says_how_far_it_got() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), noise(3 << 20, 1)).unwrap();
    for method in ["auto", "read-write", "sendfile", "splice"] {
        let text = format!(
            "mount -t tmpfs -o size=1m none m && \"$G\" cp --method={method} a m/b; echo $?; ls m"
        );
        let Some(output) = with_mounts(dir.path(), &text) else { return };
        assert_eq!(stdout(&output), "1\nb\n", "{method}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(said.starts_with("gush: cp: m/b: "), "{method}: {said}");
        assert!(
            said.contains(" after ") && said.contains(" bytes: No space left on device"),
            "{said}"
        );
    }
}

#[test]
fn a_full_file_system_keeps_the_old_file_with_atomic() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), noise(3 << 20, 1)).unwrap();
    let text = "mount -t tmpfs -o size=1m none m && echo old >m/b && \
                \"$G\" cp --atomic a m/b; echo $?; ls -A m; cat m/b; \"$G\" cp --atomic a m/c; ls -A m";
    let Some(output) = with_mounts(dir.path(), text) else { return };
    assert_eq!(stdout(&output), "1\nb\nold\nb\n", "{}", stderr(&output));
    assert!(stderr(&output).contains("No space left on device"), "{}", stderr(&output));
}

#[test]
fn preallocation_fails_before_the_first_byte() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), noise(3 << 20, 1)).unwrap();
    let text = "mount -t tmpfs -o size=1m none m && \"$G\" cp --json --preallocate a m/b";
    let Some(output) = with_mounts(dir.path(), text) else { return };
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["error"]["errno"], 28);
    assert_eq!(record["error"]["delivered_bytes"], 0);
}

#[test]
fn a_read_only_file_system_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "new").unwrap();
    let text = "mount -t tmpfs none m && echo old >m/b && mount -o remount,ro m && \
                for o in --verbose --atomic -f --remove-destination -b; do \
                \"$G\" cp $o a m/b >/dev/null; echo $?; \"$G\" cp a m/c; echo $?; done; cat m/b; ls -A m";
    let Some(output) = with_mounts(dir.path(), text) else { return };
    assert_eq!(stdout(&output), "1\n1\n".repeat(5) + "old\nb\n", "{}", stderr(&output));
    let said = stderr(&output);
    assert_eq!(said.lines().count(), 10, "{said}");
    for line in said.lines() {
        let named = line.starts_with("gush: cp: m/b: ") || line.starts_with("gush: cp: m/c: ");
        assert!(named && line.contains(": Read-only file system"), "{line}");
    }
}

#[test]
fn what_a_user_may_not_read_or_write_is_told() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can become another user");
    }
    let dir = tempfile::tempdir().unwrap();
    let text = "cp \"$G\" gush; chmod 755 . gush; mkdir -m 777 d; echo secret >a; chmod 600 a; \
                echo old >b; chmod 644 b; echo new >d/n; chmod 644 d/n; mkdir -m 755 e; cd d; \
                as='setpriv --reuid 65534 --regid 65534 --clear-groups'; \
                $as ../gush cp ../a x; $as ../gush cp n ../b; $as ../gush cp --atomic n ../b; \
                $as ../gush cp n ../e/x; cat ../b; $as cp n own; chmod 444 own; echo changed >n; \
                $as ../gush cp -f n own; cat own";
    let output = script(dir.path(), text);
    let said = stderr(&output);
    if said.contains("setpriv") {
        return skipped(said.trim());
    }
    assert_eq!(stdout(&output), "old\nchanged\n", "{said}");
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "gush: cp: ../a: cannot open for reading: Permission denied",
            "gush: cp: ../b: cannot open for writing: Permission denied (-f replaces it)",
            "gush: cp: ../b: cannot open for writing: Permission denied (-f replaces it)",
            "gush: cp: ../e/x: cannot create: Permission denied",
        ]
    );
}

#[test]
fn an_owner_that_cannot_be_kept_takes_the_set_id_bits_along() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can become another user");
    }
    let dir = tempfile::tempdir().unwrap();
    let text = "cp \"$G\" gush; chmod 755 . gush; mkdir -m 777 d; echo x >a; chmod 6755 a; \
                as='setpriv --reuid 65534 --regid 65534 --clear-groups'; \
                for o in '' --atomic; do $as ./gush cp -p $o a d/b || exit 9; stat -c '%a %u' d/b; \
                rm d/b; done; $as ./gush cp -p --preserve=xattr a d/b; stat -c '%a %u' d/b";
    let output = script(dir.path(), text);
    if stderr(&output).contains("setpriv") {
        return skipped(stderr(&output).trim());
    }
    assert_eq!(stdout(&output), "755 65534\n".repeat(3), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

#[test]
fn attributes_that_the_target_refuses_fail_only_when_required() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "x").unwrap();
    // A ramfs has no extended attributes at all.
    let text = "setfattr -n user.x -v y a && setfacl -m u:12:r a && mount -t ramfs none m || exit 99; \
                for o in -a --preserve=all --preserve=xattr -p; do \
                \"$G\" cp $o a m/b 2>m/said; echo \"$o $? $(wc -l <m/said)\"; rm m/b; done";
    let Some(output) = with_mounts(dir.path(), text) else { return };
    if output.status.code() == Some(99) {
        return skipped(&format!("no attributes here: {}", stderr(&output).trim()));
    }
    let theirs = text.replace("\"$G\" cp", "cp");
    let expected = with_mounts(dir.path(), &theirs).unwrap();
    assert_eq!(stdout(&output), stdout(&expected), "{}", stderr(&output));
}

#[test]
fn a_growing_and_a_shrinking_source_end_well() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), noise(4 << 20, 5)).unwrap();
    let growing = "(for i in $(seq 50); do echo more >>a; sleep 0.01; done) & \
                   \"$G\" cp --limit=16M a b && wait && cmp -n $(stat -c %s b) a b && \
                   test $(stat -c %s b) -ge 4194304";
    let output = script(dir.path(), growing);
    assert!(output.status.success(), "{output:?}");
    for method in ["auto", "read-write", "mmap-write", "mmap-copy", "read-mmap"] {
        fs::write(dir.path().join("a"), noise(4 << 20, 5)).unwrap();
        let shrinking = format!(
            "rm -f b; (sleep 0.05; truncate -s 100000 a) & \
             \"$G\" cp --limit=16M --method={method} a b; s=$?; wait; echo $s"
        );
        let output = script(dir.path(), &shrinking);
        let said = stderr(&output);
        // The end may simply come sooner; what may not come is a signal.
        match stdout(&output).as_str() {
            "0\n" => assert_eq!(said, "", "{method}"),
            "1\n" => assert!(said.starts_with("gush: cp: "), "{method}: {said}"),
            other => panic!("{method}: {other:?} {said}"),
        }
    }
}
