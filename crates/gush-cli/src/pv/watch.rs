//! `-d`: shows the progress of other processes through their files.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gush::Errno;
use gush_process::others;
use gush_text::{os_text, quote};

use super::args::PvArgs;
use super::display::Plan;
use super::line::{Extras, Layout, SPARKLINE_COLUMNS, Subject};
use super::meter::Meter;
use super::process::{Descriptor, Process, Unwatched, WatchTarget};
use super::screen::Screen;
use super::signals::{self, SignalHandler, lock};
use super::state::TransferState;
use super::status::Status;
use super::{asked_size, plan, screen_options};
use crate::talk::Talker;

/// How often to check the descriptors, as in pv.
const SLICE: Duration = Duration::from_millis(50);

/// Shows the descriptors of `targets` until all are closed or their processes have ended. A target
/// that cannot be watched is reported, and the others are watched.
///
/// # Errors
/// The status if nothing can be watched; the error has been reported.
pub fn run(options: &PvArgs, targets: &[WatchTarget], talker: &Talker) -> Result<Status, Status> {
    let mut screen_options = screen_options(options);
    // The lines of several descriptors use the cursor.
    screen_options.cursor = false;
    let screen = Arc::new(Mutex::new(Screen::new(screen_options, talker)));
    let state = Arc::new(TransferState::idle());
    let signals = SignalHandler::begin(&screen, None)
        .map_err(|errno| signals::cannot_handle(errno, talker))?;
    signals.add(&state);
    let asked = asked_size(&options.display).map_err(|why| {
        talker.say(why);
        Status::MISUSE
    })?;
    let layout = Layout::new(&options.display, Subject { is_sized: true, ..Subject::default() });
    let mut watch = Watch {
        plan: plan(options, layout),
        options,
        // A size is that of one descriptor.
        asked_bytes: asked.filter(|_| is_single(targets)),
        is_single: is_single(targets),
        has_several: targets.iter().any(|target| target.pid != targets[0].pid),
        state,
        groups: Vec::new(),
    };
    let mut status = Status::default();
    for target in targets {
        let columns = watch.columns(&screen);
        if let Err(why) = watch.begin(*target, columns) {
            // A process that does not exist has no descriptors to name.
            let is_there = !matches!(&why, Unwatched::Unseen(error)
                if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()));
            let fd = target.fd.filter(|_| is_there).map(|fd| format!(" fd {fd}:"));
            let fd = fd.unwrap_or_default();
            talker.say(format_args!("pid {}:{fd} {}", target.pid, text(&why)));
            status.add(Status::UNOPENED);
        }
    }
    if watch.groups.is_empty() {
        return Err(status);
    }
    if let Some(name) = &options.pidfile {
        super::write_pid(&signals, name, talker)?;
    }
    watch.run(&screen);
    signals.clean_up();
    if watch.state.stop_reason().is_some() {
        status.add(Status::SIGNAL);
    }
    Ok(status)
}

/// A single descriptor, whose line stays at the end.
fn is_single(targets: &[WatchTarget]) -> bool {
    matches!(targets, [WatchTarget { fd: Some(_), .. }])
}

fn text(why: &Unwatched) -> String {
    match why {
        Unwatched::Unseen(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            format!(
                "{} (watching requires permission to trace the process: the same user or CAP_SYS_PTRACE)",
                os_text(error)
            )
        }
        Unwatched::Unseen(error) => os_text(error),
        Unwatched::NoFile(path) => {
            format!("{}: not a regular file or block device", path.display())
        }
    }
}

struct Watch<'a> {
    options: &'a PvArgs,
    plan: Plan,
    asked_bytes: Option<u64>,
    is_single: bool,
    /// More than one process.
    has_several: bool,
    /// The clock of the display, and the end by a signal.
    state: Arc<TransferState>,
    groups: Vec<Group>,
}

/// The watched descriptors of one process.
struct Group {
    process: Process,
    /// Only this descriptor.
    only: Option<i32>,
    shown: BTreeMap<i32, WatchedLine>,
}

struct WatchedLine {
    descriptor: Descriptor,
    expected: Option<u64>,
    layout: Layout,
    meter: Meter,
    began: Duration,
    position: u64,
}

impl Watch<'_> {
    fn begin(&mut self, target: WatchTarget, columns: usize) -> Result<(), Unwatched> {
        let process = Process::find(target.pid).map_err(Unwatched::Unseen)?;
        let mut shown = BTreeMap::new();
        match target.fd {
            Some(fd) => {
                shown.insert(fd, self.line_of(target.pid, fd, columns)?);
            }
            None => {
                // Check the permission now; descriptors are searched repeatedly later.
                others::descriptors(target.pid).map_err(Unwatched::Unseen)?;
            }
        }
        self.groups.push(Group { process, only: target.fd, shown });
        Ok(())
    }

    fn line_of(&self, pid: i32, fd: i32, columns: usize) -> Result<WatchedLine, Unwatched> {
        let descriptor = Descriptor::of(pid, fd)?;
        let closed = || Unwatched::Unseen(Errno::NOENT.into());
        let position = descriptor.position().ok_or_else(closed)?;
        let expected = self.asked_bytes.or(descriptor.size_bytes);
        let subject = Subject { is_sized: expected.is_some(), ..Subject::default() };
        let layout = Layout::new(&self.options.display, subject);
        let layout = if self.is_single {
            layout
        } else {
            // As in pv, paths in the working directory are relative.
            let path = std::env::current_dir().ok();
            let path = path.and_then(|dir| descriptor.path.strip_prefix(dir).ok());
            let path = quote::if_needed(path.unwrap_or(&descriptor.path)).to_string();
            let (number, taken) = match self.has_several {
                true => (format!("{pid:8}:"), 15),
                false => (String::new(), 6),
            };
            let path = fitted(&path, (columns / 2).saturating_sub(taken));
            layout.named(format!("{number}{fd:4}:{path}"))
        };
        let meter = Meter::starting_at(self.plan.window, position);
        let began = self.state.elapsed();
        Ok(WatchedLine { descriptor, expected, layout, meter, began, position })
    }

    fn run(&mut self, screen: &Mutex<Screen>) {
        let mut due = self.plan.interval;
        while self.state.stop_reason().is_none() {
            self.forget_what_is_gone();
            if self.has_ended() {
                break;
            }
            let now = self.state.elapsed();
            if now < due {
                std::thread::sleep(SLICE.min(due - now));
                continue;
            }
            due = (due + self.plan.interval).max(now);
            self.look_for_more(self.columns(screen));
            self.show(screen, false);
        }
        if self.is_single {
            self.show(screen, true);
        }
        lock(screen).close();
    }

    fn columns(&self, screen: &Mutex<Screen>) -> usize {
        self.plan.columns.unwrap_or_else(|| lock(screen).columns())
    }

    fn has_ended(&self) -> bool {
        self.groups.iter().all(|group| match group.only {
            Some(fd) => group.shown.get(&fd).is_none_or(|shown| shown.has_gone()),
            None => group.process.has_ended(),
        })
    }

    /// Keeps the line of a single descriptor, which is shown again at the end.
    fn forget_what_is_gone(&mut self) {
        let is_single = self.is_single;
        for group in &mut self.groups {
            group.shown.retain(|_, shown| shown.follow() || is_single);
        }
    }

    fn look_for_more(&mut self, columns: usize) {
        for at in 0..self.groups.len() {
            let group = &self.groups[at];
            if group.only.is_some() {
                continue;
            }
            let pid = group.process.pid;
            // The process may have ended, which the next check notices.
            let descriptors = others::descriptors(pid).unwrap_or_default();
            let descriptors = descriptors.into_iter().map(|open| open.fd);
            let new = descriptors.filter(|fd| !group.shown.contains_key(fd));
            // Pipes and sockets have no progress.
            let found = new.filter_map(|fd| Some((fd, self.line_of(pid, fd, columns).ok()?)));
            let found: Vec<(i32, WatchedLine)> = found.collect();
            self.groups[at].shown.extend(found);
        }
    }

    fn show(&mut self, screen: &Mutex<Screen>, ended: bool) {
        let columns = self.columns(screen);
        let mut screen = lock(screen);
        // One time for all lines, so that their rates are comparable.
        let now = self.state.elapsed();
        let mut lines = Vec::new();
        for shown in self.groups.iter_mut().flat_map(|group| group.shown.values_mut()) {
            let elapsed = now.saturating_sub(shown.began);
            let reading = match ended {
                true => shown.meter.end(shown.position, elapsed, shown.expected),
                false => shown.meter.read(shown.position, elapsed, shown.expected),
            };
            let row = if shown.layout.has_sparkline() {
                shown.meter.row(SPARKLINE_COLUMNS)
            } else {
                Vec::new()
            };
            let extras = Extras { row, ..Extras::default() };
            lines.push(self.plan.line(&shown.layout, &reading, &extras, columns));
        }
        if self.is_single {
            lines.iter().for_each(|line| screen.show(line));
        } else {
            screen.show_block(&lines);
        }
    }
}

impl WatchedLine {
    /// Updates the position; returns whether the descriptor is still open.
    fn follow(&mut self) -> bool {
        let position = self.descriptor.position();
        self.position = position.unwrap_or(self.position);
        position.is_some()
    }

    fn has_gone(&self) -> bool {
        self.descriptor.position().is_none()
    }
}

/// Shortens `path` to `columns` as pv does: a quarter from the beginning, and the end.
fn fitted(path: &str, columns: usize) -> String {
    if gush_text::width(path) <= columns {
        return path.to_owned();
    }
    let head = gush_text::start_of(path, columns / 4);
    let tail = gush_text::end_of(path, columns.saturating_sub(gush_text::width(head) + 3));
    format!("{head}...{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_is_cut_in_the_middle() {
        assert_eq!(fitted("/a/path", 7), "/a/path");
        assert_eq!(fitted("/some/longer/path", 12), "/so...r/path");
        assert_eq!(fitted("/some/longer/path", 0), "...");
        assert_eq!(fitted("/写真/休日の写真", 12), "/写...の写真");
    }
}
