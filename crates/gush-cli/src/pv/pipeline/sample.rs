//! What the stages do and how full the pipes are at one moment.
//!
//! To ask a pipe, its end is opened for microseconds through /proc, which is a description of its
//! own: no flag of the stages changes. While it is open the pipe has one reader (or writer) more,
//! so the end of the last one shows to the other side when ours is closed. It is opened as an end
//! that a stage holds at that moment, and never as the reader of a pipe that has lost its readers:
//! a write to such a pipe must fail.

use std::collections::HashMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gush_process::others::{self, Activity, Peer};
use rustix::fs::{Mode, OFlags};
use rustix::io::ioctl_fionread;
use rustix::pipe::fcntl_getpipe_size;

use super::find::{Edge, Graph, Processes};

/// What a stage does, as far as that matters to the others; the busiest state first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StageState {
    Computes,
    Disk,
    /// Waits for a stage to take its output, or for input from one.
    Output,
    Input,
    /// Waits at a pipe whose other end cannot be seen.
    Unseen,
    Sleeps,
    Terminal,
    /// Waits for one of several events, such as the network or a time.
    Event,
    Stopped,
    Lock,
    Child,
    Other,
}

/// How full a pipe is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Full,
    Empty,
    Between,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    pub bytes: u64,
    /// None of a connection.
    pub capacity_bytes: Option<u64>,
}

impl Fill {
    /// A pipe has slots, not bytes: a writer of short pieces may wait at three quarters.
    fn level(self) -> Level {
        match (self.bytes, self.capacity_bytes) {
            (0, _) => Level::Empty,
            // A reader that keeps up leaves less in a socket.
            (bytes, None) if bytes >= 64 << 10 => Level::Full,
            (_, None) => Level::Between,
            (bytes, Some(capacity)) if bytes * 4 >= capacity * 3 => Level::Full,
            (bytes, Some(capacity)) if bytes * 16 <= capacity => Level::Empty,
            _ => Level::Between,
        }
    }
}

/// One moment: a value for each stage or each edge.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    pub at: Duration,
    pub states: Vec<StageState>,
    pub levels: Vec<Level>,
    pub fills: Vec<Option<Fill>>,
    /// Processor time since the start of the process, in clock ticks.
    pub busy_ticks: Vec<u64>,
    /// Whether a thread waits in a splice.
    pub splices: Vec<bool>,
}

/// Where the descriptors of a pipeline lead, as of the last search.
#[derive(Debug)]
pub struct Sampler {
    graph: Graph,
    edges: HashMap<(i32, i32), usize>,
    targets: HashMap<(i32, i32), PathBuf>,
}

/// More threads of one process are not looked at.
const MOST_THREADS: usize = 64;

impl Sampler {
    pub fn new(graph: &Graph, processes: &Processes) -> Self {
        let mut edges = HashMap::new();
        for (place, edge) in graph.edges.iter().enumerate() {
            edges.extend(edge.written.iter().chain(&edge.read).map(|end| (*end, place)));
        }
        let open = graph.stages.iter().flat_map(|&pid| {
            let open =
                processes.get(&pid).and_then(|seen| seen.open.as_ref()).into_iter().flatten();
            open.map(move |open| ((pid, open.fd), open.target.clone()))
        });
        Self { graph: graph.clone(), edges, targets: open.collect() }
    }

    /// None if a stage has ended.
    pub fn take(&self, at: Duration) -> Option<Sample> {
        let (mut activities, mut busy_ticks) = (Vec::new(), Vec::new());
        for &pid in &self.graph.stages {
            let stat = others::stat(pid).filter(|stat| !matches!(stat.state, 'Z' | 'X'))?;
            busy_ticks.push(stat.busy_ticks);
            let threads = if stat.threads > 1 { others::threads(pid) } else { vec![pid] };
            let threads = threads.into_iter().take(MOST_THREADS);
            activities.push(threads.map(|tid| others::activity(pid, tid)).collect::<Vec<_>>());
        }
        let fills = self.fills();
        let levels = self.levels(&fills, &activities);
        let states = activities.iter().enumerate().map(|(stage, own)| {
            // For the busiest thread the others only wait.
            let states = own.iter().map(|&activity| self.state(stage, activity, &levels));
            states.min().unwrap_or(StageState::Other)
        });
        let is_splice = |activity: &Activity| matches!(activity, Activity::Splices(..));
        let splices = activities.iter().map(|own| own.iter().any(is_splice)).collect();
        Some(Sample { at, states: states.collect(), levels, fills, busy_ticks, splices })
    }

    fn fills(&self) -> Vec<Option<Fill>> {
        let has_sockets = self.graph.edges.iter().any(|edge| edge.socket.is_some());
        let peers = if has_sockets { others::peers().ok() } else { None };
        let fill = |edge: &Edge| match edge.socket {
            None => fill(edge),
            Some(socket) => {
                let peers = peers.as_ref()?;
                let Peer { inode, unread_bytes, .. } = peers.get(&socket)?;
                // Of a Unix socket both queues count the same bytes.
                let unsent = peers.get(inode).filter(|peer| !peer.is_unix);
                let bytes = unread_bytes + unsent.map_or(0, |peer| peer.unsent_bytes);
                Some(Fill { bytes, capacity_bytes: None })
            }
        };
        self.graph.edges.iter().map(fill).collect()
    }

    /// A wait at an end outweighs the bytes, which a pipe of short pieces has few of.
    fn levels(&self, fills: &[Option<Fill>], activities: &[Vec<Activity>]) -> Vec<Level> {
        let mut levels: Vec<Level> =
            fills.iter().map(|fill| fill.map_or(Level::Unknown, Fill::level)).collect();
        let all = activities.iter().enumerate();
        for (stage, activity) in all.flat_map(|(s, own)| own.iter().map(move |&one| (s, one))) {
            let (wanted, edge) = match activity {
                Activity::Writes(fd) => (Level::Full, self.only_edge(stage, fd, false)),
                Activity::Reads(fd) => (Level::Empty, self.only_edge(stage, fd, true)),
                _ => continue,
            };
            if let Some(edge) = edge {
                // Seen one after the other, the states of the two sides may contradict.
                let opposite = if wanted == Level::Full { Level::Empty } else { Level::Full };
                levels[edge] = match levels[edge] {
                    level
                        if level == opposite && fills[edge].is_some_and(|f| f.level() != level) =>
                    {
                        Level::Between
                    }
                    _ => wanted,
                };
            }
        }
        levels
    }

    /// The edge of a descriptor; without its number that of a stage with one edge only.
    fn only_edge(&self, stage: usize, fd: Option<i32>, reads: bool) -> Option<usize> {
        if let Some(fd) = fd {
            return self.edges.get(&(self.graph.stages[stage], fd)).copied();
        }
        match self.graph.edges_at(stage, usize::from(!reads))[..] {
            [edge] => Some(edge),
            _ => None,
        }
    }

    fn state(&self, stage: usize, activity: Activity, levels: &[Level]) -> StageState {
        let pid = self.graph.stages[stage];
        let at = |fd: Option<i32>, reads: bool| match self.only_edge(stage, fd, reads) {
            Some(edge) => match (&self.graph.edges[edge], reads) {
                (Edge { writers, .. }, true) if writers.is_empty() => StageState::Unseen,
                (Edge { readers, .. }, false) if readers.is_empty() => StageState::Unseen,
                (_, true) => StageState::Input,
                (_, false) => StageState::Output,
            },
            None => self.elsewhere(pid, fd, reads),
        };
        let is_full = |edge: usize| levels[edge] == Level::Full;
        let is_empty = |edge: usize| levels[edge] == Level::Empty;
        match activity {
            Activity::Computes => StageState::Computes,
            Activity::Reads(fd) => at(fd, true),
            Activity::Writes(fd) => at(fd, false),
            Activity::Splices(from, to) => {
                match (self.edges.get(&(pid, from)), self.edges.get(&(pid, to))) {
                    (_, Some(&edge)) if is_full(edge) => at(Some(to), false),
                    (Some(&edge), _) if is_empty(edge) => at(Some(from), true),
                    (None, _) => self.elsewhere(pid, Some(from), true),
                    _ => StageState::Other,
                }
            }
            // A call for several events does not say which.
            Activity::Polls if self.graph.outputs_of(stage).any(is_full) => StageState::Output,
            Activity::Polls if self.graph.inputs_of(stage).any(is_empty) => StageState::Input,
            Activity::Polls => StageState::Event,
            Activity::Disk => StageState::Disk,
            Activity::Sleeps => StageState::Sleeps,
            Activity::Lock => StageState::Lock,
            Activity::Child => StageState::Child,
            Activity::Stopped => StageState::Stopped,
            Activity::Ended | Activity::Other => StageState::Other,
        }
    }

    /// A wait at a descriptor that is no edge.
    fn elsewhere(&self, pid: i32, fd: Option<i32>, reads: bool) -> StageState {
        let Some(fd) = fd else {
            return if reads { StageState::Input } else { StageState::Output };
        };
        let target = self.targets.get(&(pid, fd)).map(|target| target.to_string_lossy());
        match target.as_deref().unwrap_or_default() {
            name if name.starts_with("socket:[") => StageState::Event,
            name if name.starts_with("pipe:[") => StageState::Unseen,
            name if name.starts_with("/dev/pts/") || name.starts_with("/dev/tty") => {
                StageState::Terminal
            }
            _ => StageState::Other,
        }
    }
}

/// Opens an end of a pipe: as its reader, or as its writer where no reader can be inspected.
pub fn open_end(edge: &Edge) -> Option<OwnedFd> {
    let readers = edge.read.iter().map(|end| (end, OFlags::RDONLY));
    let writers = edge.written.iter().map(|end| (end, OFlags::WRONLY));
    readers.chain(writers).find_map(|(&(pid, fd), mode)| {
        let link = format!("/proc/{pid}/fd/{fd}");
        // The number may have become that of another file, whose opening may have effects.
        if fs::read_link(Path::new(&link)).ok()? != edge.name {
            return None;
        }
        let flags = mode | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        rustix::fs::open(link, flags, Mode::empty()).ok()
    })
}

fn fill(edge: &Edge) -> Option<Fill> {
    let end = open_end(edge)?;
    let bytes = ioctl_fionread(&end).ok()?;
    let capacity = fcntl_getpipe_size(&end).ok()?;
    Some(Fill { bytes, capacity_bytes: u64::try_from(capacity).ok() })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_level_allows_for_slots_and_for_bytes_on_their_way() {
        let level = |bytes| Fill { bytes, capacity_bytes: Some(65536) }.level();
        let levels = [0, 4096, 4097, 49151, 49152].map(level);
        use Level::{Between, Empty, Full};
        assert_eq!(levels, [Empty, Empty, Between, Between, Full]);
        let queued = |bytes| Fill { bytes, capacity_bytes: None }.level();
        assert_eq!([0, 9, 1 << 20].map(queued), [Empty, Between, Full]);
    }

    /// Stage 0 writes to stage 1 by descriptor 1, which reads it as 0; stage 1 writes to stage 2.
    fn sampler() -> Sampler {
        let edge = |writer: usize, reader: usize| Edge {
            writers: vec![writer],
            readers: vec![reader],
            written: vec![(writer as i32, 1)],
            read: vec![(reader as i32, 0)],
            ..Edge::default()
        };
        let graph = Graph {
            stages: vec![0, 1, 2],
            edges: vec![edge(0, 1), edge(1, 2)],
            hidden: Vec::new(),
        };
        let mut sampler = Sampler::new(&graph, &Processes::new());
        sampler.targets.insert((1, 5), "socket:[9]".into());
        sampler
    }

    #[test]
    fn a_wait_is_for_the_pipe_of_the_call_or_by_how_full_the_pipes_are() {
        use Level::{Between, Empty, Full};
        for (activity, levels, state) in [
            (Activity::Reads(Some(0)), [Empty, Empty], StageState::Input),
            (Activity::Reads(None), [Empty, Empty], StageState::Input),
            (Activity::Reads(Some(5)), [Full, Empty], StageState::Event),
            (Activity::Writes(Some(1)), [Full, Full], StageState::Output),
            (Activity::Splices(0, 1), [Empty, Empty], StageState::Input),
            (Activity::Splices(0, 1), [Full, Full], StageState::Output),
            (Activity::Splices(0, 1), [Between, Between], StageState::Other),
            (Activity::Polls, [Empty, Empty], StageState::Input),
            (Activity::Polls, [Full, Full], StageState::Output),
            (Activity::Polls, [Full, Empty], StageState::Event),
        ] {
            assert_eq!(sampler().state(1, activity, &levels), state, "{activity:?} {levels:?}");
        }
        let busiest = [StageState::Lock, StageState::Input, StageState::Computes].into_iter().min();
        assert_eq!(busiest, Some(StageState::Computes));
    }

    #[test]
    fn a_writer_that_waits_shows_a_full_pipe_of_few_bytes() {
        let few = Some(Fill { bytes: 100, capacity_bytes: Some(65536) });
        let activities =
            vec![vec![Activity::Writes(Some(1))], vec![], vec![Activity::Reads(Some(0))]];
        let levels = sampler().levels(&[few, None], &activities);
        assert_eq!(levels, [Level::Full, Level::Empty]);
    }

    #[test]
    fn the_end_of_the_last_reader_reaches_the_writer_once_the_pipe_has_been_asked() {
        let (reader, writer) = std::io::pipe().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let link = fs::read_link(format!("/proc/self/fd/{}", reader.as_raw_fd())).unwrap();
        let edge = Edge {
            name: link,
            writers: vec![0],
            readers: vec![1],
            read: vec![(own, reader.as_raw_fd())],
            ..Edge::default()
        };
        (&writer).write_all(b"bytes").unwrap();
        assert_eq!(fill(&edge), Some(Fill { bytes: 5, capacity_bytes: Some(65536) }));
        let asked = open_end(&edge).unwrap();
        drop(reader);
        drop(asked);
        let refused = (&writer).write_all(b"more").unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::BrokenPipe);
        // Its number is gone: the pipe is not opened through the writer's.
        assert!(open_end(&edge).is_none());
    }
}
