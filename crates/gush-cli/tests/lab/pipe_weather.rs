//! `gush pipe` asked for nonsense, or in a place where no pipe works: a sentence with a remedy.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{bounded, gush, skipped, strace};
use tempfile::TempDir;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The program failed with one line that starts with the program's name and holds `words`.
#[track_caller]
fn says(output: &Output, words: &str) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(said.starts_with("gush: pipe: ") && said.contains(words), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn contradictions_are_refused_with_the_reason() {
    for (options, reason) in [
        ("write --vmsplice --pipe-size 64K", "leave out --pipe-size"),
        ("write --vmsplice --technique fresh", "--technique fresh are two ways of writing"),
        ("write --vmsplice --buffer-size 4K", "multiple of two pages"),
        ("write --gift", "--gift is a flag of vmsplice"),
        ("write --same-buffer", "two buffers of vmsplice"),
        ("write --check-huge-page", "add --huge-page"),
        ("write --huge-page --check-huge-page --dont-touch-pages", "leave one out"),
        ("write --dont-touch-pages --pattern counter", "it has no --pattern"),
        ("write --technique fresh --dont-touch-pages", "fills new pages"),
        ("write --technique fresh --lock-memory", "locked pages stay"),
        ("write --technique reservoir --pattern counter", "constant only"),
        ("write --technique reservoir --huge-page", "kept in the kernel"),
        ("write --wait spin --busy-loop", "the same as --wait spin"),
        ("write --wait block --poll", "the same as --wait poll"),
        ("write --cpu 100000", "cannot stay on processor 100000"),
        ("read --splice --verify", "nothing to look at"),
        ("read --splice --hold", "--hold keeps them"),
        ("read --gift", "--gift is a flag of splice"),
        ("read --check-huge-page", "add --huge-page"),
        ("read --pattern counter", "add --verify or --hold"),
        ("read --splice --pattern counter", "add --verify or --hold"),
        ("read --wait hybrid --poll", "the same as --wait poll"),
        ("read --cpu 100000", "cannot stay on processor 100000"),
    ] {
        let output = gush().arg("pipe").args(options.split(' ')).output().unwrap();
        says(&output, reason);
    }
}

#[test]
fn what_is_no_pipe_is_refused() {
    let dir = TempDir::new().unwrap();
    let file = || File::create(dir.path().join("file")).unwrap();
    let write = |options: &[&str]| {
        gush().args(["pipe", "write"]).args(options).stdout(file()).output().unwrap()
    };
    says(&write(&[]), "without --bytes it would be written to endlessly");
    says(&write(&["--technique", "fresh"]), "standard output is not a pipe, and fresh needs one");
    says(&write(&["--vmsplice"]), "standard output is not a pipe, and vmsplice needs one");
    says(&write(&["--pipe-size", "64K"]), "--pipe-size is the size of one");
    assert!(write(&["--bytes", "100000"]).status.success());
    let written = std::fs::read(dir.path().join("file")).unwrap();
    assert!(written == vec![b'X'; 100_000]);

    let read = |options: &[&str]| {
        let from = File::open(dir.path().join("file")).unwrap();
        gush().args(["pipe", "read"]).args(options).stdin(from).output().unwrap()
    };
    assert!(read(&["--verify"]).status.success());
    says(&read(&["--splice"]), "standard input is not a pipe, and --splice and --hold take pages");
    says(&read(&["--hold"]), "standard input is not a pipe");
    says(&read(&["--pipe-size", "64K"]), "--pipe-size is the size of one");
}

#[test]
fn a_full_disk_is_reported() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = gush().args(["pipe", "write", "--bytes", "1M"]).stdout(full).output().unwrap();
    says(&output, "write failed after 0 bytes: No space left on device");
}

#[test]
fn a_socket_is_written_until_its_reader_is_gone() {
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let child = gush()
        .args(["pipe", "write"])
        .stdout(Stdio::from(std::os::fd::OwnedFd::from(near)))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut some = vec![0; 1 << 20];
    std::io::Read::read_exact(&mut &far, &mut some).unwrap();
    drop(far);
    let output = child.wait_with_output().unwrap();
    // With bytes unread the socket is reset instead of closed, which is a failure to report.
    let said = text(&output.stderr);
    assert!(output.status.success() || said.contains("Connection reset by peer"), "{output:?}");
    assert!(some.iter().all(|&byte| byte == b'X'));
}

/// Runs a line of shell in which `$G` is the program.
fn shell(line: &str) -> Output {
    Command::new("bash")
        .args(["-c", line])
        .env("G", env!("CARGO_BIN_EXE_gush"))
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn closed_ends_are_reported() {
    says(&shell("\"$G\" pipe write >&-"), "standard output is closed: connect the two");
    says(&shell("\"$G\" pipe read <&-"), "standard input is closed: connect the two");
}

#[test]
fn terminals_are_reported() {
    let has_script = Command::new("script").arg("--version").output();
    if !has_script.is_ok_and(|output| output.status.success()) {
        return skipped("no script(1) for a terminal");
    }
    for (side, words) in
        [("write", "standard output is a terminal"), ("read", "standard input is a terminal")]
    {
        let line = format!("script -qec '\"$G\" pipe {side}' /dev/null");
        let output = shell(&line);
        assert!(text(&output.stdout).contains(words), "{output:?}");
    }
}

#[test]
fn a_writer_that_ends_early_is_reported_by_the_reader() {
    let output = shell("\"$G\" pipe write --bytes 1M | \"$G\" pipe read");
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stdout).ends_with("4 iterations (1MiB piped)\n"));
    assert_eq!(text(&output.stderr), "gush: pipe: read: the writer ended after 1MiB of 10GiB\n");
    // A number of bytes that was asked for is a promise, kept or reported, however little is said.
    for more in ["", "--quiet", "--csv"] {
        let output =
            shell(&format!("\"$G\" pipe write --bytes 1M | \"$G\" pipe read --bytes 2M {more}"));
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(text(&output.stderr), "gush: pipe: read: the writer ended after 1MiB of 2MiB\n");
    }
}

/// A copy of the program that anybody may run, and how to become nobody.
fn as_nobody(dir: &Path) -> Option<String> {
    let program = crate::common::copied_gush(dir);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir, mode).unwrap();
    let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    let gush = format!("{nobody} '{}'", program.display());
    if shell(&format!("{gush} --version")).status.success() {
        return Some(gush);
    }
    skipped("cannot become nobody (needs root and setpriv)");
    None
}

#[test]
fn without_privilege_it_says_what_to_do() {
    let dir = TempDir::new().unwrap();
    let Some(nobody) = as_nobody(dir.path()) else { return };
    // The wrapper's limit holds for both programs, and is no matter to the reader.
    let small_lock = "ulimit -l 16;";
    let both = |write: &str| format!("{nobody} pipe write {write} | \"$G\" pipe read --bytes 4M");

    let output = shell(&both("--pipe-size 64M"));
    assert!(output.status.success() && !output.stdout.is_empty(), "{output:?}");
    assert!(text(&output.stderr).contains("bytes instead of 67108864: more is not permitted"));

    let output = shell(&format!("{small_lock} {}", both("--lock-memory")));
    assert!(text(&output.stderr).contains("raise the limit (ulimit -l"), "{output:?}");

    let output = shell(&both("--huge-page --check-huge-page"));
    assert!(text(&output.stderr).contains("/proc/kpageflags is for root"), "{output:?}");

    let output = shell(&format!("{nobody} lab pipe --only huge-splice --bytes 4M --rounds 1"));
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stderr).contains("could not check for huge pages"), "{output:?}");
}

#[test]
fn huge_pages_are_checked_not_assumed() {
    let output = shell(
        "\"$G\" pipe write --vmsplice --huge-page --check-huge-page | \"$G\" pipe read --bytes 4M",
    );
    let said = text(&output.stderr);
    if said.contains("cannot check for huge pages") {
        return skipped("huge pages can be checked by root only");
    }
    let came = !said.contains("no huge page: only");
    assert_eq!(came, text(&output.stdout).ends_with("(4MiB piped)\n"), "{output:?}");
}

#[test]
fn denied_vmsplice_is_reported_with_the_alternative() {
    for errno in ["EPERM", "EACCES", "ENOSYS", "EOPNOTSUPP"] {
        for technique in ["vmsplice", "fresh"] {
            let inject = format!("inject=vmsplice:error={errno}");
            let mut command = match strace(&["-e", &inject]) {
                Ok(command) => command,
                Err(why) => return skipped(&why),
            };
            let (_from, to) = std::io::pipe().unwrap();
            let output =
                command.args(["pipe", "write", "--technique", technique]).stdout(to).output();
            says(&output.unwrap(), "use --technique socket or write");
        }
    }
}

#[test]
fn a_failed_look_for_room_ends_the_hostile_reader() {
    // The first call waits for the first byte.
    let mut command = match strace(&["-e", "inject=ppoll:error=ENOMEM:when=2"]) {
        Ok(command) => command,
        Err(why) => return skipped(&why),
    };
    command.args(["pipe", "read", "--hold"]);
    let (from, mut to) = std::io::pipe().unwrap();
    to.write_all(&[b'X'; 4096]).unwrap();
    let output = bounded(60, &command).stdin(from).output().unwrap();
    says(&output, "poll failed after 4096 bytes: Cannot allocate memory");
}
