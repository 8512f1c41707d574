//! A file on which another process has a lease (fcntl(2), F_SETLEASE), as Samba takes for clients
//! that cache: a program that opens the file waits until the other process has written what it
//! holds, as GNU's tools do.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::cp::{names, stderr};
use crate::common::{gush, skipped};
use rustix::fs::{XattrFlags, getxattr, setxattr};

/// The program that holds leases, or none, which is reported.
fn holder(dir: &Path) -> Option<PathBuf> {
    let program = dir.join("lease");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/lease.c");
    let built = Command::new("cc").args([Path::new("-o"), &program, &source]).output();
    match built {
        Ok(output) if output.status.success() => Some(program),
        other => {
            skipped(&format!("no C compiler: {other:?}"));
            None
        }
    }
}

/// A tree, an old copy of it, and what the holder of the lease needs.
struct Field {
    dir: tempfile::TempDir,
    holder: PathBuf,
}

const OLD: &str = "0123456789";
/// What the holder of a lease on a source writes before it gives the lease back.
const LATE: &str = "late!56789";

impl Field {
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let holder = holder(dir.path())?;
        for (name, content) in [("a/f", OLD), ("a/b/g", "other"), ("d/f", "an old copy")] {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Some(Self { dir, holder })
    }

    /// Runs gush while another process holds a lease on a file, which gush has to break; none where
    /// no lease can be had.
    fn run(&self, lease: (&str, &str, &str), words: &[&str]) -> Option<Output> {
        let (output, reported) = self.run_command(lease, gush().args(words))?;
        assert_eq!(reported, "broken\n", "{words:?} opened {}: {}", lease.1, stderr(&output));
        Some(output)
    }

    /// Runs a command under a lease; the output, and what the holder printed meanwhile.
    fn run_command(
        &self,
        (kind, path, late): (&str, &str, &str),
        command: &mut Command,
    ) -> Option<(Output, String)> {
        let mut lease = Command::new(&self.holder)
            .args([kind, path, late])
            .current_dir(&self.dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut reported = BufReader::new(lease.stdout.take().unwrap());
        let mut line = String::new();
        reported.read_line(&mut line).unwrap();
        if line != "held\n" {
            let output = lease.wait_with_output().unwrap();
            skipped(&format!("no leases here: {}", stderr(&output).trim()));
            return None;
        }
        let output = command.current_dir(&self.dir).output().unwrap();
        // One that nobody broke would wait for ever.
        let _ = lease.kill();
        lease.wait().unwrap();
        let mut rest = String::new();
        reported.read_to_string(&mut rest).unwrap();
        Some((output, rest))
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.dir.path().join(path)).unwrap()
    }
}

#[test]
fn a_source_under_a_lease_is_copied_with_what_its_holder_had_cached() {
    let all: [&[&str]; 12] = [
        &["cp", "a/f", "n"],
        &["cp", "-rT", "a", "n"],
        &["cp", "-aT", "a", "n"],
        &["cp", "-LrT", "a", "n"],
        &["cp", "-rT", "--threads=1", "a", "n"],
        &["cp", "-rT", "--atomic", "a", "n"],
        &["cp", "-rT", "--verify", "a", "n"],
        &["cp", "-rT", "--resume", "a", "n"],
        &["cp", "-rT", "--stable", "a", "n"],
        &["cp", "-rT", "--delete", "a", "n"],
        &["cp", "-rT", "--commit-last=f", "a", "n"],
        &["cp", "-rT", "--shard=0/1", "a", "n"],
    ];
    for words in all {
        let Some(field) = Field::new() else { return };
        let Some(output) = field.run(("write", "a/f", "late!"), words) else { return };
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()), "{words:?}");
        let copy = if field.dir.path().join("n/f").exists() { "n/f" } else { "n" };
        assert_eq!(field.read(copy), LATE, "{words:?}");
    }
}

#[test]
fn a_source_under_a_lease_is_shown_with_what_its_holder_had_cached() {
    let all: [&[&str]; 4] = [
        &["cat", "a/f"],
        &["cat", "-n", "a/f"],
        &["pv", "-q", "a/f"],
        &["link", "-u", "file:a/f", "-"],
    ];
    for words in all {
        let Some(field) = Field::new() else { return };
        let Some(output) = field.run(("write", "a/f", "late!"), words) else { return };
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && shown.ends_with(LATE), "{words:?}: {shown}");
    }
}

#[test]
fn a_target_under_a_lease_is_replaced_when_its_holder_is_done() {
    let all: [&[&str]; 8] = [
        &["cp", "a/f", "d/f"],
        &["cp", "-f", "a/f", "d/f"],
        &["cp", "--atomic", "a/f", "d/f"],
        &["cp", "-rT", "a", "d"],
        &["cp", "-aT", "a", "d"],
        &["cp", "-rT", "--atomic", "a", "d"],
        &["cp", "-rT", "--verify", "a", "d"],
        &["cp", "-rT", "--resume", "a", "d"],
    ];
    for words in all {
        // Nobody who writes may open a file under a lease for reading; only one for writing holds
        // against readers.
        for kind in ["read", "write"] {
            let opens_to_write = !words.contains(&"--atomic");
            if kind == "read" && !opens_to_write {
                continue;
            }
            let Some(field) = Field::new() else { return };
            let target = field.dir.path().join("d/f");
            let has_attributes =
                setxattr(&target, "user.kept", b"yes", XattrFlags::empty()).is_ok();
            let late = if kind == "write" { "late" } else { "" };
            let Some(output) = field.run((kind, "d/f", late), words) else { return };
            let said = stderr(&output);
            assert_eq!((output.status.code(), said.as_str()), (Some(0), ""), "{words:?} {kind}");
            assert_eq!(field.read("d/f"), OLD, "{words:?} {kind}");
            let mut value = [0; 3];
            let kept = getxattr(&target, "user.kept", &mut value).is_ok();
            // As GNU: -a takes away no attribute that the old file has.
            assert_eq!(kept, has_attributes, "{words:?} {kind}");
        }
    }
}

/// The holder's bytes make the two files equal or unequal, so that only a comparison that waits for
/// them knows whether to copy.
#[test]
fn files_compared_by_their_bytes_are_waited_for() {
    for (leased, other) in [("a/f", "d/f"), ("d/f", "a/f")] {
        for become_equal in [true, false] {
            let Some(field) = Field::new() else { return };
            let path = |name: &str| field.dir.path().join(name);
            fs::write(path(leased), OLD).unwrap();
            fs::write(path(other), if become_equal { LATE } else { OLD }).unwrap();
            let written = |name: &str| fs::metadata(path(name)).unwrap().modified().unwrap();
            let before = written("d/f");
            let words = ["cp", "-rT", "--checksum", "a", "d"];
            let Some(output) = field.run(("write", leased, "late!"), &words) else { return };
            let case = format!("{leased}, {become_equal}: {}", stderr(&output));
            assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()), "{case}");
            assert_eq!(field.read("d/f"), field.read("a/f"), "{case}");
            // The holder of d/f has written it, whether or not it is copied.
            if leased == "a/f" {
                assert_eq!(written("d/f") == before, become_equal, "{case}");
            }
        }
    }
}

#[test]
fn rules_under_a_lease_are_waited_for() {
    let Some(field) = Field::new() else { return };
    fs::write(field.dir.path().join("a/.gitignore"), "x").unwrap();
    let words = ["cp", "-rT", "--gitignore", "a", "n"];
    let Some(output) = field.run(("write", "a/.gitignore", "f"), &words) else { return };
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    assert_eq!(names(&field.dir.path().join("n")), [".gitignore", "b"]);
}

#[test]
fn without_proc_a_lease_is_reported_with_the_remedy() {
    let Some(field) = Field::new() else { return };
    let mut probe = Command::new("unshare");
    probe.args(["-m", "umount", "-l", "/proc"]);
    if !probe.output().is_ok_and(|output| output.status.success()) {
        return skipped("/proc cannot be taken away here");
    }
    let mut command = Command::new("unshare");
    command.args([
        "-m",
        "sh",
        "-c",
        "while umount -l /proc 2>/dev/null; do :; done; exec \"$G\" cp -rT a n",
    ]);
    command.env("G", env!("CARGO_BIN_EXE_gush")).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    let Some((output, _)) = field.run_command(("write", "a/f", "late!"), &mut command) else {
        return;
    };
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("a/f") && said.contains("lease") && said.contains("/proc"), "{said}");
    assert_eq!(field.read("n/b/g"), "other");
}
