//! `--pipeline` and `--here`: the stages and pipes of pipelines that already run, and which stage
//! holds the others up. No byte is touched.

mod counts;
mod find;
mod look;
mod sample;
mod text;
mod verdict;

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::os::unix::fs::FileTypeExt;
use std::process::ExitCode;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use gush_process::others::{self, Activity, Peer};
use gush_text::{exact_bytes, os_text};
use rustix::io::Errno;
use rustix::pipe::fcntl_getpipe_size;

use super::args::PvArgs;
use super::onlooker::{Onlooker, SLICE};
use super::screen::Screen;
use super::signals::lock;
use super::status::Status;
use crate::console::{self, Console, write_out};
use find::{Facts, Processes, Seen, pipelines};
use look::{Look, Tracked};
use sample::open_end;

/// Which pipelines to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    Process(i32),
    Group(i32),
    /// Those of this terminal, or of this session without one.
    Here,
}

impl FromStr for Selector {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(pid @ 1..) => Ok(Self::Process(pid)),
            Ok(group @ i32::MIN..-1) => Ok(Self::Group(group.saturating_neg())),
            _ => Err("expected a PID, or a process group as -PGID"),
        }
    }
}

/// How long one look may take until the verdict is certain; four times that on a machine too busy
/// for the samples.
const LONGEST_LOOK: Duration = Duration::from_secs(3);
/// How long to wait between samples that decide about the end of one look.
const SHORTEST_LOOK: Duration = Duration::from_secs(1);

/// Shows the pipelines until they end, or once.
///
/// # Errors
/// The status; the error has been reported.
pub fn run(options: &PvArgs, selector: Selector, console: &Console) -> Result<Status, Status> {
    let watcher = Watcher::begin(selector).map_err(|why| Status::OTHER.report(console, why))?;
    if options.widen {
        watcher.widen(console);
    }
    if options.once {
        return once(watcher, options, console);
    }
    let screen = Screen::new(options, console);
    if !screen.is_used() && !options.display.quiet && !options.json {
        let why = "standard error is not a terminal: use --once, -n, --json, or -f";
        return Err(Status::OTHER.report(console, why));
    }
    let onlooker = Onlooker::begin(screen, console)?;
    let written = match onlooker.signals.write_pid(options, console) {
        Ok(()) => follow(watcher, options, &onlooker),
        Err(status) => {
            onlooker.end();
            return Err(status);
        }
    };
    let mut status = onlooker.end();
    if let Err(error) = written {
        console.fail_output(&error);
        status.add(Status::TRANSFER);
    }
    Ok(status)
}

/// One look at the pipeline of a process, for `gush doctor pipeline`.
pub fn look_once(pid: &str, json: bool, console: &Console) -> ExitCode {
    let begun = Selector::from_str(pid).map_err(str::to_owned).and_then(Watcher::begin);
    let options = PvArgs { json, ..PvArgs::default() };
    let begun = begun.map_err(|why| Status::OTHER.report(console, why));
    match begun.and_then(|watcher| once(watcher, &options, console)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn lines(options: &PvArgs, looks: &[Look], columns: usize) -> Vec<String> {
    let PvArgs { json, display, .. } = options;
    let columns = display.columns().unwrap_or(columns);
    let lines = |look: &Look| match display.numeric {
        // Numbers and names always serialize.
        _ if *json => vec![serde_json::to_string(look).unwrap_or_default()],
        true => vec![text::numbers(look)],
        false => text::lines(look, display.unit(false), columns),
    };
    let blocks = looks.iter().map(lines).collect::<Vec<_>>();
    match *json || display.numeric {
        true => blocks.concat(),
        false => blocks.join(&String::new()),
    }
}

fn print(options: &PvArgs, looks: &[Look]) -> io::Result<()> {
    let is_cut = io::stdout().is_terminal();
    let lines = lines(options, looks, if is_cut { console::columns() } else { usize::MAX });
    write_out(lines.iter().map(|line| format!("{line}\n")).collect::<String>().as_bytes())
}

/// Looks until the verdict is certain, for 1 to 3 s.
fn once(mut watcher: Watcher, options: &PvArgs, console: &Console) -> Result<Status, Status> {
    let mut due = SHORTEST_LOOK;
    while watcher.sample() {
        let now = watcher.now();
        let has_all = |is_so: fn(&Tracked) -> bool| watcher.tracked.iter().all(is_so);
        if now >= LONGEST_LOOK && has_all(Tracked::is_due)
            || now >= due && has_all(Tracked::is_decided)
            || now >= LONGEST_LOOK * 4
        {
            break;
        }
        // A verdict that is tried at each sample would be wrong more often.
        due = if now >= due { due + SHORTEST_LOOK } else { due };
        thread::sleep(SLICE);
    }
    let looks = watcher.looks();
    if looks.is_empty() {
        return Err(Status::OTHER.report(console, "the pipeline has ended"));
    }
    print(options, &looks).map_err(|error| {
        console.fail_output(&error);
        Status::TRANSFER
    })?;
    Ok(Status::default())
}

/// Shows a look each interval until the pipelines have ended, or a signal comes. Lines for programs
/// go to standard output.
fn follow(mut watcher: Watcher, options: &PvArgs, onlooker: &Onlooker) -> io::Result<()> {
    let interval = options.display.interval();
    let mut written = Ok(());
    onlooker.follow(interval, |is_due| {
        let goes_on = watcher.sample();
        if goes_on && is_due {
            watcher.search_if_cheap(interval);
            let looks = watcher.looks();
            if options.json || options.display.numeric {
                written = print(options, &looks);
            } else {
                let lines = lines(options, &looks, console::columns());
                lock(&onlooker.screen).show_block(&lines);
            }
        }
        goes_on && written.is_ok()
    });
    written
}

/// Pipelines that are sampled.
struct Watcher {
    selector: Selector,
    began: Instant,
    tracked: Vec<Tracked>,
    /// What the last search for processes cost.
    search: Duration,
}

impl Watcher {
    fn begin(selector: Selector) -> Result<Self, String> {
        if let Selector::Process(pid) = selector {
            let about = |error: &io::Error| format!("pid {pid}: {}", os_text(error));
            if others::stat(pid).is_none() {
                return Err(about(&Errno::SRCH.into()));
            }
            if let Err(error) = others::descriptors(pid) {
                return Err(format!(
                    "{} (a process of another user can be inspected with CAP_SYS_PTRACE only)",
                    about(&error)
                ));
            }
        }
        let mut watcher =
            Self { selector, began: Instant::now(), tracked: Vec::new(), search: Duration::ZERO };
        watcher.search();
        match (watcher.tracked.is_empty(), selector) {
            (false, _) => Ok(watcher),
            (_, Selector::Process(pid)) => Err(format!(
                "pid {pid}: not a stage of a pipeline: no pipe or connection leads to \
                             another process"
            )),
            (_, Selector::Group(group)) => Err(format!("process group {group}: no pipeline")),
            (_, Selector::Here) => Err("no pipeline runs in this terminal or session".to_owned()),
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Takes a sample of each pipeline; returns whether there is still one.
    fn sample(&mut self) -> bool {
        let now = self.now();
        let are_whole: Vec<bool> = self.tracked.iter_mut().map(|one| one.sample(now)).collect();
        if are_whole.contains(&false) {
            self.search();
        }
        !self.tracked.is_empty()
    }

    fn search_if_cheap(&mut self, interval: Duration) {
        if self.search * 50 < interval {
            self.search();
        }
    }

    fn search(&mut self) {
        let begin = Instant::now();
        let processes = processes();
        let now = self.now();
        // The stages that are left may be the children of a process that has ended.
        let known = self.tracked.iter().flat_map(|one| &one.graph.stages);
        let mut seeds = seeds(self.selector, &processes);
        seeds.extend(known.filter(|pid| processes.contains_key(pid)));
        let mut before = std::mem::take(&mut self.tracked);
        let mut graphs = pipelines(&processes, &seeds, &Kernel);
        // What reads our own output, or is captured from elsewhere, is no pipeline of its own.
        graphs.retain(|graph| self.selector != Selector::Here || graph.stages.len() > 1);
        for graph in graphs {
            let old = before.iter().position(|old| old.graph == graph);
            self.tracked.push(match old.map(|old| before.swap_remove(old)) {
                Some(mut old) => {
                    old.find_files(&processes);
                    old
                }
                None => Tracked::new(graph, &processes, now),
            });
        }
        self.search = begin.elapsed();
    }

    fn looks(&mut self) -> Vec<Look> {
        let now = self.now();
        self.tracked.iter_mut().map(|one| one.look(now)).collect()
    }

    /// Enlarges all pipes, and reports the sizes. They stay: the stages are not ours.
    fn widen(&self, console: &Console) {
        for edge in self.tracked.iter().flat_map(|one| &one.graph.edges) {
            let Some(end) = open_end(edge) else { continue };
            let Ok(before) = fcntl_getpipe_size(&end) else { continue };
            let after = gush::pipe::enlarge(&end).unwrap_or(before);
            let bytes = |bytes: usize| exact_bytes(bytes as u64);
            console.say(match after > before {
                true => format!(
                    "{}: {} instead of {}",
                    edge.name.display(),
                    bytes(after),
                    bytes(before)
                ),
                false => format!("{}: stays at {}", edge.name.display(), bytes(before)),
            });
        }
    }
}

/// All processes but this one.
fn processes() -> Processes {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let pids = others::pids().unwrap_or_default().into_iter().filter(|pid| *pid != own);
    let seen =
        |pid| Some((pid, Seen { stat: others::stat(pid)?, open: others::descriptors(pid).ok() }));
    pids.filter_map(seen).collect()
}

fn seeds(selector: Selector, processes: &Processes) -> Vec<i32> {
    let own = others::stat(i32::try_from(std::process::id()).unwrap_or(0));
    let is_here = |seen: &Seen| {
        own.as_ref().is_some_and(|own| match own.terminal {
            0 => seen.stat.session == own.session,
            terminal => seen.stat.terminal == terminal,
        })
    };
    match selector {
        Selector::Process(pid) => vec![pid],
        Selector::Group(group) => of(processes, |seen| seen.stat.group == group),
        Selector::Here => of(processes, is_here),
    }
}

fn of(processes: &Processes, is_wanted: impl Fn(&Seen) -> bool) -> Vec<i32> {
    let wanted = processes.iter().filter(|(_, seen)| is_wanted(seen));
    wanted.map(|(pid, _)| *pid).collect()
}

/// The facts from the kernel.
struct Kernel;

impl Facts for Kernel {
    fn is_fifo(&self, pid: i32, fd: i32) -> bool {
        let file = std::fs::metadata(format!("/proc/{pid}/fd/{fd}"));
        file.is_ok_and(|file| file.file_type().is_fifo())
    }

    fn waits_for_child(&self, pid: i32) -> bool {
        others::activity(pid, pid) == Activity::Child
    }

    fn peers(&self) -> HashMap<u64, Peer> {
        // Without them connections are no edges.
        others::peers().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_process_or_a_group() {
        assert_eq!("12".parse(), Ok(Selector::Process(12)));
        assert_eq!("-12".parse(), Ok(Selector::Group(12)));
        for odd in ["", "0", "-1", "x", "1:2"] {
            assert!(odd.parse::<Selector>().is_err(), "{odd}");
        }
    }
}
