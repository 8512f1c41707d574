//! `gush cat` in bad weather: interrupted, denied and failing calls, little memory, a terminal.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{gush, noise, skipped, strace, words_of};
use rustix::io::Errno;
use tempfile::TempDir;

const MUCH_BYTES: usize = 2_000_003;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A directory with the files `source`, which has no two line ends in a row, and `next`.
fn sources() -> (TempDir, Vec<u8>) {
    let dir = TempDir::new().unwrap();
    let mut bytes = noise(MUCH_BYTES, 3);
    bytes.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'.');
    fs::write(dir.path().join("source"), &bytes).unwrap();
    fs::write(dir.path().join("next"), "next\n").unwrap();
    (dir, bytes)
}

/// Runs `gush cat` on `args` in `dir`, with `inject` on the calls that touch the file `source`
/// there.
///
/// A fault that met no call proves nothing, and fails the test.
fn with_faults(dir: &Path, inject: &str, args: &[&str]) -> Result<Output, String> {
    let source = dir.join("source").display().to_string();
    let log = dir.join("log");
    let log = log.to_str().expect("a path in UTF-8");
    let mut command = strace(&["-o", log, "-P", &source, "-e", &format!("inject={inject}")])?;
    let output = command.arg("cat").args(args).current_dir(dir).output().unwrap();
    let traced = fs::read_to_string(log).unwrap();
    assert!(traced.contains("(INJECTED)"), "{inject} met no call of {args:?}:\n{traced}");
    Ok(output)
}

#[test]
fn interrupted_calls_are_made_again() {
    let (dir, bytes) = sources();
    let every_way: [(&str, &[&str]); 5] = [
        ("read", &["-s"]),
        ("read", &["--method=read-write"]),
        ("splice", &["--method=splice"]),
        ("sendfile", &["--method=sendfile"]),
        ("read", &["--method=vmsplice"]),
    ];
    for (call, way) in every_way {
        let args = [way, &["source"]].concat();
        let output = match with_faults(dir.path(), &format!("{call}:error=EINTR:when=1+2"), &args) {
            Ok(output) => output,
            Err(why) => return skipped(&why),
        };
        assert!(output.status.success() && output.stdout == bytes, "{call}: {}", said(&output));
    }
}

#[test]
fn denied_calls_are_replaced_by_others() {
    let (dir, bytes) = sources();
    for errno in ["EPERM", "ENOSYS", "EINVAL"] {
        let denied = format!("splice,sendfile,copy_file_range,vmsplice,tee:error={errno}");
        let output = match with_faults(dir.path(), &denied, &["source"]) {
            Ok(output) => output,
            Err(why) => return skipped(&why),
        };
        assert!(output.status.success() && output.stdout == bytes, "{errno}: {}", said(&output));
    }
}

#[test]
fn a_source_that_fails_says_how_far_it_got_and_the_next_is_shown() {
    let (dir, bytes) = sources();
    for (call, way) in
        [("read", "-s"), ("read", "--method=read-write"), ("splice", "--method=splice")]
    {
        let fault = format!("{call}:error=EIO:when=2+");
        let output = match with_faults(dir.path(), &fault, &[way, "source", "next"]) {
            Ok(output) => output,
            Err(why) => return skipped(&why),
        };
        let shown = output.stdout.strip_suffix(b"next\n").expect("the next file is shown");
        assert!(!shown.is_empty() && bytes.starts_with(shown), "{call}: {} bytes", shown.len());
        let said = said(&output);
        assert!(said.starts_with("gush: cat: source: "), "{said}");
        assert!(said.contains(&format!(" after {} bytes", shown.len())), "{said}");
        assert!(said.contains(&format!(": {}", words_of(Errno::IO))), "{said}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn a_target_that_fills_up_says_how_far_it_got() {
    let (dir, bytes) = sources();
    for flag in ["-u", "-s"] {
        let target = dir.path().join("target");
        let mut shell = Command::new("sh");
        // A limit on the file's size stands in for a full disk: both fail a write in the middle.
        shell.args([
            "-c",
            "ulimit -c 0; ulimit -f 1024; exec \"$0\" cat \"$1\" source next > target",
        ]);
        let output =
            shell.arg(env!("CARGO_BIN_EXE_gush")).arg(flag).current_dir(&dir).output().unwrap();
        let arrived = fs::read(&target).unwrap();
        assert_eq!(arrived.len(), 1024 * 512, "the shell's limit counts blocks of 512 bytes");
        assert!(bytes.starts_with(&arrived));
        let expected = "gush: cat: write error: File too large (after 524288 bytes of source; the target's \
                        file system or the limit on file size (ulimit -f) allows no more)\n";
        assert_eq!(said(&output), expected, "{flag}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn an_error_of_close_is_reported() {
    let (dir, _) = sources();
    let path = dir.path().join("target");
    for flag in ["-u", "-s"] {
        let options = ["-P", path.to_str().unwrap(), "-e", "inject=close:error=EDQUOT"];
        let mut command = match strace(&options) {
            Ok(command) => command,
            Err(why) => return skipped(&why),
        };
        command
            .args(["cat", flag, "source"])
            .current_dir(&dir)
            .stdout(File::create(&path).unwrap());
        let output = command.output().unwrap();
        let reported = format!("gush: cat: write error: {}\n", words_of(Errno::DQUOT));
        assert_eq!(said(&output), reported, "{flag}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn memory_does_not_grow_with_the_data() {
    let dir = TempDir::new().unwrap();
    // One line, four bytes each in -v, and far longer than what may be held.
    let path = dir.path().join("line");
    let mut file = File::create(&path).unwrap();
    (0..64).for_each(|_| file.write_all(&[0xff; 1 << 20]).unwrap());
    for flags in ["-u", "-A", "-n"] {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -d 16384; exec \"$0\" cat \"$1\" \"$2\" | wc -c"]);
        shell.arg(env!("CARGO_BIN_EXE_gush")).arg(flags).arg(&path);
        let output = shell.output().unwrap();
        let shown_bytes = match flags {
            "-A" => (64 << 20) * 4,
            "-n" => (64 << 20) + 7,
            _ => 64 << 20,
        };
        let counted = String::from_utf8_lossy(&output.stdout).trim().parse();
        assert_eq!(counted, Ok(shown_bytes), "{flags}: {}", said(&output));
    }
}

#[test]
fn a_hole_overwrites_what_was_there() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("sparse");
    let mut source = File::create(&path).unwrap();
    source.write_all(b"begin").unwrap();
    source.seek(SeekFrom::Start(5 << 20)).unwrap();
    source.write_all(b"end").unwrap();
    let mut target = tempfile::tempfile().unwrap();
    target.write_all(&vec![b'x'; 6 << 20]).unwrap();
    target.rewind().unwrap();
    let status = gush().arg("cat").arg(&path).stdout(target.try_clone().unwrap()).status().unwrap();
    assert!(status.success());
    let mut shown = Vec::new();
    target.rewind().unwrap();
    target.read_to_end(&mut shown).unwrap();
    let mut expected = fs::read(&path).unwrap();
    expected.resize(6 << 20, b'x');
    assert!(shown == expected);
}

#[test]
fn a_terminal_is_read_line_by_line_to_its_end() {
    for flag in ["-u", "-n"] {
        let mut script = Command::new("script");
        script.args(["-q", "-e", "-c", &format!("\"$G\" cat {flag}"), "/dev/null"]);
        script.env("G", env!("CARGO_BIN_EXE_gush"));
        let spawned =
            script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut child) = spawned else {
            return skipped("no script(1) to make a terminal with");
        };
        let (mut keyboard, mut screen) =
            (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut shown = Vec::new();
        keyboard.write_all(b"hello\n").unwrap();
        // Once by the terminal's echo, once by cat.
        while String::from_utf8_lossy(&shown).matches("hello\r\n").count() < 2 {
            let mut piece = [0; 256];
            let got_bytes = screen.read(&mut piece).unwrap();
            assert!(got_bytes > 0, "{}", shown.escape_ascii());
            shown.extend_from_slice(&piece[..got_bytes]);
        }
        keyboard.write_all(b"\x04").unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(flag == "-n", String::from_utf8_lossy(&shown).contains("     1\thello"));
    }
}
