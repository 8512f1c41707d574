//! Which calls a pair of ports is served by, in order, and why a method is refused: a table.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixDatagram, UnixStream};

use gush::flow::{Buf, Failure, Fds, Flow, Lender, Next, Op, PortState, Shelf, Terms};
use gush::pipe::Pool;
use gush::{Choice, Errno, Kind, MethodName, Side};
use rustix::fs::OFlags;
use rustix::pipe::fcntl_setpipe_size;

const CUTS: &str = "refused: it would cut a datagram that a pipe has no room for";
const HELD_BACK: &str =
    "refused: the source does not report its size, so the last datagram could be held back";
const NO_WAY: &str =
    "refused: a stream is moved by read-write, splice, vmsplice and, from a file, sendfile";
const OBSERVED: &str = "refused: the bytes are observed, so they must pass through memory";
const SHARED: &str = "refused: the file's pages would be shared, and isolation was asked for";
const APPENDS: &str = "refused: the target was opened with O_APPEND";
const DIRECT: &str =
    "refused: the target was opened with O_DIRECT, and a stream's pieces are not aligned";
const NOT_OURS: &str = "refused: the socket is shared with other processes and has no O_NONBLOCK";
const NOT_PERMITTED: &str = "refused: not among the methods that the driver of this flow permits";

fn shelf() -> Shelf {
    Shelf::new(Pool::new(4 << 20, 4))
}

fn only(method: MethodName) -> Terms {
    Terms { choice: Choice::Only(method), ..Terms::default() }
}

/// The calls that take bytes, in the order in which a flow tries them while each is refused, with
/// the sides that are polled before; or why there is no flow.
fn calls(source: PortState, target: PortState, terms: &Terms) -> String {
    let mut flow = match Flow::between(source, target, terms) {
        Ok(flow) => flow,
        Err(refusal) => return format!("refused: {}", refusal.why),
    };
    let (mut shelf, mut said) = (shelf(), Vec::new());
    loop {
        let (op, name) = match flow.next(u64::MAX, &mut shelf) {
            Next::Do(op @ Op::Ready(Side::Source)) => (op, "poll source"),
            Next::Do(op @ Op::Ready(Side::Target)) => (op, "poll target"),
            Next::Do(op @ Op::Measure) => (op, "measure"),
            Next::Do(op @ Op::Fill(_)) => (op, "fill"),
            Next::Do(op @ Op::Direct(_)) => (op, "splice"),
            Next::Do(op @ Op::Sendfile(_)) => (op, "sendfile"),
            Next::Do(op @ Op::Read(_)) => (op, "read"),
            Next::Failed(failure) if matches!(*failure, Failure::Refused(_)) => {
                return said.join(", ") + ", or refused";
            }
            other => panic!("after {said:?}: {other:?}"),
        };
        said.push(name.to_owned());
        let answer = match op {
            Op::Ready(_) => Ok(0),
            Op::Measure => Ok(9),
            Op::Read(most) => Ok(most.min(Terms::default().short_bytes)),
            _ => Err(Errno::INVAL),
        };
        flow.learn(op, answer, &mut ());
        // A read never refuses: what follows its bytes shows the route.
        if matches!(op, Op::Read(_)) {
            said.push(after_a_read(&mut flow, &mut shelf));
            return said.join(", ");
        }
    }
}

/// The way that read bytes are delivered, and whether a pipe is filled after that.
fn after_a_read(flow: &mut Flow, shelf: &mut Shelf) -> String {
    let Next::Do(op) = flow.next(u64::MAX, shelf) else { return "nothing".into() };
    if op == Op::Lend {
        return "lend".into();
    }
    assert_eq!(op, Op::Write);
    flow.learn(op, Ok(flow.in_flight_bytes() as usize), &mut ());
    loop {
        match flow.next(u64::MAX, shelf) {
            Next::Do(op @ Op::Ready(_)) => drop(flow.learn(op, Ok(0), &mut ())),
            Next::Do(Op::Fill(_)) => return "write, fill".into(),
            _ => return "write".into(),
        }
    }
}

/// Ports whose flags do not matter, by the plan and by name.
#[test]
fn each_pair_is_served_by_its_calls_in_order() {
    use Kind::{Block, Character, Datagram, File, Pipe, Pseudo, Stream, Terminal};
    use MethodName::{ReadWrite, Sendfile, Splice, Vmsplice};
    let quick = |kind| PortState::known(kind, true);
    let auto = Terms::default();
    let table = [
        (Stream, Stream, auto, "read, write, fill"),
        (Stream, File, auto, "fill, read, write"),
        (File, Stream, auto, "sendfile, fill, read, write"),
        (Pipe, Stream, auto, "splice, read, write"),
        (Stream, Pipe, auto, "splice, read, write"),
        (File, Pipe, auto, "splice, sendfile, read, write"),
        (File, Pipe, Terms { own_pipe: true, ..auto }, "fill, sendfile, read, write"),
        (Block, Pipe, Terms { own_pipe: true, ..auto }, "fill, sendfile, read, write"),
        (Stream, Pipe, Terms { own_pipe: true, ..auto }, "splice, read, write"),
        (File, Stream, Terms { own_pipe: true, ..only(Splice) }, "fill, or refused"),
        (Pseudo, Pipe, auto, "read, write"),
        (Character, Pipe, auto, "splice, read, write"),
        (Terminal, Stream, auto, "read, write"),
        (Datagram, Pipe, auto, "measure, read, write"),
        (Datagram, Stream, auto, "measure, read, write"),
        (Stream, Datagram, auto, "read, write"),
        (File, File, auto, "read, write"),
        (Stream, Stream, only(Splice), "fill, or refused"),
        (Stream, Stream, only(ReadWrite), "read, write"),
        (Stream, Stream, only(Vmsplice), "read, lend"),
        (Pipe, Pipe, only(Splice), "splice, or refused"),
        (Datagram, Pipe, only(Splice), "measure, fill, or refused"),
        (Pipe, Datagram, only(Splice), "splice, or refused"),
        (File, Stream, only(Sendfile), "sendfile, or refused"),
        (Stream, Stream, only(Sendfile), "sendfile, or refused"),
        (Datagram, Stream, only(Sendfile), CUTS),
        (File, Datagram, only(Sendfile), "sendfile, or refused"),
        (Pseudo, Datagram, only(Sendfile), HELD_BACK),
        (Block, Datagram, only(Sendfile), HELD_BACK),
        (File, File, only(MethodName::Reflink), NO_WAY),
        (File, Stream, Terms { through_memory: true, ..auto }, "read, write"),
        (File, Stream, Terms { through_memory: true, ..only(Splice) }, OBSERVED),
        (Stream, Stream, Terms { through_memory: true, ..only(Vmsplice) }, "read, lend"),
        (File, Stream, Terms { isolated: true, ..auto }, "read, write"),
        (Block, Stream, Terms { isolated: true, ..only(Splice) }, SHARED),
        (Pipe, Stream, Terms { isolated: true, ..auto }, "splice, read, write"),
        (File, Stream, Terms { isolated: true, ..only(ReadWrite) }, "read, write"),
        (Stream, Stream, Terms { never_held: true, ..only(Vmsplice) }, "read, lend"),
        (Stream, Stream, Terms { never_held: true, ..only(Sendfile) }, NO_WAY),
        (File, Stream, Terms { never_held: true, ..only(Sendfile) }, "sendfile, or refused"),
        (Block, Stream, Terms { never_held: true, ..only(Sendfile) }, "sendfile, or refused"),
        (Pseudo, Stream, Terms { never_held: true, ..only(Sendfile) }, "sendfile, or refused"),
        (Stream, Stream, Terms { permitted: &[ReadWrite], ..auto }, "read, write"),
        (Stream, Stream, Terms { permitted: &[ReadWrite], ..only(Splice) }, NOT_PERMITTED),
        (Stream, Stream, Terms { permitted: &[Splice], ..only(ReadWrite) }, "read, write"),
    ];
    let mut wrong = Vec::new();
    for (from, to, terms, expected) in table {
        let got = calls(quick(from), quick(to), &terms);
        if got != expected {
            wrong.push(format!("{from:?} to {to:?}, {terms:?}: {got}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A call that no flag keeps from waiting is made only after poll(2), and no other call is.
#[test]
fn only_a_side_that_could_hold_a_call_is_polled_before() {
    use Kind::{File, Pipe, Stream, Terminal};
    use MethodName::{Sendfile, Splice};
    let (quick, slow) = (true, false);
    let table = [
        (Stream, slow, Stream, slow, "poll source, fill, or refused"),
        (Stream, slow, Stream, quick, "poll source, fill, or refused"),
        (Stream, quick, Stream, slow, "fill, or refused"),
        (Stream, slow, Pipe, slow, "poll source, splice, or refused"),
        (Pipe, slow, Stream, slow, "poll target, splice, or refused"),
        (Pipe, slow, Pipe, slow, "splice, or refused"),
        (Terminal, slow, Pipe, slow, "poll source, splice, or refused"),
        (File, slow, Stream, slow, "fill, or refused"),
        (Stream, slow, File, slow, "poll source, fill, or refused"),
    ];
    let mut wrong = Vec::new();
    for (from, from_quick, to, to_quick, expected) in table {
        let (source, target) = (PortState::known(from, from_quick), PortState::known(to, to_quick));
        assert_eq!((source.is_nonblocking(), target.is_nonblocking()), (from_quick, to_quick));
        let got = calls(source, target, &only(Splice));
        if got != expected {
            wrong.push(format!("{from:?} {from_quick} to {to:?} {to_quick}: {got}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // sendfile(2) has no flag for pipes either.
    let by_sendfile =
        |to| calls(PortState::known(File, true), PortState::known(to, slow), &only(Sendfile));
    assert_eq!(by_sendfile(Pipe).split(", ").next(), Some("poll target"));
    assert_eq!(by_sendfile(File).split(", ").next(), Some("sendfile"));
}

/// Flags that keep references from passing are respected unless the method was named; who may not
/// be held asks no kernel call that could hold the thread.
#[test]
fn flags_of_a_port_rule_splicing_out() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let append = File::options().append(true).open(file.path()).expect("O_APPEND");
    let direct = tempfile::tempfile().expect("a file");
    let (near, far) = UnixStream::pair().expect("a pair");
    far.set_nonblocking(true).expect("a flag");
    let of = |fd: &dyn AsFd| PortState::of(&fd.as_fd()).expect("a port");
    let stream = PortState::known(Kind::Stream, true);
    let auto = Terms::default();
    let held = Terms { never_held: true, ..auto };
    let spliced = only(MethodName::Splice);
    let held_spliced = Terms { never_held: true, ..spliced };
    let mut table = vec![
        (stream, of(&append), auto, "read, write"),
        (stream, of(&append), spliced, "fill, or refused"),
        (stream, of(&append), held_spliced, APPENDS),
        // A source may append: it is read.
        (of(&append), stream, held_spliced, "fill, or refused"),
        (of(&near), stream, auto, "read, write, fill"),
        (of(&near), stream, held, "read, write"),
        (of(&near), stream, held_spliced, NOT_OURS),
        (of(&far), stream, held, "read, write, fill"),
        (stream, of(&near), held, "read, write"),
        (PortState::known(Kind::Pipe, false), stream, held_spliced, "splice, or refused"),
    ];
    if rustix::fs::fcntl_setfl(&direct, OFlags::DIRECT).is_ok() {
        table.extend([
            (stream, of(&direct), auto, "read, write"),
            (stream, of(&direct), spliced, "fill, or refused"),
            (stream, of(&direct), held_spliced, DIRECT),
            (of(&direct), stream, held_spliced, "fill, or refused"),
        ]);
    } else {
        gush_test::skipped("no O_DIRECT on the temporary directory");
    }
    let mut wrong = Vec::new();
    for (at, (source, target, terms, expected)) in table.into_iter().enumerate() {
        let got = calls(source, target, &terms);
        if got != expected {
            wrong.push(format!("row {at}: {got}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A quarter of the pipe, 64 KiB at least, and everything from pipe to pipe.
#[test]
fn one_splice_moves_a_part_of_a_large_pipe() {
    let most = |source: PortState, target: PortState| {
        let mut flow = Flow::between(source, target, &only(MethodName::Splice)).expect("a route");
        match flow.next(u64::MAX, &mut shelf()) {
            Next::Do(Op::Direct(most)) => most,
            other => panic!("{other:?}"),
        }
    };
    let file = PortState::known(Kind::File, true);
    for (size, part) in [(1 << 20, 256 << 10), (512 << 10, 128 << 10), (64 << 10, 64 << 10)] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        fcntl_setpipe_size(&writer, size).expect("a size");
        let ends =
            [PortState::of(&reader).expect("an end"), PortState::of(&writer).expect("an end")];
        assert_eq!([most(ends[0], file), most(file, ends[1])], [part; 2], "{size} bytes");
        assert_eq!(most(ends[0], ends[1]), 1 << 30, "{size} bytes");
    }
}

#[test]
fn a_port_knows_how_its_source_ends() {
    let (seqpacket, _far) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::SEQPACKET,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .expect("a pair");
    let (datagram, _other) = UnixDatagram::pair().expect("a pair");
    let (stream, _peer) = UnixStream::pair().expect("a pair");
    let master = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR).expect("a pseudo-terminal");
    rustix::pty::unlockpt(&master).expect("a slave");
    let name = rustix::pty::ptsname(&master, Vec::new()).expect("its name");
    let flags = OFlags::RDWR | OFlags::NOCTTY;
    let slave = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).expect("a slave");
    let reported = |fd: &dyn AsFd| {
        let state = PortState::of(&fd.as_fd()).expect("a port");
        (state.kind(), state.ends_at_zero(), state.is_master())
    };
    assert_eq!(reported(&seqpacket), (Kind::Datagram, true, false));
    assert_eq!(reported(&datagram), (Kind::Datagram, false, false));
    assert_eq!(reported(&stream), (Kind::Stream, true, false));
    assert_eq!(reported(&master), (Kind::Terminal, true, true));
    assert_eq!(reported(&slave), (Kind::Terminal, true, false));
    assert!(!PortState::known(Kind::Datagram, true).ends_at_zero());
    assert!(PortState::known(Kind::Stream, true).ends_at_zero());
}

/// Which side an error of a call on both sides concerns.
#[test]
fn a_failed_call_is_blamed_on_the_side_that_can_have_failed() {
    let by = |method, from, to, errno| {
        let state = |kind| PortState::known(kind, true);
        let mut flow = Flow::between(state(from), state(to), &only(method)).expect("a route");
        let op = match flow.next(u64::MAX, &mut shelf()) {
            Next::Do(op @ (Op::Direct(_) | Op::Sendfile(_))) => op,
            other => panic!("{other:?}"),
        };
        flow.learn(op, Err(errno), &mut ());
        if errno == Errno::PIPE {
            // The source has something to be read.
            assert_eq!(flow.next(u64::MAX, &mut shelf()), Next::Do(Op::AskEnd));
            flow.learn(Op::AskEnd, Ok(1), &mut ());
        }
        match flow.next(u64::MAX, &mut shelf()) {
            Next::Failed(failure) => match *failure {
                Failure::Fault(fault) => fault.side,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    use Kind::{File, Pipe, Stream};
    use MethodName::{Sendfile, Splice};
    for (method, from, to, errno, side) in [
        (Splice, Stream, Pipe, Errno::CONNRESET, Side::Source),
        (Splice, File, Pipe, Errno::IO, Side::Source),
        (Splice, File, Pipe, Errno::PIPE, Side::Target),
        (Splice, Pipe, File, Errno::NOSPC, Side::Target),
        (Splice, Pipe, Stream, Errno::PIPE, Side::Target),
        (Splice, Pipe, Stream, Errno::CONNRESET, Side::Target),
        (Sendfile, File, Stream, Errno::IO, Side::Source),
        (Sendfile, File, Stream, Errno::PIPE, Side::Target),
    ] {
        let blamed = by(method, from, to, errno);
        assert_eq!(blamed, side, "{method} from {from:?} to {to:?}: {errno}");
    }
}

/// The one buffer of a thread serves its flows in turn: memory is made once.
#[test]
fn a_shelf_lends_again_what_came_back() {
    let place = |buf: &Buf| buf.as_slice().as_ptr();
    let mut shelf = shelf();
    let bufs = [(); 3].map(|()| shelf.buf(1).expect("memory"));
    assert!(bufs.iter().all(|buf| buf.len_bytes() == Shelf::LEAST_BUF_BYTES));
    let places = [place(&bufs[0]), place(&bufs[1])];
    bufs.into_iter().for_each(|buf| shelf.take_back(buf));
    // Two are kept: the third has gone.
    let kept = [(); 2].map(|()| shelf.buf(4096).expect("memory"));
    let mut same: Vec<_> = kept.iter().map(place).collect();
    same.sort_unstable();
    let mut expected = places.to_vec();
    expected.sort_unstable();
    assert_eq!(same, expected);
    // One that is too small is none; one that only holds a rest is not kept.
    kept.into_iter().for_each(|buf| shelf.take_back(buf));
    let large = shelf.buf(1 << 20).expect("memory");
    assert!(large.len_bytes() >= 1 << 20);
    shelf.take_back(Buf::Rest(Box::default()));
    assert!(shelf.buf(1).expect("memory").len_bytes() >= Shelf::LEAST_BUF_BYTES);
}

/// A flow uses a lent buffer again and again, and gives the buffer back at rest.
#[test]
fn a_flow_asks_for_memory_once() {
    struct Counting(Shelf, usize);
    impl Lender for Counting {
        fn pipe(&mut self) -> Option<gush::pipe::PipeLoan> {
            self.0.pipe()
        }
        fn buf(&mut self, bytes: usize) -> Result<Buf, Errno> {
            self.1 += 1;
            self.0.buf(bytes)
        }
        fn take_back(&mut self, buf: Buf) {
            self.0.take_back(buf);
        }
    }
    let zeros = File::open("/dev/zero").expect("/dev/zero");
    let null = File::options().write(true).open("/dev/null").expect("/dev/null");
    let terms = Terms { length_bytes: Some(1 << 20), ..only(MethodName::ReadWrite) };
    let state = |file| PortState::of(file).expect("a device");
    let mut flow = Flow::between(state(&zeros), state(&null), &terms).expect("a route");
    let mut lender = Counting(shelf(), 0);
    while let Next::Do(op) = flow.next(u64::MAX, &mut lender) {
        let fds = Fds { source: zeros.as_fd(), target: null.as_fd() };
        let answer = flow.perform(op, fds);
        flow.learn(op, answer, &mut ());
    }
    assert_eq!((flow.delivered_bytes(), lender.1), (1 << 20, 1));
}
