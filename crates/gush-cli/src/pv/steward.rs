//! The thread that shows progress, and answers who asks. Moving never waits for this thread, and this thread never waits
//! for the moving.
//!
//! Most transfers are over before anything is due to be shown, and starting a thread would be a tenth of their time. So the
//! display waits in [`Late`] at first, and the thread starts from there [`LATE`] after the beginning, if ever.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io;
use rustix::stdio::stdout;

use super::account::{Account, Early};
use super::control::{Answer, Control, Request, State};
use super::ending::lock;
use super::extra::Extra;
use super::json;
use super::line::{Beside, Look, ROW_COLUMNS, Subject};
use super::meter::{Meter, Reading};
use super::options::{Display, Expected};
use super::screen::Screen;

/// The times and the content of the display.
#[derive(Clone, Debug)]
pub struct Plan {
    pub look: Look,
    /// Titles, and their content.
    pub extra: Option<(Extra, Look)>,
    pub form: Form,
    pub columns: Option<usize>,
    pub interval: Duration,
    pub window: Duration,
    /// Nothing is shown before the first byte, and time counts from there.
    pub waits: bool,
    pub delay: Duration,
    pub statistics: bool,
    pub stall: Option<Duration>,
}

/// The form of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Line,
    Numbers(Numeric),
    Json,
}

/// The fields of a line of `--numeric`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numeric {
    pub timer: bool,
    pub amount: bool,
    pub rate: bool,
}

impl Plan {
    /// All looks in which something is shown.
    pub fn looks(&self) -> impl Iterator<Item = &Look> + Clone {
        std::iter::once(&self.look).chain(self.extra.as_ref().map(|(_, look)| look))
    }

    /// One reading as a line with this look.
    pub fn line(&self, look: &Look, reading: &Reading, beside: &Beside, columns: usize) -> String {
        match self.form {
            Form::Line => look.line(reading, beside, columns),
            Form::Numbers(numeric) => look.numbers(reading, beside, numeric, columns),
            Form::Json => {
                let out_bytes = beside.out.as_ref().map(|out| out.count);
                json::line(look.name(), reading, look.unit, out_bytes)
            }
        }
    }
}

/// The interval between two readings, in pv's own limits.
pub fn bounded_interval(interval: Duration) -> Duration {
    interval.clamp(Duration::from_millis(100), Duration::from_secs(600))
}

/// How long a transfer may take without a thread for its display: half of the shortest interval.
pub const LATE: Duration = Duration::from_millis(50);

/// The place where a display waits for the time to start its thread.
#[derive(Debug, Default)]
pub struct Late(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// Threads are started at once from now on.
    is_due: bool,
    show: Option<Box<Show>>,
    thread: Option<JoinHandle<()>>,
}

impl Late {
    /// [`LATE`] is over: starts the thread, if a display waits.
    pub fn begin(&self) {
        let mut waiting = self.lock();
        waiting.is_due = true;
        // Without a thread the transfer goes on, and its end is shown by the moving thread.
        let _ = waiting.start();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Starts the thread of the waiting display.
    fn start(&mut self) -> io::Result<()> {
        let Some(show) = self.show.take_if(|show| show.bell.is_some()) else { return Ok(()) };
        // A closure that could not be run is lost, and the display shall stay.
        let handed = Arc::new(Mutex::new(Some(show)));
        let taken = Arc::clone(&handed);
        let take = |shared: &Mutex<Option<Box<Show>>>| {
            shared.lock().unwrap_or_else(PoisonError::into_inner).take()
        };
        let thread = std::thread::Builder::new().name("gush-pv-display".into());
        match thread.spawn(move || take(&taken).into_iter().for_each(|mut show| show.run())) {
            Ok(thread) => self.thread = Some(thread),
            Err(_) => {
                self.show = take(&handed);
                return Err(io::Errno::AGAIN);
            }
        }
        Ok(())
    }
}

/// The display of one transfer.
#[derive(Debug)]
pub struct Steward {
    bell: Option<Arc<OwnedFd>>,
    late: Arc<Late>,
    /// The end is shown, too.
    has_end: bool,
}

/// The accounts of one display.
pub struct Accounts<'a> {
    /// The account of the transfer that is shown.
    pub shown: &'a Arc<Account>,
    /// The account of a command's output, if that is shown beside.
    pub out: Option<&'a Arc<Account>>,
    /// The transfer stalls when nothing moves in any of these. The last one is told, and ends the transfer.
    pub watched: &'a [&'a Arc<Account>],
}

impl Steward {
    /// Shows the transfer of these accounts on `screen`. The thread starts by [`Late::begin`], or
    /// now if that was called already or a stalled transfer is to be ended. Where the thread's
    /// descriptors would leave none for an input, there is no thread: the end alone is shown.
    ///
    /// # Errors
    /// That of eventfd(2), or `EAGAIN` where no thread can be started now.
    pub fn start(
        plan: Plan,
        accounts: &Accounts<'_>,
        screen: &Arc<Mutex<Screen>>,
        late: &Arc<Late>,
    ) -> io::Result<Self> {
        let Accounts { shown, out, watched } = *accounts;
        let is_used = lock(screen).is_used();
        let ends_stalls = plan.stall.is_some();
        // A descriptor, so that one poll(2) waits for the end of the transfer and for who asks.
        let bell = eventfd(0, EventfdFlags::CLOEXEC).map(Arc::new);
        let control = Control::listen();
        let (bell, control) = match (bell, gush_process::has_room()) {
            (bell, false) if ends_stalls => (Some(bell?), None),
            (Ok(bell), true) => (Some(bell), control),
            _ => (None, None),
        };
        let show = Show {
            bell: bell.clone(),
            meter: Meter::new(plan.window),
            out: out.map(|out| (Arc::clone(out), Meter::new(plan.window))),
            watched: watched.iter().map(|one| Arc::clone(one)).collect(),
            plan,
            account: Arc::clone(shown),
            screen: Arc::clone(screen),
            is_used,
            control,
            stalled_bytes: (0, 0),
            stalled_for: Duration::ZERO,
        };
        let has_end = show.reads();
        let mut waiting = late.lock();
        waiting.show = Some(Box::new(show));
        // A stall has to be noticed by somebody, so that its thread is there from the start.
        if waiting.is_due || ends_stalls {
            waiting.start()?;
        }
        drop(waiting);
        Ok(Self { bell, late: Arc::clone(late), has_end })
    }

    /// Shows the end: in this thread where no other was started, or else in that thread, which is waited for. Where nothing
    /// is shown at the end of the process, the thread goes with the process: waking the thread and waiting would cost more
    /// than starting a thread.
    pub fn finish(self, is_last: bool) {
        let (show, thread) = {
            let mut waiting = self.late.lock();
            (waiting.show.take(), waiting.thread.take())
        };
        if is_last && !self.has_end {
            return;
        }
        if let Some(mut show) = show {
            show.end();
        }
        let (Some(thread), Some(bell)) = (thread, self.bell) else { return };
        // The counter of a new eventfd has room for one. Who was not woken is not waited for.
        if io::retry_on_intr(|| io::write(&*bell, &1_u64.to_ne_bytes())).is_err() {
            return;
        }
        // Only a panic of the thread is an error here, and the panic hook has printed that.
        let _ = thread.join();
    }
}

#[derive(Debug)]
struct Show {
    /// Of the thread; without it there is none.
    bell: Option<Arc<OwnedFd>>,
    plan: Plan,
    meter: Meter,
    account: Arc<Account>,
    out: Option<(Arc<Account>, Meter)>,
    /// The accounts in which nothing moves when a transfer stalls.
    watched: Vec<Arc<Account>>,
    screen: Arc<Mutex<Screen>>,
    is_used: bool,
    control: Option<Control>,
    /// The bytes moved and those not taken by the readers, at the last change, and how long ago
    /// that was.
    stalled_bytes: (u64, u64),
    stalled_for: Duration,
}

/// Who or what has ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    Bell,
    /// Somebody asks.
    Asker,
    Time,
}

impl Show {
    fn run(&mut self) {
        let Some(bell) = self.bell.clone() else { return };
        // Where nothing is shown or measured, the thread sleeps until somebody asks.
        let mut due = if self.reads() { self.plan.interval } else { Duration::MAX };
        loop {
            let slice = self.plan.stall.map_or(Duration::MAX, |limit| SLICE.min(limit));
            let began = Instant::now();
            let at_most = due.saturating_sub(self.account.elapsed()).min(slice);
            match wait(&bell, self.control.as_ref(), at_most) {
                Woken::Bell => break,
                Woken::Asker => {
                    self.answer();
                    if self.is_used {
                        // -R may have shortened the interval.
                        due = due.min(self.account.elapsed() + self.plan.interval);
                    }
                }
                Woken::Time => {}
            }
            // A process that was stopped meanwhile has waited for one slice only.
            self.look_for_a_stall(began.elapsed().min(slice));
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

    /// Is anything shown or measured?
    fn reads(&self) -> bool {
        self.is_used || self.plan.statistics || self.plan.extra.is_some()
    }

    fn tick(&mut self) {
        let Some(elapsed) = self.elapsed() else { return };
        let reading = self.meter.read(self.account.count(), elapsed, self.account.expected());
        let out = self.out.as_mut().map(|(out, meter)| meter.read(out.count(), elapsed, None));
        if self.account.elapsed() >= self.plan.delay {
            self.show(&reading, out);
        }
    }

    fn end(&mut self) {
        let elapsed = self.elapsed();
        let wanted = elapsed.is_some() && self.account.elapsed() >= self.plan.delay;
        let elapsed = elapsed.unwrap_or_default();
        let reading = self.meter.end(self.account.count(), elapsed, self.account.expected());
        let out = self.out.as_mut().map(|(out, meter)| meter.end(out.count(), elapsed, None));
        // Of a transfer without any input there is nothing to show; a reader of JSON waits for an end.
        let wanted = wanted && (self.account.has_input() || self.plan.form == Form::Json);
        // The last line stays as it was when the signal came.
        if wanted && self.account.ended_early() != Some(Early::Signal) {
            self.show(&reading, out);
        }
        let mut screen = lock(&self.screen);
        screen.close();
        if self.plan.statistics {
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

    fn show(&mut self, reading: &Reading, out: Option<Reading>) {
        if !self.is_used && self.plan.extra.is_none() {
            return;
        }
        let beside = self.beside(out);
        let mut screen = lock(&self.screen);
        let columns = self.plan.columns.unwrap_or_else(|| screen.columns());
        if self.is_used {
            screen.show(&self.plan.line(&self.plan.look, reading, &beside, columns));
        }
        if let Some((extra, look)) = &self.plan.extra {
            extra.show(&look.line(reading, &beside, columns), &mut screen);
        }
    }

    fn beside(&self, out: Option<Reading>) -> Beside {
        let looks = self.plan.looks();
        let has_memory = looks.clone().any(|look| look.last_bytes() > 0 || look.has_last_line());
        Beside {
            buffer_percent: looks.clone().any(Look::has_buffer).then(filled_percent).flatten(),
            seen: if has_memory { self.account.observed.seen() } else { Default::default() },
            row: if looks.clone().any(Look::has_row) {
                self.meter.row(ROW_COLUMNS)
            } else {
                Vec::new()
            },
            out,
        }
    }

    fn answer(&mut self) {
        let Some(control) = self.control.take() else { return };
        // Who leaves before the answer has no answer.
        let _ = control.answer(|request| match request {
            Request::State => Answer::State(State {
                elapsed: self.account.elapsed(),
                count: self.account.count(),
                expected: self.account.expected(),
                counts_lines: self.plan.look.unit.lines,
            }),
            Request::Show(display, extra) => {
                self.change(*display, extra);
                Answer::Done
            }
        });
        self.control = Some(control);
    }

    /// Shows progress as another command line wants. Options that it leaves out stay.
    fn change(&mut self, mut display: Display, extra: Option<Extra>) {
        let unit = self.plan.look.unit;
        if let Some(Expected::Number(number)) = display.size {
            self.account.expect(Some(number).filter(|&number| number > 0));
        }
        if let Some(rate) = display.rate_limit {
            self.account.rate.set(rate);
        }
        if let Some(interval) = display.interval {
            self.plan.interval = bounded_interval(interval);
        }
        if let Some(window) = display.average_rate_window {
            self.meter.set_window(window);
        }
        self.plan.columns = display.width.filter(|&columns| columns > 0).or(self.plan.columns);
        (display.bits, display.si) = (display.bits || unit.bits, display.si || unit.decimal);
        let is_sized = self.account.expected().is_some();
        let subject = Subject { counts_lines: unit.lines, is_sized, has_out: self.out.is_some() };
        self.plan.look = Look::new(&display, subject);
        if let Some(extra) = extra {
            let look = extra.look(&display, &self.plan.look);
            self.plan.extra = Some((extra, look));
        }
    }

    fn look_for_a_stall(&mut self, waited: Duration) {
        if self.stalls(waited) {
            let Some((last, others)) = self.watched.split_last() else { return };
            // Told once: the other side ends as if its reader had gone.
            last.end_early(Early::Stall);
            others.iter().for_each(|one| one.end_early(Early::Reader));
            // A read that waits, and that poll(2) knows nothing of, would not see the end.
            gush_process::interrupt_others();
        }
    }

    /// Has nothing moved for the time of `--stall-timeout`, of which `waited` is the last part?
    fn stalls(&mut self, waited: Duration) -> bool {
        let Some(limit) = self.plan.stall else { return false };
        // Of both sides together: a command that reads and writes nothing yet is at work, and so is
        // a reader that takes bytes out of a buffer which has no room for more yet.
        let bytes = self.watched.iter().fold((0_u64, 0_u64), |(moved, untaken), one| {
            let untaken = untaken.wrapping_add(one.untaken_bytes());
            (moved.wrapping_add(one.stirred_bytes()), untaken)
        });
        if bytes != self.stalled_bytes || self.watched.iter().any(|one| one.is_limited()) {
            (self.stalled_bytes, self.stalled_for) = (bytes, Duration::ZERO);
            return false;
        }
        self.stalled_for += waited;
        self.stalled_for >= limit
    }
}

/// How often a stalled transfer is looked for.
const SLICE: Duration = Duration::from_millis(100);

/// Waits for the bell or for somebody who asks, at most so long.
fn wait(bell: &OwnedFd, control: Option<&Control>, at_most: Duration) -> Woken {
    let at_most = Timespec::try_from(at_most).ok();
    let mut fds = vec![PollFd::new(bell, PollFlags::IN)];
    fds.extend(control.map(|control| PollFd::new(control, PollFlags::IN)));
    if !matches!(poll(&mut fds, at_most.as_ref()), Ok(1..)) {
        return Woken::Time;
    }
    if fds[0].revents().is_empty() { Woken::Asker } else { Woken::Bell }
}

/// How full the pipe at standard output is; none where no pipe is there.
fn filled_percent() -> Option<u32> {
    let bytes = rustix::pipe::fcntl_getpipe_size(stdout()).ok()?;
    let waiting = rustix::io::ioctl_fionread(stdout()).ok()?;
    u32::try_from(waiting * 100 / (bytes as u64).max(1)).ok()
}

#[cfg(test)]
mod tests {
    use super::super::{brief, plan, wishes};
    use super::*;
    use crate::talk::Talker;

    const MS: Duration = Duration::from_millis(1);

    fn show(words: &[&str]) -> Show {
        let words: Vec<_> = words.iter().map(Into::into).collect();
        let options = brief::options(&words, false).unwrap();
        let plan = plan(&options, Look::new(&options.display, Subject::default()));
        let account = Arc::new(Account::of_nothing());
        Show {
            bell: None,
            meter: Meter::new(plan.window),
            plan,
            account: Arc::clone(&account),
            out: None,
            watched: vec![account],
            screen: Arc::new(Mutex::new(Screen::new(wishes(&options), &Talker::new("gush pv")))),
            is_used: false,
            control: None,
            stalled_bytes: (0, 0),
            stalled_for: Duration::ZERO,
        }
    }

    #[test]
    fn a_stall_has_lasted_as_long_as_the_option_says() {
        let mut show = show(&["-q", "--stall-timeout", "0.3"]);
        assert!(!show.stalls(299 * MS));
        assert!(show.stalls(MS));
        // A byte begins the time anew, and while the rate holds the transfer back no time counts.
        show.account.set_bytes(1);
        assert!(!show.stalls(1000 * MS) && !show.stalls(299 * MS));
        show.account.rate.set(1);
        assert!(show.account.rate.allowance().is_err());
        assert!(!show.stalls(1000 * MS));
        show.account.rate.set(0);
        assert!(show.account.rate.allowance().is_ok());
        assert!(!show.stalls(299 * MS) && show.stalls(MS));
    }

    #[test]
    fn another_command_line_changes_the_interval_and_the_rate() {
        let mut show = show(&["-q"]);
        let words = ["-i", "3", "-L", "200k"].map(Into::into);
        show.change(brief::options(&words, false).unwrap().display, None);
        assert_eq!(show.plan.interval, 3000 * MS);
        assert_eq!(show.account.rate.get(), Some(204_800));
    }
}
