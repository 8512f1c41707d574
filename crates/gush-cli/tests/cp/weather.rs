//! `gush cp` in bad weather: full and read-only file systems, users without rights, sources that
//! change.

use std::fs;
use std::process::Stdio;

use crate::common::cp::{script, stderr, stdout, succeeds, with_files, with_mounts};
use crate::common::{copied_gush, gush, nobody, noise, skipped, words_of};
use rustix::io::Errno;

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
        assert!(
            said.starts_with("gush: cp: error writing 'm/b': No space left on device ("),
            "{said}"
        );
        let state = " bytes; an incomplete copy remains; the target is full";
        assert!(said.contains(" after ") && said.contains(state), "{said}");
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
    let said = stderr(&output);
    let states =
        ["the old file is unchanged; the target is full", "no copy was made; the target is"];
    assert_eq!(said.lines().count(), 2, "{said}");
    for (line, state) in said.lines().zip(states) {
        assert!(line.contains("No space left on device") && line.contains(state), "{said}");
    }
}

#[test]
fn a_full_file_system_gives_the_old_file_its_name_back() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("from")).unwrap();
    fs::write(dir.path().join("from/a"), noise(3 << 20, 1)).unwrap();
    for operands in ["--backup from/a m/a", "-aT --backup from m"] {
        let text = format!(
            "mount -t tmpfs -o size=256k none m && echo old >m/a; \"$G\" cp {operands}; echo $?; \
             ls -A m; cat m/a; \"$G\" cp --json {operands}"
        );
        let Some(output) = with_mounts(dir.path(), &text) else { return };
        let printed = stdout(&output);
        let record = printed.strip_prefix("1\na\nold\n").expect(&printed);
        let record = record.lines().find(|line| line.contains("\"errno\":28")).expect(record);
        let record: serde_json::Value = serde_json::from_str(record).unwrap();
        let hint = record["error"]["hint"].as_str().unwrap();
        for said in [stderr(&output).as_str(), hint] {
            assert!(said.contains("the old file is back; the target is full"), "{said}");
            assert!(!said.contains("incomplete"), "{said}");
        }
    }
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
        let named = line.contains(" 'm/b'") || line.contains(" 'm/c'");
        assert!(named && line.contains(": Read-only file system"), "{line}");
    }
}

#[test]
fn what_a_user_may_not_read_or_write_is_reported() {
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
    let remedy = " (`namei -l PATH` shows the owner and mode of each part of a path)";
    let lines: Vec<_> = said.lines().map(|line| line.strip_suffix(remedy).unwrap()).collect();
    assert_eq!(
        lines,
        [
            "gush: cp: cannot open '../a' for reading: Permission denied",
            "gush: cp: cannot create regular file '../b': Permission denied",
            "gush: cp: cannot create regular file '../b': Permission denied",
            "gush: cp: cannot create regular file '../e/x': Permission denied",
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

/// XFS lists the stored form of an access list for root. As a plain attribute it would grant access
/// that only --preserve=mode keeps.
#[test]
fn the_stored_form_of_an_access_list_is_no_plain_attribute() {
    let dir = tempfile::tempdir().unwrap();
    let text = "mkdir t && echo x >t/a && setfattr -n user.x -v y t/a && setfattr -n trusted.other -v y t/a &&
        for n in FILE DEFAULT; do setfattr -n trusted.SGI_ACL_$n -v 0sAAAAAA== t/a || exit; done";
    let made = script(dir.path(), text);
    if !made.status.success() {
        return skipped(&format!("no attributes of root's here: {}", stderr(&made).trim()));
    }
    for options in ["--preserve=xattr", "-a"] {
        succeeds(dir.path(), &["-r", options, "t", "d"]);
        let output = script(dir.path(), "getfattr -m - d/a && rm -r d");
        assert_eq!(stdout(&output), "# file: d/a\ntrusted.other\nuser.x\n\n", "{options}");
    }
}

/// The name of a program stands in files of /proc that gush reads.
#[test]
fn called_by_a_name_that_is_not_utf_8_cp_heeds_the_umask() {
    let dir = tempfile::tempdir().unwrap();
    let text = "ln -s \"$G\" \"$(printf 'gush\\377')\" && mkdir a && umask 022 && \
                for g in \"$G\" ./gush?; do \
                rm -rf b && \"$g\" cp -r --no-preserve=mode a b && stat -c %a b; done";
    let output = script(dir.path(), text);
    assert_eq!(stdout(&output), "755\n755\n", "{}", stderr(&output));
}

#[test]
fn a_target_without_attributes_is_reported_once_a_tree_and_all_else_is_copied() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("t/below")).unwrap();
    for name in ["a", "b", "c", "below/d", "below/e"] {
        fs::write(dir.path().join("t").join(name), name).unwrap();
    }
    // Another kind has its own line, and GNU's status is that of the first failure.
    let text = "setfattr -n user.x -v y t/a t/b t/below/d t/below && setfattr -n user.other -v y t/c && \
                mount -t ramfs none m || exit 99; \
                \"$G\" cp -r --preserve=xattr t m/t; echo $?; cp -r --preserve=xattr t m/gnu 2>/dev/null; \
                echo $?; diff -r t m/t && echo same";
    let Some(output) = with_mounts(dir.path(), text) else { return };
    if output.status.code() == Some(99) {
        return skipped(&format!("no attributes here: {}", stderr(&output).trim()));
    }
    assert_eq!(stdout(&output), "1\n1\nsame\n", "{}", stderr(&output));
    let said = stderr(&output);
    let about = |words: &str| said.lines().filter(|line| line.contains(words)).count();
    assert_eq!(about("setting attribute 'user.x' for"), 2, "{said}");
    assert_eq!(about("for 3 more entries below 'm/t': "), 1, "{said}");
    assert_eq!(about("setting attribute 'user.other' for"), 1, "{said}");
    assert_eq!(said.lines().count(), 3, "{said}");
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
            "rm -f b; \"$G\" cp --limit=1M --method={method} a b & \
             until test -s b || ! kill -0 $!; do sleep 0.01; done; truncate -s 100000 a; wait $!; echo $?"
        );
        let output = script(dir.path(), &shrinking);
        let said = stderr(&output);
        assert_eq!(stdout(&output), "0\n", "{method}: {said}");
        assert!(
            said.contains("warning: 'a' changed while it was being copied"),
            "{method}: {said}"
        );
    }
}

#[test]
fn a_backup_is_undone_where_the_copy_lacks_what_was_required() {
    let dir = with_files(&[("a", b"new")]);
    let Some(output) = with_mounts(
        dir.path(),
        "mount -t ramfs none m && echo old >m/b && setfattr -n user.x -v y a || exit 99
         \"$G\" cp -b --preserve=xattr a m/b; echo $? $(ls m) $(cat m/b)",
    ) else {
        return;
    };
    if output.status.code() == Some(99) {
        return skipped(&format!("no ramfs, or no attributes: {}", stderr(&output)));
    }
    assert_eq!(
        stderr(&output),
        format!(
            "gush: cp: setting attribute 'user.x' for 'm/b': {}\n\
             gush: cp: not replacing 'm/b': the copy lacked required metadata, and the old file is back\n",
            words_of(Errno::OPNOTSUPP)
        )
    );
    assert_eq!(stdout(&output), "1 b old\n");
}

#[test]
fn a_copy_that_lacks_what_was_required_gets_no_second_name() {
    let dir = with_files(&[("x", b"x")]);
    let Some(output) = with_mounts(
        dir.path(),
        "mount -t ramfs none m && setfattr -n user.x -v y x && ln x y || exit 99
         \"$G\" cp --preserve=links,xattr x y m; echo $? $(stat -c %h m/x m/y)",
    ) else {
        return;
    };
    if output.status.code() == Some(99) {
        return skipped(&format!("no ramfs, or no attributes: {}", stderr(&output)));
    }
    assert_eq!(stdout(&output), "1 1 1\n", "{}", stderr(&output));
}

#[test]
fn a_list_that_the_target_refuses_gives_the_group_nothing_more() {
    let dir = with_files(&[("a", b"a")]);
    let Some(output) = with_mounts(
        dir.path(),
        "mount -t ramfs none m && chmod 640 a && setfacl -m u:12:rwx a || exit 99
         \"$G\" cp -p a m/b; echo $? $(stat -c %a a m/b)",
    ) else {
        return;
    };
    if output.status.code() == Some(99) {
        return skipped(&format!("no ramfs, or no lists: {}", stderr(&output)));
    }
    let why = words_of(Errno::OPNOTSUPP);
    let said = format!("gush: cp: preserving permissions for 'm/b': {why}\n");
    assert_eq!(stderr(&output), said);
    assert_eq!(stdout(&output), "1 670 640\n");
}

/// The list of a directory is for files to come: without this list the directory itself grants
/// nothing else.
#[test]
fn a_default_list_that_the_target_refuses_leaves_the_directory_its_mode() {
    let dir = with_files(&[]);
    let Some(output) = with_mounts(
        dir.path(),
        "mount -t ramfs none m && mkdir a && chmod 751 a && setfacl -d -m u:12:rwx a || exit 99
         \"$G\" cp -rp a m/b; echo $? $(stat -c %a m/b)
         \"$G\" cp -a a m/c; echo $? $(stat -c %a m/c)",
    ) else {
        return;
    };
    if output.status.code() == Some(99) {
        return skipped(&format!("no ramfs, or no lists: {}", stderr(&output)));
    }
    let why = words_of(Errno::OPNOTSUPP);
    let said = |name| format!("gush: cp: preserving permissions for 'm/{name}': {why}\n");
    assert_eq!(stderr(&output), said("b") + &said("c"));
    assert_eq!(stdout(&output), "1 751\n1 751\n");
}

#[test]
fn the_remedy_that_is_printed_for_a_target_helps() {
    let dir = with_files(&[("a", b"a"), ("b", b"b")]);
    for (flag, remedy) in [
        ("i", "the file is immutable: chattr -i removes this attribute"),
        ("a", "the file is append-only: chattr -a removes this attribute"),
    ] {
        let output = script(
            dir.path(),
            &format!(
                "chattr +{flag} b || exit 99; \"$G\" cp a b; \"$G\" cp -f a b; \
                 \"$G\" cp --remove-destination a b; \"$G\" cp -b a b; chattr -{flag} b; cat b"
            ),
        );
        if output.status.code() == Some(99) {
            return skipped(&format!("chattr: {}", stderr(&output)));
        }
        let said =
            |what: &str| format!("gush: cp: {what} 'b': Operation not permitted ({remedy})\n");
        let expected =
            ["cannot create regular file", "cannot remove", "cannot remove", "cannot backup"];
        assert_eq!(stderr(&output), expected.map(said).concat());
        assert_eq!(stdout(&output), "b");
    }
}

#[test]
fn force_is_no_remedy_in_a_directory_that_lets_nothing_be_removed() {
    let user = match nobody() {
        Ok(user) => user,
        Err(why) => return skipped(&why),
    };
    let dir = with_files(&[("a", b"a"), ("b", b"b")]);
    copied_gush(dir.path());
    let denied = " (`namei -l PATH` shows the owner and mode of each part of a path)";
    for (mode, owner, hint) in [
        ("755", 0, denied),
        ("1777", 0, denied),
        ("777", 0, " (-f replaces it)"),
        ("700", user, " (-f replaces it)"),
    ] {
        let output = script(
            dir.path(),
            &format!(
                "chmod {mode} .; chown {owner} .
                 setpriv --reuid={user} --regid={user} --clear-groups ./gush cp a b"
            ),
        );
        let said = format!("gush: cp: cannot create regular file 'b': Permission denied{hint}\n");
        assert_eq!(stderr(&output), said, "{mode}");
    }
}

#[test]
fn a_mapped_target_that_is_truncated_is_blamed_itself() {
    for method in ["mmap-copy", "read-mmap"] {
        let dir = with_files(&[("a", &noise(8 << 20, 3))]);
        let mut command = gush();
        command.args(["cp", "--method", method, "--limit=2M", "a", "b"]).current_dir(dir.path());
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        let target = dir.path().join("b");
        while fs::metadata(&target).map_or(0, |file| file.len()) < 8 << 20 {
            std::thread::yield_now();
        }
        fs::File::options().write(true).open(&target).unwrap().set_len(0).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{method}: {said}");
        assert!(said.starts_with(&format!("gush: cp: b: {method} cannot go on")), "{said}");
        assert!(said.contains("the target was truncated, or its file system is full"), "{said}");
    }
}
