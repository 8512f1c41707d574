//! Signals that end a command.

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use crate::common::gush;
use crate::common::link::eventually;

/// As GNU's programs and pv(1), which leave it its default action, but no file is left.
#[test]
fn sigquit_ends_every_command_and_leaves_nothing() {
    let cases: [(&[&str], &[&str]); 5] = [
        (&["cat"], &[]),
        (&["tee", "copy"], &["copy"]),
        (&["pv", "-q", "-P", "pid"], &[]),
        (&["cp", "--atomic", "/dev/stdin", "copy"], &[]),
        (&["link", "-", "-"], &[]),
    ];
    for (words, left) in cases {
        let dir = tempfile::tempdir().unwrap();
        let mut command = gush();
        command.args(words).current_dir(dir.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        // No core is dumped.
        prlimit(Some(pid), Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
        // Not closed by the wait: the end of the data would end the command.
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"?").unwrap();
        eventually("it is read", || ioctl_fionread(&input).unwrap() == 0);
        kill_process(pid, Signal::QUIT).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(Signal::QUIT.as_raw()), "{words:?}: {status}");
        let entries = fs::read_dir(dir.path()).unwrap();
        let files: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(files, left, "{words:?}");
        drop(input);
    }
}
