//! Programs asked to end: one thread waits for all of them, and kills the slow ones.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use gush::Unpoisoned;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open,
    waitid,
};

/// The time for a program to end before a kill.
const GRACE: Duration = Duration::from_secs(2);

/// The same when this process itself must end.
const HASTE: Duration = Duration::from_millis(500);

/// The interval of checks of a program without a pidfd, for lack of descriptors.
const LOOK: Duration = Duration::from_millis(20);

/// The processes reached by a signal for a program.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reach {
    /// The program and all its children: the program leads a process group.
    Group(Pid),
    /// The program alone, because it shares our process group and terminal.
    One(Pid),
    /// The program alone, which may go on after SIGTERM.
    Asked(Pid),
    /// None: the program goes on.
    Left(Pid),
}

impl Reach {
    pub fn pid(self) -> Pid {
        match self {
            Self::Group(pid) | Self::One(pid) | Self::Asked(pid) | Self::Left(pid) => pid,
        }
    }

    /// Must the program have ended before this process does?
    fn must_end(self) -> bool {
        matches!(self, Self::Group(_) | Self::One(_))
    }

    fn signal(self, signal: Signal) {
        // An error means that the program is gone.
        let _ = match self {
            Self::Group(pid) => kill_process_group(pid, signal),
            Self::One(pid) | Self::Asked(pid) => kill_process(pid, signal),
            Self::Left(_) => Ok(()),
        };
    }

    /// Reaps an ended program; `false` if the program still runs.
    fn is_reaped(self) -> bool {
        // So does any error here, such as ECHILD.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        !matches!(waitid(WaitId::Pid(self.pid()), options), Ok(None))
    }
}

/// Asks a program to end, and kills a slow one that must.
pub(super) fn end(program: Reach) {
    program.signal(Signal::TERM);
    if program.must_end() {
        // A stopped program sees SIGTERM only once it goes on.
        program.signal(Signal::CONT);
    }
    // Most programs have exited by themselves, and need no thread.
    if program.is_reaped() {
        return;
    }
    let fd = pidfd_open(program.pid(), PidfdFlags::empty()).ok().map(Arc::new);
    let give_up = program.must_end().then(|| Instant::now() + GRACE);
    let slow = Slow { program, fd, give_up };
    let mut state = STATE.lock().unpoisoned();
    state.slow.push(slow);
    if let Some(wake) = &state.wake {
        wake_up(wake);
        return;
    }
    match start() {
        Ok(wake) => state.wake = Some(wake),
        Err(error) => {
            tracing::warn!(
                "no thread can wait for programs: {error}; programs that do not end at once are killed"
            );
            let slow = std::mem::take(&mut state.slow);
            for slow in slow.into_iter().filter(|slow| slow.program.must_end()) {
                slow.program.signal(Signal::KILL);
                let _ = waitid(WaitId::Pid(slow.program.pid()), WaitIdOptions::EXITED);
            }
        }
    }
}

/// Waits until all programs that must end have ended. Once `hurry` returns true, slow programs are
/// killed.
pub(crate) fn wait(hurry: impl Fn() -> bool) {
    let mut is_hurried = false;
    let mut state = STATE.lock().unpoisoned();
    while state.wake.is_some() && state.slow.iter().any(|slow| slow.program.must_end()) {
        if !is_hurried && hurry() {
            is_hurried = true;
            let soon = Instant::now() + HASTE;
            state
                .slow
                .iter_mut()
                .for_each(|slow| slow.give_up = slow.give_up.map(|at| at.min(soon)));
            if let Some(wake) = &state.wake {
                wake_up(wake);
            }
        }
        // With a timeout, since `hurry` wakes nobody.
        let waited = ALL_ENDED.wait_timeout(state, LOOK);
        state = waited.unpoisoned().0;
    }
}

/// A program that did not end at once.
#[derive(Debug)]
struct Slow {
    program: Reach,
    /// The pidfd, readable when the program has ended; `None` if no descriptor was left.
    fd: Option<Arc<OwnedFd>>,
    /// `None` once the program is killed, and for one that may go on.
    give_up: Option<Instant>,
}

#[derive(Debug)]
struct State {
    slow: Vec<Slow>,
    /// Wakes the waiting thread; `None` while there is no such thread.
    wake: Option<Arc<OwnedFd>>,
}

static STATE: Mutex<State> = Mutex::new(State { slow: Vec::new(), wake: None });
static ALL_ENDED: Condvar = Condvar::new();

fn wake_up(wake: &OwnedFd) {
    // A full counter wakes the thread just as well.
    let _ = rustix::io::write(wake, &1_u64.to_ne_bytes());
}

fn start() -> std::io::Result<Arc<OwnedFd>> {
    // poll(2) waits for it together with pidfds, unlike for a condition variable.
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let waker = Arc::clone(&wake);
    let thread = std::thread::Builder::new().name("gush-reaper".into()).stack_size(64 << 10);
    thread.spawn(move || reap(&waker))?;
    Ok(wake)
}

/// Runs on the waiting thread until no program is left.
fn reap(wake: &OwnedFd) {
    loop {
        let mut state = STATE.lock().unpoisoned();
        state.slow.retain(|slow| !slow.program.is_reaped());
        let now = Instant::now();
        for slow in &mut state.slow {
            if slow.give_up.take_if(|at| *at <= now).is_none() {
                continue;
            }
            slow.program.signal(Signal::KILL);
            let number = slow.program.pid();
            tracing::warn!("process {number} does not end after SIGTERM and is killed");
        }
        if state.slow.is_empty() {
            // Under the lock: the next program starts a new thread.
            state.wake = None;
            ALL_ENDED.notify_all();
            return;
        }
        let fds: Vec<_> = state.slow.iter().filter_map(|slow| slow.fd.clone()).collect();
        let sees_all = fds.len() == state.slow.len();
        let timeout = state.slow.iter().filter_map(|slow| slow.give_up).map(|at| at - now);
        let timeout = timeout.chain((!sees_all).then_some(LOOK)).min();
        // Others may add programs during the wait.
        drop(state);
        let mut polled = vec![PollFd::new(wake, PollFlags::IN)];
        polled.extend(fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // After an error, such as EINTR, the loop looks again.
        let _ = poll(&mut polled, timeout.as_ref());
        // A counter that is not read would end every later wait.
        let _ = rustix::io::read(wake, &mut [0; 8]);
    }
}
