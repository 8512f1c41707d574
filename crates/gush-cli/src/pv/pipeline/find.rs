//! The stages of pipelines and the pipes between them, from the descriptors of all processes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use gush_process::others::{OpenFd, Peer, Stat};

/// A process, as far as it can be seen.
#[derive(Clone, Debug)]
pub struct Seen {
    pub stat: Stat,
    /// None without permission.
    pub open: Option<Vec<OpenFd>>,
}

/// The processes by PID.
pub type Processes = BTreeMap<i32, Seen>;

/// What is asked about few processes only.
pub trait Facts {
    /// Whether the descriptor is of a named pipe.
    fn is_fifo(&self, pid: i32, fd: i32) -> bool;
    /// Whether the process only waits for a child or a signal.
    fn waits_for_child(&self, pid: i32) -> bool;
    /// The other ends of connected sockets.
    fn peers(&self) -> HashMap<u64, Peer>;
}

/// A pipe or a connection between stages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edge {
    /// A name such as `pipe:[4711]`, or the path of a named pipe.
    pub name: PathBuf,
    /// The socket of the reading end.
    pub socket: Option<u64>,
    /// Places of stages, ascending. Empty where none can be seen.
    pub writers: Vec<usize>,
    pub readers: Vec<usize>,
    pub written: End,
    pub read: End,
}

/// A pipeline, its stages in the order of the data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Processes.
    pub stages: Vec<i32>,
    pub edges: Vec<Edge>,
    /// Processes of the same process groups that cannot be inspected.
    pub hidden: Vec<i32>,
}

impl Graph {
    /// Whether stages are seen at both ends.
    pub fn is_visible(&self, edge: usize) -> bool {
        let edge = &self.edges[edge];
        !edge.writers.is_empty() && !edge.readers.is_empty()
    }

    pub fn inputs_of(&self, stage: usize) -> impl Iterator<Item = usize> {
        (0..self.edges.len())
            .filter(move |&edge| self.edges[edge].readers.binary_search(&stage).is_ok())
    }

    pub fn outputs_of(&self, stage: usize) -> impl Iterator<Item = usize> {
        (0..self.edges.len())
            .filter(move |&edge| self.edges[edge].writers.binary_search(&stage).is_ok())
    }

    /// The edges at the input of a stage, or at its output.
    pub fn edges_at(&self, stage: usize, side: usize) -> Vec<usize> {
        match side {
            0 => self.inputs_of(stage).collect(),
            _ => self.outputs_of(stage).collect(),
        }
    }
}

/// A process with more channels is a server: its other clients are not part of a pipeline.
const MOST_CHANNELS: usize = 16;

/// An end that a process holds of a pipe, or of a connection.
#[derive(Clone, Debug)]
struct Channel {
    /// The same for both ends.
    name: PathBuf,
    fds: Vec<i32>,
    reads: bool,
    writes: bool,
    /// Of a connection: the own socket and the other.
    socket: Option<(u64, Peer)>,
    /// Whether the process reads data from a pipe, or writes some into one.
    is_fed: bool,
    feeds: bool,
}

impl Channel {
    fn side(&self) -> (&Path, bool, bool) {
        (&self.name, self.reads, self.writes)
    }

    /// Whether data go through this end. Processes inherit pipes that they do not use, and clients
    /// of a message bus have sockets: data come or go by the standard descriptors of one side, or
    /// by what was opened under a name.
    fn is_data(&self) -> bool {
        match self.socket {
            Some((_, peer)) => self.reads || self.writes || !peer.is_unix,
            None => self.name.has_root() || self.fds.iter().any(|&fd| fd <= 1),
        }
    }

    /// Whether data go from this end to the other one of a connection: out of a pipe and into one.
    fn passes_to(&self, other: &Self) -> bool {
        let is_other_end = self.socket.zip(other.socket).is_some_and(|(own, far)| own.0 != far.0);
        is_other_end && self.is_fed && other.feeds
    }

    fn connects(&self, other: &Self) -> bool {
        self.is_data() || other.is_data() || self.passes_to(other) || other.passes_to(self)
    }
}

/// Whether data go through a channel with these ends.
fn has_data(ends: &[(i32, &Channel)]) -> bool {
    // Of a socket, all holders that are fed, or that feed, say the same.
    let chosen = |is_so: fn(&Channel) -> bool| -> BTreeMap<Option<u64>, &Channel> {
        let ends = ends.iter().filter(|(_, end)| is_so(end));
        ends.map(|(_, end)| (end.socket.map(|socket| socket.0), *end)).collect()
    };
    let feeding = chosen(|end| end.feeds);
    let passes = |fed: &&Channel| feeding.values().any(|feeding| fed.passes_to(feeding));
    ends.iter().any(|(_, end)| end.is_data()) || chosen(|end| end.is_fed).values().any(passes)
}

/// The pipelines that processes of `seeds` are part of.
pub fn pipelines(processes: &Processes, seeds: &[i32], facts: &impl Facts) -> Vec<Graph> {
    let mut search = Search::new(processes, facts);
    for &seed in seeds {
        if !search.add(seed) {
            // A shell has closed the pipes of its jobs.
            for child in search.descendants(seed) {
                search.add(child);
            }
        }
    }
    search.graphs
}

/// One pipe may have thousands of holders: what is found of it is kept by its name, and no two
/// holders are compared.
struct Search<'a, F> {
    processes: &'a Processes,
    facts: &'a F,
    /// Processes by what their descriptors refer to.
    holders: HashMap<&'a Path, Vec<i32>>,
    children: HashMap<i32, Vec<i32>>,
    peers: Option<HashMap<u64, Peer>>,
    /// In the order of their names.
    channels: HashMap<i32, Rc<[Channel]>>,
    /// Whether a process that was asked about is part of a pipeline.
    known: HashMap<i32, bool>,
    graphs: Vec<Graph>,
}

fn socket_inode(target: &Path) -> Option<u64> {
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

fn socket_name(inode: u64) -> PathBuf {
    format!("socket:[{inode}]").into()
}

impl<'a, F: Facts> Search<'a, F> {
    fn new(processes: &'a Processes, facts: &'a F) -> Self {
        let mut holders: HashMap<&Path, Vec<i32>> = HashMap::new();
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for (&pid, seen) in processes {
            children.entry(seen.stat.parent).or_default().push(pid);
            for open in seen.open.iter().flatten() {
                let holders = holders.entry(&open.target).or_default();
                if holders.last() != Some(&pid) {
                    holders.push(pid);
                }
            }
        }
        Self {
            processes,
            facts,
            holders,
            children,
            peers: None,
            channels: HashMap::new(),
            known: HashMap::new(),
            graphs: Vec::new(),
        }
    }

    /// Adds the pipeline of `start`, unless it was found before; returns whether there is one.
    fn add(&mut self, start: i32) -> bool {
        if let Some(&known) = self.known.get(&start) {
            return known;
        }
        let (members, expanded) = self.reached(start);
        let graph = self.graph(&members, &expanded);
        let is_pipeline = !graph.edges.is_empty();
        self.known.insert(start, is_pipeline);
        if is_pipeline {
            self.known.extend(members.into_iter().map(|pid| (pid, true)));
            self.graphs.push(graph);
        }
        is_pipeline
    }

    fn descendants(&self, pid: i32) -> BTreeSet<i32> {
        let (mut found, mut next) = (BTreeSet::new(), vec![pid]);
        while let Some(parent) = next.pop() {
            let children = self.children.get(&parent).into_iter().flatten().copied();
            next.extend(children.filter(|&child| found.insert(child)));
        }
        found
    }

    fn ancestors(&self, pid: i32) -> impl Iterator<Item = i32> {
        let parent = |pid: &i32| Some(self.processes.get(pid)?.stat.parent);
        std::iter::successors(parent(&pid), parent)
    }

    fn channels(&mut self, pid: i32) -> Rc<[Channel]> {
        #[cfg(test)]
        tests::count_look();
        if let Some(known) = self.channels.get(&pid) {
            return known.clone();
        }
        let mut found: BTreeMap<&Path, Channel> = BTreeMap::new();
        let open = self.processes.get(&pid).and_then(|seen| seen.open.as_ref());
        for open in open.into_iter().flatten() {
            let socket = socket_inode(&open.target);
            let socket = match socket {
                Some(inode) => {
                    let peers = self.peers.get_or_insert_with(|| self.facts.peers());
                    let Some(peer) = peers.get(&inode) else { continue };
                    Some((inode, *peer))
                }
                None => None,
            };
            let is_pipe = || {
                open.target.to_string_lossy().starts_with("pipe:[")
                    || open.target.has_root() && self.facts.is_fifo(pid, open.fd)
            };
            if socket.is_none() && !is_pipe() {
                continue;
            }
            let channel = found.entry(&open.target).or_insert_with(|| Channel {
                name: match socket {
                    Some((inode, peer)) => socket_name(inode.min(peer.inode)),
                    None => open.target.clone(),
                },
                fds: Vec::new(),
                reads: false,
                writes: false,
                socket,
                is_fed: false,
                feeds: false,
            });
            channel.fds.push(open.fd);
            // A socket is open for both: by convention standard input is read, and standard output
            // written. Messages on standard error are no data.
            channel.reads |= open.reads && (socket.is_none() || open.fd == 0);
            channel.writes |= open.writes && open.fd != 2 && (socket.is_none() || open.fd == 1);
        }
        // A process that holds both ends of a pipe talks to itself, or keeps it for its children.
        let found = found.into_values();
        let mut found: Vec<Channel> = found
            .filter(|channel| match channel.socket {
                Some(_) => true,
                None => channel.reads != channel.writes,
            })
            .collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        let has_pipe = |goes: fn(&Channel) -> bool| {
            found.iter().any(|end| end.socket.is_none() && end.is_data() && goes(end))
        };
        let (is_fed, feeds) = (has_pipe(|end| end.reads), has_pipe(|end| end.writes));
        found.iter_mut().for_each(|end| (end.is_fed, end.feeds) = (is_fed, feeds));
        let found: Rc<[Channel]> = found.into();
        self.channels.insert(pid, found.clone());
        found
    }

    /// The processes at either end of a channel.
    fn holders_of(&self, channel: &Channel) -> Vec<i32> {
        let of = |path: &Path| self.holders.get(path).cloned().unwrap_or_default();
        match channel.socket {
            None => of(&channel.name),
            Some((own, peer)) => [of(&socket_name(own)), of(&socket_name(peer.inode))].concat(),
        }
    }

    /// All processes that are connected with `start`, and those whose connections all count.
    fn reached(&mut self, start: i32) -> (BTreeSet<i32>, BTreeSet<i32>) {
        let (mut members, mut expanded) = (BTreeSet::from([start]), BTreeSet::new());
        let mut followed = HashSet::new();
        let mut next = vec![start];
        while let Some(pid) = next.pop() {
            let channels = self.channels(pid);
            if channels.len() > MOST_CHANNELS && pid != start {
                continue;
            }
            expanded.insert(pid);
            for channel in channels.iter() {
                // From another holder it leads to the same processes.
                let socket = channel.socket.map(|socket| socket.0);
                let kind = (channel.is_data(), socket, channel.is_fed, channel.feeds);
                if !followed.insert((channel.name.clone(), kind)) {
                    continue;
                }
                for other in self.holders_of(channel) {
                    let theirs = self.channels(other);
                    let place = theirs.partition_point(|end| end.name < channel.name);
                    let end = theirs.get(place).filter(|end| end.name == channel.name);
                    let is_connected = end.is_some_and(|end| channel.connects(end));
                    if is_connected && members.insert(other) {
                        next.push(other);
                    }
                }
            }
        }
        (members, expanded)
    }

    fn graph(&mut self, members: &BTreeSet<i32>, expanded: &BTreeSet<i32>) -> Graph {
        let channels: BTreeMap<i32, Rc<[Channel]>> =
            members.iter().map(|&pid| (pid, self.channels(pid))).collect();
        let mut held: BTreeMap<&Path, Vec<(i32, &Channel)>> = BTreeMap::new();
        for (&pid, own) in &channels {
            for channel in own.iter() {
                held.entry(&channel.name).or_default().push((pid, channel));
            }
        }
        held.retain(|_, ends| ends.iter().any(|(pid, _)| expanded.contains(pid)) && has_data(ends));
        let mut above_holders: HashMap<(&Path, bool, bool), HashSet<i32>> = HashMap::new();
        for (pid, end) in held.values().flatten() {
            let above = above_holders.entry(end.side()).or_default();
            // Above one that is known all are.
            let _ = self.ancestors(*pid).find(|&ancestor| !above.insert(ancestor));
        }
        // A shell, or timeout(1), that only waits for the children which have all its ends.
        let only_waits = |pid: &i32| {
            let mut own = channels[pid].iter().filter(|end| held.contains_key(&*end.name));
            own.all(|end| above_holders[&end.side()].contains(pid))
                && self.facts.waits_for_child(*pid)
        };
        let waiting: BTreeSet<i32> = members.iter().copied().filter(only_waits).collect();
        let mut edges = Vec::new();
        for (name, mut ends) in held {
            ends.retain(|(pid, _)| !waiting.contains(pid));
            for (written, read, socket) in directed(&ends) {
                let (writers, readers) = (Vec::new(), Vec::new());
                edges.push(Edge { name: name.into(), socket, writers, readers, written, read });
            }
        }
        edges.retain(|edge| pids(&edge.written) != pids(&edge.read));
        let groups: BTreeSet<i32> =
            members.iter().filter_map(|pid| Some(self.processes.get(pid)?.stat.group)).collect();
        let hidden = self.processes.iter().filter(|(_, seen)| {
            seen.open.is_none() && groups.contains(&seen.stat.group) && seen.stat.state != 'Z'
        });
        ordered(edges, hidden.map(|(pid, _)| *pid).collect())
    }
}

/// The descriptors of an end: PID and number.
type End = Vec<(i32, i32)>;

fn pids(end: &End) -> BTreeSet<i32> {
    end.iter().map(|(pid, _)| *pid).collect()
}

/// The writing and the reading end of each direction of a channel, and the reader's socket.
fn directed(held: &[(i32, &Channel)]) -> Vec<(End, End, Option<u64>)> {
    let end = |wanted: &dyn Fn(&Channel) -> bool| -> End {
        let of_end = held.iter().filter(|(_, channel)| wanted(channel));
        of_end.flat_map(|(pid, channel)| channel.fds.iter().map(|&fd| (*pid, fd))).collect()
    };
    let Some((own, peer)) = held.iter().find_map(|(_, channel)| channel.socket) else {
        return vec![(end(&|channel| channel.writes), end(&|channel| channel.reads), None)];
    };
    let on = |socket: u64| move |channel: &Channel| channel.socket.is_some_and(|s| s.0 == socket);
    let mut directions = Vec::new();
    for (from, to) in [(own, peer.inode), (peer.inode, own)] {
        let is_at = |socket: u64, wanted: fn(&Channel) -> bool| {
            held.iter().any(|(_, channel)| on(socket)(channel) && wanted(channel))
        };
        let is_standard = |channel: &Channel| channel.reads || channel.writes;
        let has_standard = is_at(from, is_standard) || is_at(to, is_standard);
        // Without standard input or output: the side that is fed by a pipe writes.
        let (is_fed, feeds) = (is_at(from, |end| end.is_fed), is_at(to, |end| end.feeds));
        let goes = match (has_standard, peer.is_unix) {
            (true, _) => is_at(from, |end| end.writes) || is_at(to, |end| end.reads),
            (false, true) => is_fed && feeds,
            (false, false) => is_fed || feeds,
        };
        let (written, read) = (end(&on(from)), end(&on(to)));
        if goes && !written.is_empty() && !read.is_empty() {
            directions.push((written, read, Some(to)));
        }
    }
    directions
}

/// The stages in the order of the data, by PID where that leaves a choice; a loop is cut anywhere.
fn ordered(mut edges: Vec<Edge>, hidden: Vec<i32>) -> Graph {
    let mut unplaced: Vec<BTreeSet<i32>> = edges.iter().map(|edge| pids(&edge.written)).collect();
    let read: Vec<BTreeSet<i32>> = edges.iter().map(|edge| pids(&edge.read)).collect();
    let by_stage = |sides: &[BTreeSet<i32>]| {
        let mut found: HashMap<i32, Vec<usize>> = HashMap::new();
        for (edge, pids) in sides.iter().enumerate() {
            pids.iter().for_each(|&pid| found.entry(pid).or_default().push(edge));
        }
        found
    };
    let (inputs, outputs) = (by_stage(&read), by_stage(&unplaced));
    // Whether all that writes to the stage has its place.
    let is_next = |stage: i32, unplaced: &[BTreeSet<i32>]| {
        #[cfg(test)]
        tests::count_look();
        let mut inputs = inputs.get(&stage).into_iter().flatten();
        inputs.all(|&edge| unplaced[edge].iter().all(|&writer| writer == stage))
    };
    let mut left: BTreeSet<i32> = unplaced.iter().chain(&read).flatten().copied().collect();
    let mut next: BTreeSet<i32> =
        left.iter().copied().filter(|&stage| is_next(stage, &unplaced)).collect();
    let mut places: BTreeMap<i32, usize> = BTreeMap::new();
    while let Some(stage) = next.pop_first().or_else(|| left.first().copied()) {
        left.remove(&stage);
        places.insert(stage, places.len());
        for &edge in outputs.get(&stage).into_iter().flatten() {
            unplaced[edge].remove(&stage);
            // With more the readers still wait; the last writer may be a reader as well.
            if unplaced[edge].len() <= 1 {
                let readers = read[edge].intersection(&left).copied();
                next.extend(readers.filter(|&reader| is_next(reader, &unplaced)));
            }
        }
    }
    let places_of = |end: &End| {
        let places: BTreeSet<usize> = end.iter().map(|(pid, _)| places[pid]).collect();
        places.into_iter().collect()
    };
    for edge in &mut edges {
        (edge.writers, edge.readers) = (places_of(&edge.written), places_of(&edge.read));
    }
    edges.sort_by_key(|edge| (edge.writers.last().copied(), edge.readers.clone()));
    let mut stages: Vec<i32> = places.keys().copied().collect();
    stages.sort_by_key(|stage| places[stage]);
    Graph { stages, edges, hidden }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local!(static LOOKS: Cell<usize> = const { Cell::new(0) });

    /// Counts a look at one holder of a channel, or at one stage.
    pub(super) fn count_look() {
        LOOKS.set(LOOKS.get() + 1);
    }

    #[derive(Default)]
    struct Fake {
        waiting: Vec<i32>,
        peers: HashMap<u64, Peer>,
    }

    impl Facts for Fake {
        fn is_fifo(&self, pid: i32, fd: i32) -> bool {
            // The descriptor 9 of any process.
            pid > 0 && fd == 9
        }

        fn waits_for_child(&self, pid: i32) -> bool {
            self.waiting.contains(&pid)
        }

        fn peers(&self) -> HashMap<u64, Peer> {
            self.peers.clone()
        }
    }

    /// A process with descriptors such as `0<pipe:[1]` and `1>pipe:[2]`.
    fn process(pid: i32, parent: i32, fds: &str) -> (i32, Seen) {
        let open = fds.split_ascii_whitespace().map(|word| {
            let at = word.find(['<', '>', '=']).unwrap();
            let (reads, writes) = (&word[at..=at] != ">", &word[at..=at] != "<");
            OpenFd { fd: word[..at].parse().unwrap(), target: word[at + 1..].into(), reads, writes }
        });
        let stat = Stat {
            name: String::new(),
            state: 'S',
            parent,
            group: 1,
            session: 1,
            terminal: 0,
            busy_ticks: 0,
            threads: 1,
            started_ticks: 0,
        };
        (pid, Seen { stat, open: (!fds.is_empty()).then(|| open.collect()) })
    }

    type Edges = Vec<(Vec<usize>, Vec<usize>)>;

    /// The stages, and the edges as pairs of places.
    fn shape(processes: &[(i32, Seen)], seed: i32, facts: &Fake) -> (Vec<i32>, Edges) {
        let graphs = pipelines(&processes.iter().cloned().collect(), &[seed], facts);
        assert!(graphs.len() <= 1, "{graphs:?}");
        let Some(graph) = graphs.into_iter().next() else { return Default::default() };
        let edges = graph.edges.into_iter().map(|edge| (edge.writers, edge.readers));
        (graph.stages, edges.collect())
    }

    fn chain(stages: usize) -> Edges {
        (1..stages).map(|reader| (vec![reader - 1], vec![reader])).collect()
    }

    #[test]
    fn any_stage_leads_to_all_in_the_order_of_the_data() {
        let processes = [
            process(1, 0, "0</dev/pts/0"),
            process(30, 1, "1>pipe:[1] 2>pipe:[9] 7>pipe:[8]"),
            process(20, 1, "0<pipe:[1] 1>pipe:[2] 2>pipe:[9] 7>pipe:[8]"),
            process(10, 1, "0<pipe:[2] 1>/dev/null 2>pipe:[9]"),
            process(40, 1, "0<pipe:[9] 3<pipe:[5] 4>pipe:[5] 8<pipe:[8]"),
        ];
        for seed in [10, 20, 30] {
            let (stages, edges) = shape(&processes, seed, &Fake::default());
            assert_eq!(stages, [30, 20, 10], "{seed}");
            assert_eq!(edges, chain(3), "{seed}");
        }
        // Standard error alone, a pipe to itself, and an inherited pipe connect nothing.
        assert_eq!(shape(&processes, 40, &Fake::default()).0, [40]);
        // A shell leads to its children.
        assert_eq!(shape(&processes[..4], 1, &Fake::default()).0.len(), 3);
    }

    #[test]
    fn branches_and_several_writers_are_found() {
        let processes = [
            process(1, 0, "1>pipe:[1]"),
            process(2, 0, "1>pipe:[1]"),
            process(3, 0, "0<pipe:[1] 1>pipe:[2] 63>pipe:[3]"),
            process(4, 0, "0<pipe:[2]"),
            process(5, 3, "0<pipe:[3] 1>pipe:[2]"),
        ];
        let (stages, edges) = shape(&processes, 4, &Fake::default());
        assert_eq!(stages, [1, 2, 3, 5, 4]);
        assert_eq!(edges, [(vec![0, 1], vec![2]), (vec![2], vec![3]), (vec![2, 3], vec![4])]);
    }

    #[test]
    fn a_process_that_waits_for_a_child_with_all_its_ends_is_no_stage() {
        let facts = Fake { waiting: vec![2, 4], ..Fake::default() };
        let processes = [
            process(1, 0, "1>pipe:[1]"),
            // timeout 9 gzip
            process(2, 0, "0<pipe:[1] 1>pipe:[2]"),
            process(3, 2, "0<pipe:[1] 1>pipe:[2]"),
            // xargs cat
            process(4, 0, "0<pipe:[2] 1>pipe:[3]"),
            process(5, 4, "0</dev/null 1>pipe:[3]"),
            process(6, 0, "0<pipe:[3]"),
        ];
        let (stages, edges) = shape(&processes, 1, &facts);
        assert_eq!(stages, [1, 3, 4, 5, 6]);
        assert_eq!(edges, [(vec![0], vec![1]), (vec![1], vec![2]), (vec![2, 3], vec![4])]);
    }

    #[test]
    fn named_pipes_and_connections_are_edges() {
        let peer = |inode, is_unix| Peer { inode, is_unix, unread_bytes: 0, unsent_bytes: 0 };
        let peers = [(1, 2, true), (3, 4, false), (7, 8, true), (10, 11, true)];
        let both = peers.iter().flat_map(|&(a, b, u)| [(a, peer(b, u)), (b, peer(a, u))]);
        let facts = Fake { peers: both.collect(), ..Fake::default() };
        let processes = [
            process(1, 0, "9>/tmp/fifo"),
            process(2, 0, "9</tmp/fifo 1=socket:[1] 5=socket:[7]"),
            process(3, 0, "5=socket:[2] 1>pipe:[1]"),
            process(4, 0, "0<pipe:[1] 3=socket:[3] 7>pipe:[9]"),
            process(5, 0, "6=socket:[4] 1>pipe:[2]"),
            process(6, 0, "0<pipe:[2]"),
            // A message bus.
            process(7, 0, "6=socket:[8]"),
            process(11, 0, "1>pipe:[11]"),
            process(12, 0, "0<pipe:[11] 5=socket:[10]"),
            process(13, 0, "5=socket:[11] 1>pipe:[12]"),
            process(14, 0, "0<pipe:[12]"),
        ];
        let (stages, edges) = shape(&processes, 3, &facts);
        assert_eq!(stages, [1, 2, 3, 4, 5, 6]);
        assert_eq!(edges, chain(6));
        // A connection of no standard descriptors, out of a pipe and into one.
        let (stages, edges) = shape(&processes, 14, &facts);
        assert_eq!(stages, [11, 12, 13, 14]);
        assert_eq!(edges, chain(4));
    }

    #[test]
    fn a_server_connects_no_clients() {
        let mut server = String::new();
        let mut processes = Vec::new();
        for client in 1..=20 {
            server += &format!("{client}<pipe:[{client}] ");
            processes.push(process(client, 0, &format!("1>pipe:[{client}]")));
        }
        processes.push(process(100, 0, &server));
        assert_eq!(shape(&processes, 5, &Fake::default()).0, [5, 100]);
    }

    #[test]
    fn what_cannot_be_inspected_is_named_if_it_is_of_the_group() {
        let processes = [process(1, 0, "1>pipe:[1]"), process(2, 0, "")];
        let graphs = pipelines(&processes.into_iter().collect(), &[1], &Fake::default());
        assert_eq!(graphs[0].hidden, [2]);
        assert!(graphs[0].edges[0].readers.is_empty());
    }
    #[test]
    fn each_holder_of_a_pipe_is_looked_at_a_few_times_however_many_there_are() {
        let looks = |holders: i32, fds: &str, last: i32| {
            let mut processes: Vec<_> =
                (10..10 + holders).map(|pid| process(pid, 1, fds)).collect();
            processes.push(process(1, 0, ""));
            processes.push(process(last, 1, "0<pipe:[1] 1>pipe:[2]"));
            processes.push(process(last + 1, 1, "0<pipe:[2] 9</tmp/fifo"));
            let seeds: Vec<i32> = processes.iter().map(|(pid, _)| *pid).collect();
            let processes = processes.into_iter().collect();
            LOOKS.set(0);
            let graphs = pipelines(&processes, &seeds, &Fake::default());
            assert_eq!(graphs.len(), 1, "{fds}");
            assert_eq!(graphs[0].stages.len() as i32, holders + 2, "{fds}");
            LOOKS.get()
        };
        let many = 2000;
        for fds in [
            // Writers, readers, both at once, and those of a named pipe.
            "1>pipe:[1]",
            "0<pipe:[2]",
            "0<pipe:[1] 1>pipe:[2]",
            "0<pipe:[2] 1>pipe:[1]",
            "9>/tmp/fifo",
        ] {
            for last in [2, 1_000_000] {
                let (few, many) = (looks(many / 10, fds, last), looks(many, fds, last));
                assert!(few >= 200, "{fds}: {few} looks at 200 holders");
                assert!(many <= few * 11, "{fds}: {few} looks, {many} looks at ten times as many");
            }
        }
    }
}
