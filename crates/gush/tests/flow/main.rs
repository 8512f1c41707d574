//! The flow without a kernel: a script answers each call, and a model of the bytes that left the
//! source, that the pipe and the buffer hold and that arrived says which call may come next.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod answers;
mod fan;
mod fan_account;
mod fan_answers;
mod fan_model;
mod fan_real;
mod model;
mod parts;
mod real;
mod routes;
mod script;

use std::fs::File;
use std::os::fd::AsFd;

use gush::flow::{Fds, Flow, Next, Op, PortState, Shelf, Terms};
use gush::pipe::Pool;
use gush::{Choice, Errno, Kind, MethodName};
use script::{Answer, Script};

/// The pairs of ports whose rules differ, with the terms that lead to each way.
fn pairs() -> Vec<(&'static str, PortState, PortState, Terms)> {
    let quick = |kind| PortState::known(kind, true);
    let slow = |kind| PortState::known(kind, false);
    let auto = Terms { short_bytes: 8, buffer_bytes: 16, ..Terms::default() };
    let only = |method| Terms { choice: Choice::Only(method), ..auto };
    use Kind::{Block, Character, Datagram, File, Pipe, Stream, Terminal};
    let holes = Terms { make_holes: true, ..only(MethodName::ReadWrite) };
    // So near to the end of a unit of zeros that most reads go beyond.
    let in_file = quick(File).at(4090);
    vec![
        ("stream to stream", quick(Stream), quick(Stream), auto),
        (
            "stream to stream, limited",
            quick(Stream),
            quick(Stream),
            Terms { length_bytes: Some(20), ..auto },
        ),
        ("stream to stream, spliced", quick(Stream), quick(Stream), only(MethodName::Splice)),
        ("blocking stream to blocking stream", slow(Stream), slow(Stream), auto),
        ("file to stream", quick(File), quick(Stream), auto),
        (
            "file to stream, by sendfile only",
            quick(File),
            quick(Stream),
            only(MethodName::Sendfile),
        ),
        ("file to blocking stream", quick(File), slow(Stream), auto),
        ("file to pipe, by sendfile only", quick(File), slow(Pipe), only(MethodName::Sendfile)),
        ("stream to stream, lent", quick(Stream), quick(Stream), only(MethodName::Vmsplice)),
        ("pipe to blocking stream, lent", slow(Pipe), slow(Stream), only(MethodName::Vmsplice)),
        ("file to file, lent", quick(File), quick(File), only(MethodName::Vmsplice)),
        ("datagrams to stream, lent", quick(Datagram), quick(Stream), only(MethodName::Vmsplice)),
        (
            "file to pipe, of a size that it reports",
            quick(File),
            slow(Pipe),
            Terms { expected_bytes: Some(20), ..only(MethodName::Splice) },
        ),
        (
            "file to stream, spliced, read again after a refusal",
            quick(File),
            quick(Stream),
            Terms { rereads: true, ..only(MethodName::Splice) },
        ),
        (
            "file to stream, lent, read again after a refusal",
            quick(File),
            quick(Stream),
            Terms { rereads: true, ..only(MethodName::Vmsplice) },
        ),
        ("file to file, with holes", quick(File), in_file, holes),
        ("stream to file, with holes", quick(Stream), in_file, holes),
        (
            "stream to file, with holes, limited",
            quick(Stream),
            in_file,
            // One whole read: what a smaller buffer keeps of an earlier one would not be what a
            // read finds.
            Terms { length_bytes: Some(16), ..holes },
        ),
        ("datagrams to file, with holes", quick(Datagram), in_file, holes),
        ("block device to pipe", quick(Block), slow(Pipe), auto),
        ("pipe to pipe", slow(Pipe), slow(Pipe), auto),
        ("pipe to stream", slow(Pipe), quick(Stream), auto),
        ("stream to file", quick(Stream), quick(File), auto),
        (
            "stream to file, through memory",
            quick(Stream),
            quick(File),
            Terms { through_memory: true, ..auto },
        ),
        ("character device to pipe", slow(Character), slow(Pipe), auto),
        ("terminal to stream", slow(Terminal), quick(Stream), auto),
        ("terminal to stream, spliced", slow(Terminal), quick(Stream), only(MethodName::Splice)),
        ("datagrams to stream", quick(Datagram), quick(Stream), auto),
        ("stream to datagrams", quick(Stream), quick(Datagram), auto),
        ("datagrams to datagrams", quick(Datagram), quick(Datagram), auto),
        (
            "datagrams to datagrams, limited",
            quick(Datagram),
            quick(Datagram),
            Terms { length_bytes: Some(20), ..auto },
        ),
    ]
}

/// Every sequence of `depth` answers, on every pair.
fn every_script(depth: usize) -> u64 {
    let played = |(name, source, target, terms)| {
        script::every(depth, Answer::ALL.len(), |script| {
            model::play(name, source, target, &terms, script)
        })
    };
    pairs().into_iter().map(played).sum()
}

#[test]
fn every_answer_to_every_call_keeps_the_account() {
    let (depth, least) = if gush_test::is_whole() { (5, 100_000) } else { (4, 10_000) };
    let scripts = every_script(depth);
    assert!(scripts > least, "only {scripts} scripts were played");
    gush_test::not_run(5 - depth, 5, "answers to each flow");
}

#[test]
#[ignore = "millions of scripts: minutes in a release build"]
fn every_answer_to_every_call_keeps_the_account_to_a_greater_depth() {
    println!("{} scripts", every_script(8));
}

#[test]
fn long_random_scripts_keep_the_account() {
    for seed in 0..u64::from(gush_test::few_or_all(200, 2_000, "scripts of each pair")) {
        for (name, source, target, terms) in pairs() {
            model::play(name, source, target, &terms, &mut Script::random(seed, 120));
        }
    }
}

/// A relay that is idle holds two flows and nothing else of the engine's: they are its memory.
#[test]
fn a_flow_is_small_and_can_be_sent_to_another_thread() {
    fn is_send<T: Send>() -> usize {
        size_of::<T>()
    }
    assert!(is_send::<gush::flow::Flow>() <= 304, "{} bytes", is_send::<gush::flow::Flow>());
}

/// A driver that keeps account of some methods only gets no other, whether the plan or the user
/// names it.
#[test]
fn a_method_that_the_driver_does_not_permit_is_refused_by_name_and_left_out_by_the_plan() {
    let (file, stream) = (PortState::known(Kind::File, true), PortState::known(Kind::Stream, true));
    let first_op = |terms: &Terms| {
        let mut flow = Flow::between(file, stream, terms)?;
        Ok::<_, gush::Refusal>(flow.next(u64::MAX, &mut Shelf::new(Pool::new(4 << 20, 4))))
    };
    let by_plan = Terms::default();
    assert!(
        matches!(first_op(&by_plan), Ok(Next::Do(Op::Sendfile(_)))),
        "{:?}",
        first_op(&by_plan)
    );
    let without = Terms { permitted: &[MethodName::Splice], ..by_plan };
    assert!(matches!(first_op(&without), Ok(Next::Do(Op::Fill(_)))), "{:?}", first_op(&without));
    let by_memory = Terms { permitted: &[], ..by_plan };
    assert!(
        matches!(first_op(&by_memory), Ok(Next::Do(Op::Read(_)))),
        "{:?}",
        first_op(&by_memory)
    );
    for &method in MethodName::ALL {
        let by_name = Terms { choice: Choice::Only(method), permitted: &[], ..by_plan };
        let is_refused = first_op(&by_name).is_err();
        assert_eq!(is_refused, method != MethodName::ReadWrite, "{method}");
    }
}

/// A driver answers for a side in memory: no system call is made for that side, by any method.
#[test]
fn a_side_without_a_descriptor_is_served_by_memory_alone() {
    let memory = PortState::in_memory();
    let kinds = [Kind::File, Kind::Pipe, Kind::Stream, Kind::Terminal, Kind::Character];
    let others = kinds.map(|kind| PortState::known(kind, true));
    let pairs = others.iter().flat_map(|&other| [(memory, other), (other, memory)]);
    let null = File::options().read(true).write(true).open("/dev/null").expect("a device");
    let mut shelf = Shelf::new(Pool::new(4 << 20, 4));
    for (source, target) in pairs.chain([(memory, memory)]) {
        let name = format!("{source:?} -> {target:?}");
        let mut flow = Flow::between(source, target, &Terms::default()).expect("a route");
        let Next::Do(read @ Op::Read(_)) = flow.next(u64::MAX, &mut shelf) else {
            panic!("{name}: it reads")
        };
        let made = flow.perform(read, Fds::one(null.as_fd()));
        assert_eq!(made == Err(Errno::BADF), source.is_in_memory(), "{name}: {made:?}");
        flow.room(read)[..4].copy_from_slice(b"text");
        assert!(flow.pending(read).is_empty() && flow.room(Op::Write).is_empty());
        flow.learn(read, Ok(4), &mut ());
        let Next::Do(Op::Write) = flow.next(u64::MAX, &mut shelf) else {
            panic!("{name}: it writes")
        };
        assert_eq!(flow.pending(Op::Write), b"text", "{name}");
        flow.learn(Op::Write, Ok(3), &mut ());
        assert_eq!(flow.pending(Op::Write), b"t", "{name}");
        if target.is_in_memory() {
            assert_eq!(flow.perform(Op::Write, Fds::one(null.as_fd())), Err(Errno::BADF), "{name}");
        }
        for &method in MethodName::ALL {
            let by_name = Terms { choice: Choice::Only(method), ..Terms::default() };
            let refused = Flow::between(source, target, &by_name).is_err();
            assert_eq!(refused, method != MethodName::ReadWrite, "{name} by {method}");
        }
    }
}

/// A read that fills the room for a short message shows that there is more; a splice of less than a
/// quarter of that shows that there is not.
#[test]
fn short_messages_pass_through_memory_and_long_ones_by_reference() {
    let stream = PortState::known(Kind::Stream, true);
    let terms = Terms { short_bytes: 16_384, ..Terms::default() };
    let mut flow = Flow::between(stream, stream, &terms).expect("a route");
    let mut shelf = Shelf::new(Pool::new(4 << 20, 4));
    let read = [(4095, false), (1, false), (16_383, false), (16_384, true)];
    let spliced = [(16_384, true), (4096, true), (100_000, true), (4095, false)];
    for (bytes, more) in [read, spliced, read, spliced].concat() {
        let Next::Do(take) = flow.next(u64::MAX, &mut shelf) else { panic!("it can take") };
        let by_reference = matches!(take, Op::Fill(_));
        assert!(by_reference || take == Op::Read(16_384), "{take:?}");
        flow.learn(take, Ok(bytes), &mut ());
        let Next::Do(put) = flow.next(u64::MAX, &mut shelf) else { panic!("it can deliver") };
        assert_eq!(put, if by_reference { Op::Empty } else { Op::Write });
        flow.learn(put, Ok(bytes), &mut ());
        let next = flow.next(u64::MAX, &mut shelf);
        let is_fill = matches!(next, Next::Do(Op::Fill(_)));
        assert_eq!(is_fill, more, "after {bytes} bytes by {take:?}: {next:?}");
    }
}
