//! The processes of a case: none outlives an interrupted run.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use gush::Unpoisoned;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid,
};

pub use super::strays::are_known as are_strays_known;
use super::{Usage, guard, interrupt, strays};
use crate::{Error, foreign};

/// Numbers and pidfds: by the time of a signal a number could be another process's.
static RUNNING: Mutex<Vec<(Pid, Weak<OwnedFd>)>> = Mutex::new(Vec::new());

/// A process of a case. Dropped without [`Running::finish`], it is killed.
#[derive(Debug)]
pub struct Running {
    child: Option<Child>,
    name: String,
    /// Ends by itself alone, or with this program.
    outlives_interrupt: bool,
    /// The process group, of a process that may be ended with all the processes that it starts.
    group: Option<Pid>,
    _handle: Option<Arc<OwnedFd>>,
}

/// Opening /dev/null for the program comes first, and a failure there is no failure of the program.
fn not_started(name: &str, error: io::Error) -> Error {
    not_started_with("/dev/null", name, error)
}

fn not_started_with(null: &str, name: &str, error: io::Error) -> Error {
    match File::options().read(true).write(true).open(null) {
        Err(error) => Error::failed(format!("cannot open /dev/null, which {name} needs"), error),
        Ok(_) => Error::not_started(name, error),
    }
}

/// Starts `command` as a process that an interrupt ends.
pub fn start(command: &mut Command) -> Result<Running, Error> {
    Ok(spawn(command, false)?.0)
}

/// As [`start`], in a process group that an interrupt ends, along with programs that left the
/// group, as setsid(1) does.
pub fn start_group(command: &mut Command) -> Result<Running, Error> {
    in_group(command, false)
}

/// As [`start_group`] for a cleanup: starts even after an interrupt, and only the end of this
/// program ends it.
pub fn start_last(command: &mut Command) -> Result<Running, Error> {
    in_group(command, true)
}

fn in_group(command: &mut Command, outlives_interrupt: bool) -> Result<Running, Error> {
    strays::adopt();
    let (mut running, group) = spawn(command, outlives_interrupt)?;
    running.group = group;
    guard::note(running.pid());
    Ok(running)
}

/// Makes ready for groups, so that the first one takes no longer than the others.
pub fn make_ready() {
    strays::adopt();
    guard::group();
}

/// The process, and its group.
fn spawn(command: &mut Command, outlives_interrupt: bool) -> Result<(Running, Option<Pid>), Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let group = guard::group();
    // Joined before the execve(2), so that no moment is without the guard.
    command.process_group(group.map_or(0, Pid::as_raw_pid));
    let (child, handle) = match outlives_interrupt {
        true => (command.spawn().map_err(|error| not_started(&name, error))?, None),
        false => spawn_watched(command)?,
    };
    let group = group.or(Some(Pid::from_child(&child)));
    let child = Some(child);
    Ok((Running { child, name, group: None, outlives_interrupt, _handle: handle }, group))
}

/// Starts a process that an interrupt kills while its descriptor is kept; the caller waits for it.
pub(crate) fn spawn_watched(command: &mut Command) -> Result<(Child, Option<Arc<OwnedFd>>), Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    // Locked over the start: a child started after the interrupt's sweep would be missed.
    let mut running = RUNNING.lock().unpoisoned();
    if interrupt::requested() {
        return Err(Error::refused("interrupted"));
    }
    let child = command.spawn().map_err(|error| not_started(&name, error))?;
    let handle = Pid::from_child(&child);
    // A descriptor, because a number may be another process by the time of the signal.
    let handle = pidfd_open(handle, PidfdFlags::empty()).ok().map(Arc::new);
    // Finished ones are dropped here, so that the list does not grow with the rounds.
    running.retain(|(_, handle)| handle.strong_count() > 0);
    running.extend(handle.iter().map(|handle| (Pid::from_child(&child), Arc::downgrade(handle))));
    Ok((child, handle))
}

/// Kills every process that [`start`] started and nobody has waited for.
pub(super) fn end_all() {
    for handle in RUNNING.lock().unpoisoned().drain(..).filter_map(|(_, handle)| handle.upgrade()) {
        // It may have ended by itself, which is as good.
        let _ = pidfd_send_signal(&*handle, Signal::KILL);
    }
}

impl Running {
    /// The process, for pipes and process id.
    pub fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("only finish and drop take it")
    }

    /// Waits for the process, reading its output pipes meanwhile.
    ///
    /// # Errors
    /// The error of reading or waiting; an unsuccessful end is in the output's status.
    pub fn finish(mut self) -> Result<Output, Error> {
        let child = self.child.take().expect("only finish and drop take it");
        child
            .wait_with_output()
            .map_err(|error| Error::failed(format!("cannot wait for {}", self.name), error))
    }

    /// Waits for the end and closes the pipes. Returns the time of the end, the exit status, and
    /// the resources used by the process and its reaped children; for a group also those of orphans
    /// that have ended, and how many still run.
    pub fn finish_used(mut self) -> Result<(Instant, ExitStatus, Usage), Error> {
        let ended = self.wait_for_end();
        // Before the bookkeeping below, which is none of the command's time.
        let ended_at = Instant::now();
        let is_interrupted = interrupt::requested() && !self.outlives_interrupt;
        if is_interrupted {
            self.end_group();
        }
        // Before the number is free for others.
        guard::note(None);
        let number = self.child().id();
        // Reaped here, not by dropping the child.
        drop(self.child.take());
        let mut used = ended.and_then(|by_itself| Ok((by_itself, foreign::wait4(number)?)));
        if self.group.is_some() {
            let own = Pid::from_raw(number.cast_signed());
            let alive = RUNNING.lock().unpoisoned();
            let alive =
                alive.iter().filter(|(pid, handle)| handle.strong_count() > 0 && Some(*pid) != own);
            let others: Vec<Pid> = alive.map(|(pid, _)| *pid).chain(guard::process()).collect();
            match &mut used {
                Ok((true, (_, usage))) if !is_interrupted => {
                    *usage = usage.and(strays::keep(&others));
                    // Where nobody knows of strays, there may be some.
                    if usage.left_running > 0 || !strays::are_known() {
                        guard::retire();
                    }
                }
                _ => strays::end(&others),
            }
        }
        let (by_itself, (status, usage)) =
            used.map_err(|error| Error::failed(format!("cannot wait for {}", self.name), error))?;
        if !by_itself {
            return Err(Error::refused(
                "it was stopped, because it asks the terminal, which no command here gets: answer beforehand (sudo -v, ssh-add)",
            ));
        }
        Ok((ended_at, status, usage))
    }

    /// Waits until the process ends or is stopped; calls `report` if an interrupt comes first.
    pub(crate) fn when_interrupted(&self, report: impl FnOnce()) -> Result<(), Error> {
        let Some(pid) = self.pid() else { return Ok(()) };
        let change = WaitIdOptions::EXITED | WaitIdOptions::STOPPED;
        let look = change | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        // A signal's handler may run on another thread, and ends no wait.
        while !interrupt::is_ending() {
            match waitid(WaitId::Pid(pid), look) {
                Ok(None) => std::thread::sleep(Duration::from_millis(20)),
                Ok(Some(_)) => return Ok(()),
                Err(errno) => {
                    return Err(Error::failed(format!("cannot wait for {}", self.name), errno));
                }
            }
        }
        report();
        Ok(())
    }

    fn pid(&self) -> Option<Pid> {
        self.child.as_ref().map(Pid::from_child)
    }

    /// Waits and leaves the process as a zombie, whose number is not reused. Returns `false` for a
    /// process killed because it read the terminal in the background (SIGTTIN), where it would
    /// hang.
    fn wait_for_end(&self) -> std::io::Result<bool> {
        let Some(pid) = self.pid() else { return Ok(true) };
        let (ended, stopped) = (WaitIdOptions::EXITED, WaitIdOptions::STOPPED);
        let wait = |options| rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options));
        let mut by_itself = true;
        loop {
            // NOWAIT leaves the end to wait4(2), which has the resources that were used.
            let change = wait(ended | stopped | WaitIdOptions::NOWAIT)?;
            let Some(signal) = change.and_then(|change| change.stopping_signal()) else {
                return Ok(by_itself);
            };
            // The stop is taken note of; the end, which may have come meanwhile, is left.
            wait(stopped | WaitIdOptions::NOHANG)?;
            // The kernel stops a background group that reads the terminal, and nobody continues it.
            if [Signal::TTIN, Signal::TTOU].map(Signal::as_raw).contains(&signal) {
                self.end_group();
                by_itself = false;
            }
        }
    }

    /// Kills the group. Its leader has not been reaped, so the number is not reused.
    fn end_group(&self) {
        if let Some(group) = self.group.filter(|_| self.child.is_some()) {
            // Fails only when all of them are gone.
            let _ = kill_process_group(group, Signal::KILL);
            guard::gone_with(group);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end_group();
        if let Some(mut child) = self.child.take() {
            if self.group.is_some() {
                guard::note(None);
            }
            // Both fail only when it is gone already.
            let _ = child.kill();
            // Without a wait the zombie would stay as long as the lab runs.
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_null_device_is_not_the_programs_fault() {
        let refusal =
            |null| not_started_with(null, "cp", io::ErrorKind::NotFound.into()).to_string();
        assert!(refusal("/nowhere/null").starts_with("cannot open /dev/null, which cp needs: "));
        assert!(refusal("/dev/null").starts_with("cannot start cp: "));
    }
}
