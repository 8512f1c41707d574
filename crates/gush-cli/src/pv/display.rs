//! The thread that shows progress and answers `-R` and `-Q`. It never waits for the moving thread,
//! nor the moving thread for it.
//!
//! Most transfers end before anything is shown, and starting a thread would take a tenth of their
//! time. So the thread is started only after [`DELAY`] ([`DelayedStart`]).

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gush::Unpoisoned;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io;
use rustix::stdio::stdout;

use super::args::Display;
use super::control::{Answer, Control, Request, Snapshot};
use super::extra::Extra;
use super::json;
use super::line::{Extras, Layout, Subject};
use super::meter::{Meter, Reading};
use super::screen::Screen;
use super::signals::lock;
use super::state::{StopReason, TransferState};
use super::values::Expected;
use crate::console;

/// The content and the timing of the display.
#[derive(Clone, Debug)]
pub struct Plan {
    pub layout: Layout,
    /// Titles, and their content.
    pub extra: Option<(Extra, Layout)>,
    pub display: Display,
    pub json: bool,
    /// Show nothing before the first byte, and measure time from there.
    pub waits: bool,
    pub delay: Duration,
    pub statistics: bool,
    pub stall: Option<Duration>,
}

impl Plan {
    /// All layouts in use.
    pub fn layouts(&self) -> impl Iterator<Item = &Layout> + Clone {
        std::iter::once(&self.layout).chain(self.extra.as_ref().map(|(_, layout)| layout))
    }

    /// Those of the terminal, without `--width`.
    pub fn columns(&self) -> usize {
        self.display.columns().unwrap_or_else(console::columns)
    }

    pub fn meter(&self, first: u64) -> Meter {
        let window = self.display.average_rate_window;
        Meter::new(window.unwrap_or(Duration::from_secs(30)), first)
    }

    /// A reading as a line with this layout.
    pub fn line(&self, layout: &Layout, reading: &Reading, extras: &Extras) -> String {
        match self.display.numeric {
            _ if self.json => {
                let out_bytes = extras.out.as_ref().map(|out| out.count);
                json::line(layout.name(), reading, layout.unit, out_bytes)
            }
            true => layout.numbers(reading, extras, &self.display, self.columns()),
            false => layout.line(reading, extras, self.columns()),
        }
    }
}

/// Half of the shortest interval.
pub const DELAY: Duration = Duration::from_millis(50);

/// A display whose thread has not started yet.
#[derive(Debug, Default)]
pub struct DelayedStart(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// The delay is over: threads start at once.
    is_due: bool,
    show: Option<Box<Show>>,
    thread: Option<JoinHandle<()>>,
}

impl DelayedStart {
    /// Starts the thread, once [`DELAY`] is over.
    pub fn begin(&self) {
        let mut waiting = self.0.lock().unpoisoned();
        waiting.is_due = true;
        // Without a thread, the moving thread shows the end.
        let _ = waiting.start();
    }
}

impl Waiting {
    fn start(&mut self) -> io::Result<()> {
        let Some(show) = self.show.take_if(|show| show.end_event.is_some()) else { return Ok(()) };
        // A closure that could not be run is lost, and the display must not be.
        let handed = Arc::new(Mutex::new(Some(show)));
        let taken = Arc::clone(&handed);
        let take = |shared: &Mutex<Option<Box<Show>>>| shared.lock().unpoisoned().take();
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
pub struct DisplayHandle {
    end_event: Option<Arc<OwnedFd>>,
    delayed: Arc<DelayedStart>,
    /// The end is shown or measured.
    has_end: bool,
}

/// The transfers of a display.
pub struct Transfers<'a> {
    /// The transfer that is shown.
    pub shown: &'a Arc<TransferState>,
    /// The output of a command, if that is shown, too.
    pub out: Option<&'a Arc<TransferState>>,
    /// The transfer stalls when nothing moves in any of these. The last one is stopped for that
    /// reason.
    pub watched: &'a [&'a Arc<TransferState>],
}

impl DisplayHandle {
    /// Shows the transfer on `screen`. The thread starts with [`DelayedStart::begin`], or now if
    /// that was called already or stalls are to be detected. If its descriptors would leave none
    /// for an input, there is no thread, and only the end is shown.
    ///
    /// # Errors
    /// That of eventfd(2), or `EAGAIN` if no thread can be started now.
    pub fn start(
        plan: Plan,
        transfers: &Transfers<'_>,
        screen: &Arc<Mutex<Screen>>,
        delayed: &Arc<DelayedStart>,
    ) -> io::Result<Self> {
        let Transfers { shown, out, watched } = *transfers;
        let is_used = lock(screen).is_used();
        let ends_stalls = plan.stall.is_some();
        // A descriptor, so that one poll(2) waits for the end of the transfer and for requests.
        let end_event = eventfd(0, EventfdFlags::CLOEXEC).map(Arc::new);
        let control = Control::listen();
        let (end_event, control) = match (end_event, gush_process::has_room()) {
            (end_event, false) if ends_stalls => (Some(end_event?), None),
            (Ok(end_event), true) => (Some(end_event), control),
            _ => (None, None),
        };
        let show = Show {
            end_event: end_event.clone(),
            meter: plan.meter(0),
            out: out.map(|out| (Arc::clone(out), plan.meter(0))),
            watched: watched.iter().map(|one| Arc::clone(one)).collect(),
            plan,
            state: Arc::clone(shown),
            screen: Arc::clone(screen),
            is_used,
            control,
            stalled_bytes: (0, 0),
            stalled_for: Duration::ZERO,
        };
        let has_end = show.reads();
        let mut waiting = delayed.0.lock().unpoisoned();
        waiting.show = Some(Box::new(show));
        // Stalls are detected by the thread, so it is needed from the start.
        if waiting.is_due || ends_stalls {
            waiting.start()?;
        }
        drop(waiting);
        Ok(Self { end_event, delayed: Arc::clone(delayed), has_end })
    }

    /// Shows the end: in the display thread, which is joined, or here if that was not started. If
    /// nothing is shown at the end of the process, the thread is left to end with it: a join would
    /// cost more than the start of a thread.
    pub fn finish(self, is_last: bool) {
        let (show, thread) = {
            let mut waiting = self.delayed.0.lock().unpoisoned();
            (waiting.show.take(), waiting.thread.take())
        };
        if is_last && !self.has_end {
            return;
        }
        if let Some(mut show) = show {
            show.end();
        }
        let (Some(thread), Some(end_event)) = (thread, self.end_event) else { return };
        // A thread that could not be woken is not joined.
        if io::retry_on_intr(|| io::write(&*end_event, &1_u64.to_ne_bytes())).is_err() {
            return;
        }
        // Fails only if the thread panicked, which the panic hook has reported.
        let _ = thread.join();
    }
}

#[derive(Debug)]
struct Show {
    /// Ends the thread; without it there is none.
    end_event: Option<Arc<OwnedFd>>,
    plan: Plan,
    meter: Meter,
    state: Arc<TransferState>,
    out: Option<(Arc<TransferState>, Meter)>,
    /// As [`Transfers::watched`].
    watched: Vec<Arc<TransferState>>,
    screen: Arc<Mutex<Screen>>,
    is_used: bool,
    control: Option<Control>,
    /// The bytes moved and those unread by the readers, at the last change, and how long ago that
    /// was.
    stalled_bytes: (u64, u64),
    stalled_for: Duration,
}

/// What has ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    End,
    Request,
    Time,
}

impl Show {
    fn run(&mut self) {
        let Some(end_event) = self.end_event.clone() else { return };
        // If nothing is shown or measured, the thread only waits for requests.
        let mut due = if self.reads() { self.plan.display.interval() } else { Duration::MAX };
        loop {
            let slice = self.plan.stall.map_or(Duration::MAX, |limit| SLICE.min(limit));
            let began = Instant::now();
            let at_most = due.saturating_sub(self.state.elapsed()).min(slice);
            match wait(&end_event, self.control.as_ref(), at_most) {
                Woken::End => break,
                Woken::Request => {
                    self.answer();
                    if self.is_used {
                        // -R may have shortened the interval.
                        due = due.min(self.state.elapsed() + self.plan.display.interval());
                    }
                }
                Woken::Time => {}
            }
            // If the process was stopped, only one slice counts.
            self.check_for_stall(began.elapsed().min(slice));
            if self.state.elapsed() < due {
                continue;
            }
            due += self.plan.display.interval();
            // Updates that were missed are dropped.
            due = due.max(self.state.elapsed());
            self.tick();
        }
        self.end();
    }

    /// Whether anything is shown or measured.
    fn reads(&self) -> bool {
        self.is_used || self.plan.statistics || self.plan.extra.is_some()
    }

    fn tick(&mut self) {
        let Some(elapsed) = self.elapsed() else { return };
        let reading = self.meter.read(self.state.count(), elapsed, self.state.expected());
        let out = self.out.as_mut().map(|(out, meter)| meter.read(out.count(), elapsed, None));
        if self.state.elapsed() >= self.plan.delay {
            self.show(&reading, out);
        }
    }

    fn end(&mut self) {
        let elapsed = self.elapsed();
        let wanted = elapsed.is_some() && self.state.elapsed() >= self.plan.delay;
        let elapsed = elapsed.unwrap_or_default();
        let reading = self.meter.end(self.state.count(), elapsed, self.state.expected());
        let out = self.out.as_mut().map(|(out, meter)| meter.end(out.count(), elapsed, None));
        // Without any input there is nothing to show, but a reader of JSON waits for an end.
        let wanted = wanted && (self.state.has_input() || self.plan.json);
        // After a signal the last line stays as it was.
        if wanted && self.state.stop_reason() != Some(StopReason::Signal) {
            self.show(&reading, out);
        }
        let mut screen = lock(&self.screen);
        screen.close();
        if self.plan.statistics {
            screen.print(self.meter.statistics().line(self.plan.layout.unit.name()));
        }
    }

    /// The time that is shown; none before the first byte with `--wait`.
    fn elapsed(&self) -> Option<Duration> {
        let elapsed = self.state.elapsed();
        match self.plan.waits {
            true => self.state.first().map(|first| elapsed.saturating_sub(first)),
            false => Some(elapsed),
        }
    }

    fn show(&mut self, reading: &Reading, out: Option<Reading>) {
        if !self.is_used && self.plan.extra.is_none() {
            return;
        }
        let extras = Extras {
            buffer_percent: filled_percent(),
            tail: self.state.inspector.tail(),
            row: self.meter.row(),
            out,
        };
        let mut screen = lock(&self.screen);
        if self.is_used {
            screen.show(&self.plan.line(&self.plan.layout, reading, &extras));
        }
        if let Some((extra, layout)) = &self.plan.extra {
            extra.show(&layout.line(reading, &extras, self.plan.columns()), &mut screen);
        }
    }

    fn answer(&mut self) {
        let Some(control) = self.control.take() else { return };
        // The peer may have left.
        let _ = control.answer(|request| match request {
            Request::Snapshot => Answer::Snapshot(Snapshot {
                elapsed: self.state.elapsed(),
                count: self.state.count(),
                expected: self.state.expected(),
                counts_lines: self.plan.layout.unit.lines,
            }),
            Request::Show(display, extra) => {
                self.change(*display, extra);
                Answer::Done
            }
        });
        self.control = Some(control);
    }

    /// Applies the options of `-R`. Those that it does not set stay.
    fn change(&mut self, mut display: Display, extra: Option<Extra>) {
        let unit = self.plan.layout.unit;
        if let Some(Expected::Number(number)) = display.size {
            self.state.expect(Some(number).filter(|&number| number > 0));
        }
        if let Some(rate) = display.rate_limit {
            self.state.rate.set(rate);
        }
        self.meter.window = display.average_rate_window.unwrap_or(self.meter.window);
        let kept = &mut self.plan.display;
        kept.interval = display.interval.or(kept.interval);
        kept.width = display.columns().or(kept.width);
        (display.bits, display.si) = (display.bits || unit.bits, display.si || unit.decimal);
        let is_sized = self.state.expected().is_some();
        let subject = Subject { counts_lines: unit.lines, is_sized, has_out: self.out.is_some() };
        self.plan.layout = Layout::new(&display, subject);
        if let Some(extra) = extra {
            let layout = extra.layout(&display, &self.plan.layout);
            self.plan.extra = Some((extra, layout));
        }
    }

    fn check_for_stall(&mut self, waited: Duration) {
        if self.stalls(waited) {
            let Some((last, others)) = self.watched.split_last() else { return };
            // Reported once: the other side ends as if its reader were gone.
            last.stop(StopReason::Stall);
            others.iter().for_each(|one| one.stop(StopReason::Reader));
            // A blocking read would not see the end.
            gush_process::interrupt_others();
        }
    }

    /// Whether nothing has moved for the time of `--stall-timeout`; `waited` is its last part.
    fn stalls(&mut self, waited: Duration) -> bool {
        let Some(limit) = self.plan.stall else { return false };
        // Both sides count: a command that only reads is at work, and so is a reader that takes
        // bytes out of a full buffer.
        let bytes = self.watched.iter().fold((0_u64, 0_u64), |(moved, untaken), one| {
            let untaken = untaken.wrapping_add(one.unread_output_bytes());
            (moved.wrapping_add(one.moved_bytes()), untaken)
        });
        if bytes != self.stalled_bytes || self.watched.iter().any(|one| one.rate.holds()) {
            (self.stalled_bytes, self.stalled_for) = (bytes, Duration::ZERO);
            return false;
        }
        self.stalled_for += waited;
        self.stalled_for >= limit
    }
}

/// How often to check for a stall.
const SLICE: Duration = Duration::from_millis(100);

fn wait(end_event: &OwnedFd, control: Option<&Control>, at_most: Duration) -> Woken {
    let at_most = Timespec::try_from(at_most).ok();
    let mut fds = vec![PollFd::new(end_event, PollFlags::IN)];
    fds.extend(control.map(|control| PollFd::new(control, PollFlags::IN)));
    if !matches!(poll(&mut fds, at_most.as_ref()), Ok(1..)) {
        return Woken::Time;
    }
    if fds[0].revents().is_empty() { Woken::Request } else { Woken::End }
}

/// How full the pipe at standard output is; none if it is no pipe.
fn filled_percent() -> Option<u32> {
    let bytes = rustix::pipe::fcntl_getpipe_size(stdout()).ok()?;
    let waiting = rustix::io::ioctl_fionread(stdout()).ok()?;
    u32::try_from(waiting * 100 / (bytes as u64).max(1)).ok()
}

#[cfg(test)]
mod tests {
    use super::super::args::read_words;
    use super::super::plan;
    use super::*;
    use crate::console::Console;

    const MS: Duration = Duration::from_millis(1);

    fn show(words: &[&str]) -> Show {
        let options = read_words(words);
        let plan = plan(&options, Layout::new(&options.display, Subject::default()));
        let state = Arc::new(TransferState::idle());
        Show {
            end_event: None,
            meter: plan.meter(0),
            plan,
            state: Arc::clone(&state),
            out: None,
            watched: vec![state],
            screen: Arc::new(Mutex::new(Screen::new(&options, &Console::new("gush pv")))),
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
        // A byte restarts the time, and while the rate limit holds the transfer back no time
        // counts.
        show.state.set_bytes(1);
        assert!(!show.stalls(1000 * MS) && !show.stalls(299 * MS));
        show.state.rate.set(1);
        assert!(show.state.rate.allowance().is_err());
        assert!(!show.stalls(1000 * MS));
        show.state.rate.set(0);
        assert!(show.state.rate.allowance().is_ok());
        assert!(!show.stalls(299 * MS) && show.stalls(MS));
    }

    #[test]
    fn another_command_line_changes_the_interval_and_the_rate() {
        let mut show = show(&["-q"]);
        show.change(read_words(&["-i", "3", "-L", "200k"]).display, None);
        assert_eq!(show.plan.display.interval(), 3000 * MS);
        assert_eq!(show.state.rate.get(), Some(204_800));
    }
}
