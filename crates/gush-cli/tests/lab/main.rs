//! `gush lab`, and `doctor`, `tune` and `pipe`, which the same feature brings.

#[path = "../common/mod.rs"]
mod common;

mod copy;
mod doctor;
mod explain;
mod matrix;
mod matrix_rules;
mod memory;
mod pages;
mod picture;
mod pipe;
mod pipe_programs;
mod pipe_weather;
mod programs;
mod report;
mod run;
mod run_ends;
mod run_fair;
mod run_figures;
mod run_files;
mod run_hyperfine;
mod run_outputs;
mod run_samples;
mod runs;
mod store;
mod tour;
mod tune;

/// The samples that a command printed with `--json`.
fn samples(output: &std::process::Output) -> Vec<serde_json::Value> {
    let mut run: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"));
    serde_json::from_value(run["runs"][0]["samples"].take()).unwrap()
}
