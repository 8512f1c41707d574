//! Which stage holds the others up, from samples alone.
//!
//! Such a stage finds its input full and its output empty. Where that is so of no stage, or of
//! several, nothing is certain.

use std::collections::BTreeMap;

use super::find::Graph;
use super::sample::{Level, Sample, StageState};

/// The smallest number of samples for a verdict.
pub const LEAST_SAMPLES: usize = 16;

/// The part of the samples in which a pipe must be full or empty.
pub const MOSTLY: f64 = 0.7;
/// The part in which the stage may wait for the others.
const SELDOM: f64 = 0.3;
/// The part of the samples in which each side of a pipe waits for the other, if they take turns.
const TURNS: f64 = 0.15;

#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Certain {
        stage: usize,
        why: Why,
    },
    /// Two stages that are busy only in turns, and the pipe between them.
    Turns {
        edge: usize,
    },
    /// More than one stage could be it; none if no pipe says anything.
    Open {
        stages: Vec<usize>,
    },
}

/// What a stage that holds the others up does most of the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// With this share of a processor.
    Computes(f64),
    /// Could compute, and gets only this share of a processor.
    Crowded(f64),
    Waits(StageState),
}

/// Of each edge, the parts of the samples in which it was full and empty.
pub fn level_shares(samples: &[Sample], edge: usize) -> (f64, f64) {
    let share = |wanted| part(samples, |sample| sample.levels[edge] == wanted);
    (share(Level::Full), share(Level::Empty))
}

/// The parts of the samples that a stage was in each state, the most frequent first.
pub fn state_shares(samples: &[Sample], stage: usize) -> Vec<(StageState, f64)> {
    let mut counts: BTreeMap<StageState, usize> = BTreeMap::new();
    for sample in samples {
        *counts.entry(sample.states[stage]).or_default() += 1;
    }
    let all = samples.len().max(1) as f64;
    let mut shares: Vec<(StageState, f64)> =
        counts.into_iter().map(|(state, count)| (state, count as f64 / all)).collect();
    shares.sort_by(|one, other| other.1.total_cmp(&one.1));
    shares
}

/// The processors that a stage used between the first and the last sample.
pub fn processors(samples: &[Sample], stage: usize, ticks_per_second: f64) -> f64 {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return 0.0 };
    let ticks = last.busy_ticks[stage].saturating_sub(first.busy_ticks[stage]) as f64;
    let seconds = last.at.saturating_sub(first.at).as_secs_f64();
    if seconds > 0.0 { ticks / ticks_per_second / seconds } else { 0.0 }
}

fn part(samples: &[Sample], is_so: impl Fn(&Sample) -> bool) -> f64 {
    samples.iter().filter(|sample| is_so(sample)).count() as f64 / samples.len().max(1) as f64
}

pub fn share_of(shares: &[(StageState, f64)], state: StageState) -> f64 {
    shares.iter().find(|(known, _)| *known == state).map_or(0.0, |(_, share)| *share)
}

/// The stage that holds the others up.
pub fn verdict(graph: &Graph, samples: &[Sample], ticks_per_second: f64) -> Verdict {
    if samples.len() < LEAST_SAMPLES {
        return Verdict::Open { stages: Vec::new() };
    }
    let is_visible = |edge: &usize| graph.is_visible(*edge);
    let holds_up = |stage: &usize| {
        let shares = state_shares(samples, *stage);
        let waits = share_of(&shares, StageState::Input) + share_of(&shares, StageState::Output);
        let mut before = graph.inputs_of(*stage).filter(is_visible).peekable();
        let mut after = graph.outputs_of(*stage).filter(is_visible).peekable();
        waits <= SELDOM
            && (before.peek().is_some() || after.peek().is_some())
            && before.all(|edge| level_shares(samples, edge).0 >= MOSTLY)
            && after.all(|edge| level_shares(samples, edge).1 >= MOSTLY)
    };
    let mut found: Vec<usize> = (0..graph.stages.len()).filter(holds_up).collect();
    if found.len() > 1 {
        // Such as xargs(1), whose child is a stage as well.
        found.retain(|&stage| share_of(&state_shares(samples, stage), StageState::Child) < MOSTLY);
    }
    if let [stage] = found[..] {
        return Verdict::Certain { stage, why: why(samples, stage, ticks_per_second) };
    }
    let wait = |stages: &[usize], state| {
        let shares = stages.iter().map(|&stage| share_of(&state_shares(samples, stage), state));
        shares.fold(0.0, f64::max)
    };
    let in_turns = |edge: &usize| {
        let edge = &graph.edges[*edge];
        let sides =
            [wait(&edge.writers, StageState::Output), wait(&edge.readers, StageState::Input)];
        sides.iter().all(|side| *side >= TURNS)
    };
    match (0..graph.edges.len()).find(in_turns) {
        Some(edge) if found.is_empty() => Verdict::Turns { edge },
        _ => Verdict::Open { stages: found },
    }
}

fn why(samples: &[Sample], stage: usize, ticks_per_second: f64) -> Why {
    let shares = state_shares(samples, stage);
    let mut own =
        shares.iter().filter(|(s, _)| !matches!(s, StageState::Input | StageState::Output));
    match own.next() {
        Some((StageState::Computes, runnable)) => {
            let share = processors(samples, stage, ticks_per_second);
            if share < runnable / 2.0 { Why::Crowded(share) } else { Why::Computes(share) }
        }
        Some((state, _)) => Why::Waits(*state),
        None => Why::Waits(StageState::Other),
    }
}

/// What can be tried if the stage `command` holds the others up.
pub fn remedy(command: &str, pid: i32, why: Why) -> Option<String> {
    let mut words = command.split(' ').map(|word| word.rsplit('/').next().unwrap_or(word));
    let name = words.next().unwrap_or_default();
    let remedy = match why {
        Why::Computes(_) => PROGRAMS.iter().find(|(known, _)| *known == name)?.1.to_owned(),
        Why::Crowded(_) => "other programs use the processors: run fewer, or under nice".to_owned(),
        Why::Waits(StageState::Stopped) => format!("kill -CONT {pid}, or fg in its shell"),
        Why::Waits(StageState::Disk) => "the disk is the limit: iostat -x 1 shows which".to_owned(),
        // Each meter obeys its own kind only.
        Why::Waits(StageState::Sleeps | StageState::Event) if name == "pv" => {
            format!("if it has -L, raise the rate: pv -R {pid} -L RATE")
        }
        Why::Waits(StageState::Sleeps | StageState::Event)
            if name == "gush" && words.next() == Some("pv") =>
        {
            format!("if it has -L, raise the rate: gush pv -R {pid} -L RATE")
        }
        Why::Waits(_) => return None,
    };
    Some(remedy)
}

/// Programs that compute, and what does the same faster.
const PROGRAMS: [(&str, &str); 11] = [
    ("gzip", "pigz compresses on all processors"),
    ("bzip2", "lbzip2 compresses on all processors"),
    ("xz", "xz -T0 compresses on all processors"),
    ("zstd", "zstd -T0 compresses on all processors"),
    (
        "sort",
        "LC_ALL=C compares bytes; a larger -S and --parallel sort in memory on more processors",
    ),
    ("grep", "LC_ALL=C searches bytes"),
    ("sed", "LC_ALL=C edits bytes"),
    ("cat", "gush cat in its place, or a redirection instead"),
    ("tee", "gush tee in its place"),
    ("dd", "a larger bs=, or gush cat in its place"),
    ("pv", "gush pv in its place"),
];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::find::Edge;
    use super::*;

    fn graph(edges: &[(&[usize], &[usize])], stages: usize) -> Graph {
        let edges = edges.iter().map(|(writers, readers)| Edge {
            writers: writers.to_vec(),
            readers: readers.to_vec(),
            ..Edge::default()
        });
        Graph { stages: vec![1; stages], edges: edges.collect(), hidden: Vec::new() }
    }

    const CHAIN: [(&[usize], &[usize]); 3] = [(&[0], &[1]), (&[1], &[2]), (&[2], &[3])];

    /// Samples of `states` and `levels` by their first letters, in turn, 50 ms apart: `i`nput,
    /// `o`utput, `c`omputes, `d`isk, `s`leeps, s`t`opped, `u`nseen; `f`ull, `e`mpty, `b`etween.
    fn samples(moments: &[(&str, &str)], ticks: u64) -> Vec<Sample> {
        let state = |letter| match letter {
            'i' => StageState::Input,
            'o' => StageState::Output,
            'c' => StageState::Computes,
            'd' => StageState::Disk,
            's' => StageState::Sleeps,
            't' => StageState::Stopped,
            'u' => StageState::Unseen,
            odd => panic!("{odd}"),
        };
        let level = |letter| match letter {
            'f' => Level::Full,
            'e' => Level::Empty,
            _ => Level::Between,
        };
        let moment = |at: u64| {
            let (states, levels) = moments[at as usize % moments.len()];
            Sample {
                at: Duration::from_millis(50 * at),
                states: states.chars().map(state).collect(),
                levels: levels.chars().map(level).collect(),
                fills: levels.chars().map(|_| None).collect(),
                busy_ticks: states.chars().map(|_| at * ticks).collect(),
                splices: Vec::new(),
            }
        };
        (0..40).map(moment).collect()
    }

    fn certain(stage: usize, why: Why) -> Verdict {
        Verdict::Certain { stage, why }
    }

    #[test]
    fn evidence_leads_to_a_verdict() {
        let open = |stages: &[usize]| Verdict::Open { stages: stages.to_vec() };
        let chain = graph(&CHAIN, 4);
        for (moments, expected) in [
            // The first, one in between, the last.
            (&[("ciii", "eee")][..], certain(0, Why::Computes(1.0))),
            (&[("ocii", "fee")], certain(1, Why::Computes(1.0))),
            (&[("oodi", "ffe")], certain(2, Why::Waits(StageState::Disk))),
            (&[("ooos", "fff")], certain(3, Why::Waits(StageState::Sleeps))),
            (&[("otii", "fee")], certain(1, Why::Waits(StageState::Stopped))),
            (&[("ooou", "fff")], certain(3, Why::Waits(StageState::Unseen))),
            // Mostly is enough.
            (
                &[
                    ("osii", "fee"),
                    ("osii", "fee"),
                    ("osii", "fee"),
                    ("osii", "fee"),
                    ("ciii", "bee"),
                ],
                certain(1, Why::Waits(StageState::Sleeps)),
            ),
            // Half of the time another stage.
            (&[("ocii", "fee"), ("ooci", "ffe")], Verdict::Turns { edge: 1 }),
            (&[("ocii", "fee"), ("ocii", "bee")], open(&[])),
            // The state contradicts the pipes.
            (&[("oiii", "fee")], Verdict::Turns { edge: 0 }),
            // Two stages, each of which could be it.
            (&[("ciss", "efe")], open(&[0, 2])),
            // Both sides of a pipe wait in turns.
            (&[("oicc", "bbb"), ("cicc", "bbb"), ("occc", "bbb")], Verdict::Turns { edge: 0 }),
        ] {
            let samples = samples(moments, 5);
            assert_eq!(verdict(&chain, &samples, 100.0), expected, "{moments:?}");
            let too_few = verdict(&chain, &samples[..LEAST_SAMPLES - 1], 100.0);
            assert_eq!(too_few, open(&[]), "{moments:?}");
        }
    }

    #[test]
    fn a_stage_that_is_ready_and_gets_no_processor_is_crowded_out() {
        let found = verdict(&graph(&CHAIN, 4), &samples(&[("ocii", "fee")], 1), 100.0);
        assert_eq!(found, certain(1, Why::Crowded(0.2)));
    }

    #[test]
    fn a_branch_that_is_full_holds_up_the_other() {
        let branches = graph(&[(&[0], &[1]), (&[1], &[2]), (&[1], &[3])], 4);
        let found = verdict(&branches, &samples(&[("oosi", "ffe")], 0), 100.0);
        assert_eq!(found, certain(2, Why::Waits(StageState::Sleeps)));
        let merge = graph(&[(&[0], &[2]), (&[1], &[2]), (&[2], &[3])], 4);
        let found = verdict(&merge, &samples(&[("doii", "efe")], 0), 100.0);
        assert_eq!(found, certain(0, Why::Waits(StageState::Disk)));
    }

    #[test]
    fn a_pipe_without_a_visible_end_is_no_evidence() {
        let chain = graph(&[(&[0], &[1]), (&[1], &[])], 2);
        let found = verdict(&chain, &samples(&[("ou", "ff")], 0), 100.0);
        assert_eq!(found, certain(1, Why::Waits(StageState::Unseen)));
        let alone = graph(&[(&[], &[0])], 1);
        let found = verdict(&alone, &samples(&[("s", "f")], 0), 100.0);
        assert_eq!(found, Verdict::Open { stages: Vec::new() });
    }

    #[test]
    fn a_remedy_depends_on_the_program_and_what_it_does() {
        let remedy = |command, why| remedy(command, 7, why).unwrap_or_default();
        assert!(remedy("/usr/bin/gzip -9", Why::Computes(1.0)).contains("pigz"));
        assert!(remedy("gzip", Why::Waits(StageState::Stopped)).contains("kill -CONT 7"));
        assert!(remedy("gush pv -L 1M", Why::Waits(StageState::Event)).contains("gush pv -R 7"));
        assert!(remedy("/usr/bin/pv -L 1M", Why::Waits(StageState::Event)).contains(": pv -R 7"));
        assert_eq!(remedy("sh -c pv x", Why::Waits(StageState::Event)), "");
        assert_eq!(remedy("gzip", Why::Waits(StageState::Lock)), "");
    }
}
