//! The bytes that stages move, from counted calls, positions of files, and how full the pipes are.

use super::find::Graph;

/// Bytes moved in all, and since the last look.
#[derive(Clone, Copy, Default)]
pub struct Moved {
    pub total: u64,
    pub recent: u64,
}

/// What is known of the bytes of a pipeline.
pub struct Counts {
    /// What the calls of each stage have read and written; none without permission.
    pub calls: Vec<Option<Sides>>,
    /// What the position of its file says.
    pub files: Vec<[Option<Moved>; 2]>,
    /// Whether it reads and writes regular files.
    pub uses_files: Vec<[bool; 2]>,
    /// The bytes in each pipe now, and at the last look.
    pub fills: Vec<[u64; 2]>,
    /// Whether calls were seen not to count what it reads and writes.
    pub splices: Vec<[bool; 2]>,
}

type Sides = [Moved; 2];

impl Counts {
    /// What each stage reads and writes. What it splices is not counted, but the position of a file
    /// shows it, and so do the calls at the other end of a pipe and how full that is. Spliced bytes
    /// pass unchanged: as many go out as came in.
    pub fn sides(&mut self, graph: &Graph) -> Vec<[Option<Moved>; 2]> {
        let mut known: Vec<[Option<Moved>; 2]> = self
            .calls
            .iter()
            .map(|sides| sides.map_or([None; 2], |sides| sides.map(Some)))
            .collect();
        let stages = 0..graph.stages.len();
        for (stage, side) in stages.clone().map(|s| (s, 0)).chain(stages.rev().map(|s| (s, 1))) {
            let Some(shown) = self.shown(graph, &known, stage, side) else { continue };
            let own = known[stage][side].unwrap_or_default();
            self.splices[stage][side] |= own.recent < shown.recent / 2;
            if known[stage][side].is_none() || self.splices[stage][side] {
                known[stage][side] = Some(shown);
                let Some(calls) = self.calls[stage] else { continue };
                let passed = |of: fn(Moved) -> u64| {
                    of(calls[1 - side]) + of(shown).saturating_sub(of(calls[side]))
                };
                let other = Moved { total: passed(|m| m.total), recent: passed(|m| m.recent) };
                let before = known[stage][1 - side].unwrap_or_default();
                let has_other = self.files[stage][1 - side].is_some()
                    || !graph.edges_at(stage, 1 - side).is_empty();
                if has_other && before.total < other.total {
                    known[stage][1 - side] = Some(other);
                }
            }
        }
        known
    }

    /// What a side of a stage has moved by its file, or by the stage at the other end of its pipe.
    fn shown(
        &self,
        graph: &Graph,
        known: &[[Option<Moved>; 2]],
        stage: usize,
        side: usize,
    ) -> Option<Moved> {
        let place = match graph.edges_at(stage, side)[..] {
            [] => return self.files[stage][side],
            [place] => place,
            _ => return None,
        };
        let edge = &graph.edges[place];
        let ends =
            if side == 0 { [&edge.writers, &edge.readers] } else { [&edge.readers, &edge.writers] };
        let ([other], [_]) = (&ends[0][..], &ends[1][..]) else { return None };
        if self.uses_files[*other][1 - side] || graph.edges_at(*other, 1 - side).len() != 1 {
            return None;
        }
        let Moved { total, recent } = known[*other][1 - side]?;
        let [now, before] = self.fills[place];
        Some(match side {
            0 => Moved {
                total: total.saturating_sub(now),
                recent: (recent + before).saturating_sub(now),
            },
            _ => Moved { total: total + now, recent: (recent + now).saturating_sub(before) },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::find::Edge;
    use super::*;

    #[test]
    fn spliced_bytes_are_known_by_files_neighbours_and_fills() {
        let edge = |place: usize| Edge {
            writers: vec![place],
            readers: vec![place + 1],
            ..Edge::default()
        };
        let chain = |stages: usize| Graph {
            stages: vec![1; stages],
            edges: (1..stages).map(|reader| edge(reader - 1)).collect(),
            hidden: Vec::new(),
        };
        let bytes = |total| Moved { total, recent: total / 10 };
        let shown = |calls: &[[u64; 2]], files: &[[Option<u64>; 2]], fills: &[[u64; 2]]| {
            let mut counts = Counts {
                calls: calls.iter().map(|sides| Some(sides.map(bytes))).collect(),
                files: files.iter().map(|sides| sides.map(|side| side.map(bytes))).collect(),
                uses_files: files.iter().map(|sides| sides.map(|side| side.is_some())).collect(),
                fills: fills.to_vec(),
                splices: vec![[false; 2]; calls.len()],
            };
            let sides = counts.sides(&chain(calls.len()));
            let numbers =
                |side: Option<Moved>| side.map(|moved| (moved.total, moved.recent)).unwrap();
            sides.into_iter().map(|sides| sides.map(numbers)).collect::<Vec<_>>()
        };
        let (none, pipes) = ([None, None], [[None; 2]; 2]);
        // The reader splices, and its pipe holds a part.
        let found = shown(&[[0, 900], [7, 0]], &pipes, &[[100; 2]]);
        assert_eq!(found, [[(0, 0), (900, 90)], [(800, 90), (0, 0)]]);
        // The writer splices.
        assert_eq!(shown(&[[0, 0], [800, 0]], &pipes, &[[100; 2]])[0], [(0, 0), (900, 80)]);
        // What is in the pipe has not been read.
        assert_eq!(shown(&[[0, 900], [7, 0]], &pipes, &[[900, 810]])[1], [(7, 0), (0, 0)]);
        // A neighbour that writes files as well.
        let found = shown(&[[0, 900], [7, 0]], &[[None, Some(5)], none], &[[0; 2]]);
        assert_eq!(found[1], [(7, 0), (0, 0)]);
        // All splice, from a file, or into one.
        let found = shown(&[[5, 5]; 3], &[[Some(1000), None], none, none], &[[100; 2], [200; 2]]);
        let totals: Vec<u64> = found.concat().into_iter().map(|(total, _)| total).collect();
        assert_eq!(totals, [1000, 1000, 900, 900, 700, 5]);
        let found = shown(&[[5, 5]; 3], &[none, none, [None, Some(1000)]], &[[100; 2], [200; 2]]);
        let totals: Vec<u64> = found.concat().into_iter().map(|(total, _)| total).collect();
        assert_eq!(totals, [5, 1300, 1200, 1200, 1000, 1000]);
    }
}
