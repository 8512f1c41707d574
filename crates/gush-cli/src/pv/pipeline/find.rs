//! The stages of pipelines and the pipes between them, from the descriptors of all processes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// A name such as `pipe:[4711]`, or the path of a named pipe.
    pub name: PathBuf,
    /// The socket of the reading end.
    pub socket: Option<u64>,
    /// Places of stages. Empty where none can be seen.
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
        (0..self.edges.len()).filter(move |&edge| self.edges[edge].readers.contains(&stage))
    }

    pub fn outputs_of(&self, stage: usize) -> impl Iterator<Item = usize> {
        (0..self.edges.len()).filter(move |&edge| self.edges[edge].writers.contains(&stage))
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
}

impl Channel {
    /// Whether data go through this end. Processes inherit pipes that they do not use, and clients
    /// of a message bus have sockets: data come or go by the standard descriptors of one side, or by
    /// what was opened under a name.
    fn is_data(&self) -> bool {
        match self.socket {
            Some((_, peer)) => self.reads || self.writes || !peer.is_unix,
            None => self.name.has_root() || self.fds.iter().any(|&fd| fd <= 1),
        }
    }
}

/// The pipelines that processes of `seeds` are part of.
pub fn pipelines(processes: &Processes, seeds: &[i32], facts: &impl Facts) -> Vec<Graph> {
    let mut search = Search::new(processes, facts);
    let (mut graphs, mut passed) = (Vec::new(), BTreeSet::new());
    for &seed in seeds {
        if search.add(seed, &mut passed, &mut graphs) {
            continue;
        }
        // A shell has closed the pipes of its jobs.
        let children: Vec<i32> =
            processes.keys().copied().filter(|&pid| search.descends(pid, seed)).collect();
        for child in children {
            search.add(child, &mut passed, &mut graphs);
        }
    }
    graphs
}

struct Search<'a, F> {
    processes: &'a Processes,
    facts: &'a F,
    /// Descriptors by what they refer to.
    holders: HashMap<&'a Path, Vec<i32>>,
    peers: Option<HashMap<u64, Peer>>,
    channels: HashMap<i32, Vec<Channel>>,
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
        for (pid, seen) in processes {
            for open in seen.open.iter().flatten() {
                holders.entry(&open.target).or_default().push(*pid);
            }
        }
        Self { processes, facts, holders, peers: None, channels: HashMap::new() }
    }

    /// Adds the pipeline of `start`, unless it was found before; returns whether there is one.
    fn add(&mut self, start: i32, passed: &mut BTreeSet<i32>, graphs: &mut Vec<Graph>) -> bool {
        if passed.contains(&start) {
            return true;
        }
        let (members, expanded) = self.reached(start);
        let graph = self.graph(&members, &expanded);
        let is_pipeline = !graph.edges.is_empty();
        if is_pipeline {
            passed.extend(members);
            graphs.push(graph);
        }
        is_pipeline
    }

    fn descends(&self, pid: i32, from: i32) -> bool {
        let mut parents = std::iter::successors(Some(pid), |pid| {
            Some(self.processes.get(pid)?.stat.parent).filter(|parent| parent != pid)
        });
        pid != from && parents.any(|parent| parent == from)
    }

    fn channels(&mut self, pid: i32) -> Vec<Channel> {
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
            });
            channel.fds.push(open.fd);
            // A socket is open for both: by convention standard input is read, and standard output
            // written. Messages on standard error are no data.
            channel.reads |= open.reads && (socket.is_none() || open.fd == 0);
            channel.writes |= open.writes && open.fd != 2 && (socket.is_none() || open.fd == 1);
        }
        // A process that holds both ends of a pipe talks to itself, or keeps it for its children.
        let found = found.into_values();
        let found: Vec<Channel> = found
            .filter(|channel| match channel.socket {
                Some(_) => true,
                None => channel.reads != channel.writes,
            })
            .collect();
        self.channels.insert(pid, found.clone());
        found
    }

    /// The processes at the other ends of a channel, and at the same.
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
        let mut next = vec![start];
        while let Some(pid) = next.pop() {
            let channels = self.channels(pid);
            if channels.len() > MOST_CHANNELS && pid != start {
                continue;
            }
            expanded.insert(pid);
            for channel in channels {
                for other in self.holders_of(&channel) {
                    let theirs = self.channels(other);
                    let Some(end) = theirs.iter().find(|end| end.name == channel.name) else {
                        continue;
                    };
                    if (channel.is_data() || end.is_data()) && members.insert(other) {
                        next.push(other);
                    }
                }
            }
        }
        (members, expanded)
    }

    fn graph(&mut self, members: &BTreeSet<i32>, expanded: &BTreeSet<i32>) -> Graph {
        let channels: BTreeMap<i32, Vec<Channel>> =
            members.iter().map(|&pid| (pid, self.channels(pid))).collect();
        let held = |name: &Path| -> Vec<(i32, &Channel)> {
            let all = channels.iter().flat_map(|(pid, held)| held.iter().map(|one| (*pid, one)));
            all.filter(|(_, channel)| channel.name == name).collect()
        };
        let names = expanded.iter().flat_map(|pid| &channels[pid]).map(|channel| &channel.name);
        let names: BTreeSet<&PathBuf> =
            names.filter(|name| held(name).iter().any(|(_, end)| end.is_data())).collect();
        // A shell, or timeout(1), that only waits for the children which have all its ends.
        let only_waits = |pid: &i32| {
            let mut own = channels[pid].iter().filter(|channel| names.contains(&channel.name));
            let is_shared = |channel: &Channel| {
                let side = (channel.reads, channel.writes);
                let mut others = held(&channel.name).into_iter();
                others.any(|(other, end)| {
                    (end.reads, end.writes) == side && self.descends(other, *pid)
                })
            };
            own.all(is_shared) && self.facts.waits_for_child(*pid)
        };
        let waiting: Vec<i32> = members.iter().copied().filter(only_waits).collect();
        let mut edges = Vec::new();
        for name in names {
            let mut held = held(name);
            held.retain(|(pid, _)| !waiting.contains(pid));
            for (written, read, socket) in directed(&held, &channels) {
                let (writers, readers) = (Vec::new(), Vec::new());
                edges.push(Edge { name: name.clone(), socket, writers, readers, written, read });
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
fn directed(
    held: &[(i32, &Channel)],
    channels: &BTreeMap<i32, Vec<Channel>>,
) -> Vec<(End, End, Option<u64>)> {
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
        let is_at = |socket: u64, wanted: &dyn Fn(&Channel) -> bool| {
            held.iter().any(|(_, channel)| on(socket)(channel) && wanted(channel))
        };
        // Without standard input or output: the side that is fed by a pipe writes.
        let has_pipe = |socket: u64, reads: bool| {
            held.iter().filter(|(_, channel)| on(socket)(channel)).any(|(pid, _)| {
                channels[pid].iter().any(|c| c.socket.is_none() && c.is_data() && c.reads == reads)
            })
        };
        let is_standard = |channel: &Channel| channel.reads || channel.writes;
        let is_told = is_at(from, &is_standard) || is_at(to, &is_standard);
        let goes = match is_told {
            true => is_at(from, &|channel| channel.writes) || is_at(to, &|channel| channel.reads),
            false => has_pipe(from, true) || has_pipe(to, false),
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
    let ends = edges.iter().flat_map(|edge| edge.written.iter().chain(&edge.read));
    let mut left: BTreeSet<i32> = ends.map(|(pid, _)| *pid).collect();
    let mut stages: Vec<i32> = Vec::new();
    while let Some(&first) = left.first() {
        let is_next = |stage: &i32| {
            let into = edges.iter().filter(|edge| pids(&edge.read).contains(stage));
            into.flat_map(|edge| pids(&edge.written))
                .all(|pid| pid == *stage || stages.contains(&pid))
        };
        let next = left.iter().copied().find(is_next).unwrap_or(first);
        left.remove(&next);
        stages.push(next);
    }
    let places = |end: &End| {
        let pids = pids(end);
        (0..stages.len()).filter(|&place| pids.contains(&stages[place])).collect()
    };
    for edge in &mut edges {
        (edge.writers, edge.readers) = (places(&edge.written), places(&edge.read));
    }
    edges.sort_by_key(|edge| (edge.writers.last().copied(), edge.readers.clone()));
    Graph { stages, edges, hidden }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let peers = [(1, 2, true), (3, 4, false), (7, 8, true)];
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
        ];
        let (stages, edges) = shape(&processes, 3, &facts);
        assert_eq!(stages, [1, 2, 3, 4, 5, 6]);
        assert_eq!(edges, chain(6));
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
}
