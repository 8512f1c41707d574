//! How connections end: every ending with every two kinds of ends, a test each. `ENDINGS` of `endings.rs` is the table,
//! `model.rs` has the rules, and `docs/endings.md` shows both.
//!
//! `cargo test -p gush-cli --test endings -- resets/tcp` plays the cells of one row.

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

use endings::{ENDINGS, pairs};

/// Longer than anything takes that is not stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// Most cells wait, for a limit or for a process: more at once than there are processors.
const CELLS_AT_ONCE: usize = 24;

/// One of so many cells with full buffers is played every day; `-- --ignored large` plays the others.
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
    let mut cells = 0;
    for ending in &ENDINGS {
        for (pair, rule) in pairs(ending) {
            if rule.is_some() {
                continue;
            }
            let sizes = ending.has_sizes(&pair).then(|| pair.enlarged()).flatten();
            let order = if pair.ender_is_first { "first" } else { "second" };
            let name = format!("{}/{}/{}/{order}", ending.name, pair.ender.name, pair.other.name);
            trials.push(Trial::test(name.clone(), move || {
                stage::play(ending, &pair).map_err(Failed::from)
            }));
            let Some(large) = sizes else { continue };
            cells += 1;
            let play = move || stage::play(ending, &large).map_err(Failed::from);
            let is_left_for_later = cells % LARGE_SAMPLE != 0 && name != LARGE_FAULT;
            trials.push(Trial::test(name + "/large", play).with_ignored_flag(is_left_for_later));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}
