//! `gush cp`: files and trees.

#[path = "../common/mod.rs"]
mod common;

mod changing;
mod commit_last;
mod dry_run;
mod equality;
mod faults;
mod filters;
mod kept;
mod kinds;
mod links;
mod memory;
mod methods;
mod mirror;
mod no_cache;
mod on_error;
mod only_changed;
mod parallel;
mod promises;
mod pull;
mod races;
mod refused;
mod remote;
mod removals;
mod resume;
mod shards;
mod sparse;
mod talk;
mod tree_faults;
mod tree_weather;
mod trees;
mod via;
mod weather;
