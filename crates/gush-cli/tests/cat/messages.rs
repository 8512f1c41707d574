//! The messages of `gush cat` about failures, and the exit status.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use crate::common::{gnu, gush, gush_as, skipped};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tempfile::TempDir;

const NOBODY: u32 = 65534;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn said(output: &Output) -> String {
    text(&output.stderr)
}

#[test]
fn a_missing_file_is_named_and_the_others_are_shown() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("there"), "there\n").unwrap();
    for flags in ["-u", "-n"] {
        let output = gush()
            .args(["cat", flags, "there", "gone", "there"])
            .current_dir(&dir)
            .output()
            .unwrap();
        assert_eq!(said(&output), "gush: cat: gone: No such file or directory\n");
        assert_eq!(text(&output.stdout).matches("there\n").count(), 2);
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn called_as_cat_it_speaks_as_gnu_cat_does() {
    let gnu_cat = match gnu("cat") {
        Ok(path) => path,
        Err(why) => return skipped(&why),
    };
    let dir = TempDir::new().unwrap();
    let name = prop_oneof![
        "[a-c '\"$`\\\\\\\\!#~{}?*=:\\\\[\\\\]^,@%+.-]{1,6}".prop_map(OsString::from),
        // Without quote marks: GNU 9.1 opens some mixes of them with escapes twice. What is above
        // 127 is no UTF-8.
        prop::collection::vec(
            prop_oneof![1..=38_u8, 40..=46_u8, 48..=0xbf_u8, 0xf8..=0xff_u8],
            1..6
        )
        .prop_map(OsString::from_vec),
    ];
    let config =
        ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&name, |name| {
        if name.as_bytes() == b"-" || matches!(name.as_bytes(), b"." | b"..") {
            return Ok(());
        }
        let expected = Command::new(&gnu_cat)
            .arg("--")
            .arg(&name)
            .env("LC_ALL", "C.UTF-8")
            .current_dir(&dir)
            .output()
            .unwrap();
        let got =
            gush_as("cat", dir.path()).arg("--").arg(&name).current_dir(&dir).output().unwrap();
        // GNU puts the program's own path before its messages.
        let expected_said = said(&expected).replacen(&gnu_cat.display().to_string(), "cat", 1);
        prop_assert_eq!(said(&got), expected_said);
        prop_assert_eq!(got.status.code(), expected.status.code());
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn a_directory_is_refused() {
    let dir = TempDir::new().unwrap();
    for flags in ["-u", "-n"] {
        let output = gush().args(["cat", flags, "."]).current_dir(&dir).output().unwrap();
        assert_eq!(said(&output), "gush: cat: .: Is a directory\n");
        assert_eq!(output.status.code(), Some(1));
    }
    let output = gush_as("cat", dir.path()).arg("/").output().unwrap();
    assert_eq!(said(&output), "cat: /: Is a directory\n");
}

#[test]
fn an_unreadable_file_is_refused() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("secret");
    fs::write(&path, "x").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = gush();
    command.arg("cat").arg(&path);
    if File::open(&path).is_ok() {
        // Root may read everything, nobody may not.
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return skipped(&format!("nobody cannot run the program here: {error}")),
    };
    assert!(said(&output).ends_with("secret: Permission denied (`namei -l PATH` shows the owner and mode of each part of a path)\n"), "{output:?}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_file_is_not_copied_to_itself() {
    let dir = TempDir::new().unwrap();
    for flags in ["-u", "-n"] {
        let path = dir.path().join("self");
        fs::write(&path, "some\n").unwrap();
        fs::write(dir.path().join("other"), "other\n").unwrap();
        let to_end = File::options().append(true).open(&path).unwrap();
        let output = gush()
            .args(["cat", flags, "self", "other"])
            .current_dir(&dir)
            .stdout(to_end)
            .output()
            .unwrap();
        assert_eq!(said(&output), "gush: cat: self: input file is output file\n");
        assert_eq!(output.status.code(), Some(1));
        assert!(fs::read_to_string(&path).unwrap().ends_with("other\n"));
    }
}

/// As GNU cat since 9.7: what is written at or before the position of the input never reaches the
/// input.
#[test]
fn cat_refuses_its_output_as_input_only_where_it_would_read_what_it_writes() {
    const REFUSED: &str = "gush: cat: %: input file is output file\n";
    let cases = [
        ("$G cat fx fy 1<>fx", "x\ny\n", ""),
        ("$G cat - fy <fx 1<>fx", "x\ny\n", ""),
        ("(read -r first; $G cat) <long 1<>long", "2\n3\n3\n", ""),
        ("$G cat --limit 1G fx fy 1<>fx", "x\ny\n", ""),
        ("$G cat fy fx 1<>fx", "y\n", "fx"),
        ("$G cat - <fx >>fx", "x\n", "-"),
        ("$G cat fx >>fx", "x\n", "fx"),
        // A longer form of the input would feed itself.
        ("$G cat -n fx 1<>fx", "x\n", "fx"),
        // Nothing is written over what was refused.
        ("$G cat -n fx fy 1<>fx", "x\n", "fx"),
        ("$G cat fy fx fy 1<>fx", "y\n", "fx"),
        ("$G cat fx fy >>fx", "x\ny\n", "fx"),
        // One open file has one position, which moves with each read.
        ("$G cat <>fx 1<&0", "x\n", "-"),
    ];
    for (line, expected, refused) in cases {
        let dir = TempDir::new().unwrap();
        for (name, text) in [("fx", "x\n"), ("fy", "y\n"), ("long", "1\n2\n3\n")] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let output = std::process::Command::new("bash")
            .args(["-c", line])
            .env("G", gush().get_program())
            .current_dir(&dir)
            .output()
            .unwrap();
        let reported =
            if refused.is_empty() { String::new() } else { REFUSED.replace('%', refused) };
        assert_eq!(said(&output), reported, "{line}");
        assert_eq!(output.status.code(), Some(i32::from(!refused.is_empty())), "{line}");
        let written = if line.contains("long") { "long" } else { "fx" };
        assert_eq!(fs::read_to_string(dir.path().join(written)).unwrap(), expected, "{line}");
    }
}

#[test]
fn an_empty_file_may_be_its_own_output() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("empty");
    let to_end = File::options().create(true).append(true).open(&path).unwrap();
    let output = gush().arg("cat").arg(&path).stdout(to_end).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn standard_input_is_named_as_such() {
    let (dir, closed) = (File::open(".").unwrap(), "exec <&-; exec \"$0\" cat");
    let output = gush().arg("cat").stdin(dir).output().unwrap();
    assert_eq!(said(&output), "gush: cat: -: Is a directory\n");
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", closed, env!("CARGO_BIN_EXE_gush")]).output().unwrap();
    assert_eq!(said(&output), "gush: cat: -: Bad file descriptor\n");
}

#[test]
fn a_failed_read_is_reported_with_the_bytes_that_arrived_and_a_remedy() {
    let dir = TempDir::new().unwrap();
    for flags in ["-u", "-n"] {
        // The first page of a process's memory is never mapped.
        let memory = "/proc/self/mem";
        let failed = format!("cat: {memory}: Input/output error (read failed");
        let rest = " after 0 bytes; a file of /proc or /sys may not allow this; ";
        let output = gush().args(["cat", flags, memory]).output().unwrap();
        assert!(said(&output).starts_with(&format!("gush: {failed}")), "{flags}: {output:?}");
        assert!(said(&output).contains(rest), "{flags}: {output:?}");
        let output =
            gush().args(["cat", flags]).stdin(File::open(memory).unwrap()).output().unwrap();
        assert!(said(&output).starts_with("gush: cat: -: Input/output error (read"), "{output:?}");
        let output = gush_as("cat", dir.path()).args([flags, memory]).output().unwrap();
        assert!(said(&output).starts_with(&failed), "{flags}: {output:?}");
    }
}

#[test]
fn misuse_points_to_the_help() {
    let output = gush().args(["cat", "--nope"]).output().unwrap();
    assert!(said(&output).starts_with("gush: cat: unrecognized option '--nope'\n"), "{output:?}");
    assert!(said(&output).ends_with("Try 'gush cat --help' for more information.\n"), "{output:?}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn sizes_that_are_none_are_refused_and_explained() {
    for (option, why) in [
        ("--buffer-size=16E", "value too large"),
        ("--buffer-size=1.5", "a number of bytes has no fraction"),
        ("--buffer-size=1.5X", "not a size"),
        ("--pipe-size=0", "must be more than zero"),
        ("--pipe-size=4K", "a pipe has 65536 to "),
        ("--pipe-size=1T", "a pipe has 65536 to "),
        ("--buffer-size=5M", "a buffer has 1 to 4194304 bytes here"),
        ("--limit=0/s", "must be more than zero"),
    ] {
        let output = gush().args(["cat", option]).output().unwrap();
        assert!(said(&output).contains(why), "{option}: {output:?}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn a_full_disk_and_a_refusal_are_reported_with_the_os_error_and_a_remedy() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a"), "some\n").unwrap();
    for flags in [&[][..], &["-n"], &["--json"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output =
            gush().arg("cat").args(flags).arg("a").current_dir(&dir).stdout(full).output().unwrap();
        let hint = "the target is full: free some space on its file system";
        let line = format!(
            "gush: cat: write error: No space left on device (after 0 bytes of a; {hint})\n"
        );
        assert!(said(&output).ends_with(&line), "{flags:?}: {}", said(&output));
        if flags == ["--json"] {
            let record: serde_json::Value =
                serde_json::from_str(said(&output).lines().next().unwrap()).unwrap();
            assert_eq!(record["error"]["path"], "standard output");
            assert_eq!(record["error"]["hint"], hint);
        }
    }
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output =
        gush_as("cat", dir.path()).arg("a").current_dir(&dir).stdout(full).output().unwrap();
    let line = "cat: write error: No space left on device (after 0 bytes of ";
    assert!(said(&output).starts_with(line), "{}", said(&output));
    let output =
        gush().args(["cat", "--method=copy-file-range", "a"]).current_dir(&dir).output().unwrap();
    assert!(said(&output).contains(": EINVAL: Invalid argument (choose another"), "{output:?}");
}

#[test]
fn names_that_are_no_utf8_work() {
    let dir = TempDir::new().unwrap();
    let name = OsString::from_vec(b"odd\xff\n".to_vec());
    fs::write(dir.path().join(&name), "here").unwrap();
    let output = gush()
        .arg("cat")
        .arg(&name)
        .arg(OsString::from_vec(b"\xfe".to_vec()))
        .current_dir(&dir)
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "here");
    assert_eq!(said(&output), "gush: cat: ''$'\\376': No such file or directory\n");
}
