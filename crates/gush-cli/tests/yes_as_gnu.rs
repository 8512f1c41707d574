//! `gush yes` and GNU yes side by side.

mod common;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;

use common::as_gnu::{Sentence, Side};
use common::gush;
use common::shell::{said, shell};
use rustix::process::Signal;
use tempfile::TempDir;

const FILES: &str = "mkfifo fifo";

/// Lines of shell; `$Y` is yes.
const LINES: &[&str] = &[
    "$Y | head -c 1000",
    "$Y | head -c 5000001 | md5sum",
    "$Y a 'b c' d | head -n 3",
    "$Y a 'b c' d | head -c 3000000 | md5sum",
    "$Y '' | head -c 100",
    "$Y '' '' | head -c 100",
    "$Y -- -x | head -n 2",
    "$Y -- | head -n 2",
    "$Y a -- b | head -n 2",
    "$Y -x",
    "$Y a -x",
    "$Y --nope",
    "$Y a --nope=1",
    "$Y --version --nope",
    "$Y a --help -x",
    "$Y -x --help",
    "$Y --help",
    "$Y a --help",
    "$Y --version",
    "$Y --vers",
    "POSIXLY_CORRECT=1 $Y a --help | head -n 1",
    "$Y $'\\xff\\xfe' | head -n 2",
    "$Y \"$(head -c 100000 /dev/zero | tr '\\0' q)\" | head -c 5000000 | md5sum",
    "$Y >/dev/full",
    "$Y >&-",
    "$Y --help >&-",
    "$Y | true; echo ${PIPESTATUS[0]}",
    "$Y | head -c 1; echo ${PIPESTATUS[0]}",
    "(trap '' PIPE; $Y | head -c 1; echo ${PIPESTATUS[0]})",
    "timeout 60 head -c 3000000 fifo >x & $Y >fifo; echo $?; wait; md5sum x",
    "ulimit -f 100; trap '' XFSZ; $Y >x; echo $?; md5sum x",
    "exec 0<>/dev/null 1</dev/null; $Y",
];

const SENTENCES: &[Sentence] = &[];

#[test]
fn every_line_is_gnus() {
    Side { program: "yes", variable: "Y", files: FILES, sentences: SENTENCES }.agrees_on(LINES);
}

#[test]
fn a_socket_that_nobody_reads_ends_it_as_a_pipe_does() {
    let (near, far) = UnixStream::pair().unwrap();
    drop(far);
    let output = gush().arg("yes").stdout(OwnedFd::from(near)).output().unwrap();
    assert_eq!(output.status.signal(), Some(Signal::PIPE.as_raw()), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_failed_write_is_reported_with_the_bytes_written_and_a_remedy() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = gush().arg("yes").stdout(full).output().unwrap();
    let reported = "gush: yes: standard output: No space left on device \
                (after 0 bytes; the target is full: free some space on its file system)\n";
    assert_eq!((output.status.code(), said(&output).as_str()), (Some(1), reported));
    let dir = TempDir::new().unwrap();
    let output = shell(dir.path(), "ulimit -c 0; ulimit -f 100; $G yes >x");
    assert!(said(&output).contains(" File too large (after 102400 bytes; "), "{output:?}");
}
