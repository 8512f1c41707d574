//! What a driver has besides the flow, part by part: ports, pipes, questions to sockets.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixDatagram, UnixStream};

use gush::flow::{Carried, Fds, Flow, Next, Op, PortState, Shelf, Terms};
use gush::pipe::{Pipe, Pool};
use gush::{Choice, Errno, Kind, MethodName, Pages, PollFlags, Port, Side};

fn pair() -> (UnixStream, UnixStream) {
    UnixStream::pair().expect("a pair")
}

#[test]
fn bytes_that_a_reader_has_not_taken_are_counted() {
    let (mut ours, mut theirs) = pair();
    ours.write_all(b"unread").expect("room");
    assert!(gush::unacknowledged_bytes(&ours).expect("a count") > 0);
    theirs.read_exact(&mut [0; 6]).expect("bytes");
    assert_eq!(gush::unacknowledged_bytes(&ours).expect("a count"), 0);
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(b"slowly").expect("room");
    assert_eq!(gush::untaken_bytes(&writer), Some(6));
    reader.read_exact(&mut [0]).expect("a byte");
    assert_eq!(gush::untaken_bytes(&writer), Some(5));
}

#[test]
fn sockets_take_options_and_keep_the_others() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a client");
    gush::send_kept(&client).expect("TCP");
    assert!(!client.nodelay().expect("an option"));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let (level, name) = (libc::SOL_SOCKET, libc::SO_BROADCAST);
    gush::set_socket_option(&socket, level, name, &1_i32.to_ne_bytes()).expect("an option");
    assert!(socket.broadcast().expect("an option"));
}

#[test]
fn a_poll_for_now_reports_the_events_that_are_there() {
    let (near, far) = pair();
    assert_eq!(gush::poll_now(&near, PollFlags::IN).expect("poll"), PollFlags::empty());
    drop(far);
    let events = gush::poll_now(&near, PollFlags::IN).expect("poll");
    assert!(events.contains(PollFlags::IN | PollFlags::HUP));
}

#[test]
fn a_private_pipe_knows_its_bytes_and_shrinks() {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(b"in flight").expect("room");
    let mut pipe = Pipe::of_ends(reader.into(), writer.into()).expect("its size");
    assert_eq!(pipe.held_bytes(), 9);
    let mut text = [0; 16];
    assert_eq!(pipe.read_out(&mut text), Ok(9));
    assert!(&text[..9] == b"in flight" && pipe.is_empty());
    assert_eq!(pipe.read_out(&mut text), Ok(0), "an empty pipe would be waited for");
    let page_bytes = rustix::param::page_size();
    assert!(pipe.shrink(2 * page_bytes) && pipe.capacity_bytes() <= 2 * page_bytes);
}

#[test]
fn a_pool_lends_within_its_budget() {
    let pool = Pool::new(1 << 20, 1);
    assert_eq!((pool.usage().bytes, pool.usage().budget_bytes), (0, 1 << 20));
    let loan = pool.take().expect("within the budget");
    assert!(loan.is_empty() && pool.take().is_none());
    drop(loan);
    assert!(pool.take().is_some());
}

#[test]
fn a_port_keeps_its_own_offset_and_cuts_no_datagram() {
    let file = tempfile::tempfile().expect("a file");
    let mut port = Port::of(&file).expect("a port").at(4096);
    assert_eq!((port.write(b"abc"), port.write(b"def")), (Ok(3), Ok(3)));
    let mut text = [0; 6];
    assert_eq!(Port::of(&file).expect("a port").at(4096).read(&mut text), Ok(6));
    assert_eq!(&text, b"abcdef");

    let (near, far) = UnixDatagram::pair().expect("a pair");
    far.send(b"a datagram is never cut").expect("room");
    let mut port = Port::of(&near).expect("a port");
    assert_eq!(port.next_datagram_bytes(), Some(Ok(23)));
    let mut buffer = Pages::new(4).expect("memory");
    assert_eq!(port.read_whole(&mut buffer, 4), Ok(23));
    assert_eq!(&buffer.as_slice()[..23], b"a datagram is never cut");

    let (near, far) = pair();
    let state = PortState::of(&near).expect("a state");
    assert_eq!((state.kind(), state.ends_at_zero()), (Kind::Stream, true));
    let mut port = state.port(near.as_fd());
    assert_eq!((port.read(&mut [0; 8]), port.write(b"directly")), (Err(Errno::AGAIN), Ok(8)));
    assert_eq!(Port::of(&far).expect("a port").read(&mut [0; 8]), Ok(8));
}

#[test]
fn messages_in_memory_are_cut_by_no_limit() {
    let (memory, socket) =
        (PortState::in_memory_of_messages(false), PortState::known(Kind::Datagram, true));
    let mut flow = Flow::between(memory, socket, &Terms::default()).expect("a route");
    let mut shelf = Shelf::new(Pool::new(0, 0));
    assert_eq!(flow.next(10, &mut shelf), Next::Do(Op::Read(65_536)));
}

#[test]
fn bytes_that_have_come_decide_between_memory_and_references() {
    let stream = PortState::known(Kind::Stream, true);
    let mut flow = Flow::between(stream, stream, &Terms::default()).expect("a route");
    assert!(flow.is_undecided());
    flow.expect_bytes(1 << 20);
    assert!(!flow.is_undecided());
}

#[test]
fn a_flow_carries_on_with_bytes_in_hand() {
    let source = File::open("/dev/null").expect("/dev/null");
    let mut target = tempfile::tempfile().expect("a file");
    let states = [PortState::of(&source), PortState::of(&target)].map(|state| state.expect("it"));
    let flow = Flow::between(states[0], states[1], &Terms::default()).expect("a route");
    let hand = b"in flight".to_vec();
    let mut flow = flow.carry_on(Carried { delivered_bytes: 7, hand, ..Carried::default() }, None);
    let mut shelf = Shelf::new(Pool::new(4 << 20, 4));
    let fds = Fds { source: source.as_fd(), target: target.as_fd() };
    while let Next::Do(op) = flow.next(u64::MAX, &mut shelf) {
        let answer = flow.perform(op, fds);
        flow.learn(op, answer, &mut ());
    }
    assert_eq!((flow.delivered_bytes(), flow.in_flight_bytes()), (16, 0));
    std::io::Seek::rewind(&mut target).expect("a file");
    assert_eq!(std::io::read_to_string(&target).expect("text"), "in flight");
}

/// The pages behind what is lent stay in this process.
#[test]
fn a_flow_does_not_move_while_its_bytes_are_lent() {
    let terms = Terms { choice: Choice::Only(MethodName::Vmsplice), ..Terms::default() };
    let stream = PortState::known(Kind::Stream, true);
    let mut flow = Flow::between(stream, stream, &terms).expect("a route");
    let mut shelf = Shelf::new(Pool::new(4 << 20, 4));
    let moves = |flow: &Flow| flow.carried().is_some();
    let mut due = |flow: &mut Flow| match flow.next(4096, &mut shelf) {
        Next::Do(op) => op,
        other => panic!("no call is due: {other:?}"),
    };
    let read = due(&mut flow);
    flow.learn(read, Ok(4096), &mut ());
    assert_eq!((due(&mut flow), moves(&flow)), (Op::Lend, true));
    flow.learn(Op::Lend, Ok(4096), &mut ());
    assert_eq!((due(&mut flow), moves(&flow)), (Op::Empty, false));
    flow.learn(Op::Empty, Ok(4096), &mut ());
    assert!(moves(&flow));
}

#[test]
fn huge_pages_file_systems_and_remedies_answer() {
    let mut pages = Pages::huge(1 << 21).expect("memory");
    pages.as_mut_slice()[0] = 1;
    if let Ok((huge, all)) = gush::hugepage::count(&pages) {
        assert!(huge <= all);
    }
    let (one, other) = [0; 2].map(|_| tempfile::tempfile().expect("a file")).into();
    let id = |file: &File| gush::file_system_id(file).expect("a file system");
    assert_eq!(id(&one), id(&other));
    gush::page_cache::start_write(&one, 0, 0).expect("a file");
    assert!(gush::hint_for(Side::Target, Errno::NOSPC).is_some_and(|hint| hint.contains("free")));
    assert_eq!(gush::hint_for(Side::Source, Errno::NOSPC), None);
    assert_eq!(gush::errno_name(Errno::from_raw_os_error(4000)), "errno 4000");
    assert!(gush::is_refusal(Errno::INVAL) && !gush::is_refusal(Errno::CONNRESET));
}
