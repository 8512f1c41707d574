//! A guard outside of this program: when this program ends, also by SIGKILL, no process that it started goes on.
//!
//! The guard leads a process group, which each process joins before its execve(2): there is no moment at which the guard does not
//! know of one. It sleeps while processes begin and end, and takes no time from them.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::MemfdFlags;
use rustix::process::Pid;

/// A line on standard input lets the guard go. Standard input ends with this program, the only one that could write there. Standard error is a
/// file whose first line has the process that runs then, for a program that makes a group of its own, as timeout(1) does. Signals of a
/// terminal, or of a command to its own group, are not meant for the guard.
const SCRIPT: &str = r#"trap '' INT TERM HUP QUIT TSTP TTIN TTOU
read -r _ && exit
read -r running <&2
kill -s KILL -- $running
kill -s KILL 0"#;

struct Guard {
    /// With the writing end of its standard input, which nobody else has.
    shell: Child,
    running: File,
}

/// None where there is no shell: then only a signal that this program can heed ends the processes.
static GUARD: Mutex<Option<Guard>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Guard>> {
    // Whole between any two of its changes, whoever panicked.
    GUARD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Guard {
    fn start() -> io::Result<Self> {
        let running = File::from(rustix::fs::memfd_create("running", MemfdFlags::CLOEXEC)?);
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::null());
        // Out of the way of a directory that somebody wants to unmount.
        shell.stderr(running.try_clone()?).process_group(0).current_dir("/");
        Ok(Self { shell: shell.spawn()?, running })
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.shell)
    }
}

/// The guard's process and group. A guard that was killed with its group is replaced.
pub(super) fn group() -> Option<Pid> {
    let mut guard = lock();
    if guard.as_mut().is_none_or(|guard| !matches!(guard.shell.try_wait(), Ok(None))) {
        *guard = Guard::start().ok();
    }
    guard.as_ref().map(Guard::pid)
}

/// The group was killed, and the guard with it if it was its own. Waited for here, or `group` would take it for a living one.
pub(super) fn gone_with(group: Pid) {
    if let Some(mut guard) = lock().take_if(|guard| guard.pid() == group) {
        // Fails only where nobody is left to wait for.
        let _ = guard.shell.wait();
    }
}

/// Notes the process that runs, or that none does.
pub(super) fn note(process: Option<Pid>) {
    let Some(guard) = &*lock() else { return };
    let line = process.map_or(String::new(), |pid| format!("{pid} -{pid}", pid = pid.as_raw_pid()));
    // A file in memory: without memory for it, such a program is not known of.
    let _ = guard.running.write_all_at(format!("{line}\n").as_bytes(), 0);
}

/// Lets the processes of the group go on for ever, because they are the user's; the next process is of another group.
pub(super) fn retire() {
    if let Some(mut guard) = lock().take() {
        // It ends by itself, or has ended.
        let _ = guard.shell.stdin.take().map(|mut stdin| stdin.write_all(b"\n"));
        let _ = guard.shell.wait();
    }
}
