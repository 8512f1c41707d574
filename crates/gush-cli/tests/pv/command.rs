//! `gush pv -- CMD`: the input and the output of a command, with the command's own status.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::common::shell::{said, shell, source};
use crate::common::{gush_as, skipped, strace};
use tempfile::TempDir;

#[test]
fn a_command_gets_every_byte_and_so_does_the_output() {
    let (dir, bytes) = source();
    for line in [
        "$G pv source -- cat",
        "$G pv -- cat <source",
        "cat source | $G pv -- cat | cat",
        "$G pv -q source -o got -- cat; cat got",
        "$G pv -f source -- sh -c 'cat; echo end >&2'",
        "$G pv -S -s 3000017 source source -- cat",
        "$G pv --skip 0 source -- cat",
    ] {
        let output = shell(dir.path(), line);
        assert!(output.status.success(), "{line}: {}", said(&output));
        assert!(output.stdout == bytes, "{line}: {} bytes", output.stdout.len());
    }
}

#[test]
fn both_amounts_and_their_ratio_are_shown() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("source"), [7; 2048]).unwrap();
    for (words, shown) in [
        ("-b -i 600 source -- head -c 512", "2.00KiB ->  512  B"),
        ("-F '%b %{out-bytes} %{ratio}' source -- cat", "2.00KiB 2.00KiB 1:1\r\n"),
        (
            "-F '%b %{out-bytes} %{ratio}' source -- sh -c 'cat; cat source'",
            "2.00KiB 4.00KiB 1:2\r\n",
        ),
        ("-F '%b %{out-bytes} %{ratio}' source -- sh -c 'cat >taken'", "2.00KiB 0.00  B -:-\r\n"),
        ("-l -F '%b %{out-bytes}' source -- sh -c 'cat >taken; echo; echo'", "0.00  2.00 \r\n"),
    ] {
        let line = format!("$G pv -f -i 600 {words}");
        let output = shell(dir.path(), &line);
        assert!(said(&output).contains(shown), "{line}: {:?}", said(&output));
    }
    let output = shell(dir.path(), "$G pv --json -i 600 source -- sh -c 'cat; echo' >/dev/null");
    let end: serde_json::Value = serde_json::from_str(&said(&output)).unwrap();
    assert_eq!((&end["bytes"], &end["out_bytes"]), (&2048.into(), &2049.into()));
}

#[test]
fn the_status_is_the_commands() {
    let (dir, _) = source();
    for (line, status, words) in [
        ("$G pv source -- sh -c 'cat; exit 7' >/dev/null", 7, ""),
        ("$G pv source -- true", 0, ""),
        ("$G pv /dev/zero -- head -c 5 >/dev/null", 0, ""),
        ("$G pv source -- sh -c 'kill -TERM $$'", 143, ""),
        (
            "$G pv source -- ./nothing",
            127,
            "gush: pv: ./nothing: No such file or directory (there is no such file",
        ),
        (
            "$G pv source -- ./source",
            126,
            "gush: pv: ./source: Permission denied (the file is not executable",
        ),
        ("$G pv nofile -- cat", 2, "gush: pv: nofile: open failed: No such file or directory\n"),
        (
            "$G pv source -- cat >/dev/full",
            16,
            "gush: pv: standard output: write failed after 0 bytes: No space left on device",
        ),
        (
            "$G pv -o /dev/full source -- cat",
            16,
            "gush: pv: /dev/full: write failed after 0 bytes: No space left on device",
        ),
        // Whatever the command makes of the failed write.
        ("$G pv -o /dev/full source -- sh -c 'cat; exit 7'", 16, "No space left on device"),
        ("$G pv source -- cat | true; exit ${PIPESTATUS[0]}", 141, ""),
        ("$G pv -U store source -- cat", 64, "-U cannot be used with a command"),
        ("$G pv source --checksum xxh3 --expect 0000000000000000 -- cat >/dev/null", 16, "xxh3 "),
    ] {
        let output = shell(dir.path(), line);
        assert_eq!(output.status.code(), Some(status), "{line}: {}", said(&output));
        assert!(said(&output).contains(words), "{line}: {}", said(&output));
    }
}

#[test]
fn a_command_that_closes_its_output_still_gets_its_input() {
    let (dir, bytes) = source();
    let output = shell(dir.path(), "$G pv source -- sh -c 'exec >&-; cat >taken'");
    assert!(output.status.success(), "{}", said(&output));
    assert!(fs::read(dir.path().join("taken")).unwrap() == bytes);
}

#[test]
fn a_command_that_leaves_a_part_unread_is_reported_where_progress_is_shown() {
    let (dir, bytes) = source();
    let all = bytes.len();
    let dd = "dd bs=1000 count=3 iflag=fullblock status=none";
    // Whoever waits for this FIFO's end goes on until the test is over.
    let hold = dir.path().join("hold");
    rustix::fs::mkfifoat(rustix::fs::CWD, &hold, rustix::fs::Mode::RWXU).unwrap();
    let _held = fs::File::options().read(true).write(true).open(&hold).unwrap();
    for (line, words) in [
        (
            format!("$G pv -f source -- {dd}"),
            format!("gush: pv: dd: exited after reading 3000 of {all} bytes\n"),
        ),
        (format!("$G pv -f source source -- {dd}"), format!("of {} bytes\n", 2 * all)),
        (format!("$G pv -f -s 5 source -- {dd}"), "dd: exited after reading 3000 bytes\n".into()),
        (format!("cat source | $G pv -f -- {dd}"), "dd: exited after reading 3000 bytes\n".into()),
        (format!("$G pv -fl source -- {dd}"), "dd: exited after reading 3000 bytes\n".into()),
        (
            "$G pv -f source -- sh -c 'exec <&-; exit 3'".to_owned(),
            format!("sh: exited after reading 0 of {all} bytes\n"),
        ),
        (
            format!("$G pv --json source -- {dd}"),
            format!("{{\"of_bytes\":{all},\"read_bytes\":3000}}\n"),
        ),
        // All of it fits into the pipe, so pv has ended its part before the command reads.
        (
            format!("head -c 20000 source >small; $G pv -f small -- sh -c 'sleep 0.1; exec {dd}'"),
            "sh: exited after reading 3000 of 20000 bytes\n".into(),
        ),
        (
            "printf abcdef | $G pv -f -- sh -c 'sleep 0.1; exec head -c 4'".into(),
            "sh: exited after reading 4 bytes\n".into(),
        ),
        // Nothing was left, though pv may not have seen the end of its input.
        ("for n in 1 2 3 4 5 6 7 8 9; do $G pv -f -- true </dev/null; done".into(), String::new()),
        // Nothing is known of a pipe that somebody still reads.
        (
            "$G pv -f source -- sh -c 'exec 3<&0 4<hold; cat <&4 >/dev/null 2>&1 & exit'".into(),
            String::new(),
        ),
        ("$G pv -f source -- cat".into(), String::new()),
        ("head -c 9 source | $G pv -f -- cat".into(), String::new()),
        (format!("$G pv source -- {dd}"), String::new()),
        (format!("$G pv -fq source -- {dd}"), String::new()),
        (format!("$G pv -n source -- {dd}"), String::new()),
    ] {
        let output = shell(dir.path(), &format!("{line} >out"));
        let said = said(&output);
        assert_eq!(said.contains("read"), !words.is_empty(), "{line}: {said:?}");
        assert!(said.contains(&words), "{line}: {said:?}");
    }
}

#[test]
fn a_transfer_that_is_ended_here_blames_no_command() {
    let (dir, _) = source();
    for (line, status, words) in [
        (
            "$G pv -f --stall-timeout 0.3 source -- sleep 600",
            16,
            "no byte moved for 300 ms after 0 bytes (--stall-timeout)",
        ),
        ("$G pv -f source -- sh -c 'kill -INT $PPID; exec sleep 600'", 32, ""),
    ] {
        let output = shell(dir.path(), line);
        assert_eq!(output.status.code(), Some(status), "{line}: {}", said(&output));
        assert!(said(&output).contains(words), "{line}: {}", said(&output));
        assert!(!said(&output).contains("exited after reading"), "{line}: {}", said(&output));
    }
}

#[test]
fn a_signal_just_after_the_start_ends_the_command_too() {
    // The command runs while gush still waits in the call that has started it.
    let calls = "clone,clone3,vfork";
    let delayed = format!("inject={calls}:delay_exit=300000");
    let mut traced = match strace(&["-e", &format!("trace={calls}"), "-e", &delayed]) {
        Ok(traced) => traced,
        Err(why) => return skipped(&why),
    };
    let script = "kill -INT $PPID; exec sleep 20 >/dev/null 2>&1";
    let output = traced.args(["pv", "-q", "/dev/null", "--", "sh", "-c", script]).output().unwrap();
    // A gush that the signal has killed has ended no command.
    assert_eq!(output.status.code(), Some(32), "{}", said(&output));
}

/// Threads are started before and after the command: if one cannot start, nothing is left.
#[test]
fn a_command_does_not_outlive_gush_where_a_thread_cannot_be_started() {
    for options in [&["-q"][..], &["-f", "--stall-timeout", "600"]] {
        for first in 1..=5 {
            let dir = TempDir::new().unwrap();
            let inject = format!("inject=clone,clone3:error=EAGAIN:when={first}+");
            // With -D strace is the child, and waits for no process of the command.
            let mut traced = match strace(&["-D", "-e", &inject, "-o", "/dev/null"]) {
                Ok(traced) => traced,
                Err(why) => return skipped(&why),
            };
            let script = "echo $$ >process; exec sleep 3";
            traced.arg("pv").args(options).args(["/dev/null", "--", "sh", "-c", script]);
            // No pipe, whose end would be waited for as well.
            let reported = fs::File::create(dir.path().join("reported")).unwrap();
            traced.current_dir(dir.path()).stdout(Stdio::null()).stderr(reported);
            let ended = traced.status().unwrap();
            let reported = fs::read_to_string(dir.path().join("reported")).unwrap();
            let context = format!("{options:?}, {first}: {reported}");
            assert!(ended.code().is_some_and(|code| code != 101), "{context}");
            let process = fs::read_to_string(dir.path().join("process")).unwrap_or_default();
            let still = !process.is_empty() && Path::new("/proc").join(process.trim()).exists();
            assert!(!still, "{context}");
        }
    }
}

#[test]
fn a_command_that_has_read_all_and_closed_its_input_is_not_blamed() {
    let dir = TempDir::new().unwrap();
    // The input ends once the command has closed its side, and the command ends once gush has
    // closed the writing end.
    let script = "pipe=$(readlink /proc/$$/fd/0); head -c 9 >/dev/null; exec <&-; : >closed
        while ls -l /proc/$PPID/fd | grep ^l-w | grep -qF \"$pipe\"; do sleep 0.01; done";
    fs::write(dir.path().join("command"), script).unwrap();
    let line =
        "(printf 123456789; until [ -e closed ]; do sleep 0.01; done) | $G pv -f -- sh ./command";
    let output = shell(dir.path(), line);
    assert!(output.status.success(), "{}", said(&output));
    assert!(!said(&output).contains("exited after reading"), "{}", said(&output));
}

#[test]
fn a_command_has_the_usual_signals() {
    let dir = TempDir::new().unwrap();
    // A reader that leaves ends the command silently, as in any pipeline.
    let output = shell(dir.path(), "$G pv /dev/null -- sh -c 'exec yes' | head -1");
    assert_eq!((output.stdout.as_slice(), said(&output).as_str()), (&b"y\n"[..], ""));
    let masks = |line: &str| -> Vec<u64> {
        let text = String::from_utf8(shell(dir.path(), line).stdout).unwrap();
        // The signals above are the C library's own.
        let mask = |line: &str| u64::from_str_radix(line.split('\t').nth(1)?, 16).ok();
        text.lines().filter_map(mask).map(|mask| mask & 0x7fff_ffff).collect()
    };
    let grep = "grep -E 'Sig(Blk|Ign)' /proc/self/status";
    let plain = masks(grep);
    assert_eq!(plain.len(), 2);
    assert_eq!(masks(&format!("$G pv -f /dev/null -- {grep}")), plain);
}

#[test]
fn after_two_dashes_pv_has_files() {
    let (dir, bytes) = source();
    let run = |args: &[&str]| {
        gush_as("pv", dir.path()).args(args).current_dir(dir.path()).output().unwrap()
    };
    let output = run(&["--", "source"]);
    assert!(output.status.success() && output.stdout == bytes, "{}", said(&output));
    let output = run(&["source", "--", "cat"]);
    assert_eq!(
        (output.status.code(), said(&output)),
        (Some(2), "pv: failed to read file: cat: No such file or directory\n".into())
    );
    let output = shell(dir.path(), "POSIXLY_CORRECT=1 $G pv -q -- source");
    assert!(output.status.success() && output.stdout == bytes, "{}", said(&output));
    let output = shell(dir.path(), "POSIXLY_CORRECT=1 $G pv -q source");
    assert!(output.status.success() && output.stdout == bytes, "{}", said(&output));
}
