//! The thread that shows progress. Moving never waits for this thread, and this thread never waits for the moving.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io;
use rustix::stdio::stdout;

use super::account::{Account, Early};
use super::line::{Beside, Look, ROW_COLUMNS};
use super::meter::{Meter, Reading};
use super::screen::Screen;

/// When and what is shown.
#[derive(Clone, Debug)]
pub struct Plan {
    pub look: Look,
    pub columns: Option<usize>,
    pub interval: Duration,
    pub window: Duration,
    /// Nothing is shown before the first byte, and time counts from there.
    pub waits: bool,
    pub delay: Duration,
    pub numeric: Option<Numeric>,
    pub statistics: bool,
    pub stall: Option<Duration>,
}

/// What a line of `--numeric` has.
#[derive(Clone, Copy, Debug)]
pub struct Numeric {
    pub timer: bool,
    pub amount: bool,
    pub rate: bool,
}

/// The thread, as long as it runs.
#[derive(Debug)]
pub struct Steward {
    bell: Arc<OwnedFd>,
    thread: JoinHandle<()>,
}

impl Steward {
    /// # Errors
    /// That of eventfd(2), or `EAGAIN` where no thread can be started.
    pub fn start(
        plan: Plan,
        account: &Arc<Account>,
        screen: &Arc<Mutex<Screen>>,
    ) -> io::Result<Self> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let mut show = Show {
            meter: Meter::new(plan.window),
            plan,
            account: Arc::clone(account),
            screen: Arc::clone(screen),
            stalled: (0, Instant::now()),
        };
        let heard = Arc::clone(&bell);
        let thread = std::thread::Builder::new().name("gush-pv-display".into());
        let thread = thread.spawn(move || show.run(&heard)).map_err(|_| io::Errno::AGAIN)?;
        Ok(Self { bell, thread })
    }

    /// Lets the thread show the end, and waits for that.
    pub fn finish(self) {
        // The counter of a new eventfd has room for one.
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
        let _ = self.thread.join();
    }
}

struct Show {
    plan: Plan,
    meter: Meter,
    account: Arc<Account>,
    screen: Arc<Mutex<Screen>>,
    /// The count of the last change, and when that was.
    stalled: (u64, Instant),
}

impl Show {
    fn run(&mut self, bell: &OwnedFd) {
        let mut due = self.plan.interval;
        let slice = self.plan.stall.map_or(Duration::MAX, |_| SLICE);
        while !has_rung(bell, due.saturating_sub(self.account.elapsed()).min(slice)) {
            self.look_for_a_stall();
            if self.account.elapsed() < due {
                continue;
            }
            due += self.plan.interval;
            // What could not be shown in time is not made up for.
            due = due.max(self.account.elapsed());
            self.tick();
        }
        self.end();
    }

    fn tick(&mut self) {
        let Some(elapsed) = self.elapsed() else { return };
        let reading = self.meter.read(self.account.count(), elapsed, self.account.expected());
        if self.account.elapsed() >= self.plan.delay {
            self.show(&reading);
        }
    }

    fn end(&mut self) {
        let elapsed = self.elapsed();
        let wanted = elapsed.is_some() && self.account.elapsed() >= self.plan.delay;
        let elapsed = elapsed.unwrap_or_default();
        let reading = self.meter.end(self.account.count(), elapsed, self.account.expected());
        if wanted && self.account.ended_early() != Some(Early::Signal) {
            self.show(&reading);
        }
        let mut screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        screen.close();
        if self.plan.statistics && screen.is_used() {
            screen.print(self.meter.statistics().line(self.plan.look.unit.name()));
        }
    }

    /// The time that is shown; none while the first byte is waited for.
    fn elapsed(&self) -> Option<Duration> {
        let elapsed = self.account.elapsed();
        match self.plan.waits {
            true => self.account.first().map(|first| elapsed.saturating_sub(first)),
            false => Some(elapsed),
        }
    }

    fn show(&mut self, reading: &Reading) {
        let mut screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        let columns = self.plan.columns.unwrap_or_else(|| screen.columns());
        let line = match self.plan.numeric {
            Some(numeric) => self.plan.look.numbers(reading, numeric),
            None => self.plan.look.line(reading, &self.beside(), columns),
        };
        screen.show(&line);
    }

    fn beside(&self) -> Beside {
        let look = &self.plan.look;
        let has_memory = look.last_bytes() > 0 || look.has_last_line();
        Beside {
            buffer_percent: look.has_buffer().then(filled_percent).flatten(),
            seen: if has_memory { self.account.observed.seen() } else { Default::default() },
            row: if look.has_row() { self.meter.row(ROW_COLUMNS) } else { Vec::new() },
        }
    }

    fn look_for_a_stall(&mut self) {
        let Some(limit) = self.plan.stall else { return };
        let bytes = self.account.bytes();
        if bytes != self.stalled.0 {
            self.stalled = (bytes, Instant::now());
        } else if self.stalled.1.elapsed() >= limit {
            self.account.end_early(Early::Stall);
        }
    }
}

/// How often a stalled transfer is looked for.
const SLICE: Duration = Duration::from_millis(100);

/// Waits for the bell, at most so long.
fn has_rung(bell: &OwnedFd, at_most: Duration) -> bool {
    let at_most = Timespec::try_from(at_most).ok();
    let mut fds = [PollFd::new(bell, PollFlags::IN)];
    matches!(poll(&mut fds, at_most.as_ref()), Ok(1..))
}

/// How full the pipe at standard output is; none where no pipe is there.
fn filled_percent() -> Option<u32> {
    let bytes = rustix::pipe::fcntl_getpipe_size(stdout()).ok()?;
    let waiting = rustix::io::ioctl_fionread(stdout()).ok()?;
    u32::try_from(waiting * 100 / (bytes as u64).max(1)).ok()
}
