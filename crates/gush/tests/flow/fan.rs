//! The fan without a kernel: every answer to every call, on the sources and targets whose rules
//! differ.

use gush::flow::{PortState, Terms};
use gush::{Choice, Kind, MethodName};

use crate::fan_model;
use crate::script::{self, Answer, Script};

/// Sources and targets whose rules differ, with the terms that lead to each way.
fn fans() -> Vec<(&'static str, PortState, Vec<PortState>, Terms)> {
    let quick = |kind| PortState::known(kind, true);
    let slow = |kind| PortState::known(kind, false);
    let auto = Terms { short_bytes: 8, buffer_bytes: 16, ..Terms::default() };
    let only = |method| Terms { choice: Choice::Only(method), ..auto };
    use Kind::{Datagram, File, Pipe, Stream, Terminal};
    let pipes = vec![slow(Pipe), slow(Pipe)];
    vec![
        ("pipe to one pipe", slow(Pipe), vec![slow(Pipe)], auto),
        ("pipe to one file", slow(Pipe), vec![quick(File)], auto),
        ("pipe to two pipes", slow(Pipe), pipes.clone(), auto),
        ("pipe to three pipes", slow(Pipe), vec![slow(Pipe), slow(Pipe), slow(Pipe)], auto),
        ("pipe to pipe and file", slow(Pipe), vec![slow(Pipe), quick(File)], auto),
        ("pipe to file and pipe", slow(Pipe), vec![quick(File), slow(Pipe)], auto),
        ("pipe to two files", slow(Pipe), vec![quick(File), quick(File)], auto),
        ("pipe to blocking stream and stream", slow(Pipe), vec![slow(Stream), quick(Stream)], auto),
        ("stream to pipe and stream", quick(Stream), vec![slow(Pipe), quick(Stream)], auto),
        (
            "blocking stream, limited, to two pipes",
            slow(Stream),
            pipes.clone(),
            Terms { length_bytes: Some(20), ..auto },
        ),
        ("file to pipe and stream", quick(File), vec![slow(Pipe), quick(Stream)], auto),
        (
            "file to two pipes, isolated",
            quick(File),
            pipes.clone(),
            Terms { isolated: true, ..auto },
        ),
        ("pipe to two pipes, spliced", slow(Pipe), pipes.clone(), only(MethodName::Splice)),
        (
            "pipe to file and stream, spliced",
            slow(Pipe),
            vec![quick(File), quick(Stream)],
            only(MethodName::Splice),
        ),
        (
            "stream to two pipes, through memory",
            quick(Stream),
            pipes,
            Terms { through_memory: true, ..auto },
        ),
        ("terminal to terminal and file", slow(Terminal), vec![slow(Terminal), quick(File)], auto),
        ("pipe to pipe and terminal", slow(Pipe), vec![slow(Pipe), slow(Terminal)], auto),
        (
            "datagrams to datagrams and stream",
            quick(Datagram),
            vec![quick(Datagram), quick(Stream)],
            auto,
        ),
        ("stream to datagrams and pipe", quick(Stream), vec![quick(Datagram), slow(Pipe)], auto),
    ]
}

/// Every sequence of `depth` answers, on every fan.
fn every_script(depth: usize) -> u64 {
    let played = |(name, source, targets, terms): (_, _, Vec<_>, _)| {
        let answers = Answer::ALL.len() - 1;
        script::every(depth, answers, |script| {
            fan_model::play(name, source, &targets, &terms, script, None)
        })
    };
    fans().into_iter().map(played).sum()
}

#[test]
fn every_answer_to_every_call_keeps_each_lanes_account() {
    let (depth, least) = if gush_test::is_whole() { (5, 100_000) } else { (4, 10_000) };
    let scripts = every_script(depth);
    assert!(scripts > least, "only {scripts} scripts were played");
    gush_test::not_run(5 - depth, 5, "answers to each fan");
}

#[test]
#[ignore = "millions of scripts: minutes in a release build"]
fn every_answer_to_every_call_keeps_each_lanes_account_to_a_greater_depth() {
    println!("{} scripts", every_script(7));
}

#[test]
fn long_random_scripts_keep_each_lanes_account() {
    let mut seen = fan_model::Seen::default();
    for seed in 0..u64::from(gush_test::few_or_all(200, 800, "scripts of each fan")) {
        for (name, source, targets, terms) in fans() {
            let script = &mut Script::random(seed, 150);
            fan_model::play(name, source, &targets, &terms, script, Some((seed, &mut seen)));
        }
    }
    // What the model has rules for did happen.
    assert!(seen.is_complete(), "{seen:?}");
}
