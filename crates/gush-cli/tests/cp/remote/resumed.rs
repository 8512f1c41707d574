//! `--resume`: a copy that was cut goes on.

use super::{remote, remote_succeeds, remote_with_mounts};
use crate::common::cp::{names, stderr, stdout};
use crate::common::{nobody, skipped};

/// The connection is cut, or the receiver killed, in the middle of a large file and of small ones.
#[test]
fn a_copy_that_was_cut_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir -p s/d; head -c 60M /dev/urandom >s/big; for i in $(seq 200); do echo $i >s/d/f$i; done
        truncate -s 40M s/holes; head -c 5M /dev/urandom | dd of=s/holes bs=1M seek=20 conv=notrunc status=none
        printf '#!/bin/sh\nshift\nstdbuf -o0 head -c $CUT | \"$@\"\n' >cut
        printf '#!/bin/sh\nshift\ntee -a sent | \"$@\"\n' >count; chmod +x cut count
        for CUT in 1000 10000000 20000000 20000000; do
            export CUT; timeout 60 $G cp -aT --resume --streams 1 --rsh ./cut --remote-gush $G s h:t 2>/dev/null && echo whole
        done
        $G cp -aT --resume --streams 2 --rsh ./count --remote-gush $G s h:t || exit
        diff -r s t && echo same; ls -A . t | grep gush; stat -c %s sent; rm sent
        $G cp -aT --resume --rsh ./count --remote-gush $G s h:t; stat -c %s sent; ls -A | grep gush
        diff -r s t && echo same",
    );
    let said = stdout(&output);
    let lines: Vec<&str> = said.lines().collect();
    let &["same", second, third, "same"] = &lines[..] else { panic!("{output:?}") };
    let [second, third] = [second, third].map(|text| text.parse::<u64>().unwrap());
    // 65 MiB of data, of which 50 MB arrived before; ranges of 256 KiB that were cut come again.
    assert!((18_000_000..20_500_000).contains(&second), "{second}");
    assert!(third < 100_000, "{third}");
}

/// What an ordinary user's copy to or from another machine makes of `t/d`, a directory that it
/// finds there with `b` and is to have `a`, too. `given` is the owner, group and mode of `t/d`.
fn copied_into(given: &str, options: &str, operands: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        &format!(
            "cp $G gush; mkdir -p s/d/n t/d; echo a >s/d/a; echo b >s/d/b; cp -p s/d/b t/d
            chmod 444 s/d/* t/d/*; chmod 555 s/d; chown -R 65534:65534 .
            set {given}; chown $1 t/d; chmod $2 t/d
            setpriv --reuid 65534 --regid 65534 --clear-groups ./gush cp {options} \\
                --rsh ./shell --remote-gush ./gush {operands} >/dev/null 2>&1; echo $?
            cat t/d/a t/d/b; stat -c %a t/d"
        ),
    );
    stdout(&output)
}

/// Root may write to any directory. A copy that gives the directory its mode lends the bit to
/// others; after another one that was killed, nothing would show the directory's own mode, unless
/// it is the one that a copy gives.
#[test]
fn a_directory_that_is_read_only_already_is_copied_into() {
    if let Err(why) = nobody() {
        return skipped(&why);
    }
    for (bits, options, operands, expected) in [
        (500, "-aT", "s h:t", "0\na\nb\n555\n"),
        (500, "-aT", "h:s t", "0\na\nb\n555\n"),
        (500, "-aT --resume", "s h:t", "0\na\nb\n555\n"),
        (500, "-aT --dry-run", "s h:t", "0\nb\n500\n"),
        (500, "-rT --resume", "s h:t", "1\nb\n500\n"),
        (500, "-rT --dry-run", "s h:t", "1\nb\n500\n"),
        (555, "-rT --resume", "s h:t", "0\na\nb\n555\n"),
        (555, "-rT --resume", "h:s t", "0\na\nb\n555\n"),
        (555, "-rT", "s h:t", "1\nb\n555\n"),
    ] {
        let copied = copied_into(&format!("65534:65534 {bits}"), options, operands);
        assert_eq!(copied, expected, "{bits} {options} {operands}");
    }
}

/// Its mode cannot be changed, and need not be.
#[test]
fn a_directory_of_another_user_is_copied_into_where_it_may_be_changed() {
    if let Err(why) = nobody() {
        return skipped(&why);
    }
    // With -a its attributes cannot be set.
    for (options, status) in [("-rT --resume", 0), ("-rT", 0), ("-aT", 1)] {
        let copied = copied_into("0:65534 570", options, "s h:t");
        assert_eq!(copied, format!("{status}\na\nb\n570\n"), "{options}");
    }
}

/// Root needs no bit of the owner's, and a directory that was there is not a new one.
#[test]
fn a_private_directory_stays_private() {
    if !rustix::process::geteuid().is_root() {
        return skipped("entering any directory needs root");
    }
    for options in ["-rT --resume", "-rT --resume --no-preserve=mode", "-aT --no-preserve=mode"] {
        let dir = tempfile::tempdir().unwrap();
        let output = remote(
            dir.path(),
            &format!(
                "mkdir -p s/d t/d; echo a >s/d/a; chmod 755 s/d; chmod 500 t/d
                $C {options} s h:t; echo $?; cat t/d/a; stat -c %a t/d"
            ),
        );
        assert_eq!(stdout(&output), "0\na\n500\n", "{options}");
    }
}

/// No file of such a copy gets the time of its source, by which it would be found to be complete.
#[test]
fn a_resumed_copy_that_does_not_keep_times_warns() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir s; touch s/a; $C -rT --resume s h:t; echo >&2
        for option in -p --preserve=timestamps; do $C -rT --resume $option s h:t; done",
    );
    let said = stderr(&output);
    assert!(said.contains("all files are sent again\n\n"), "{said}");
    assert!(said.ends_with("again\n\n"), "{said}");
}

/// The source has a file with the name under which the receiver would keep parts of another one.
#[test]
fn a_file_named_as_the_parts_of_another_is_copied_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote_succeeds(
        dir.path(),
        "mkdir s; for name in img a; do
            head -c 20M /dev/urandom >s/$name; echo note >s/.$name.gush-partial
        done; echo small >s/small; : >s/.small.gush-partial
        for streams in 1 4; do for way in 's h:' 'h:s '; do for round in 1 2 3; do
            $C -aT --resume --streams $streams ${way}t; diff -r s t; touch s/a s/small
        done; rm -r t; done; done",
    );
    assert_eq!(stdout(&output), "", "{output:?}");
}

/// Another source of the same size is not mixed with what has come of the old one.
#[test]
fn a_source_that_changed_meanwhile_is_sent_anew() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir s; head -c 30M /dev/urandom >s/big
        printf '#!/bin/sh\nshift\nstdbuf -o0 head -c 20000000 | \"$@\"\n' >cut; chmod +x cut
        timeout 60 $G cp -aT --resume --streams 1 --rsh ./cut --remote-gush $G s h:t 2>/dev/null && echo whole
        ls -A t; head -c 30M /dev/urandom >s/big; $C -aT --resume s h:t; diff -r s t && ls -A t",
    );
    assert_eq!(stdout(&output), ".big.gush-partial\nbig\n", "{output:?}");
}

#[test]
fn a_receiver_killed_half_way_leaves_no_half_file() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir s; truncate -s 1G s/big; printf x | dd of=s/big bs=1 seek=5 conv=notrunc 2>/dev/null
        fallocate -l 64M s/big2
        printf '#!/bin/sh\\nshift\\nstdbuf -o0 head -c 300000 | \"$@\"\\n' >shell
        timeout 60 $C -r --streams 1 s h:t",
    );
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    for name in names(&dir.path().join("t")) {
        let [sent, made] = ["s", "t"].map(|side| dir.path().join(side).join(&name));
        assert_eq!(made.metadata().unwrap().len(), sent.metadata().unwrap().len(), "{name}");
    }
}

/// A failed entry leaves the copy to be resumed, not to be copied into.
#[test]
fn a_copy_with_a_failed_entry_is_resumed_by_the_same_command() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir s; echo a >s/a; echo b >s/b; mkfifo s/p; chmod 0 s/b
        run() { setpriv --reuid=65534 --regid=65534 --clear-groups $C \"$@\"; }
        [ $(id -u) = 0 ] || { echo lacks; exit 0; }
        chmod 777 .; run -rT --resume s h:t; echo $?; chmod 644 s/b; run -rT --resume s h:t; echo $?
        ls t",
    );
    if stdout(&output).contains("lacks") {
        return skipped("needs root, to become another user");
    }
    assert_eq!(stdout(&output), "1\n0\na\nb\np\n", "{output:?}");
}

/// The message names what is kept, and the same command goes on with it.
#[test]
fn a_full_disk_keeps_what_has_arrived_and_says_where() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote_with_mounts(
        dir.path(),
        "mount -t tmpfs -o size=8M none m; mkdir s; head -c 12M /dev/urandom >s/big
        $C -aT --resume --json s h:m/t | grep -o '\"hint\":\"[^\"]*'; ls -A m/t
        mount -o remount,size=32M m; $C -aT --resume s h:m/t; cmp s/big m/t/big && ls -A m/t",
    );
    let Some(output) = output else { return };
    let hint = "'m/t/.big.gush-partial' keeps what has arrived, and the same command goes on with \
                it; the target is full: free some";
    let (said, out) = (stderr(&output), stdout(&output));
    let start = "gush: cp: h: error writing 'm/t/big': No space left on device (after ";
    assert!(said.starts_with(start) && said.contains(hint), "{said}");
    assert!(out.starts_with(&format!("\"hint\":\"{hint}")), "{out}");
    assert!(out.ends_with("\n.big.gush-partial\nbig\n"), "{out}");
}
