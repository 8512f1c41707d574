//! `-d`: shows the progress of other processes through their files.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use gush::Errno;
use gush_process::others;
use gush_text::{os_text, quote};

use super::args::PvArgs;
use super::display::Plan;
use super::line::{Extras, Layout, Subject};
use super::meter::Meter;
use super::onlooker::Onlooker;
use super::process::{Descriptor, Process, Unwatched, WatchTarget};
use super::screen::Screen;
use super::signals::lock;
use super::status::Status;
use super::{asked_size, plan};
use crate::console::Console;

/// Shows the descriptors of `targets` until all are closed or their processes have ended. A target
/// that cannot be watched is reported, and the others are watched.
///
/// # Errors
/// The status if nothing can be watched; the error has been reported.
pub fn run(options: &PvArgs, targets: &[WatchTarget], console: &Console) -> Result<Status, Status> {
    let onlooker = Onlooker::begin(Screen::new(options, console), console)?;
    let asked = asked_size(&options.display, console)?;
    let layout = Layout::new(&options.display, Subject { is_sized: true, ..Subject::default() });
    let mut watch = Watch {
        plan: plan(options, layout),
        options,
        // A size is that of one descriptor.
        asked_bytes: asked.filter(|_| is_single(targets)),
        is_single: is_single(targets),
        has_several: targets.iter().any(|target| target.pid != targets[0].pid),
        onlooker: &onlooker,
        groups: Vec::new(),
    };
    let mut status = Status::default();
    for target in targets {
        if let Err(why) = watch.begin(*target) {
            // A process that does not exist has no descriptors to name.
            let is_there = !matches!(&why, Unwatched::Unseen(error)
                if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()));
            let fd = target.fd.filter(|_| is_there).map(|fd| format!(" fd {fd}:"));
            let fd = fd.unwrap_or_default();
            console.say(format_args!("pid {}:{fd} {}", target.pid, text(&why)));
            status.add(Status::UNOPENED);
        }
    }
    if watch.groups.is_empty() {
        return Err(status);
    }
    onlooker.signals.write_pid(options, console)?;
    watch.run();
    status.add(onlooker.end());
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
    onlooker: &'a Onlooker,
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
    fn begin(&mut self, target: WatchTarget) -> Result<(), Unwatched> {
        let process = Process::find(target.pid).map_err(Unwatched::Unseen)?;
        let mut shown = BTreeMap::new();
        match target.fd {
            Some(fd) => {
                shown.insert(fd, self.line_of(target.pid, fd)?);
            }
            None => {
                // Check the permission now; descriptors are searched repeatedly later.
                others::descriptors(target.pid).map_err(Unwatched::Unseen)?;
            }
        }
        self.groups.push(Group { process, only: target.fd, shown });
        Ok(())
    }

    fn line_of(&self, pid: i32, fd: i32) -> Result<WatchedLine, Unwatched> {
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
            let path = fitted(&path, (self.plan.columns() / 2).saturating_sub(taken));
            layout.named(format!("{number}{fd:4}:{path}"))
        };
        let meter = self.plan.meter(position);
        let began = self.onlooker.elapsed();
        Ok(WatchedLine { descriptor, expected, layout, meter, began, position })
    }

    fn run(&mut self) {
        self.onlooker.follow(self.plan.display.interval(), |is_due| {
            self.forget_what_is_gone();
            let goes_on = !self.has_ended();
            if goes_on && is_due {
                self.look_for_more();
                self.show(false);
            }
            goes_on
        });
        if self.is_single {
            self.show(true);
        }
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

    fn look_for_more(&mut self) {
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
            let found = new.filter_map(|fd| Some((fd, self.line_of(pid, fd).ok()?)));
            let found: Vec<(i32, WatchedLine)> = found.collect();
            self.groups[at].shown.extend(found);
        }
    }

    fn show(&mut self, ended: bool) {
        let mut screen = lock(&self.onlooker.screen);
        // One time for all lines, so that their rates are comparable.
        let now = self.onlooker.elapsed();
        let mut lines = Vec::new();
        for shown in self.groups.iter_mut().flat_map(|group| group.shown.values_mut()) {
            let elapsed = now.saturating_sub(shown.began);
            let reading = match ended {
                true => shown.meter.end(shown.position, elapsed, shown.expected),
                false => shown.meter.read(shown.position, elapsed, shown.expected),
            };
            let extras = Extras { row: shown.meter.row(), ..Extras::default() };
            lines.push(self.plan.line(&shown.layout, &reading, &extras));
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
