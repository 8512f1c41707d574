//! Programs that were asked to end: one thread waits for all of them, and kills those that do not.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open,
    waitid,
};

/// How long a program may take to end when it is asked to, before it is made to.
const GRACE: Duration = Duration::from_secs(2);

/// How long it may take when this process itself is made to end.
const HASTE: Duration = Duration::from_millis(20);

/// How often a program is looked at that no descriptor could be had for.
const LOOK: Duration = Duration::from_millis(20);

/// Whom a signal for a program reaches.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reach {
    /// The program and all that it has started: it leads a process group.
    Group(Pid),
    /// The program alone: it shares our group, and our terminal with it.
    One(Pid),
}

impl Reach {
    pub fn pid(self) -> Pid {
        match self {
            Self::Group(pid) | Self::One(pid) => pid,
        }
    }

    fn signal(self, signal: Signal) {
        // Gone is as good as ended.
        let _ = match self {
            Self::Group(pid) => kill_process_group(pid, signal),
            Self::One(pid) => kill_process(pid, signal),
        };
    }

    /// Has it ended? If so, it is reaped.
    fn is_reaped(self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        !matches!(waitid(WaitId::Pid(self.pid()), options), Ok(None))
    }
}

/// Asks a program to end, and sees to it that it does.
pub(super) fn end(program: Reach) {
    program.signal(Signal::TERM);
    // One that is stopped sees the signal only when it goes on.
    program.signal(Signal::CONT);
    if program.is_reaped() {
        return;
    }
    let fd = pidfd_open(program.pid(), PidfdFlags::empty()).ok().map(Arc::new);
    let slow = Slow { program, fd, give_up: Instant::now() + GRACE, is_killed: false };
    let mut state = state();
    state.slow.push(slow);
    if let Some(wake) = &state.wake {
        wake_up(wake);
        return;
    }
    match start() {
        Ok(wake) => state.wake = Some(wake),
        Err(error) => {
            tracing::warn!(
                "no thread can wait for programs: {error}; those that do not end at once are killed"
            );
            for slow in std::mem::take(&mut state.slow) {
                slow.program.signal(Signal::KILL);
                let _ = waitid(WaitId::Pid(slow.program.pid()), WaitIdOptions::EXITED);
            }
        }
    }
}

/// Waits until every program that was asked to end has ended; once `hurry` says so, those that are left are killed.
pub(crate) fn wait(hurry: impl Fn() -> bool) {
    let mut is_hurried = false;
    let mut state = state();
    while state.wake.is_some() {
        if !is_hurried && hurry() {
            is_hurried = true;
            let soon = Instant::now() + HASTE;
            state.slow.iter_mut().for_each(|slow| slow.give_up = slow.give_up.min(soon));
            if let Some(wake) = &state.wake {
                wake_up(wake);
            }
        }
        let waited = ALL_ENDED.wait_timeout(state, LOOK);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// A program that did not end at once.
#[derive(Debug)]
struct Slow {
    program: Reach,
    /// Readable when it has ended; none where no descriptor was left.
    fd: Option<Arc<OwnedFd>>,
    give_up: Instant,
    is_killed: bool,
}

#[derive(Debug)]
struct State {
    slow: Vec<Slow>,
    /// Wakes the thread that waits for them; none while there is no such thread.
    wake: Option<Arc<OwnedFd>>,
}

static STATE: Mutex<State> = Mutex::new(State { slow: Vec::new(), wake: None });
static ALL_ENDED: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wake_up(wake: &OwnedFd) {
    // Full means that the thread is about to wake.
    let _ = rustix::io::write(wake, &1_u64.to_ne_bytes());
}

fn start() -> std::io::Result<Arc<OwnedFd>> {
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let waker = Arc::clone(&wake);
    let thread = std::thread::Builder::new().name("gush-reaper".into()).stack_size(64 << 10);
    thread.spawn(move || reap(&waker))?;
    Ok(wake)
}

/// The work of the thread: over when no program is left.
fn reap(wake: &OwnedFd) {
    loop {
        let mut state = state();
        state.slow.retain(|slow| !slow.program.is_reaped());
        let now = Instant::now();
        for slow in state.slow.iter_mut().filter(|slow| !slow.is_killed && slow.give_up <= now) {
            slow.is_killed = true;
            slow.program.signal(Signal::KILL);
            let number = slow.program.pid();
            tracing::warn!("process {number} does not end when asked to; it is killed");
        }
        if state.slow.is_empty() {
            state.wake = None;
            ALL_ENDED.notify_all();
            return;
        }
        let fds: Vec<_> = state.slow.iter().filter_map(|slow| slow.fd.clone()).collect();
        let sees_all = fds.len() == state.slow.len();
        let patience =
            state.slow.iter().filter(|slow| !slow.is_killed).map(|slow| slow.give_up - now);
        let patience = patience.chain((!sees_all).then_some(LOOK)).min();
        drop(state);
        let mut polled = vec![PollFd::new(wake, PollFlags::IN)];
        polled.extend(fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
        // Interrupted or refused, it looks again.
        let _ = poll(&mut polled, patience.as_ref());
        let _ = rustix::io::read(wake, &mut [0; 8]);
    }
}
