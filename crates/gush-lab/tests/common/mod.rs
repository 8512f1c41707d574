//! What the tests of the report share.
#![allow(dead_code, reason = "each test program uses a part of it")]

use gush_lab::model::Run;
#[allow(unused_imports, reason = "each test program uses a part of it")]
pub use gush_test::{not_applicable, skipped};

/// Three runs of one machine and one of another, as an export has them.
pub fn runs() -> Vec<Run> {
    let text = include_str!("../data/report-runs.json");
    let mut document: serde_json::Value = serde_json::from_str(text).unwrap();
    serde_json::from_value(document["runs"].take()).unwrap()
}

/// The newest of them, which has every suite.
pub fn one() -> Run {
    runs().pop().unwrap()
}
