//! `gush`: familiar names, the fastest sound way to move bytes.
//!
//! Arguments in, exit status out; one module a command. Called by the name `cp`, `cat`, `pv`,
//! `tee`, `yes` or `socat`, the program is that command.
// Helpers of commands that are left out would be reported as dead code.
#![cfg_attr(not(all(feature = "lab", feature = "link")), allow(dead_code, unused_imports))]

#[cfg(test)]
use gush_test as _;

mod about;
mod args;
mod cat;
mod completions;
mod console;
mod cp;
mod files;
mod json;
#[cfg(feature = "lab")]
mod lab;
#[cfg(feature = "link")]
mod link;
mod listed;
mod manual;
mod method;
mod pv;
mod serve_tree;
mod tee;
mod yes;

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    gush_process::restore_sigpipe();
    let mut words = env::args_os();
    let called_as = words.next().unwrap_or_default();
    match Path::new(&called_as).file_name().and_then(OsStr::to_str) {
        Some("cp") => cp::run(words, "cp"),
        Some("cat") => cat::run(words, "cat"),
        Some("pv") => pv::run(words, "pv"),
        Some("tee") => tee::run(words, "tee"),
        Some("yes") => yes::run(words, "yes"),
        Some("socat") => match about::optional("socat") {
            Some(socat) => socat.run(words.collect()),
            None => dispatch(words.collect()),
        },
        _ => dispatch(words.collect()),
    }
}

fn dispatch(words: Vec<OsString>) -> ExitCode {
    let command = words.first().and_then(|word| word.to_str());
    let rest = words.iter().skip(1).cloned();
    match command {
        Some("cp") => cp::run(rest, "gush cp"),
        Some("cat") => cat::run(rest, "gush cat"),
        Some("pv") => pv::run(rest, "gush pv"),
        Some("tee") => tee::run(rest, "gush tee"),
        Some("yes") => yes::run(rest, "gush yes"),
        Some("serve-tree") => serve_tree::run(rest),
        Some(name) => match about::optional(name) {
            Some(command) => command.run(rest.collect()),
            None => about::run(words),
        },
        None => about::run(words),
    }
}
