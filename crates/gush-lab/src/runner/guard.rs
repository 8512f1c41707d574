//! A guard outside of this program: when this program ends, also by SIGKILL, no process that it started goes on.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::fs::MemfdFlags;
use rustix::process::Pid;

/// Standard input ends with this program, the only one that could write there. Standard error is a file whose first line has what runs then:
/// the guard sleeps while processes begin and end, and takes no time from them.
const SCRIPT: &str =
    r#"read -r _; read -r running <&2; [ -z "$running" ] || kill -s KILL -- $running"#;

struct Guard {
    /// With the writing end of its standard input, which nobody else has.
    shell: Child,
    file: File,
    /// As kill(1) takes them: processes, and groups below zero.
    running: Mutex<BTreeSet<i32>>,
}

/// None where there is no shell: then only a signal that this program can heed ends the processes.
static GUARD: LazyLock<Option<Guard>> = LazyLock::new(|| Guard::start().ok());

impl Guard {
    fn start() -> io::Result<Self> {
        let file = File::from(rustix::fs::memfd_create("running", MemfdFlags::CLOEXEC)?);
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::null());
        // Out of reach of an interrupt from the terminal, and of a directory that somebody wants to unmount.
        shell.stderr(file.try_clone()?).process_group(0).current_dir("/");
        Ok(Self { shell: shell.spawn()?, file, running: Mutex::default() })
    }

    fn note(&self, number: i32, runs: bool) {
        // The set is whole between any two of its operations, whoever panicked.
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if runs {
            running.insert(number)
        } else {
            running.remove(&number)
        };
        let line: String = running.iter().map(|number| format!("{number} ")).collect();
        // A file in memory: without memory for it, there is no guard.
        let _ = self.file.write_all_at(format!("{line}\n").as_bytes(), 0);
    }
}

/// Starts the guard, if there is none yet; answers its process.
pub(super) fn pid() -> Option<Pid> {
    GUARD.as_ref().map(|guard| Pid::from_child(&guard.shell))
}

/// A process or group that ends with this program at the latest, until this is dropped.
#[derive(Debug)]
pub(super) struct Guarded(i32);

impl Guarded {
    /// The process, or the whole group that the process leads.
    pub(super) fn new(process: Pid, leads_group: bool) -> Self {
        let number = process.as_raw_pid();
        let number = if leads_group { -number } else { number };
        if let Some(guard) = &*GUARD {
            guard.note(number, true);
        }
        Self(number)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Some(guard) = &*GUARD {
            guard.note(self.0, false);
        }
    }
}
