//! How connections end: every ending with every two kinds of ends, a test each. `ENDINGS` of
//! `endings.rs` is the table, `model.rs` has the rules, and `docs/endings.md` shows both.
//!
//! Every day a sample is played: each ending with each kind at each end in either order, and each
//! two kinds. `GUSH_TEST_WHOLE=1` plays all. `cargo test -p gush-cli --test endings -- resets/tcp`
//! plays all cells of one row.

#[path = "../common/mod.rs"]
mod common;
mod document;
mod endings;
mod kinds;
mod model;
mod place;
mod port;
mod proxy;
mod puppet;
mod script;
mod stage;

use std::path::Path;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

use endings::{ENDINGS, Ending, Pair, pairs};

/// Longer than anything takes that is not stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// Most cells wait, for a limit or for a process: more at once than there are processors.
const CELLS_AT_ONCE: usize = 24;

/// One of so many cells with full buffers is played every day; `-- --ignored large` plays the
/// others.
const LARGE_SAMPLE: usize = 67;

/// Played every day, too: data of TLS that the link has not read yet were lost here.
const LARGE_FAULT: &str = "finishes/tls/pipe/first";

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if let [_, word, dir, name] = &words[..]
        && word == puppet::WORD
    {
        puppet::run(Path::new(dir), name);
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(CELLS_AT_ONCE);
    let mut trials = vec![Trial::test("the_document_has_this_table", || {
        document::agrees().map_err(Failed::from)
    })];
    let cells: Vec<(&Ending, Pair)> = ENDINGS
        .iter()
        .flat_map(|ending| pairs(ending).map(move |(pair, rule)| (ending, pair, rule)))
        .filter_map(|(ending, pair, rule)| rule.is_none().then_some((ending, pair)))
        .collect();
    let asks_for_all = gush_test::is_whole() || arguments.filter.is_some();
    let keys: Vec<_> = cells.iter().map(|(ending, pair)| keys(ending, pair)).collect();
    let mut is_chosen = gush_test::cover(&keys);
    let mut large = 0;
    for (at, (ending, pair)) in cells.into_iter().enumerate() {
        let order = if pair.ender_is_first { "first" } else { "second" };
        let name = format!("{}/{}/{}/{order}", ending.name, pair.ender.name, pair.other.name);
        is_chosen[at] |= asks_for_all;
        if is_chosen[at] || arguments.ignored || arguments.include_ignored {
            let play = move || stage::play(ending, &pair).map_err(Failed::from);
            trials.push(Trial::test(name.clone(), play).with_ignored_flag(!is_chosen[at]));
        }
        let Some(enlarged) = ending.has_sizes(&pair).then(|| pair.enlarged()).flatten() else {
            continue;
        };
        large += 1;
        let play = move || stage::play(ending, &enlarged).map_err(Failed::from);
        let is_left_for_later = large % LARGE_SAMPLE != 0 && name != LARGE_FAULT;
        trials.push(Trial::test(name + "/large", play).with_ignored_flag(is_left_for_later));
    }
    let left_out = is_chosen.iter().filter(|is_chosen| !**is_chosen).count();
    gush_test::not_run(left_out, is_chosen.len(), "cells of the table of endings");
    libtest_mimic::run(&arguments, trials).exit();
}

/// A sample has each of these once.
fn keys(ending: &Ending, pair: &Pair) -> Vec<String> {
    let Pair { ender, other, ender_is_first, .. } = pair;
    vec![
        format!("{} by {} {ender_is_first}", ending.name, ender.name),
        format!("{} for {} {ender_is_first}", ending.name, other.name),
        format!("{} and {}", ender.name, other.name),
    ]
}
