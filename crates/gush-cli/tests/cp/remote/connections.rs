//! How connections begin and end, and how many there are.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::{HOLD, remote, remote_succeeds};
use crate::common::cp::{fails, script, stderr, stdout};
use crate::common::skipped;

/// One line says what has failed, on which machine, and what to do.
#[test]
fn a_failed_start_is_one_line_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let mkdir = "(mkdir -p 'no/such' makes the directory)\n";
    for (words, said) in [
        (
            "$C -r s h:no/such/t",
            format!("h: cannot open directory 'no/such': No such file or directory {mkdir}"),
        ),
        (
            "$C -r h:s no/such/t",
            format!("cannot open directory 'no/such': No such file or directory {mkdir}"),
        ),
        (
            "$C -rt h:no/such s",
            format!("h: cannot open directory 'no/such': No such file or directory {mkdir}"),
        ),
        (
            "$C h:s/f s/l",
            "'s/l' is a symbolic link, which a copy between machines would replace: name \
            what it leads to, or remove it\n"
                .into(),
        ),
        (
            "$G cp --rsh false a:b t",
            "a: false ended with exit status 1 before gush answered (`false a gush --version` shows \
            why; 'a:b' is also a local file, written './a:b')\n"
                .into(),
        ),
        (
            "$G cp --rsh ./none s/f a:b",
            "cannot start ./none: No such file or directory (there is no such file, or no such \
            program in PATH; --rsh names another program; 'a:b' is also a local file, written \
            './a:b')\n"
                .into(),
        ),
        (
            "$G cp --rsh 'echo hi;' s/f h:t",
            "h: no gush answers there: it sent 'hi; h gush serve-tree' (the \
            shell's start-up files there must print nothing)\n"
                .into(),
        ),
    ] {
        let output = remote(
            dir.path(),
            &format!("mkdir -p s; touch s/f a:b; ln -sf f s/l; {words}; [ $? = 1 ]"),
        );
        assert!(output.status.success(), "{words}: {output:?}");
        assert_eq!(stderr(&output), format!("gush: cp: {said}"), "{words}");
    }
}

#[test]
fn a_failed_remote_shell_and_a_talking_login_shell_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "").unwrap();
    let said = fails(dir.path(), &["--rsh", "false", "a", "h:t"]);
    assert!(
        said.contains("h: false ended with exit status 1 before gush answered (`false h gush"),
        "{said}"
    );
    let said = fails(dir.path(), &["--rsh", "echo welcome to a friendly shell;", "a", "h:t"]);
    assert!(said.contains("it sent 'welcome to a friendly shell"), "{said}");
    let said = fails(dir.path(), &["--rsh", "./none", "a", "h:t"]);
    let remedy =
        " (there is no such file, or no such program in PATH; --rsh names another program)";
    assert!(said.contains("cannot start ./none: No such file") && said.contains(remedy), "{said}");
}

/// By a true sshd of this machine, with keys of its own.
#[test]
fn ssh_carries_a_copy_in_either_direction() {
    let dir = tempfile::tempdir().unwrap();
    let output = script(
        dir.path(),
        "[ -x /usr/sbin/sshd ] && [ $(id -u) = 0 ] && command -v ssh ssh-keygen >/dev/null || { echo lacks; exit 0; }
        umask 077; for key in host user; do ssh-keygen -qt ed25519 -N '' -f $key; done
        mkdir -p /run/sshd; chmod 755 .
        set -- -o HostKey=$PWD/host -o AuthorizedKeysFile=$PWD/user.pub -o StrictModes=no -o UsePAM=no
        mkdir s; echo one >s/a; head -c 3000000 /dev/urandom >s/b
        copy() { $G cp -a --rsh \"ssh -F none -i $PWD/user -o StrictHostKeyChecking=no \\
            -o UserKnownHostsFile=$PWD/known -o LogLevel=ERROR \\
            -o 'ProxyCommand=/usr/sbin/sshd -i -f /dev/null $options'\" --remote-gush $G \"$@\" 2>&1; }
        options=$*; copy s root@h:$PWD/t; copy root@h:$PWD/s u
        diff -r s t && diff -r s u && echo same",
    );
    if stdout(&output) == "lacks\n" {
        return skipped("needs root, ssh and sshd (openssh-server)");
    }
    assert_eq!(stdout(&output), "same\n", "{output:?}");
}

#[test]
fn a_shell_that_prints_a_greeting_or_reads_nothing_is_ended_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    for (shell, said) in [
        ("echo Welcome to this machine; exec sleep 600", "it sent 'Welcome to this mach"),
        ("echo; exec $G serve-tree", "it sent an empty line (the shell's"),
        ("head -c 2 /dev/zero; exec sleep 600", "it sent ''$'\\000\\000' (the shell's"),
        ("exec cat", "(install the same gush on both machines, unless"),
        (
            "exec true",
            "h: the other side ended without an answer (`./other h gush --version` shows why)\n",
        ),
        (
            "kill -9 $$",
            "./other ended with signal 9 (SIGKILL) before gush answered (`./other h gush",
        ),
        (
            "exec false",
            "exit status 1 before gush answered (`./other h gush --version` shows why)\n",
        ),
        (
            "exec ./no-such-gush",
            "exit status 127 before gush answered (--remote-gush names another program; `./other h",
        ),
        // The greeting of gush, then an end; nothing is read, and a write waits for room.
        (
            ": | $G serve-tree; exec >&-; exec sleep 600",
            "before the copy was complete (what has arrived whole stays; copy again)",
        ),
        (": | $G serve-tree; exec <&-; exec sleep 600", "connection lost while sending"),
    ] {
        let output = remote(
            dir.path(),
            &format!(
                "mkdir -p s; head -c 9000000 /dev/urandom >s/f
                printf '#!/bin/sh\nG=%s\n{shell}\n' $G >other; chmod +x other
                timeout 60 $G cp -r --rsh ./other s h:t"
            ),
        );
        assert_eq!(output.status.code(), Some(1), "{shell}: {output:?}");
        assert!(stderr(&output).contains(said), "{shell}: {output:?}");
    }
}

/// A session that is lost says how far it got, and what copies the rest.
#[test]
fn a_lost_session_counts_what_has_arrived() {
    let one = "1 file of 2 bytes has arrived whole and stays";
    let two = "2 files of 4 bytes have arrived whole and stay";
    for (copy, said) in [
        ("up -rpt h:t s/a s/big", format!("{one}; --resume with -T or -t copies the rest")),
        ("up -rpt h:t s/a s/b s/big", format!("{two}; --resume with -T or -t copies the rest")),
        ("down -rpt t --resume h:s/a h:s/big", format!("{one}; the same command copies the rest")),
        ("down -rt t h:s/a h:s/b h:s/big", format!("{two}; copy again")),
        ("up -t h:t s/big", "what has arrived whole stays; copy again".into()),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let output = remote(
            dir.path(),
            &format!(
                "mkdir s t; echo a >s/a; echo b >s/b; head -c 9M /dev/urandom >s/big
                printf '#!/bin/sh\nshift\nstdbuf -o0 head -c 3M | \"$@\"\n' >up
                printf '#!/bin/sh\nshift\n\"$@\" | stdbuf -o0 head -c 3M\n' >down; chmod +x up down
                timeout 60 $G cp --streams 1 --remote-gush $G --rsh ./{copy}; echo $?"
            ),
        );
        assert_eq!(stdout(&output), "1\n", "{copy}: {output:?}");
        assert!(stderr(&output).contains(&format!("({said})\n")), "{copy}: {output:?}");
    }
}

/// The first connection, to or from the other machine, is enough.
#[test]
fn a_connection_that_cannot_be_had_is_done_without() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir s; for i in $(seq 300); do echo $i >s/$i; done; head -c 9M /dev/urandom >s/big
        printf '#!/bin/sh\nshift\necho >>started; mkdir one 2>/dev/null || exit 1; exec \"$@\"\n' >once; chmod +x once
        for way in 's h:t' 'h:s u'; do
            # The copy lasts until the others have failed.
            $G cp -aT --limit 4M --streams 3 --rsh ./once --remote-gush $G $way || echo failed
            rmdir one; wc -l <started; rm started
        done; diff -r s t && diff -r s u && echo same",
    );
    assert_eq!(stdout(&output), "3\n3\nsame\n", "{output:?}");
    let said = stderr(&output);
    assert_eq!(said.matches("the copy goes on with a stream less").count(), 4, "{said}");
}

/// Only the start of a second connection lets the first one go on.
#[test]
fn a_connection_that_is_slower_than_the_sender_is_not_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        &format!(
            "{HOLD} mkdir s; for i in $(seq 9); do head -c 5M /dev/urandom >s/$i; done
            export UNTIL='[ $(wc -l <started) -gt 1 ]'
            timeout 60 $H -r s h:t; timeout 60 $H -r h:s u; diff -r s t && diff -r s u && echo same"
        ),
    );
    assert_eq!(stdout(&output), "same\n", "{output:?}");
}

/// What fits through the first connection needs no other. Where much is to be sent, the others do
/// not wait for the first one, which here answers when they are started.
#[test]
fn a_copy_starts_as_many_connections_as_it_is_worth() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkdir -p s l/d; echo a >s/a; head -c 65M /dev/urandom >l/d/large
        printf '#!/bin/sh\nshift\necho >>started; exec \"$@\"\n' >count
        printf '#!/bin/sh\n[ $1 != -oBatchMode=yes ] || shift\nshift\necho >>started; ! mkdir one 2>/dev/null ||
            until [ $(wc -l <started) = 4 ]; do sleep 0.02; done; exec \"$@\"\n' >ssh; chmod +x count ssh
        for way in 's h:t' 'h:s u'; do
            $G cp -r --rsh ./count --remote-gush $G $way || echo failed; wc -l <started; rm started
        done
        timeout 60 $G cp -r --rsh ./ssh --remote-gush $G l h:v || echo failed; wc -l <started
        diff -r s t && diff -r s u && diff -r l v && echo same",
    );
    assert_eq!(stdout(&output), "1\n1\n4\nsame\n", "{output:?}");
}

/// The login of the first connection lets in those after it, as with ControlMaster and a host key
/// to be confirmed: those that were started before have failed, without a word.
#[test]
fn connections_that_fail_before_the_first_login_are_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        &format!(
            "{HOLD} cat >ssh <<'END'
#!/bin/sh
case $1 in
    -oBatchMode=yes) shift; [ -e in ] || {{ echo >>failed; echo no login >&2; exit 255; }};;
    *) until [ $(wc -l <failed) = 3 ]; do sleep 0.02; done; : >in;;
esac
exec ./hold \"$@\"
END
            chmod +x ssh; : >failed; mkdir s; head -c 65M /dev/urandom >s/large
            export UNTIL='[ $(wc -l <started) = 4 ]'
            timeout 60 $G cp -r --rsh ./ssh --remote-gush $G s h:t && diff -r s t && wc -l <failed"
        ),
    );
    assert_eq!((stdout(&output), stderr(&output)), ("3\n".into(), String::new()));
}

/// Such as a further connection that comes when the copy has ended.
#[test]
fn a_server_whose_other_side_is_gone_says_nothing() {
    let dir = tempfile::tempdir().unwrap();
    remote_succeeds(
        dir.path(),
        ": | $G serve-tree >/dev/null || exit
        exec 3> >(:); wait $!; cat /dev/zero | $G serve-tree >&3",
    );
}

#[test]
fn a_server_that_a_user_starts_says_so() {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).and_then(|()| unlockpt(&master)).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let side = || File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let said = "gush: serve-tree: not to be run by hand: `gush cp SOURCE HOST:DEST` starts it\n";
    let ways: [(Stdio, Stdio); 3] = [
        (side().into(), Stdio::piped()),
        (std::io::pipe().unwrap().0.into(), side().into()),
        (Stdio::null(), Stdio::null()),
    ];
    for (input, output) in ways {
        let mut timed = Command::new("timeout");
        timed.args(["60", env!("CARGO_BIN_EXE_gush"), "serve-tree"]).stdin(input).stdout(output);
        let output = timed.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(1), said));
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}

/// sshd has closed the error stream by then.
#[test]
fn a_receiver_whose_messages_nobody_reads_ends() {
    let dir = tempfile::tempdir().unwrap();
    let output = remote(
        dir.path(),
        "mkfifo read; (exec 3<read; sleep 0.2; exec 3<&-; sleep 1; echo junk) | timeout 20 $G serve-tree 2>read
        status=${PIPESTATUS[1]}; echo; echo $status",
    );
    let status = stdout(&output);
    let status = status.lines().last().unwrap_or_default();
    // By SIGPIPE, as a message that nobody reads ends it, or by its own status.
    assert!(matches!(status, "141" | "1"), "{output:?}");
}
