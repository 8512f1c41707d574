//! A separate process that ends all started processes when this program ends, even by SIGKILL.
//!
//! It leads a process group that each process joins before its execve(2), so no process escapes it,
//! and it sleeps while they run.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use gush::Unpoisoned;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::io::retry_on_intr;
use rustix::process::Pid;

/// A line on standard input dismisses the guard; end of file means that this program has ended.
/// Standard error is a file whose first line names the running process, for a program that makes
/// its own group, as timeout(1) does. Signals to the group are not meant for the guard, whose line
/// on standard output says that it ignores them.
const SCRIPT: &str = r#"trap '' INT TERM HUP QUIT TSTP TTIN TTOU
echo
read -r _ && exit
read -r running <&2
kill -s KILL -- $running
kill -s KILL 0"#;

struct Guard {
    /// With the writing end of its standard input, which nobody else has.
    shell: Child,
    running: File,
}

/// None where no shell starts: then only a signal that this program can heed ends the processes.
static GUARD: Mutex<Option<Guard>> = Mutex::new(None);

/// A shell that hangs at its start must not hang the lab: nothing is guarded then.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Waits until the traps are set: before, a command that signals its group would end the guard.
fn has_begun(shell: &mut Child) -> io::Result<()> {
    let mut is_ready = shell.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut polled = [PollFd::new(&is_ready, PollFlags::IN)];
    match retry_on_intr(|| poll(&mut polled, Some(&PATIENCE)))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => is_ready.read_exact(&mut [0]),
    }
}

impl Guard {
    fn start() -> io::Result<Self> {
        let running = File::from(rustix::fs::memfd_create("running", MemfdFlags::CLOEXEC)?);
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Out of the way of a directory that somebody wants to unmount.
        shell.stderr(running.try_clone()?).process_group(0).current_dir("/");
        let mut shell = shell.spawn()?;
        if let Err(error) = has_begun(&mut shell) {
            // Both fail only when it is gone already.
            let _ = shell.kill();
            let _ = shell.wait();
            return Err(error);
        }
        Ok(Self { shell, running })
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.shell)
    }
}

/// The guard's process and group. A guard that was killed with its group is replaced.
pub(super) fn group() -> Option<Pid> {
    let mut guard = GUARD.lock().unpoisoned();
    if guard.as_mut().is_none_or(|guard| !matches!(guard.shell.try_wait(), Ok(None))) {
        *guard = Guard::start().ok();
    }
    guard.as_ref().map(Guard::pid)
}

/// The guard's process, which may have ended since [`group`] answered.
pub(super) fn process() -> Option<Pid> {
    GUARD.lock().unpoisoned().as_ref().map(Guard::pid)
}

/// Reaps the guard if it was killed with its `group`, or [`group`] would take it for a live one.
pub(super) fn gone_with(group: Pid) {
    if let Some(mut guard) = GUARD.lock().unpoisoned().take_if(|guard| guard.pid() == group) {
        // Fails only where nobody is left to wait for.
        let _ = guard.shell.wait();
    }
}

/// Notes the process that runs, or that none does.
pub(super) fn note(process: Option<Pid>) {
    let Some(guard) = &*GUARD.lock().unpoisoned() else { return };
    let line = process.map_or(String::new(), |pid| format!("{pid} -{pid}", pid = pid.as_raw_pid()));
    // A file in memory: without memory for it, such a program is not known of.
    let _ = guard.running.write_all_at(format!("{line}\n").as_bytes(), 0);
}

/// Leaves the processes of the group to the user; the next process gets a new group.
pub(super) fn retire() {
    if let Some(mut guard) = GUARD.lock().unpoisoned().take() {
        // It ends by itself, or has ended.
        let _ = guard.shell.stdin.take().map(|mut stdin| stdin.write_all(b"\n"));
        let _ = guard.shell.wait();
    }
}
