//! Random moves between all ends by all methods, against a plain model in memory.

#[path = "../common/mod.rs"]
mod common;

mod outcome;
mod plan;

use common::{is_root, skipped, within};
use plan::Plan;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn moves_agree_with_the_model(cases: u32) {
    if !is_root() {
        skipped("block devices: a loop device needs root");
    }
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 300, ..Config::default() };
    let outcome = TestRunner::new(config).run(&plan::any_plan(is_root()), |plan: Plan| {
        let name = format!("{plan:?}");
        let judged = within(60, &name, move || outcome::of(&plan));
        judged.map_err(TestCaseError::fail)
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn moved_bytes_positions_reports_and_surroundings_agree_with_the_model() {
    moves_agree_with_the_model(gush_test::few_or_all(300, 1500, "moves"));
}

#[test]
#[ignore = "campaign: 20,000 moves"]
fn campaign_many_moves_agree_with_the_model() {
    moves_agree_with_the_model(20_000);
}
