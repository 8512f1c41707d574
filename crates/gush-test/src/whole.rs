//! Tables of thousands of cells: a sample every day, all of them where `GUSH_TEST_WHOLE=1` is set,
//! as in `.ci/run`.
//!
//! A sample is the same in every run, and says how much was left out.

use std::collections::HashSet;
use std::hash::Hash;

/// Set to `1`, it has nothing left out.
pub const WHOLE: &str = "GUSH_TEST_WHOLE";

/// Whether the tables are to be tried whole.
#[must_use]
pub fn is_whole() -> bool {
    std::env::var_os(WHOLE).is_some_and(|value| value == "1")
}

/// `few` random `things`, or `all` of a whole run.
#[must_use]
pub fn few_or_all(few: u32, all: u32, things: &str) -> u32 {
    if is_whole() {
        return all;
    }
    not_run(all.saturating_sub(few) as usize, all as usize, things);
    few.min(all)
}

/// Some of these `things` in which every key of any of them occurs, in their order; in a whole run,
/// all.
pub fn sampled<T, K: Eq + Hash>(all: Vec<T>, things: &str, keys: impl Fn(&T) -> Vec<K>) -> Vec<T> {
    if is_whole() {
        return all;
    }
    let number = all.len();
    let chosen = cover(&all.iter().map(keys).collect::<Vec<_>>());
    let sample: Vec<T> = all
        .into_iter()
        .zip(chosen)
        .filter_map(|(one, is_chosen)| is_chosen.then_some(one))
        .collect();
    not_run(number - sample.len(), number, things);
    sample
}

/// Says that so many `things` are left out; nothing, if none is.
pub fn not_run(left_out: usize, all: usize, things: &str) {
    if left_out > 0 {
        super::say(
            "NOT RUN",
            &format!("{left_out} of {all} {things}; {WHOLE}=1 runs all, as .ci/run does"),
        );
    }
}

/// Which cells are enough for every key of any cell to occur: a cell is taken if one of its keys is
/// new. The cells are looked at in steps of about 0.618 of their number, so that neighbours, which
/// have most keys in common, are not looked at one after the other.
#[must_use]
pub fn cover<K: Eq + Hash>(keys: &[Vec<K>]) -> Vec<bool> {
    let number = keys.len();
    let has_common_factor =
        |step: usize| (2..=step).any(|by| step.is_multiple_of(by) && number.is_multiple_of(by));
    let mut step = (number * 618 / 1000).max(1);
    while has_common_factor(step) {
        step += 1;
    }
    let (mut seen, mut chosen) = (HashSet::new(), vec![false; number]);
    for at in (0..number).map(|turn| turn * step % number) {
        for key in &keys[at] {
            chosen[at] |= seen.insert(key);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn a_sample_has_every_row_and_every_column() {
        for (rows, columns) in [(0, 0), (1, 1), (7, 7), (40, 61), (100, 3)] {
            let cells: Vec<Vec<(char, usize)>> = (0..rows * columns)
                .map(|at| vec![('r', at / columns), ('c', at % columns)])
                .collect();
            let chosen = super::cover(&cells);
            let keys: HashSet<_> = cells
                .iter()
                .zip(&chosen)
                .filter(|(_, chosen)| **chosen)
                .flat_map(|(cell, _)| cell)
                .collect();
            assert_eq!(keys.len(), rows + columns);
            let number = chosen.iter().filter(|chosen| **chosen).count();
            assert!(number <= rows + columns, "{number} of {rows} by {columns}");
        }
    }
}
