//! Single answers to a flow's calls, and the required next step.

use std::io::Write;
use std::os::fd::AsFd;

use gush::flow::{Completion, Failure, Fds, Flow, Next, Op, PortState, Shelf, Terms};
use gush::pipe::Pool;
use gush::{Call, Choice, Errno, Kind, MethodName, Side};

use crate::real::pattern;

fn shelf() -> Shelf {
    Shelf::new(Pool::new(4 << 20, 4))
}

fn due(flow: &mut Flow, shelf: &mut Shelf) -> Op {
    match flow.next(u64::MAX, shelf) {
        Next::Do(op) => op,
        other => panic!("no call is due: {other:?}"),
    }
}

/// The failure that a flow reports each time it is asked.
fn failed(flow: &mut Flow, shelf: &mut Shelf) -> (Call, Side, Errno) {
    let reported = [(); 2].map(|()| match flow.next(u64::MAX, shelf) {
        Next::Failed(failure) => match *failure {
            Failure::Fault(fault) => {
                assert_eq!(failure.errno(), Some(fault.errno));
                (fault.call, fault.side, fault.errno)
            }
            other => panic!("no fault: {other:?}"),
        },
        other => panic!("not failed: {other:?}"),
    });
    assert_eq!(reported[0], reported[1]);
    reported[0]
}

/// The rest of a message has no place in the next message.
#[test]
fn a_message_that_was_cut_is_an_error_and_a_part_of_a_stream_is_none() {
    for (to, is_cut) in [(Kind::Datagram, true), (Kind::Stream, false)] {
        let (mut shelf, terms) = (shelf(), Terms { through_memory: true, ..Terms::default() });
        let state = |kind| PortState::known(kind, true);
        let mut flow = Flow::between(state(Kind::Stream), state(to), &terms).expect("a route");
        assert!(matches!(due(&mut flow, &mut shelf), Op::Read(_)));
        flow.learn(Op::Read(100), Ok(100), &mut ());
        assert_eq!(due(&mut flow, &mut shelf), Op::Write);
        flow.learn(Op::Write, Ok(60), &mut ());
        assert_eq!((flow.delivered_bytes(), flow.in_flight_bytes()), (60, 40), "to a {to:?}");
        if is_cut {
            let reported = failed(&mut flow, &mut shelf);
            assert_eq!(reported, (Call::Write, Side::Target, Errno::MSGSIZE));
        } else {
            assert_eq!(due(&mut flow, &mut shelf), Op::Write);
            flow.learn(Op::Write, Ok(40), &mut ());
            assert!(matches!(due(&mut flow, &mut shelf), Op::Read(_)));
        }
    }
}

/// The bytes are taken and only in memory: lending them again would repeat the refused call for
/// ever.
#[test]
fn bytes_that_could_not_be_lent_are_written_before_the_refusal_is_reported() {
    let bytes = Terms::default().short_bytes;
    let terms = Terms { choice: Choice::Only(MethodName::Vmsplice), ..Terms::default() };
    let state = PortState::known(Kind::Stream, true);
    let (mut shelf, mut flow) = (shelf(), Flow::between(state, state, &terms).expect("a route"));
    assert!(matches!(due(&mut flow, &mut shelf), Op::Read(_)));
    flow.learn(Op::Read(bytes), Ok(bytes), &mut ());
    assert_eq!(due(&mut flow, &mut shelf), Op::Lend);
    flow.learn(Op::Lend, Err(Errno::INVAL), &mut ());
    for left in [bytes, bytes - 100] {
        assert_eq!(flow.in_flight_bytes(), left as u64);
        assert_eq!(due(&mut flow, &mut shelf), Op::Write);
        flow.learn(Op::Write, Ok(if left == bytes { 100 } else { left }), &mut ());
    }
    assert_eq!((flow.delivered_bytes(), flow.in_flight_bytes()), (bytes as u64, 0));
    match flow.next(u64::MAX, &mut shelf) {
        Next::Failed(failure) => assert!(matches!(*failure, Failure::Refused(_)), "{failure:?}"),
        other => panic!("not failed: {other:?}"),
    }
}

/// EIO is an end where the other side of a pseudo-terminal was closed, and an error elsewhere.
#[test]
fn only_the_master_of_a_terminal_ends_with_eio() {
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let master = rustix::pty::openpt(flags).expect("a pseudo-terminal");
    rustix::pty::unlockpt(&master).expect("a slave");
    let name = rustix::pty::ptsname(&master, Vec::new()).expect("its name");
    let (read_write, none) = (rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty());
    let slave = rustix::fs::open(name, read_write | rustix::fs::OFlags::NOCTTY, none);
    drop(slave.expect("a slave"));
    assert_eq!(rustix::io::read(&master, &mut [0; 8]), Err(Errno::IO), "the kernel's own answer");
    assert_eq!(gush::Port::of(&master).expect("a terminal").read(&mut [0; 8]), Ok(0));

    let terminal = PortState::known(Kind::Terminal, true);
    let target = PortState::known(Kind::Stream, true);
    let mut flow = Flow::between(terminal, target, &Terms::default()).expect("a route");
    let mut shelf = shelf();
    let read = loop {
        match due(&mut flow, &mut shelf) {
            Op::Ready(side) => drop(flow.learn(Op::Ready(side), Ok(0), &mut ())),
            op => break op,
        }
    };
    flow.learn(read, Err(Errno::IO), &mut ());
    assert_eq!(failed(&mut flow, &mut shelf), (Call::Read, Side::Source, Errno::IO));
}

/// Data, then zeros up to the end: of a file to a file, where zeros become holes.
struct Sparse {
    flow: Flow,
    shelf: Shelf,
    from: std::fs::File,
    to: std::fs::File,
}

const UNIT: usize = 4096;

impl Sparse {
    fn of(content: &[u8]) -> Self {
        let mut from = tempfile::tempfile().expect("a file");
        from.write_all(content).expect("room");
        let mut to = tempfile::tempfile().expect("a file");
        to.write_all(&vec![7; content.len()]).expect("old content");
        let terms = Terms {
            choice: Choice::Only(MethodName::ReadWrite),
            make_holes: true,
            buffer_bytes: UNIT,
            ..Terms::default()
        };
        let state = |file| PortState::of(file).expect("a file").at(0);
        let flow = Flow::between(state(&from), state(&to), &terms).expect("a route");
        Self { flow, shelf: shelf(), from, to }
    }

    fn due(&mut self) -> Op {
        due(&mut self.flow, &mut self.shelf)
    }

    /// Makes the call that is due.
    fn step(&mut self) -> Op {
        let op = self.due();
        let fds = Fds { source: self.from.as_fd(), target: self.to.as_fd() };
        let answer = self.flow.perform(op, fds);
        assert!(answer.is_ok(), "{op:?}: {answer:?}");
        self.flow.learn(op, answer, &mut ());
        op
    }

    /// Answers the call that is due by an error.
    fn fail(&mut self, errno: Errno) -> Op {
        let op = self.due();
        self.flow.learn(op, Err(errno), &mut ());
        op
    }

    fn counts(&self) -> [u64; 3] {
        [self.flow.taken_bytes(), self.flow.delivered_bytes(), self.flow.hole_bytes()]
    }

    fn content(&self) -> Vec<u8> {
        let mut all = vec![0; self.to.metadata().expect("a size").len() as usize];
        std::os::unix::fs::FileExt::read_exact_at(&self.to, &mut all, 0).expect("its content");
        all
    }
}

fn data_and_zeros(units: &str) -> Vec<u8> {
    let unit =
        |(at, kind)| if kind == 'd' { pattern(UNIT + at)[at..].to_vec() } else { vec![0; UNIT] };
    units.chars().enumerate().flat_map(unit).collect()
}

/// Zeros taken before the source failed are delivered, as data would have been.
#[test]
fn zeros_in_front_of_a_source_that_fails_are_a_hole() {
    let content = data_and_zeros("d00d");
    let mut sparse = Sparse::of(&content);
    for op in [Op::Read(UNIT), Op::Write, Op::Read(UNIT), Op::Read(UNIT)] {
        assert_eq!(sparse.step(), op);
    }
    let unit = UNIT as u64;
    assert_eq!(sparse.counts(), [3 * unit, unit, 0]);
    assert_eq!(sparse.fail(Errno::IO), Op::Read(UNIT));
    assert_eq!(sparse.step(), Op::Punch(2 * unit));
    assert_eq!(sparse.counts(), [3 * unit, 3 * unit, 2 * unit]);
    let reported = failed(&mut sparse.flow, &mut sparse.shelf);
    assert_eq!(reported, (Call::Read, Side::Source, Errno::IO));
    assert!(sparse.content()[..3 * UNIT] == content[..3 * UNIT], "other bytes");
    assert!(sparse.content()[3 * UNIT..].iter().all(|&byte| byte == 7), "it was not reached");
}

/// A hole that could not be made is not delivered, and the earlier end of the flow stays the cause.
#[test]
fn a_hole_that_fails_does_not_count() {
    let unit = UNIT as u64;
    for source_fails in [true, false] {
        let mut sparse = Sparse::of(&data_and_zeros("00d"));
        assert_eq!([sparse.step(), sparse.step()], [Op::Read(UNIT); 2]);
        if source_fails {
            assert_eq!(sparse.fail(Errno::IO), Op::Read(UNIT));
        } else {
            assert_eq!(sparse.step(), Op::Read(UNIT));
        }
        assert_eq!(sparse.fail(Errno::NOSPC), Op::Punch(2 * unit));
        let reported = failed(&mut sparse.flow, &mut sparse.shelf);
        let taken_bytes = if source_fails { 2 * unit } else { 3 * unit };
        assert_eq!(sparse.counts(), [taken_bytes, 0, 0]);
        assert_eq!(sparse.flow.in_flight_bytes(), taken_bytes);
        let of_source = (Call::Read, Side::Source, Errno::IO);
        let of_target = (Call::Fallocate, Side::Target, Errno::NOSPC);
        assert_eq!(reported, if source_fails { of_source } else { of_target });
        assert!(sparse.content().iter().all(|&byte| byte == 7), "old content was touched");
    }
}

/// `EAGAIN` is a wait for the hole as for any call, also before a failure is reported.
#[test]
fn a_hole_in_front_of_a_failure_waits_for_the_target() {
    let hole = Op::Punch(UNIT as u64);
    let mut sparse = Sparse::of(&data_and_zeros("0d"));
    assert_eq!(sparse.step(), Op::Read(UNIT));
    assert_eq!(sparse.fail(Errno::IO), Op::Read(UNIT));
    for _ in 0..2 {
        assert_eq!(sparse.fail(Errno::AGAIN), hole);
        let next = sparse.flow.next(u64::MAX, &mut sparse.shelf);
        assert_eq!(next, Next::Wait(Side::Target));
    }
    assert_eq!(sparse.step(), hole);
    let reported = failed(&mut sparse.flow, &mut sparse.shelf);
    assert_eq!(reported, (Call::Read, Side::Source, Errno::IO));
}

/// Zeros that were taken are not kept back while nothing more may be taken.
#[test]
fn zeros_are_a_hole_before_a_flow_is_throttled() {
    let mut sparse = Sparse::of(&data_and_zeros("00d"));
    assert_eq!([sparse.step(), sparse.step()], [Op::Read(UNIT); 2]);
    let next = sparse.flow.next(0, &mut sparse.shelf);
    assert_eq!(next, Next::Do(Op::Punch(2 * UNIT as u64)));
    sparse.flow.learn(Op::Punch(2 * UNIT as u64), Ok(2 * UNIT), &mut ());
    assert_eq!(sparse.flow.next(0, &mut sparse.shelf), Next::Throttled);
    assert_eq!(sparse.flow.in_flight_bytes(), 0);
}

/// The engine's memory is bounded for every size that a driver asks for (invariant 8).
#[test]
fn a_buffer_is_no_larger_than_the_engine_permits() {
    let state = PortState::known(Kind::File, true);
    for method in [MethodName::ReadWrite, MethodName::Vmsplice] {
        let choice = Choice::Only(method);
        let terms = Terms { choice, buffer_bytes: usize::MAX, ..Terms::default() };
        let mut flow = Flow::between(state, state, &terms).expect("a route");
        let Op::Read(bytes) = due(&mut flow, &mut shelf()) else { panic!("no read: {method}") };
        assert!(bytes <= gush::Tuning::MOST_BUFFER_BYTES, "{bytes} bytes by {method}");
    }
}

/// A file that grows at the end looks like this a few times; procfs does for ever.
#[test]
fn a_way_that_says_nothing_more_nine_times_where_a_read_finds_bytes_is_refused() {
    let (from, to) = (PortState::known(Kind::File, true), PortState::known(Kind::Pipe, true));
    for method in [MethodName::Splice, MethodName::Sendfile] {
        let (terms, mut shelf) =
            (Terms { choice: Choice::Only(method), ..Terms::default() }, shelf());
        let mut flow = Flow::between(from, to, &terms).expect("a route");
        for times in 1..=9 {
            let op = due(&mut flow, &mut shelf);
            assert!(matches!(op, Op::Direct(_) | Op::Sendfile(_)), "{times}: {op:?}");
            let refusal = flow.learn(op, Ok(0), &mut ()).refusal;
            assert_eq!(refusal.is_some(), times == 9, "{times} times by {method}");
            if times < 9 {
                let read = due(&mut flow, &mut shelf);
                assert!(matches!(read, Op::Read(_)), "{read:?}");
                flow.learn(read, Ok(1), &mut ());
                assert_eq!(due(&mut flow, &mut shelf), Op::Write);
                flow.learn(Op::Write, Ok(1), &mut ());
            }
        }
        match flow.next(u64::MAX, &mut shelf) {
            Next::Failed(why) => assert!(matches!(*why, Failure::FalseEnd(_)), "{why:?}"),
            other => panic!("not failed: {other:?}"),
        }
        assert_eq!((flow.delivered_bytes(), flow.in_flight_bytes()), (8, 0));
    }
}

/// `EAGAIN` of a call on both sides says nothing about a file, whose bytes are always there.
#[test]
fn after_an_again_only_sides_that_can_have_answered_are_asked() {
    let state = |kind| PortState::known(kind, true);
    let (file, stream) = (state(Kind::File), state(Kind::Stream));
    let terms = Terms { choice: Choice::Only(MethodName::Sendfile), ..Terms::default() };
    let mut flow = Flow::between(file, stream, &terms).expect("a route");
    let mut shelf = shelf();
    let op = due(&mut flow, &mut shelf);
    flow.learn(op, Err(Errno::AGAIN), &mut ());
    assert_eq!(due(&mut flow, &mut shelf), Op::Ready(Side::Target));

    let terms = Terms { choice: Choice::Only(MethodName::Splice), ..Terms::default() };
    let mut flow = Flow::between(state(Kind::Pipe), file, &terms).expect("a route");
    while let op @ Op::Ready(_) = due(&mut flow, &mut shelf) {
        flow.learn(op, Ok(0), &mut ());
    }
    let op = due(&mut flow, &mut shelf);
    assert!(matches!(op, Op::Direct(_)), "{op:?}");
    flow.learn(op, Err(Errno::AGAIN), &mut ());
    assert_eq!(due(&mut flow, &mut shelf), Op::Ready(Side::Source));
}

/// The source has bytes for a target without a reader: the error names the refused call.
#[test]
fn a_target_without_a_reader_is_reported_by_the_call_that_found_it() {
    let state = |kind| PortState::known(kind, true);
    for (method, target, call) in [
        (MethodName::Sendfile, Kind::Stream, Call::Sendfile),
        (MethodName::Splice, Kind::Pipe, Call::Splice),
    ] {
        let terms = Terms { choice: Choice::Only(method), ..Terms::default() };
        let (mut flow, mut shelf) =
            (Flow::between(state(Kind::File), state(target), &terms).expect("a route"), shelf());
        let op = due(&mut flow, &mut shelf);
        flow.learn(op, Err(Errno::PIPE), &mut ());
        assert_eq!(due(&mut flow, &mut shelf), Op::AskEnd, "{method}");
        flow.learn(Op::AskEnd, Ok(1), &mut ());
        assert_eq!(failed(&mut flow, &mut shelf), (call, Side::Target, Errno::PIPE));
    }
}

/// Zeros stay bytes unless holes were asked for, and where the target has no offset for a hole.
#[test]
fn zeros_are_written_unless_holes_are_wanted_and_can_be_made() {
    let files = [(); 2].map(|()| tempfile::tempfile().expect("a file"));
    for (make_holes, is_named) in [(false, true), (true, false)] {
        let terms = Terms {
            choice: Choice::Only(MethodName::ReadWrite),
            make_holes,
            buffer_bytes: UNIT,
            ..Terms::default()
        };
        let [source, target] = files.each_ref().map(|file| PortState::of(file).expect("a file"));
        let target = if is_named { target.at(0) } else { target };
        let mut flow = Flow::between(source.at(0), target, &terms).expect("a route");
        let mut shelf = shelf();
        let op = due(&mut flow, &mut shelf);
        assert!(matches!(op, Op::Read(_)), "{op:?}");
        flow.learn(op, Ok(UNIT), &mut ());
        assert_eq!(due(&mut flow, &mut shelf), Op::Write, "{make_holes}, {is_named}");
    }
}

/// By reference nobody sees zeros.
#[test]
fn holes_are_made_of_bytes_in_memory_whatever_the_plan_says() {
    let state = |kind| PortState::known(kind, true);
    let target = state(Kind::File).at(0);
    for source in [Kind::Pipe, Kind::Stream, Kind::File] {
        let terms = Terms { make_holes: true, ..Terms::default() };
        let mut flow = Flow::between(state(source), target, &terms).expect("a route");
        assert!(matches!(due(&mut flow, &mut shelf()), Op::Read(_)), "{source:?}");
        for method in [MethodName::Splice, MethodName::Vmsplice] {
            let by_name = Terms { choice: Choice::Only(method), ..terms };
            let refused = Flow::between(state(source), target, &by_name);
            let why = refused.expect_err("a refusal").to_string();
            assert!(why.contains("holes"), "{why}");
        }
    }
}

/// Behind the last byte that the source is said to have, a call by reference would only be asked in
/// vain; a read is one anyhow.
#[test]
fn after_the_expected_bytes_a_read_asks_for_the_end() {
    let state = |kind| PortState::known(kind, true);
    let (file, stream) = (state(Kind::File), state(Kind::Stream));
    for (method, first, last) in [
        (MethodName::Sendfile, Op::Sendfile(1 << 30), Op::Read(4096)),
        (MethodName::ReadWrite, Op::Read(64 << 10), Op::Read(64 << 10)),
    ] {
        let choice = Choice::Only(method);
        let terms = Terms { choice, expected_bytes: Some(100), ..Terms::default() };
        let mut flow = Flow::between(file, stream, &terms).expect("a route");
        let mut shelf = shelf();
        assert_eq!(due(&mut flow, &mut shelf), first);
        flow.learn(first, Ok(100), &mut ());
        if flow.in_flight_bytes() > 0 {
            assert_eq!(due(&mut flow, &mut shelf), Op::Write);
            flow.learn(Op::Write, Ok(100), &mut ());
        }
        assert_eq!(due(&mut flow, &mut shelf), last, "by {method}");
    }
}

/// The target fails while zeros wait: nobody makes a hole of bytes that the target is said not to
/// have.
#[test]
fn zeros_after_a_failure_of_the_target_are_no_hole() {
    let mut sparse = Sparse::of(&data_and_zeros("0d"));
    let ops = [sparse.step(), sparse.step(), sparse.step()];
    let unit = UNIT as u64;
    assert_eq!(ops, [Op::Read(UNIT), Op::Read(UNIT), Op::Punch(unit)]);
    assert_eq!(sparse.fail(Errno::NOSPC), Op::Write);
    let reported = failed(&mut sparse.flow, &mut sparse.shelf);
    assert_eq!(reported, (Call::Write, Side::Target, Errno::NOSPC));
    assert_eq!(sparse.counts(), [2 * unit, unit, unit]);
}

/// A flow may rest before any call: bytes in hand stay, and so do the zeros found among them.
#[test]
fn a_flow_that_rests_before_every_call_makes_the_same_holes() {
    let content = data_and_zeros("d0d00d");
    let mut sparse = Sparse::of(&content);
    while sparse.flow.next(u64::MAX, &mut sparse.shelf) != Next::Ended(Completion::Eof) {
        sparse.flow.rest(&mut sparse.shelf);
        assert!(sparse.flow.is_at_rest());
        sparse.step();
    }
    let bytes = content.len() as u64;
    assert_eq!(sparse.counts(), [bytes, bytes, 3 * UNIT as u64]);
    assert!(sparse.content() == content, "other bytes");
}

/// splice(2) reports a missing reader before it looks at the source: the source may yet end without
/// a byte.
#[test]
fn a_source_without_bytes_for_a_target_without_a_reader_is_waited_for() {
    for (answer, bytes_come) in [(Ok(0), false), (Ok(1), true)] {
        let (source, target) =
            (PortState::known(Kind::Stream, true), PortState::known(Kind::Pipe, true));
        let mut shelf = shelf();
        let mut flow = Flow::between(source, target, &Terms::default()).expect("a route");
        flow.learn(Op::Direct(1), Err(Errno::PIPE), &mut ());
        for _ in 0..3 {
            assert_eq!(due(&mut flow, &mut shelf), Op::AskEnd);
            flow.learn(Op::AskEnd, Err(Errno::AGAIN), &mut ());
            assert_eq!(flow.next(u64::MAX, &mut shelf), Next::Wait(Side::Source));
        }
        assert_eq!(due(&mut flow, &mut shelf), Op::AskEnd);
        flow.learn(Op::AskEnd, answer, &mut ());
        if bytes_come {
            assert_eq!(failed(&mut flow, &mut shelf), (Call::Splice, Side::Target, Errno::PIPE));
        } else {
            assert_eq!(flow.next(u64::MAX, &mut shelf), Next::Ended(Completion::Eof));
        }
    }
}
