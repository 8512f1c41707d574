//! A second call after the first has ended delivers, or is an error: never `Ok` with nothing moved.

use std::fs::File;
use std::future::Future;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::time::Duration;

use gush::flow::{Fds, Flow, Next, PortState, Shelf, Terms};
use gush::pipe::{Pool, Reservoir, Technique, Writer};
use gush::{Cancel, Mover, Repeat, Tee};
use gush_net::{Conduit, Direction, Relay, RelayOptions};
use rustix::net::sockopt::set_socket_linger;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

const FIRST: &[u8] = b"first";
const SECOND: &[u8] = b"and the second";

/// What arrived of [`SECOND`], or the error of the second call.
type Answer = Result<Vec<u8>, String>;

fn relay() -> Relay {
    Relay::new(&RelayOptions::new())
}

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("room");
    file.rewind().expect("a file has positions");
    file
}

fn conduit(fd: impl Into<OwnedFd>) -> Conduit {
    Conduit::new(fd.into()).expect("an end")
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The bytes after those of the first call.
async fn rest_of(mut far: UnixStream) -> Answer {
    let mut all = Vec::new();
    far.read_to_end(&mut all).await.expect("no reset");
    Ok(all.strip_prefix(FIRST).expect("the first call delivers").to_vec())
}

async fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let near = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("accepted");
    (near, listener.accept().await.expect("a connection").0)
}

async fn send_file_twice() -> Answer {
    let (mut near, far) = UnixStream::pair().expect("a pair");
    let mut relay = relay();
    relay.send_file(&file_of(FIRST), .., &mut near).await.expect("no failure");
    let totals = relay.send_file(&file_of(SECOND), .., &mut near).await.map_err(text)?;
    if totals.forward.bytes != SECOND.len() as u64 {
        return Err(format!("counted with the first file: {totals:?}"));
    }
    drop(near);
    rest_of(far).await
}

async fn copy_after_a_part_of_a_file() -> Answer {
    let (mut near, far) = UnixStream::pair().expect("a pair");
    let mut relay = relay();
    let longer = file_of(b"first and more");
    relay.send_file(&longer, ..FIRST.len() as u64, &mut near).await.expect("no failure");
    relay.copy(&mut &SECOND[..], &mut near).await.map_err(text)?;
    drop(near);
    rest_of(far).await
}

async fn copy_after_a_refused_part_of_a_file() -> Answer {
    let (mut near, far) = UnixStream::pair().expect("a pair");
    let (mut relay, mut unwritable) = (relay(), conduit(file_of(b"")).read_only());
    near.write_all(FIRST).await.expect("room");
    relay.send_file(&file_of(FIRST), ..1, &mut unwritable).await.expect_err("not open for writing");
    relay.copy(&mut &SECOND[..], &mut near).await.map_err(text)?;
    drop(near);
    rest_of(far).await
}

async fn receive_twice() -> Answer {
    let file = file_of(b"");
    let mut relay = relay();
    relay.recv_file(&mut &FIRST[..], &file, 0).await.expect("no failure");
    relay.recv_file(&mut &SECOND[..], &file, 100).await.map_err(text)?;
    let mut arrived = vec![0; SECOND.len()];
    file.read_exact_at(&mut arrived, 100).map_err(text)?;
    Ok(arrived)
}

async fn run_with_other_ends() -> Answer {
    let mut relay = relay();
    let mut arrived = Vec::new();
    for bytes in [FIRST, SECOND] {
        let ((mut client, mut a), (mut b, mut server)) =
            (UnixStream::pair().expect("a pair"), UnixStream::pair().expect("a pair"));
        client.write_all(bytes).await.expect("room");
        client.shutdown().await.expect("a socket");
        server.shutdown().await.expect("a socket");
        relay.run(&mut a, &mut b).await.map_err(text)?;
        drop((a, b));
        arrived.clear();
        server.read_to_end(&mut arrived).await.expect("no reset");
    }
    Ok(arrived)
}

async fn run_after_an_abandoned_direction() -> Answer {
    let mut relay = relay();
    relay.abandon(Direction::Forward);
    let ((mut a, _client), (mut b, server)) =
        (UnixStream::pair().expect("a pair"), UnixStream::pair().expect("a pair"));
    drop(server);
    relay.run(&mut a, &mut b).await.expect("no failure");
    let (mut near, mut far) = UnixStream::pair().expect("a pair");
    relay.copy(&mut &SECOND[..], &mut near).await.map_err(text)?;
    drop(near);
    let mut arrived = Vec::new();
    far.read_to_end(&mut arrived).await.expect("no reset");
    Ok(arrived)
}

async fn run_after_an_end_without_proof() -> Answer {
    let ((client, mut a), (mut b, mut server)) =
        (UnixStream::pair().expect("a pair"), UnixStream::pair().expect("a pair"));
    let mut relay = relay();
    relay.verify_eof(Direction::Forward, async { false });
    drop(client);
    server.shutdown().await.expect("a socket");
    relay.run(&mut a, &mut b).await.expect_err("the end is no proper one");
    relay.run(&mut a, &mut b).await.map(|_| Vec::new()).map_err(text)
}

async fn run_after_a_reset_that_was_watched_for() -> Answer {
    let ((a_peer, mut a), (mut b, mut server)) =
        (UnixStream::pair().expect("a pair"), tcp_pair().await);
    server.write_all(b"unread").await.expect("room");
    // The relay waits for `a` alone: of `b` it reads nothing.
    let mut relay = Relay::new(&RelayOptions { watch_errors: true, ..RelayOptions::new() });
    relay.abandon(Direction::Back);
    set_socket_linger(&server, Some(Duration::ZERO)).expect("SO_LINGER");
    drop(server);
    relay.run(&mut a, &mut b).await.expect_err("the server has reset");
    drop(a_peer);
    relay.run(&mut a, &mut b).await.map(|_| Vec::new()).map_err(text)
}

async fn send_file_after_a_reset() -> Answer {
    let (mut near, far) = tcp_pair().await;
    set_socket_linger(&far, Some(Duration::ZERO)).expect("SO_LINGER");
    drop(far);
    near.readable().await.expect("the reset");
    let mut relay = relay();
    relay.send_file(&file_of(FIRST), .., &mut near).await.expect_err("reset");
    relay.send_file(&file_of(SECOND), .., &mut near).await.map(|_| Vec::new()).map_err(text)
}

async fn send_a_short_file_twice() -> Answer {
    let (mut near, _far) = UnixStream::pair().expect("a pair");
    let (mut relay, file) = (relay(), file_of(FIRST));
    relay.send_file(&file, ..100, &mut near).await.expect_err("shorter than the range");
    relay.send_file(&file, ..100, &mut near).await.map(|_| Vec::new()).map_err(text)
}

async fn write_to_a_finished_socket() -> Answer {
    let (near, _far) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let mut near = conduit(near);
    near.finish().expect("a socket");
    near.write_all(SECOND).await.map(|()| Vec::new()).map_err(text)
}

async fn copy_to_a_finished_pipe() -> Answer {
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    let mut writer = conduit(writer);
    writer.finish().expect("a pipe");
    relay().copy(&mut &SECOND[..], &mut writer).await.map(|_| Vec::new()).map_err(text)
}

async fn write_after_a_flush() -> Answer {
    let (mut reader, pipe) = std::io::pipe().expect("a pipe");
    let mut writer = Writer::new(pipe).map_err(text)?;
    writer.write_all(FIRST).and_then(|()| writer.flush()).expect("room");
    writer.write_all(SECOND).and_then(|()| writer.flush()).map_err(text)?;
    drop(writer);
    let mut all = Vec::new();
    reader.read_to_end(&mut all).expect("a pipe");
    Ok(all.strip_prefix(FIRST).expect("the first flush delivers").to_vec())
}

async fn write_after_a_failed_flush() -> Answer {
    let full = File::options().write(true).open("/dev/full").expect("a device");
    let mut writer = Writer::with(full, Technique::Write).map_err(text)?;
    writer.write_all(FIRST).expect("collected");
    writer.flush().expect_err("full");
    writer.write_all(SECOND).map(|()| Vec::new()).map_err(text)
}

async fn pour_after_a_pour() -> Answer {
    let (mut reader, pipe) = std::io::pipe().expect("a pipe");
    let mut reservoir = Reservoir::of(SECOND, 65536).map_err(text)?;
    let mut poured = vec![0; SECOND.len()];
    for _ in 0..2 {
        assert_eq!(reservoir.pour(&pipe, SECOND.len()).map_err(text)?, SECOND.len());
        reader.read_exact(&mut poured).expect("a pipe");
    }
    Ok(poured)
}

async fn repeat_twice() -> Answer {
    let (mut reader, pipe) = std::io::pipe().expect("a pipe");
    let repeat = Repeat::new(SECOND).length_bytes(SECOND.len() as u64);
    repeat.clone().run(&pipe).expect("room");
    repeat.run(&pipe).map_err(text)?;
    drop(pipe);
    let mut all = Vec::new();
    reader.read_to_end(&mut all).expect("a pipe");
    Ok(all.strip_prefix(SECOND).expect("the first run delivers").to_vec())
}

async fn move_after_the_source_has_grown() -> Answer {
    let (mut source, mut target) = (file_of(FIRST), file_of(b""));
    gush::copy(&source, &target).expect("room");
    source.write_all(SECOND).expect("room");
    source.seek_relative(-(SECOND.len() as i64)).expect("a file");
    gush::copy(&source, &target).map_err(text)?;
    let mut all = Vec::new();
    target.rewind().and_then(|()| target.read_to_end(&mut all)).expect("a file");
    Ok(all.strip_prefix(FIRST).expect("the first copy delivers").to_vec())
}

async fn move_after_cancelling() -> Answer {
    let (cancel, target) = (Cancel::new(), file_of(b""));
    cancel.cancel();
    let source = file_of(SECOND);
    let mover = || Mover::new(&source, &target).cancelled_by(&cancel);
    mover().run().expect_err("cancelled");
    mover().run().map(|_| Vec::new()).map_err(text)
}

async fn tee_after_the_source_has_grown() -> Answer {
    let (mut source, mut target) = (file_of(FIRST), file_of(b""));
    Tee::new(&source).to(&target).run().expect("room");
    source.write_all(SECOND).expect("room");
    source.seek_relative(-(SECOND.len() as i64)).expect("a file");
    Tee::new(&source).to(&target).run().map_err(text)?;
    let mut all = Vec::new();
    target.rewind().and_then(|()| target.read_to_end(&mut all)).expect("a file");
    Ok(all.strip_prefix(FIRST).expect("the first copy delivers").to_vec())
}

/// Drives a flow until it has no call to make.
fn driven(flow: &mut Flow, source: &File, target: &File) -> Next {
    let mut shelf = Shelf::new(Pool::shared().clone());
    loop {
        match flow.next(u64::MAX, &mut shelf) {
            Next::Do(op) => {
                let fds = Fds { source: source.as_fd(), target: target.as_fd() };
                let answer = flow.perform(op, fds);
                flow.learn(op, answer, &mut ());
            }
            last => return last,
        }
    }
}

async fn drive_a_failed_flow() -> Answer {
    let full = File::options().write(true).open("/dev/full").expect("a device");
    let source = file_of(SECOND);
    let states = [&source, &full].map(|fd| PortState::of(fd).expect("open"));
    let mut flow = Flow::between(states[0], states[1], &Terms::default()).map_err(text)?;
    for _ in 0..2 {
        let Next::Failed(_) = driven(&mut flow, &source, &full) else { return Ok(Vec::new()) };
    }
    Err("failed".into())
}

async fn drive_an_ended_flow() -> Answer {
    let (mut source, target) = (file_of(FIRST), file_of(b""));
    let states = [&source, &target].map(|fd| PortState::of(fd).expect("open"));
    let mut flow = Flow::between(states[0], states[1], &Terms::default()).map_err(text)?;
    assert!(matches!(driven(&mut flow, &source, &target), Next::Ended(_)));
    source.write_all(SECOND).expect("room");
    source.seek_relative(-(SECOND.len() as i64)).expect("a file");
    match driven(&mut flow, &source, &target) {
        Next::Ended(_) => Err("ended".into()),
        _ => Ok(Vec::new()),
    }
}

#[tokio::test]
async fn a_second_call_after_the_end_delivers_or_is_an_error() {
    type Row = (&'static str, Pin<Box<dyn Future<Output = Answer>>>);
    let delivers: [Row; 11] = [
        ("send_file, send_file", Box::pin(send_file_twice())),
        ("send_file of a part, copy", Box::pin(copy_after_a_part_of_a_file())),
        ("send_file of a part, refused, copy", Box::pin(copy_after_a_refused_part_of_a_file())),
        ("recv_file, recv_file", Box::pin(receive_twice())),
        ("run, run with other ends", Box::pin(run_with_other_ends())),
        ("abandon, run, copy", Box::pin(run_after_an_abandoned_direction())),
        ("Writer: flush, write", Box::pin(write_after_a_flush())),
        ("Reservoir: pour, pour", Box::pin(pour_after_a_pour())),
        ("Repeat: run, run", Box::pin(repeat_twice())),
        ("Mover: run, run", Box::pin(move_after_the_source_has_grown())),
        ("Tee: run, run", Box::pin(tee_after_the_source_has_grown())),
    ];
    let fails: [Row; 10] = [
        ("run after an end without proof", Box::pin(run_after_an_end_without_proof())),
        ("run after a reset", Box::pin(run_after_a_reset_that_was_watched_for())),
        ("send_file after a reset", Box::pin(send_file_after_a_reset())),
        ("send_file of a short file", Box::pin(send_a_short_file_twice())),
        ("Conduit: finish, write", Box::pin(write_to_a_finished_socket())),
        ("Conduit: finish, copy", Box::pin(copy_to_a_finished_pipe())),
        ("Writer: failed flush, write", Box::pin(write_after_a_failed_flush())),
        ("Mover: cancelled, run", Box::pin(move_after_cancelling())),
        ("Flow: failed, next", Box::pin(drive_a_failed_flow())),
        ("Flow: ended, next", Box::pin(drive_an_ended_flow())),
    ];
    let mut wrong = Vec::new();
    for (name, answer) in delivers {
        wrong.extend(Some((name, answer.await)).filter(|(_, got)| got.as_deref() != Ok(SECOND)));
    }
    for (name, answer) in fails {
        wrong.extend(Some((name, answer.await)).filter(|(_, got)| got.is_ok()));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
