//! The tracer: starts a gated process, and sees every system call (ptrace(2)).

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Output};
use std::thread;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Event, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::runner::{children, interrupt};
use crate::{Error, affinity};

/// As waitpid(2) gives the number.
const EXECUTED: i32 = Event::PTRACE_EVENT_EXEC as i32;

/// The events of the traced process.
pub(super) enum Stop {
    /// The process became the program to be counted.
    Executed,
    /// The process enters the system call of this number, with these arguments.
    Calls(u64, [u64; 6]),
}

/// Runs a gated `command` and reports the stops of all its threads and children.
///
/// Output into pipes is read after the process has ended: the output is small enough to fit.
pub(super) fn run(
    command: Command,
    processor: Option<usize>,
    report: impl FnMut(i32, Stop) + Send,
) -> Result<Output, Error> {
    // ptrace(2) ties a process to the *thread* that traces it, and pinning is per thread too.
    let tracing = move || {
        if let Some(processor) = processor {
            // Only slower without it.
            let _ = affinity::pin(processor);
        }
        trace(command, report)
    };
    thread::scope(|scope| match scope.spawn(tracing).join() {
        Ok(answer) => answer,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

fn trace(mut command: Command, report: impl FnMut(i32, Stop)) -> Result<Output, Error> {
    // A program that waits makes no call: the interrupt kills it.
    let (child, _watched) = children::spawn_watched(&mut command)?;
    let leader = Pid::from_raw(i32::try_from(child.id()).unwrap_or(0));
    let mut traced =
        Traced { child, leader, is_counted: false, inside: BTreeSet::new(), ended: None, report };
    while traced.ended.is_none() {
        traced.next().map_err(|errno| Error::failed("cannot trace", errno))?;
    }
    traced.output()
}

struct Traced<T> {
    child: Child,
    leader: Pid,
    /// It has become the program to be counted.
    is_counted: bool,
    /// The threads that are inside a call.
    inside: BTreeSet<Pid>,
    ended: Option<ExitStatus>,
    report: T,
}

impl<T: FnMut(i32, Stop)> Traced<T> {
    /// Waits for one stop, and lets the stopped thread go on.
    fn next(&mut self) -> nix::Result<()> {
        // Every thread that is traced, but none of this program's other children.
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        let status = match waitpid(None, Some(flags)) {
            Err(Errno::EINTR) => return Ok(()),
            status => status?,
        };
        let (pid, signal) = match status {
            // As waitpid(2) encodes it.
            WaitStatus::Exited(pid, code) => return self.gone(pid, code << 8),
            WaitStatus::Signaled(pid, signal, _) => return self.gone(pid, signal as i32),
            WaitStatus::PtraceEvent(pid, _, EXECUTED) => {
                self.executed(pid);
                (pid, None)
            }
            WaitStatus::PtraceEvent(pid, ..) => (pid, None),
            WaitStatus::PtraceSyscall(pid) => {
                // With PTRACE_SYSCALL entry and exit look alike.
                if !self.inside.remove(&pid) {
                    self.inside.insert(pid);
                    self.calls(pid)?;
                }
                (pid, None)
            }
            WaitStatus::Stopped(pid, Signal::SIGSTOP) => {
                if pid == self.leader && !self.is_counted {
                    self.at_gate()?;
                }
                (pid, None)
            }
            // The signal is the program's own, and is passed on.
            WaitStatus::Stopped(pid, signal) => (pid, Some(signal)),
            WaitStatus::Continued(_) | WaitStatus::StillAlive => return Ok(()),
        };
        if interrupt::requested() {
            // Not yet waited for, so the number is still its own.
            return nix::sys::signal::kill(self.leader, Signal::SIGKILL);
        }
        let gone_on = match self.is_counted {
            true => ptrace::syscall(pid, signal),
            false => ptrace::cont(pid, signal),
        };
        // ESRCH: it was killed meanwhile, as the next wait reports.
        gone_on.or_else(|errno| if errno == Errno::ESRCH { Ok(()) } else { Err(errno) })
    }

    fn at_gate(&self) -> nix::Result<()> {
        let options = Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_TRACEEXEC
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEFORK
            | Options::PTRACE_O_TRACEVFORK
            // A tracer that dies must not leave a process stopped for ever.
            | Options::PTRACE_O_EXITKILL;
        ptrace::setoptions(self.leader, options)
    }

    fn executed(&mut self, pid: Pid) {
        self.is_counted = true;
        // What stops next is the end of execve.
        self.inside.insert(pid);
        (self.report)(pid.as_raw(), Stop::Executed);
    }

    fn calls(&mut self, pid: Pid) -> nix::Result<()> {
        match entry(pid) {
            Ok((number, arguments)) => (self.report)(pid.as_raw(), Stop::Calls(number, arguments)),
            Err(Errno::ESRCH) => {}
            Err(errno) => return Err(errno),
        }
        Ok(())
    }

    fn gone(&mut self, pid: Pid, status: i32) -> nix::Result<()> {
        if pid == self.leader {
            self.ended = Some(ExitStatus::from_raw(status));
        }
        Ok(())
    }

    /// The program's output into pipes.
    fn output(mut self) -> Result<Output, Error> {
        // Read at the end: such a process prints a line, which a pipe holds.
        let read = |from: Option<&mut dyn Read>| {
            let mut bytes = Vec::new();
            from.map_or(Ok(0), |from| from.read_to_end(&mut bytes)).map_err(|error| {
                Error::failed("cannot read what the traced process said", error)
            })?;
            Ok::<_, Error>(bytes)
        };
        let stdout = read(self.child.stdout.as_mut().map(|from| from as &mut dyn Read))?;
        let stderr = read(self.child.stderr.as_mut().map(|from| from as &mut dyn Read))?;
        let status = self.ended.unwrap_or_default();
        Ok(Output { status, stdout, stderr })
    }
}

impl<T> Drop for Traced<T> {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // Both fail only when it is gone already.
            let _ = nix::sys::signal::kill(self.leader, Signal::SIGKILL);
            let _ = waitpid(self.leader, Some(WaitPidFlag::__WALL));
        }
    }
}

/// The number and arguments of the call that a thread is about to make.
#[cfg(target_arch = "x86_64")]
fn entry(pid: Pid) -> nix::Result<(u64, [u64; 6])> {
    let regs = ptrace::getregs(pid)?;
    Ok((regs.orig_rax, [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9]))
}

/// The number and arguments of the call that a thread is about to make.
#[cfg(target_arch = "aarch64")]
fn entry(pid: Pid) -> nix::Result<(u64, [u64; 6])> {
    let regs = ptrace::getregs(pid)?.regs;
    Ok((regs[8], [regs[0], regs[1], regs[2], regs[3], regs[4], regs[5]]))
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn entry(_pid: Pid) -> nix::Result<(u64, [u64; 6])> {
    Err(Errno::ENOSYS)
}
