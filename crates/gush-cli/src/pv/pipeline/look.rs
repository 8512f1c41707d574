//! What one look at a pipeline shows: figures of the stages and pipes, and the verdict.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use gush_process::others::{self, OpenFd};
use serde::Serialize;

use super::super::process::Descriptor;
use super::counts::{Counts, Moved};
use super::find::{Graph, Processes};
use super::sample::{Sample, Sampler, StageState};
use super::verdict::{
    LEAST_SAMPLES, MOSTLY, Verdict, Why, level_shares, processors, remedy, share_of, state_shares,
    verdict,
};

/// A pipeline that is looked at again and again.
pub struct Tracked {
    pub graph: Graph,
    sampler: Sampler,
    samples: Vec<Sample>,
    commands: Vec<String>,
    files: Vec<Option<StageFile>>,
    /// Whether a stage was seen to read and to write regular files: its counts are not those of its
    /// pipes alone.
    uses_files: Vec<[bool; 2]>,
    /// Whether a stage was seen to read and to write without a call that counts.
    splices: Vec<[bool; 2]>,
    /// Read and written bytes of the processes at the last look, and those in the pipes.
    moved: HashMap<i32, [u64; 2]>,
    fills: Option<Vec<u64>>,
    looked_at: Duration,
    ticks_per_second: f64,
}

/// The largest file that a stage reads or writes.
struct StageFile {
    descriptor: Descriptor,
    is_read: bool,
    is_written: bool,
    last: u64,
}

/// The samples of a verdict: 2 s.
const MOST_SAMPLES: usize = 40;

/// More stages are not named in a sentence.
const MOST_NAMES: usize = 8;

impl Tracked {
    pub fn new(graph: Graph, processes: &Processes, now: Duration) -> Self {
        let commands = graph.stages.iter().map(|&pid| others::command(pid)).collect();
        let sampler = Sampler::new(&graph, processes);
        let mut tracked = Self {
            uses_files: vec![[false; 2]; graph.stages.len()],
            files: graph.stages.iter().map(|_| None).collect(),
            splices: vec![[false; 2]; graph.stages.len()],
            fills: None,
            graph,
            sampler,
            samples: Vec::new(),
            commands,
            moved: HashMap::new(),
            looked_at: now,
            ticks_per_second: rustix::param::clock_ticks_per_second() as f64,
        };
        tracked.find_files(processes);
        tracked.counts();
        tracked
    }

    /// Looks for the files again: a stage may have opened the next.
    pub fn find_files(&mut self, processes: &Processes) {
        for (&pid, known) in self.graph.stages.iter().zip(&mut self.files) {
            let before = known.take();
            *known = file_of(pid, processes);
            if let (Some(file), Some(before)) = (known, before)
                && file.descriptor.path == before.descriptor.path
            {
                file.last = before.last;
            }
        }
        for (&pid, uses) in self.graph.stages.iter().zip(&mut self.uses_files) {
            for open in regular_files(pid, processes) {
                *uses = [uses[0] || open.reads, uses[1] || open.writes];
            }
        }
    }

    /// Takes a sample; returns whether all stages are still there.
    pub fn sample(&mut self, now: Duration) -> bool {
        let Some(sample) = self.sampler.take(now) else { return false };
        for (seen, splices) in self.splices.iter_mut().zip(&sample.splices) {
            *seen = seen.map(|seen| seen || *splices);
        }
        if self.samples.len() >= MOST_SAMPLES {
            self.samples.remove(0);
        }
        self.samples.push(sample);
        true
    }

    /// Whether there are enough samples for a verdict.
    pub fn is_due(&self) -> bool {
        self.samples.len() >= LEAST_SAMPLES
    }

    /// Whether nothing is gained by further samples of one look.
    pub fn is_decided(&self) -> bool {
        self.is_due() && matches!(self.verdict(), Verdict::Certain { .. })
    }

    fn verdict(&self) -> Verdict {
        verdict(&self.graph, &self.samples, self.ticks_per_second)
    }

    /// What was moved until now, and since the last look.
    fn counts(&mut self) -> Counts {
        let calls = |&pid: &i32| {
            let (read, written) = others::moved_bytes(pid)?;
            let totals = [read, written];
            let before = self.moved.insert(pid, totals).unwrap_or(totals);
            let moved = |side: usize| {
                let total = totals[side];
                Moved { total, recent: total.saturating_sub(before[side]) }
            };
            Some([moved(0), moved(1)])
        };
        let calls = self.graph.stages.iter().map(calls).collect();
        let of_file = |file: &mut Option<StageFile>| {
            let moved = file.as_mut().and_then(StageFile::moved);
            let sides = file.as_ref().map(|file| [file.is_read, file.is_written]);
            sides.unwrap_or_default().map(|has| moved.filter(|_| has))
        };
        let files = self.files.iter_mut().map(of_file).collect();
        let fills = |sample: &Sample| -> Vec<u64> {
            sample.fills.iter().map(|fill| fill.map_or(0, |fill| fill.bytes)).collect()
        };
        let now = self.samples.last().map_or_else(|| vec![0; self.graph.edges.len()], fills);
        // Before the first look they are those of the first sample.
        let first = self.samples.first().map(fills);
        let before = self.fills.take().or(first).unwrap_or_else(|| now.clone());
        self.fills = self.samples.last().map(|_| now.clone());
        let fills = now.into_iter().zip(before).map(|(now, before)| [now, before]).collect();
        let (uses_files, splices) = (self.uses_files.clone(), self.splices.clone());
        Counts { calls, files, uses_files, fills, splices }
    }

    /// Finds stages at pipes that are filled, or emptied, without a call that counts.
    fn find_splices(&mut self, sides: &[[Option<Moved>; 2]]) {
        let is_uncounted = |stage: usize, side: usize| {
            sides[stage][side].is_some_and(|moved: Moved| moved.recent == 0)
        };
        for (place, edge) in self.graph.edges.iter().enumerate() {
            let fills = || self.samples.iter().filter_map(|sample| sample.fills[place]);
            for (before, after) in fills().zip(fills().skip(1)) {
                let (side, stages) = match after.bytes.cmp(&before.bytes) {
                    Ordering::Less => (0, &edge.readers),
                    Ordering::Equal => continue,
                    Ordering::Greater => (1, &edge.writers),
                };
                if let [stage] = stages[..] {
                    self.splices[stage][side] |= is_uncounted(stage, side);
                }
            }
        }
    }

    /// The figures since the last look.
    pub fn look(&mut self, now: Duration) -> Look {
        let seconds = now.saturating_sub(self.looked_at).as_secs_f64().max(1e-3);
        self.looked_at = now;
        let mut counts = self.counts();
        let sides = counts.sides(&self.graph);
        self.splices.clone_from(&counts.splices);
        self.find_splices(&sides);
        let stages = (0..self.graph.stages.len()).map(|stage| {
            let pid = self.graph.stages[stage];
            let moved = counts.files[stage].into_iter().flatten().next();
            let file = self.files[stage].as_ref().zip(moved);
            // What a splice moves may show nowhere, and then not in a neighbour that splices, too.
            let neighbours = self.graph.inputs_of(stage).chain(self.graph.outputs_of(stage));
            let neighbours = neighbours.flat_map(|edge| {
                let edge = &self.graph.edges[edge];
                edge.writers.iter().chain(&edge.readers)
            });
            let mut neighbours = neighbours.chain([&stage]);
            let splices = neighbours.any(|&other| self.splices[other] != [false; 2]);
            let is_known = |moved: &Moved| !splices || moved.recent > 0;
            let [into, out] = sides[stage].map(|side| side.filter(is_known));
            StageLook {
                pid,
                inner_pid: others::inner_pid(pid).filter(|inner| *inner != pid),
                command: self.commands[stage].clone(),
                processors: processors(&self.samples, stage, self.ticks_per_second),
                states: state_shares(&self.samples, stage)
                    .into_iter()
                    .map(|(state, share)| StateLook { state: state_name(state), share })
                    .collect(),
                bytes_in: into.map(|moved| moved.total),
                bytes_out: out.map(|moved| moved.total),
                rate_in: into.map(|moved| moved.recent as f64 / seconds),
                rate_out: out.map(|moved| moved.recent as f64 / seconds),
                file: file.map(|(file, moved)| file.look(moved, seconds)),
            }
        });
        let stages = stages.collect();
        let edges = self.graph.edges.iter().enumerate().map(|(place, edge)| {
            let (full, empty) = level_shares(&self.samples, place);
            let fill = self.samples.last().and_then(|sample| sample.fills[place]);
            let pids =
                |places: &[usize]| places.iter().map(|&stage| self.graph.stages[stage]).collect();
            EdgeLook {
                name: edge.name.to_string_lossy().into_owned(),
                writers: pids(&edge.writers),
                readers: pids(&edge.readers),
                fill_bytes: fill.map(|fill| fill.bytes),
                capacity_bytes: fill.and_then(|fill| fill.capacity_bytes),
                full,
                empty,
            }
        });
        Look {
            elapsed_seconds: now.as_secs_f64(),
            stages,
            edges: edges.collect(),
            hidden: self.graph.hidden.clone(),
            verdict: self.verdict_look(),
        }
    }

    fn verdict_look(&self) -> VerdictLook {
        let named = |stage| self.named(stage);
        let all = |stages: &[usize], word: &str| {
            let mut names: Vec<String> =
                stages.iter().take(MOST_NAMES).map(|&stage| named(stage)).collect();
            if let more @ 1.. = stages.len() - names.len() {
                names.push(format!("{more} more"));
            }
            names.join(word)
        };
        let open = |seen: String, remedy| VerdictLook {
            certain: false,
            pid: None,
            what: seen,
            because: None,
            remedy,
        };
        match self.verdict() {
            Verdict::Certain { stage, why } => {
                let pid = self.graph.stages[stage];
                VerdictLook {
                    certain: true,
                    pid: Some(pid),
                    what: format!("{} {}", named(stage), does(why)),
                    because: Some(self.evidence(stage)),
                    remedy: remedy(&self.commands[stage], pid, why),
                }
            }
            Verdict::Turns { edge } => {
                let edge = &self.graph.edges[edge];
                let seen = format!(
                    "{} and {} wait for each other in turns",
                    all(&edge.writers, ", "),
                    all(&edge.readers, ", ")
                );
                open(seen, Some("a larger pipe: --widen".to_owned()))
            }
            Verdict::Open { .. } if self.samples.len() < LEAST_SAMPLES => {
                open("too few samples yet".to_owned(), None)
            }
            Verdict::Open { stages } if stages.is_empty() => {
                let seen = self.wait_for_unseen().unwrap_or_else(|| {
                    "no stage has a full pipe before it and an empty one after it".to_owned()
                });
                open(seen, None)
            }
            Verdict::Open { stages } => open(format!("it may be {}", all(&stages, " or ")), None),
        }
    }

    fn named(&self, stage: usize) -> String {
        let command = self.commands[stage].split(' ').next().unwrap_or_default();
        let name = command.rsplit('/').next().unwrap_or(command);
        format!("{name} ({})", self.graph.stages[stage])
    }

    /// A stage that mostly waits for a process that this user cannot inspect.
    fn wait_for_unseen(&self) -> Option<String> {
        self.graph.edges.iter().enumerate().find_map(|(at, edge)| {
            let (full, empty) = level_shares(&self.samples, at);
            let (stages, state, level, other) = match (&edge.writers[..], &edge.readers[..]) {
                (writers, []) => (writers, StageState::Output, full, "reader of its output"),
                ([], readers) => (readers, StageState::Input, empty, "writer of its input"),
                _ => return None,
            };
            let waits = |stage: &usize| {
                let shares = state_shares(&self.samples, *stage);
                share_of(&shares, state) + share_of(&shares, StageState::Unseen) >= MOSTLY
            };
            let stage = stages.iter().copied().find(|stage| level >= MOSTLY && waits(stage))?;
            let stage = self.named(stage);
            Some(format!("{stage} waits for the {other}, which only root can inspect"))
        })
    }

    /// The pipes on both sides of a stage.
    fn evidence(&self, stage: usize) -> String {
        let share = |edges: &mut dyn Iterator<Item = usize>, is_full: bool| {
            let visible = edges.filter(|&edge| self.graph.is_visible(edge));
            let shares = visible.map(|edge| {
                let (full, empty) = level_shares(&self.samples, edge);
                if is_full { full } else { empty }
            });
            shares.reduce(f64::min).map(|share| share * 100.0)
        };
        let before = share(&mut self.graph.inputs_of(stage), true);
        let after = share(&mut self.graph.outputs_of(stage), false);
        let before = before.map(|share| format!("the pipe before it is full ({share:.0}%)"));
        let after = after.map(|share| format!("the pipe after it is empty ({share:.0}%)"));
        [before, after].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// The regular files that a process has open, but for its messages.
fn regular_files(pid: i32, processes: &Processes) -> impl Iterator<Item = &OpenFd> {
    let open = processes.get(&pid).into_iter().flat_map(|process| process.open.iter().flatten());
    open.filter(move |open| {
        let is_file = || fs::metadata(format!("/proc/{pid}/fd/{}", open.fd)).map(|of| of.is_file());
        open.target.has_root() && open.fd != 2 && is_file().unwrap_or(false)
    })
}

fn file_of(pid: i32, processes: &Processes) -> Option<StageFile> {
    let open = processes.get(&pid)?.open.iter().flatten();
    let paths = open.filter(|open| open.target.has_root() && open.fd != 2);
    let files = paths.filter_map(|open| Some((Descriptor::of(pid, open.fd).ok()?, open)));
    let (descriptor, open) = files.max_by_key(|(file, _)| file.size_bytes)?;
    let last = descriptor.position()?;
    let says_something = descriptor.size_bytes.is_some() || last > 0;
    let (is_read, is_written) = (open.reads, open.writes);
    says_something.then_some(StageFile { descriptor, is_read, is_written, last })
}

impl StageFile {
    fn moved(&mut self) -> Option<Moved> {
        let total = self.descriptor.position()?;
        Some(Moved {
            total,
            recent: total.saturating_sub(std::mem::replace(&mut self.last, total)),
        })
    }

    fn look(&self, moved: Moved, seconds: f64) -> FileLook {
        let (position, rate) = (moved.total, moved.recent as f64 / seconds);
        // A file that is mapped, or read at offsets, stays at 0.
        let size = self.descriptor.size_bytes.filter(|_| position > 0);
        let left = size.map(|size| size.saturating_sub(position) as f64);
        FileLook {
            path: self.descriptor.path.to_string_lossy().into_owned(),
            position,
            size_bytes: self.descriptor.size_bytes,
            percent: size.map(|size| (position as f64 / size as f64 * 100.0).min(100.0)),
            left_seconds: left.filter(|_| rate > 0.0).map(|left| left / rate),
        }
    }
}

fn state_name(state: StageState) -> &'static str {
    match state {
        StageState::Input => "input",
        StageState::Output => "output",
        StageState::Unseen => "unseen pipe",
        StageState::Computes => "computes",
        StageState::Disk => "disk",
        StageState::Sleeps => "sleeps",
        StageState::Event => "event",
        StageState::Terminal => "terminal",
        StageState::Lock => "lock",
        StageState::Child => "child",
        StageState::Stopped => "stopped",
        StageState::Other => "other",
    }
}

fn does(why: Why) -> String {
    let percent = |share: f64| format!("{:.0}% of a processor", share * 100.0);
    match why {
        Why::Computes(share) => format!("computes, with {}", percent(share)),
        Why::Crowded(share) => format!("could compute, and gets only {}", percent(share)),
        Why::Waits(state) => match state {
            StageState::Disk => "waits for a disk",
            StageState::Sleeps => "sleeps",
            StageState::Event => "waits for an event, such as the network or a timer",
            StageState::Terminal => "waits for the terminal",
            StageState::Lock => "waits for a lock",
            StageState::Child => "waits for a child or a signal",
            StageState::Stopped => "is stopped",
            StageState::Unseen => "waits at a pipe whose other end cannot be seen",
            StageState::Input | StageState::Output | StageState::Computes | StageState::Other => {
                "waits"
            }
        }
        .to_owned(),
    }
}

/// The schema of `--json`. Rates are bytes a second, shares parts of the samples.
#[derive(Debug, Serialize)]
pub struct Look {
    pub elapsed_seconds: f64,
    pub stages: Vec<StageLook>,
    pub edges: Vec<EdgeLook>,
    /// Processes of the same group that cannot be inspected.
    pub hidden: Vec<i32>,
    pub verdict: VerdictLook,
}

#[derive(Debug, Serialize)]
pub struct StageLook {
    pub pid: i32,
    /// The PID in the container of the process.
    pub inner_pid: Option<i32>,
    pub command: String,
    pub processors: f64,
    pub states: Vec<StateLook>,
    pub bytes_in: Option<u64>,
    pub bytes_out: Option<u64>,
    pub rate_in: Option<f64>,
    pub rate_out: Option<f64>,
    pub file: Option<FileLook>,
}

#[derive(Debug, Serialize)]
pub struct StateLook {
    pub state: &'static str,
    pub share: f64,
}

#[derive(Debug, Serialize)]
pub struct FileLook {
    pub path: String,
    pub position: u64,
    pub size_bytes: Option<u64>,
    pub percent: Option<f64>,
    pub left_seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
pub struct EdgeLook {
    pub name: String,
    pub writers: Vec<i32>,
    pub readers: Vec<i32>,
    pub fill_bytes: Option<u64>,
    pub capacity_bytes: Option<u64>,
    pub full: f64,
    pub empty: f64,
}

#[derive(Debug, Serialize)]
pub struct VerdictLook {
    pub certain: bool,
    /// The stage that holds the others up.
    pub pid: Option<i32>,
    pub what: String,
    pub because: Option<String>,
    #[serde(rename = "try")]
    pub remedy: Option<String>,
}
