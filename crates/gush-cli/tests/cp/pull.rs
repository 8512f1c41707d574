//! `gush cp HOST:SOURCE DEST`, with a remote shell that runs the command on this machine.

use std::fs;

use crate::common::cp::{fails, names, stderr, stdout};
use crate::common::skipped;
use crate::remote::{DECISIONS, LOOK, TWO_STATES, a_tree_arrives_by, remote, remote_succeeds};

#[test]
fn a_tree_comes_with_all_its_metadata() {
    a_tree_arrives_by("$C -a --verify h:s t");
}

/// Both copies say and do the same, also when they only say what they would do.
#[test]
fn a_copy_from_another_machine_decides_as_a_local_one() {
    let mut differ = Vec::new();
    for options in DECISIONS {
        for dry in ["", "--dry-run"] {
            let dir = tempfile::tempdir().unwrap();
            let output = remote(
                dir.path(),
                &format!(
                    "set -f; {TWO_STATES}{LOOK}
                    cp -a t u; cp -a t v
                    $G cp -v {options} {dry} s u >u.out 2>u.err; echo $? >>u.out
                    $C -v {options} {dry} h:s v >v.out 2>v.err; echo $? >>v.out
                    o='{options}'; look u ${{o:1:1}}; look v ${{o:1:1}}; diff u.look v.look
                    # A local copy removes a link or special file before it makes the new one.
                    sed \"s,'v/,'u/,g;s,'h:s,'s,g\" v.out | sort >v.said
                    grep -vE \"^(removed|would remove) 'u/s/(d/)?(fifo|link|kind/link|names|same|hard)'\" u.out | sort >u.said
                    diff u.said v.said; sed \"s,'v/,'u/,g\" v.err | sort >v.err2
                    sed \"s, with \\(non-\\)\\?directory 's/.*, with \\1directory,\" u.err | sort >u.err2
                    diff u.err2 v.err2; [ -s u.look ] && echo looked"
                ),
            );
            if stdout(&output) != "looked\n" {
                differ.push(format!("{options} {dry}: {}{}", stdout(&output), stderr(&output)));
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
fn the_target_of_a_pull_is_named_as_in_a_local_copy() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote_succeeds(
        dir.path(),
        "mkdir -p s/d there u v w home; echo 1 >s/d/f; echo 2 >g; ln -s g l; mkdir x; echo x >x/g
        $C -r h:s new; $C -rv h:s/ there; $C -rT h:s exact; $C -rT h:s exact; $C -v h:s/d/f named
        $C -rv h:s/d/ h:g u; $C -t v -P h:g h:l; $C h:l followed; cd s; C=${C/.\\//../}
        $C -r h:. ../w; export HOME=$PWD/../x; $C 'h:~/g' ../home",
    );
    for path in
        ["new/d/f", "there/s/d/f", "exact/d/f", "u/d/f", "u/g", "v/g", "w/s/d/f", "home/g", "named"]
    {
        assert!(dir.path().join(path).is_file(), "{path}");
    }
    assert!(!dir.path().join("exact/s").exists());
    assert!(dir.path().join("v/l").is_symlink() && !dir.path().join("followed").is_symlink());
    let said = stdout(&output);
    for line in
        ["'h:s/d' -> 'there/s/d'", "'h:s/d/f' -> 'named'", "'h:s/d/f' -> 'u/d/f'", "'h:g' -> 'u/g'"]
    {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
}

#[test]
fn what_fails_at_the_sender_is_shown_here() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir t; mkfifo p; echo f >f; esc=$(printf 'e\\033[2Jc')
        $C h:/proc/version h:/dev/null h:p h:missing \"h:$esc\" h:f t; echo $?
        $C -r --json h:missing t/new; echo $?",
    );
    let (said, records) = (stderr(&output), stdout(&output));
    for part in [
        "cp: h: '/proc/version' could not be read: its size is 0, and it has content",
        "cp: h: '/dev/null' is a special file",
        "cp: h: 'p' is a special file",
        "cp: h: cannot stat 'missing': No such file",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains('\x1b'), "{said}");
    assert!(records.starts_with("1\n") && records.ends_with("\n1\n"), "{records}");
    let json = r#"{"source":"h:missing","target":"t/new","#;
    assert!(records.contains(json) && records.contains("cannot stat 'missing'"), "{records}");
    assert_eq!(names(&dir.path().join("t")), ["f"]);
}

#[test]
fn a_source_that_changes_meanwhile_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "head -c 3M /dev/zero >f; (until [ -e stop ]; do echo >>f; done) & $C h:f t; echo $?
        touch stop; wait",
    );
    assert_eq!(stdout(&output), "0\n");
    let said = stderr(&output);
    assert!(said.contains("h: warning: 'f' changed while it was being copied"), "{said}");
}

#[test]
fn directories_that_may_not_be_searched_there_do_not_end_the_copy() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "[ $(id -u) = 0 ] || { echo lacks; exit 0; }
        mkdir -p s/a s/no/in s/list/in s/z o; for d in a no list z; do echo $d >s/$d/f; done
        chmod 0 s/no; chmod 444 s/list; chmod 777 . o; chmod 0 s/z/f; echo k >s/z/k
        setpriv --reuid=65534 --regid=65534 --clear-groups $C -r h:s h:s/no o; echo $?
        cat o/s/a/f o/s/z/k; ls o o/s/z",
    );
    if stdout(&output) == "lacks\n" {
        return skipped("needs root, to become another user");
    }
    let said = stderr(&output);
    assert_eq!(stdout(&output), "1\na\nk\no:\nno\ns\n\no/s/z:\nk\n", "{said}");
    for part in [
        "h: cannot access 's/no': Permission denied",
        "'s/list/f': Permission denied",
        "cannot open 's/z/f' for reading: Permission denied",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn operands_of_which_no_pull_can_be_made_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "").unwrap();
    for (operands, why) in [
        (&["h:a", "a", "."][..], "some sources are on another machine"),
        (&["h:a", "i:a", "."], "the sources are on several machines"),
        (&["h:a", "h:b"], "cannot both be on another machine"),
        (&["h:", "."], "names no source"),
        (&["--streams", "2", "h:a", "."], "--streams is not served in a copy from"),
        (&["-b", "h:a", "."], "--backup is not served"),
        (&["h:a", "h:b", "none"], "target 'none': No such file"),
        (&["h:a", "/dev/null"], "'/dev/null' is a special file"),
        (&["--", "-oProxyCommand=x:t", "."], "cannot start with '-'"),
    ] {
        let said = fails(dir.path(), &[&["--rsh", "touch"], operands].concat());
        assert!(said.contains(why), "{operands:?}: {said}");
    }
    assert_eq!(names(dir.path()), ["a"]);
}

/// The connection is cut in the middle of a large file and of small ones.
#[test]
fn a_pull_that_was_cut_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir -p s/d; head -c 60M /dev/urandom >s/big; for i in $(seq 200); do echo $i >s/d/f$i; done
        printf '#!/bin/sh\nshift\n\"$@\" 2>/dev/null | { stdbuf -o0 head -c $CUT; kill $$; }\n' >cut
        printf '#!/bin/sh\nshift\n\"$@\" | tee -a sent\n' >count; chmod +x cut count
        for CUT in 1000 10000000 20000000 20000000; do
            export CUT; timeout 60 $G cp -aT --resume --rsh ./cut --remote-gush $G h:s t 2>/dev/null && echo whole
        done
        $G cp -aT --resume --rsh ./count --remote-gush $G h:s t || exit
        diff -r s t && echo same; ls -A . t | grep gush; stat -c %s sent; rm sent
        $G cp -aT --resume --rsh ./count --remote-gush $G h:s t; stat -c %s sent; ls -A | grep gush
        diff -r s t && echo same",
    );
    let said = stdout(&output);
    let lines: Vec<&str> = said.lines().collect();
    let &["same", second, third, "same"] = &lines[..] else { panic!("{output:?}") };
    let [second, third] = [second, third].map(|text| text.parse::<u64>().unwrap());
    // 63 MB of data, of which 48 MB came before; ranges of 4 MiB that were cut come again.
    assert!((12_000_000..37_000_000).contains(&second), "{second}");
    assert!(third < 100_000, "{third}");
}
