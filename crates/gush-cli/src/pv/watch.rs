//! `-d`: the progress of other processes through their files. Nothing is moved.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gush::Errno;
use gush_text::{os_text, quote};

use super::account::Account;
use super::ending::{self, Ending, lock};
use super::line::{Beside, Look, ROW_COLUMNS, Subject};
use super::meter::Meter;
use super::options::Options;
use super::process::{Descriptor, Process, Target, Unwatched};
use super::screen::Screen;
use super::status::Status;
use super::steward::Plan;
use super::{asked_size, plan, wishes};
use crate::talk::Talker;

/// How often somebody looks whether a descriptor is still the same, as pv does.
const SLICE: Duration = Duration::from_millis(50);

/// Shows the descriptors that `targets` name, until all of them are closed or their processes have ended. A target that cannot
/// be watched from the start is told, and the others are watched all the same.
///
/// # Errors
/// The status where nothing can be watched, told already.
pub fn run(options: &Options, targets: &[Target], talker: &Talker) -> Result<Status, Status> {
    let mut wishes = wishes(options);
    // The lines of several descriptors need the cursor for themselves.
    wishes.cursor = false;
    let screen = Arc::new(Mutex::new(Screen::new(wishes, talker)));
    let account = Arc::new(Account::of_nothing());
    let ending = Ending::begin(&screen, None).map_err(|errno| ending::untold(errno, talker))?;
    ending.concerns(&account);
    let asked = asked_size(&options.display).map_err(|why| {
        talker.say(why);
        Status::MISUSE
    })?;
    let look = Look::new(&options.display, Subject { is_sized: true, ..Subject::default() });
    let mut watch = Watch {
        plan: plan(options, look),
        options,
        // A size is that of one descriptor.
        asked_bytes: asked.filter(|_| is_single(targets)),
        is_single: is_single(targets),
        has_several: targets.iter().any(|target| target.pid != targets[0].pid),
        account,
        groups: Vec::new(),
    };
    let mut status = Status::default();
    for target in targets {
        let columns = watch.columns(&screen);
        if let Err(why) = watch.begin(*target, columns) {
            // A process that is not there has no descriptors to name.
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
        super::keep_pid(&ending, name, talker)?;
    }
    watch.run(&screen);
    ending.tidy();
    if watch.account.ended_early().is_some() {
        status.add(Status::SIGNAL);
    }
    Ok(status)
}

/// One descriptor, whose line stays at the end.
fn is_single(targets: &[Target]) -> bool {
    matches!(targets, [Target { fd: Some(_), .. }])
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
    options: &'a Options,
    plan: Plan,
    asked_bytes: Option<u64>,
    is_single: bool,
    /// More than one process.
    has_several: bool,
    /// The clock of the display, and the end by a signal.
    account: Arc<Account>,
    groups: Vec<Group>,
}

/// The watched descriptors of one process.
struct Group {
    process: Process,
    /// This descriptor alone.
    only: Option<i32>,
    shown: BTreeMap<i32, WatchedLine>,
}

/// One descriptor and the line that shows it.
struct WatchedLine {
    descriptor: Descriptor,
    expected: Option<u64>,
    look: Look,
    meter: Meter,
    began: Duration,
    position: u64,
}

impl Watch<'_> {
    fn begin(&mut self, target: Target, columns: usize) -> Result<(), Unwatched> {
        let process = Process::find(target.pid).map_err(Unwatched::Unseen)?;
        let mut shown = BTreeMap::new();
        match target.fd {
            Some(fd) => {
                shown.insert(fd, self.line_of(target.pid, fd, columns)?);
            }
            None => {
                // Descriptors are looked for again and again; whether that is permitted shows now.
                process.descriptors().map_err(Unwatched::Unseen)?;
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
        let look = Look::new(&self.options.display, subject);
        let look = if self.is_single {
            look
        } else {
            // As pv shortens paths: those below the working directory are relative.
            let path = std::env::current_dir().ok();
            let path = path.and_then(|dir| descriptor.path.strip_prefix(dir).ok());
            let path = quote::if_needed(path.unwrap_or(&descriptor.path)).to_string();
            let (number, taken) = match self.has_several {
                true => (format!("{pid:8}:"), 15),
                false => (String::new(), 6),
            };
            let path = fitted(&path, (columns / 2).saturating_sub(taken));
            look.named(format!("{number}{fd:4}:{path}"))
        };
        let meter = Meter::behind(self.plan.window, position);
        let began = self.account.elapsed();
        Ok(WatchedLine { descriptor, expected, look, meter, began, position })
    }

    fn run(&mut self, screen: &Mutex<Screen>) {
        let mut due = self.plan.interval;
        while self.account.ended_early().is_none() {
            self.forget_what_is_gone();
            if self.has_ended() {
                break;
            }
            let now = self.account.elapsed();
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

    /// The line of a single descriptor is shown once more at the end.
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
            // The process may have ended since the last look, which the next one notices.
            let descriptors = group.process.descriptors().unwrap_or_default();
            let new = descriptors.into_iter().filter(|fd| !group.shown.contains_key(fd));
            // Pipes and sockets have no progress.
            let found = new.filter_map(|fd| Some((fd, self.line_of(pid, fd, columns).ok()?)));
            let found: Vec<(i32, WatchedLine)> = found.collect();
            self.groups[at].shown.extend(found);
        }
    }

    fn show(&mut self, screen: &Mutex<Screen>, ended: bool) {
        let columns = self.columns(screen);
        let mut screen = lock(screen);
        // One time for all lines, so that their rates are of the same moment.
        let now = self.account.elapsed();
        let mut lines = Vec::new();
        for shown in self.groups.iter_mut().flat_map(|group| group.shown.values_mut()) {
            let elapsed = now.saturating_sub(shown.began);
            let reading = match ended {
                true => shown.meter.end(shown.position, elapsed, shown.expected),
                false => shown.meter.read(shown.position, elapsed, shown.expected),
            };
            let row = if shown.look.has_row() { shown.meter.row(ROW_COLUMNS) } else { Vec::new() };
            let beside = Beside { row, ..Beside::default() };
            lines.push(self.plan.line(&shown.look, &reading, &beside, columns));
        }
        if self.is_single {
            lines.iter().for_each(|line| screen.show(line));
        } else {
            screen.show_block(&lines);
        }
    }
}

impl WatchedLine {
    /// Looks where the descriptor is; answers whether there is one still.
    fn follow(&mut self) -> bool {
        let position = self.descriptor.position();
        self.position = position.unwrap_or(self.position);
        position.is_some()
    }

    fn has_gone(&self) -> bool {
        self.descriptor.position().is_none()
    }
}

/// `path` in at most `columns`, as pv shortens paths: a quarter of the beginning, and the end.
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
