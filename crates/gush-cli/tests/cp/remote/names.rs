//! The names that copies get on the other machine.

use std::fs;

use super::{remote, remote_succeeds};
use crate::common::cp::{names, stderr, stdout, succeeds};

#[test]
fn the_target_is_named_as_in_a_local_copy() {
    let dir = tempfile::tempdir().unwrap();
    remote_succeeds(
        dir.path(),
        "mkdir -p s/d there u v; echo 1 >s/d/f; echo 2 >g; ln -s g l
        $C -r s h:new; $C -r s h:there; $C -rT s h:exact; $C -rT s h:exact
        $C -rf s g h:u; $C -t h:v -P g l; $C l h:followed; $C s/d/f h:",
    );
    for path in ["new/d/f", "there/s/d/f", "exact/d/f", "u/s/d/f", "u/g", "v/g", "f"] {
        assert!(dir.path().join(path).is_file(), "{path}");
    }
    assert!(!dir.path().join("exact/s").exists());
    assert!(dir.path().join("v/l").is_symlink() && !dir.path().join("followed").is_symlink());
    // A colon after the first slash is part of a local name.
    fs::write(dir.path().join("x"), "local").unwrap();
    succeeds(dir.path(), &["x", "./a:b"]);
    assert_eq!(fs::read(dir.path().join("a:b")).unwrap(), b"local");
}

/// Of each pair of operands a local copy and one to or from another machine make the same tree, and
/// print the same lines.
#[test]
fn a_copy_takes_the_names_that_a_local_one_does() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "C=\"$G cp --rsh $PWD/shell --remote-gush $G\"; O=$PWD/o
        mkdir -p a/in/d a/in/e o; echo 1 >a/in/f; echo 2 >a/in/d/g; ln -s d a/in/l; touch -d 2020-01-01 a/in
        try() {
            for how in local push pull; do
                rm -rf o/*; mkdir -p o/there/q; touch -d 2021-01-01 o/there; cd $1
                case $how in
                    local) $G cp -av --json $3 $2 $4;;
                    push) $C -av --json $3 $2 h:$4;;
                    pull) $C -av --json $3 h:$2 $4;;
                esac >$O.out 2>$O.err; status=$?; echo $status >>$O.out; cd $OLDPWD
                [ $how$status != local0 ] || [ -z \"$(find o -type f)\" ] || echo copied
                (sed 's/,\"action.*//;s,h:,,g;s,/\"$,\",' o.out; sed -En 's,h:,,g; /->|removed/p' o.err
                    cd o; find . -printf '%P %y %M %TY\n') | sort >o.$how
                cmp -s o.local o.$how || { echo $how $*; diff o.local o.$how; cat o.err; }
            done
        }
        for source in . d/.. ../in/. .. f l; do for target in new there/; do
            for options in '' '-T --delete'; do try a/in $source \"$options\" ../../o/$target; done
        done; done
        for source in a/in a/in/.; do for options in '' -T '-T --delete'; do
            try o/there ../../$source \"$options\" .
        done; done",
    );
    // In 25 of 30 cases there is a file: one source is a link, and `-T` cannot make `there/` a
    // file.
    assert_eq!((stdout(&output), stderr(&output)), ("copied\n".repeat(25), String::new()));
}

#[test]
fn a_tilde_is_the_home_directory_of_the_other_machine() {
    let dir = tempfile::tempdir().unwrap();
    remote_succeeds(
        dir.path(),
        "mkdir home; export HOME=$PWD/home; echo h >of; $C of h:~/as; $C of 'h:~'; $C of 'h:./~'",
    );
    assert_eq!(names(&dir.path().join("home")), ["as", "of"]);
    assert!(dir.path().join("~").is_file());
}

#[test]
fn the_name_of_a_directory_makes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "echo a >a; mkdir s; $C -r s h:made/ && $C a h:new/; $C -T a h:made/; $C -T a h:.; $C -T a h:/",
    );
    let why = [
        "gush: cp: h: cannot create regular file 'new/': Not a directory (it does not exist: mkdir -p 'new/' makes the directory)",
        "gush: cp: h: cannot overwrite directory 'made' with non-directory",
        "gush: cp: h: cannot overwrite directory '.' with non-directory",
        "gush: cp: h: cannot overwrite directory '/' with non-directory",
    ];
    assert_eq!(stderr(&output).lines().collect::<Vec<_>>(), why);
    assert!(dir.path().join("made").is_dir() && !dir.path().join("new").exists());
}

/// As those of `.` merge with other operands, in their order.
#[test]
fn the_content_of_a_directory_is_next_to_other_operands() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir -p a/d b l p u; for i in $(seq 300); do echo a >a/d/f$i; done; cp -r a/d b; echo b >b/d/f7
        cp -a a/. b/. b/d l; $C -a --streams 3 a/. b/. b/d h:p && diff -r l p
        $C -a h:a/. h:b/. h:b/d u && diff -r l u && echo same",
    );
    assert_eq!(stdout(&output), "same\n", "{output:?}");
}

#[test]
fn a_link_that_is_named_as_the_target_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "echo f >f; echo real >real; ln -s real link; $C f h:link; echo $?; cat real; readlink link
        $C h:f link; echo $?; cat real; $C h:f ''; echo $?",
    );
    assert_eq!(stdout(&output), "1\nreal\nreal\n1\nreal\n1\n", "{output:?}");
    let said = stderr(&output);
    assert!(said.contains("'link' is a symbolic link") && said.contains("no name"), "{said}");
}
