//! Ends without a descriptor: the results of their functions, and the times of flush and end.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::common::{Wire, numbered, pair, run};
use crate::forwards::forwards;
use crate::halting::Halting;
use gush::{Choice, MethodName};
use gush_net::{Conduit, Direction, End, EndReason, Facts, Layer, Relay, RelayOptions, Totals};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::UnixStream;

/// A stream over a socket, without a descriptor of its own.
pub(crate) struct Over(pub Conduit);

impl AsyncRead for Over {
    forwards!(poll_read);
}

impl AsyncWrite for Over {
    forwards!(poll_write, poll_flush, poll_shutdown);
}

impl Layer for Over {
    fn facts(&self) -> Facts<'_> {
        Facts::over(self.0.facts().socket)
    }
}

/// A scripted stream's answer to one call.
#[derive(Debug)]
enum Answer {
    /// So many bytes come, or are taken at most.
    Bytes(usize),
    /// Not now, and the task is woken.
    Later,
    /// Not now, and nobody is woken.
    Never,
    Error(ErrorKind),
}

use Answer::{Bytes, Error, Later, Never};

/// The calls made on a scripted stream.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn say(&self, call: &'static str) {
        self.0.lock().expect("no panic").push(call);
    }

    /// The calls, each run of one call as one.
    fn calls(&self) -> Vec<&'static str> {
        let mut calls = self.0.lock().expect("no panic").clone();
        // How often a call is made is the relay's business; the order is the promise.
        calls.dedup();
        calls
    }
}

/// Answers from scripts; after the script a call succeeds, and a read is the end.
#[derive(Debug, Default)]
struct Scripted {
    reads: VecDeque<Answer>,
    writes: VecDeque<Answer>,
    flushes: VecDeque<Answer>,
    shutdowns: VecDeque<Answer>,
    given_bytes: u64,
    taken: Arc<Mutex<Vec<u8>>>,
    log: Log,
}

fn answered(
    script: &mut VecDeque<Answer>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<Option<usize>>> {
    match script.pop_front() {
        None => Poll::Ready(Ok(None)),
        Some(Bytes(bytes)) => Poll::Ready(Ok(Some(bytes))),
        Some(Error(kind)) => Poll::Ready(Err(kind.into())),
        Some(Later) => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        Some(Never) => {
            // Back again: it holds for every later call.
            script.push_front(Never);
            Poll::Pending
        }
    }
}

impl AsyncRead for Scripted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.log.say("read");
        answered(&mut self.reads, cx).map_ok(|bytes| {
            let bytes = bytes.unwrap_or(0).min(buf.remaining());
            buf.put_slice(numbered(self.given_bytes, bytes));
            self.given_bytes += bytes as u64;
        })
    }
}

impl AsyncWrite for Scripted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.log.say("write");
        answered(&mut self.writes, cx).map_ok(|most| {
            let piece = &bytes[..bytes.len().min(most.unwrap_or(usize::MAX))];
            self.taken.lock().expect("no panic").extend_from_slice(piece);
            piece.len()
        })
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.log.say("flush");
        answered(&mut self.flushes, cx).map_ok(drop)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.log.say("shutdown");
        answered(&mut self.shutdowns, cx).map_ok(drop)
    }
}

/// One way from a scripted source to a scripted target; the bytes that the target took, and the
/// target's calls.
fn one_way(source: Scripted, target: Scripted) -> (Result<Totals, gush_net::Error>, Vec<u8>, Log) {
    let (taken, log) = (Arc::clone(&target.taken), target.log.clone());
    let mut a = Conduit::of_stream(source).read_only();
    let mut b = Conduit::of_stream(target).write_only();
    let ended = run(async { Relay::new(&RelayOptions::new()).run(&mut a, &mut b).await });
    // The target's bytes are unwrapped below, which takes the last owner.
    drop((a, b));
    (ended, Arc::try_unwrap(taken).expect("dropped").into_inner().expect("no panic"), log)
}

fn reads(answers: impl Into<VecDeque<Answer>>) -> Scripted {
    Scripted { reads: answers.into(), ..Scripted::default() }
}

#[test]
fn short_and_late_answers_change_no_byte() {
    let source = reads([Bytes(1), Later, Bytes(70_000), Later, Later, Bytes(3), Later]);
    let target = Scripted {
        writes: [Later, Bytes(1), Bytes(40_000), Later, Bytes(7)].into(),
        flushes: [Later, Later, Bytes(0)].into(),
        shutdowns: [Later].into(),
        ..Scripted::default()
    };
    let (ended, taken, log) = one_way(source, target);
    let totals = ended.expect("no failure");
    // A read takes what its buffer has room for.
    assert_eq!(totals.forward.bytes, taken.len() as u64);
    assert!(taken == numbered(0, taken.len()) && taken.len() > 60_000, "{} bytes", taken.len());
    assert_eq!(totals.forward.method, Some(MethodName::ReadWrite));
    assert_eq!(log.calls().last(), Some(&"shutdown"));
}

#[test]
fn what_is_written_is_flushed_before_a_wait_and_before_the_end() {
    let source = reads([Bytes(5), Later, Bytes(5), Bytes(5), Later, Later, Bytes(5)]);
    let (ended, taken, log) = one_way(source, Scripted::default());
    assert_eq!((ended.expect("no failure").forward.bytes, taken.len()), (20, 20));
    // Two writes in turn without a pause of the source are flushed once, a pause without a write
    // not at all.
    let expected = ["write", "flush", "write", "flush", "write", "flush", "shutdown"];
    assert_eq!(log.calls(), expected);
}

#[test]
fn nothing_is_flushed_where_nothing_was_written() {
    let (ended, _, log) = one_way(reads([Later, Later]), Scripted::default());
    assert_eq!(ended.expect("no failure").forward.bytes, 0);
    assert_eq!(log.calls(), ["shutdown"]);
}

#[test]
fn one_way_a_target_is_flushed_and_left_open() {
    let target = Scripted { flushes: [Later, Later].into(), ..Scripted::default() };
    let log = target.log.clone();
    let mut a = Conduit::of_stream(reads([Bytes(9)]));
    let mut b = Conduit::of_stream(target);
    let totals = run(async { Relay::new(&RelayOptions::new()).copy(&mut a, &mut b).await });
    assert_eq!(totals.expect("no failure").forward.bytes, 9);
    assert_eq!(log.calls(), ["write", "flush"]);
}

#[test]
fn an_error_of_a_stream_names_its_call_its_end_and_its_kind() {
    let script = |call: &str, kind| {
        let mut target = Scripted::default();
        let mut source = reads([Bytes(4)]);
        match call {
            "read" => source.reads.push_back(Error(kind)),
            "write" => target.writes = [Bytes(1), Error(kind)].into(),
            "flush" => target.flushes = [Later, Error(kind)].into(),
            _ => target.shutdowns = [Later, Error(kind)].into(),
        }
        (source, target)
    };
    // A kind with and one without a number of the kernel's.
    for kind in [ErrorKind::ConnectionReset, ErrorKind::InvalidData] {
        let cases = [
            ("read", End::A, 4, 0),
            ("write", End::B, 1, 3),
            ("flush", End::B, 4, 0),
            ("shutdown", End::B, 4, 0),
        ];
        for (call, end, delivered, in_flight) in cases {
            let (source, target) = script(call, kind);
            let (ended, taken, _) = one_way(source, target);
            let error = ended.expect_err(call);
            assert_eq!((error.call(), error.end()), (Some(call), Some(end)), "{error}");
            assert_eq!(error.io_error().map(io::Error::kind), Some(kind), "{error}");
            let passed = error.passed(Direction::Forward);
            assert_eq!((passed.bytes, passed.in_flight_bytes), (delivered, in_flight), "{call}");
            assert_eq!(taken.len() as u64, delivered, "{call}");
            assert!(error.to_string().contains(&io::Error::from(kind).to_string()), "{error}");
            assert_eq!(io::Error::from(error).kind(), kind);
        }
    }
}

#[test]
fn an_interrupted_call_of_a_stream_is_made_again() {
    let mut source = reads([Bytes(4)]);
    source.reads.push_back(Error(ErrorKind::Interrupted));
    source.reads.push_back(Bytes(6));
    let writes = [Error(ErrorKind::Interrupted)].into();
    let (ended, taken, _) = one_way(source, Scripted { writes, ..Scripted::default() });
    assert_eq!(ended.expect("no failure").forward.bytes, 10);
    assert!(taken == numbered(0, 10));
}

#[test]
fn a_stream_that_takes_nothing_of_something_has_failed() {
    let target = Scripted { writes: [Bytes(2), Bytes(0)].into(), ..Scripted::default() };
    let (ended, taken, _) = one_way(reads([Bytes(5)]), target);
    let error = ended.expect_err("no byte is taken any more");
    assert_eq!(error.io_error().map(io::Error::kind), Some(ErrorKind::WriteZero), "{error}");
    assert_eq!((taken.len(), error.passed(Direction::Forward).in_flight_bytes), (2, 3));
}

#[test]
fn a_stream_whose_peer_has_gone_needs_no_end() {
    // shutdown(2) answers ENOTCONN once the peer has reset.
    let shutdowns = [Error(ErrorKind::NotConnected)].into();
    let target = Scripted { shutdowns, ..Scripted::default() };
    assert_eq!(one_way(reads([Bytes(5)]), target).0.expect("no failure").ended, EndReason::Closed);
}

#[test]
fn a_method_by_reference_is_refused_for_a_stream_and_nothing_is_touched() {
    for method in [MethodName::Splice, MethodName::Sendfile] {
        let (source, log) = (reads([Bytes(5)]), Log::default());
        let source = Scripted { log: log.clone(), ..source };
        let (_peer, near) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let mut a = Conduit::of_stream(source).read_only();
        let mut b = Conduit::new(near.into()).expect("an end").write_only();
        let options = RelayOptions { method: Choice::Only(method), ..RelayOptions::new() };
        let error = run(async { Relay::new(&options).run(&mut a, &mut b).await });
        let error = error.expect_err("no descriptor");
        assert!(error.is_refused() && error.to_string().contains("no descriptor"), "{error}");
        assert!(log.calls().is_empty());
    }
}

/// A stream over one of two Unix sockets, which keeps written bytes until flushed, and its peer.
fn keeping() -> (Conduit, UnixStream) {
    let (near, far) = UnixStream::pair().expect("a pair");
    // Odd and small sizes: pieces end neither where the relay's buffer does nor where a write does.
    (Conduit::of_stream(Halting::keeping(near, 3000, 16 << 10)), far)
}

#[test]
fn questions_and_answers_pass_streams_that_keep_them_until_they_are_flushed() {
    run(async {
        let ((mut a, mut client), (mut b, mut server)) = (keeping(), keeping());
        let talk = async {
            for round in 0..20_u64 {
                for asks in [true, false] {
                    let (from, to) = match asks {
                        true => (&mut client, &mut server),
                        false => (&mut server, &mut client),
                    };
                    let said = numbered(round, 700 * round as usize + 1);
                    from.write_all(said).await.expect("room");
                    let mut heard = vec![0; said.len()];
                    to.read_exact(&mut heard).await.expect("no end");
                    assert!(heard == said, "round {round}");
                }
                from_time_to_time(round).await;
            }
            client.shutdown().await.expect("open");
            assert_eq!(server.read(&mut [0; 1]).await.expect("no error"), 0);
            server.write_all(b"last words").await.expect("open");
            drop(server);
            let mut last = String::new();
            client.read_to_string(&mut last).await.expect("no error");
            assert_eq!(last, "last words");
        };
        let options = RelayOptions::new();
        let relay = async { Relay::new(&options).run(&mut a, &mut b).await };
        let (totals, ()) = tokio::join!(relay, talk);
        assert_eq!(totals.expect("no failure").ended, EndReason::Closed);
    });
}

/// Lets the relay fall asleep in some rounds.
async fn from_time_to_time(round: u64) {
    if round.is_multiple_of(7) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Either side ends first, with more on the way than all buffers hold.
#[test]
fn a_half_close_is_passed_on_through_streams_either_way() {
    // More than both sockets and both buffers hold.
    const BYTES: usize = 3 << 20;
    for forward in [true, false] {
        run(async {
            let ((mut a, client), (mut b, server)) = (keeping(), keeping());
            let (from, to) = if forward { (client, server) } else { (server, client) };
            let (mut from_read, mut from_write) = from.into_split();
            let (mut to_read, mut to_write) = to.into_split();
            let send = async {
                for at in (0..BYTES).step_by(1 << 20) {
                    from_write.write_all(numbered(at as u64, 1 << 20)).await.expect("room");
                }
                from_write.shutdown().await.expect("open");
            };
            let take = async {
                let mut all = Vec::new();
                to_read.read_to_end(&mut all).await.expect("no error");
                assert_eq!(all.len(), BYTES);
                let same = |at: usize| all[at..at + (1 << 20)] == *numbered(at as u64, 1 << 20);
                assert!((0..BYTES).step_by(1 << 20).all(same), "other bytes");
                to_write.write_all(b"the reply after the end").await.expect("open");
                to_write.shutdown().await.expect("open");
            };
            let hear = async {
                let mut reply = String::new();
                from_read.read_to_string(&mut reply).await.expect("no error");
                assert_eq!(reply, "the reply after the end");
            };
            let options = RelayOptions::new();
            let relay = async { Relay::new(&options).run(&mut a, &mut b).await };
            let (totals, (), (), ()) = tokio::join!(relay, send, take, hear);
            let totals = totals.expect("no failure");
            let (there, back) = if forward {
                (totals.forward.bytes, totals.back.bytes)
            } else {
                (totals.back.bytes, totals.forward.bytes)
            };
            assert_eq!((there, back), (BYTES as u64, 23));
        });
    }
}

/// One direction fails; bytes that the other's source, a stream, has by then are still delivered
/// and flushed.
#[test]
fn a_failure_lets_a_stream_have_its_last_words_and_waits_for_no_more() {
    let server = Scripted {
        reads: [Later, Later, Bytes(30_000), Bytes(12_000), Never].into(),
        writes: [Error(ErrorKind::BrokenPipe)].into(),
        ..Scripted::default()
    };
    run(async {
        let (near, mut client) = UnixStream::pair().expect("a pair");
        let mut b = Conduit::of_stream(server);
        let mut a = Conduit::of_stream(Halting::keeping(near, 3000, 16 << 10));
        client.write_all(b"nobody reads this").await.expect("room");
        let options = RelayOptions::new();
        let failed = Relay::new(&options).run(&mut a, &mut b).await;
        let error = failed.expect_err("the target failed");
        assert_eq!((error.end(), error.call()), (Some(End::B), Some("write")), "{error}");
        assert_eq!(error.passed(Direction::Forward).in_flight_bytes, 17);
        drop(a);
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).await.expect("no error");
        assert_eq!(error.passed(Direction::Back).bytes, heard.len() as u64);
        assert!(heard == numbered(0, 42_000), "{} bytes", heard.len());
    });
}

/// Bytes after the stream's first pause have not come by the time of the failure.
#[test]
fn a_failure_leaves_what_a_stream_has_only_after_a_pause() {
    let server = Scripted {
        reads: (0..200).flat_map(|_| [Bytes(50_000), Later]).collect(),
        writes: [Error(ErrorKind::BrokenPipe)].into(),
        ..Scripted::default()
    };
    let (mut a, mut b) = (Conduit::of_stream(reads([Bytes(1)])), Conduit::of_stream(server));
    let failed = run(async { Relay::new(&RelayOptions::new()).run(&mut a, &mut b).await });
    let passed_bytes = failed.expect_err("the target failed").passed(Direction::Back).bytes;
    assert!((50_000..=100_000).contains(&passed_bytes), "{passed_bytes} bytes");
}

/// The source has always more: the bound is the most that may have come to it.
#[test]
fn a_failure_is_not_put_off_by_a_stream_that_never_pauses() {
    struct Endless;
    impl AsyncRead for Endless {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            buf.put_slice(&[7; 1000][..buf.remaining().min(1000)]);
            Poll::Ready(Ok(()))
        }
    }
    let b = tokio::io::join(
        Endless,
        Scripted { writes: [Error(ErrorKind::BrokenPipe)].into(), ..Scripted::default() },
    );
    run(async {
        let (mut a, mut b) = (Conduit::of_stream(reads([Bytes(1)])), Conduit::of_stream(b));
        let error = Relay::new(&RelayOptions::new()).run(&mut a, &mut b).await;
        let error = error.expect_err("the target failed");
        assert_eq!((error.end(), error.call()), (Some(End::B), Some("write")), "{error}");
    });
}

/// Bytes that count as delivered are not left in the stream's own buffer because the source has
/// failed.
#[test]
fn a_stream_sends_on_all_that_it_keeps_when_its_source_fails() {
    let source = reads([Bytes(7000), Error(ErrorKind::ConnectionReset)]);
    let heard = run(async {
        let (near, mut far) = UnixStream::pair().expect("a pair");
        let mut a = Conduit::of_stream(source).read_only();
        let mut b = Conduit::of_stream(Halting::keeping(near, 3000, 16 << 10)).write_only();
        let failed = Relay::new(&RelayOptions::new()).run(&mut a, &mut b).await;
        let error = failed.expect_err("the source failed");
        assert_eq!((error.end(), error.call()), (Some(End::A), Some("read")), "{error}");
        assert_eq!(error.passed(Direction::Forward).bytes, 7000);
        drop(b);
        let mut heard = Vec::new();
        far.read_to_end(&mut heard).await.expect("no error");
        heard
    });
    assert!(heard == numbered(0, 7000), "{} bytes", heard.len());
}

#[test]
fn a_failure_waits_a_moment_for_a_stream_that_never_sends_on_what_it_keeps() {
    let source = reads([Bytes(10), Error(ErrorKind::ConnectionReset)]);
    let target = Scripted { flushes: [Never].into(), ..Scripted::default() };
    let (ended, taken, _) = one_way(source, target);
    let error = ended.expect_err("the source failed");
    assert_eq!(
        (error.call(), error.passed(Direction::Forward).bytes),
        (Some("read"), 10),
        "{error}"
    );
    assert_eq!(taken.len(), 10);
}

/// The last words of an end of two parts come from the part read, without the bytes that came to
/// the other part. The clock stands still, and goes to the next timer when there is nothing else to
/// do.
#[tokio::test(start_paused = true)]
async fn a_silence_while_a_stream_keeps_bytes_has_lost_them() {
    for (flush, stuck) in [(Never, true), (Bytes(0), false)] {
        let target = Scripted { flushes: [flush].into(), ..Scripted::default() };
        let mut a = Conduit::of_stream(reads([Bytes(10), Never])).read_only();
        let mut b = Conduit::of_stream(target).write_only();
        let options = RelayOptions { idle: Some(Duration::from_secs(5)), ..RelayOptions::new() };
        let ended = Relay::new(&options).run(&mut a, &mut b).await;
        let totals = ended.expect("no failure");
        assert_eq!((totals.ended, totals.forward.bytes), (EndReason::Idle, 10));
        assert_eq!((totals.forward.in_flight_bytes, totals.stuck), (0, stuck));
    }
}

#[test]
fn the_last_words_of_two_ends_in_one_are_those_of_the_source() {
    const BYTES: usize = 150_000;
    run(async {
        let (source, mut sender) = UnixStream::pair().expect("a pair");
        let (target, reader) = UnixStream::pair().expect("a pair");
        let stream = |socket: UnixStream| {
            let socket = socket.into_std().expect("a socket").into();
            Conduit::of_layer(Over(Conduit::new(socket).expect("an end")))
        };
        let mut a = Conduit::joined(stream(source), stream(target));
        sender.write_all(numbered(0, BYTES)).await.expect("room");
        // Nobody reads the target, and the direction that leads there fails.
        drop(reader);
        let b = tokio::io::join(reads([Bytes(10), Never]), Vec::new());
        let mut b = Paced(b);
        let failed = Relay::new(&RelayOptions::new()).run(&mut a, &mut b).await;
        let error = failed.expect_err("the target failed");
        assert_eq!((error.end(), error.call()), (Some(End::A), Some("write")), "{error}");
        assert_eq!(error.passed(Direction::Forward).bytes, BYTES as u64);
        assert!(b.0.writer() == numbered(0, BYTES));
    });
}

/// tokio's streams answer "not now" to a task that has had its turn: that is no pause of the peer.
#[test]
fn a_turn_that_is_over_ends_no_last_words() {
    const BYTES: usize = 150_000;
    run(async {
        let (source, mut sender) = UnixStream::pair().expect("a pair");
        sender.write_all(numbered(0, BYTES)).await.expect("room");
        let fails =
            Scripted { writes: [Error(ErrorKind::BrokenPipe)].into(), ..Scripted::default() };
        let (near, mut client) = UnixStream::pair().expect("a pair");
        let a = tokio::io::join(reads([Bytes(1)]), near);
        let mut a = Conduit::of_stream(a);
        // More calls than a task may make in one turn.
        let mut b = Conduit::of_stream(tokio::io::join(
            Records { inner: source, record: Vec::new() },
            fails,
        ));
        let mut heard = Vec::new();
        let (failed, _) = tokio::join!(
            async {
                let failed = Relay::new(&RelayOptions::new()).run(&mut a, &mut b).await;
                drop(a);
                failed
            },
            client.read_to_end(&mut heard)
        );
        let error = failed.expect_err("the target failed");
        assert_eq!((error.end(), error.call()), (Some(End::B), Some("write")), "{error}");
        assert!(heard == numbered(0, BYTES), "{} bytes", heard.len());
    });
}

/// Gives records of 1000 bytes, each of several reads, as TLS does.
struct Records<S> {
    inner: S,
    record: Vec<u8>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Records<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { inner, record } = &mut *self;
        while record.len() < 1000 {
            let mut piece = [0; 200];
            let mut piece = ReadBuf::new(&mut piece);
            std::task::ready!(Pin::new(&mut *inner).poll_read(cx, &mut piece))?;
            if piece.filled().is_empty() {
                break;
            }
            record.extend_from_slice(piece.filled());
        }
        buf.put_slice(record);
        record.clear();
        Poll::Ready(Ok(()))
    }
}

/// Takes some bytes, and more only at the next poll.
struct Paced<S>(S);

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    forwards!(poll_read);
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let piece = &bytes[..bytes.len().min(1000)];
        Pin::new(&mut self.0).poll_write(cx, piece)
    }

    forwards!(poll_flush, poll_shutdown);
}

/// Nothing is read from the client any more, nothing comes for the client, and nothing is written.
#[test]
fn a_reset_under_a_stream_that_is_neither_read_nor_written_is_seen() {
    run(async {
        let (near, far) = pair(Wire::Tcp);
        let (mut server, mut b) = UnixStream::pair().expect("a pair");
        let near = Conduit::new(near.into()).expect("an end");
        let mut a = Conduit::of_layer(Over(near));
        let options = RelayOptions { watch_errors: true, ..RelayOptions::new() };
        let (ended, ()) =
            tokio::join!(async { Relay::new(&options).run(&mut a, &mut b).await }, async {
                far.finish();
                // The client's end is passed on, and the relay waits for the server alone.
                assert_eq!(server.read(&mut [0; 1]).await.expect("no error"), 0);
                far.reset();
            });
        let error = ended.expect_err("a reset");
        assert_eq!(error.end(), Some(End::A), "{error}");
        let io = error.io_error().expect("the kernel's");
        assert!(matches!(io.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{io}");
    });
}

/// Programs hold conduits across awaits and share them: a stream that is not `Sync` changes nothing
/// there.
#[test]
fn a_conduit_is_send_and_sync_whatever_its_stream() {
    fn is_shared<T: Send + Sync + 'static>(_: &T) {}
    let from: Box<dyn AsyncRead + Send + Unpin> = Box::new(tokio::io::empty());
    let to: Box<dyn AsyncWrite + Send + Unpin> = Box::new(tokio::io::sink());
    is_shared(&Conduit::of_stream(tokio::io::join(from, to)));
}

#[test]
fn directions_of_a_stream_can_be_left_out() {
    let both = || Conduit::of_stream(Scripted::default());
    let (only_read, only_written) = (both().read_only(), both().write_only());
    assert!(only_read.reads() && !only_read.writes());
    assert!(!only_written.reads() && only_written.writes());
    let mut unread = both();
    unread.stop_reading();
    assert!(!unread.reads() && unread.writes() && !unread.facts().endless);
    let (mut a, mut b) = (both().write_only(), both());
    let error = run(async { Relay::new(&RelayOptions::new()).copy(&mut a, &mut b).await });
    assert_eq!(error.expect_err("it cannot be read").errno(), Some(gush::Errno::BADF));
}

#[test]
fn the_end_is_passed_on_by_hand_where_a_stream_can_say_so_at_once() {
    let log = Log::default();
    let scripted = Scripted { log: log.clone(), shutdowns: [Never].into(), ..Scripted::default() };
    let mut late = Conduit::of_stream(scripted);
    assert_eq!(late.finish().expect_err("not now").kind(), ErrorKind::WouldBlock);
    assert_eq!(log.calls(), ["shutdown"]);
    Conduit::of_stream(Scripted::default()).finish().expect("at once");
}

/// A conduit of descriptors is a stream itself, of every kind.
#[test]
fn a_conduit_is_read_written_and_ended_as_a_stream() {
    run(async {
        for wire in [Wire::Tcp, Wire::Unix] {
            let (near, far) = pair(wire);
            let mut near = Conduit::new(near.into()).expect("an end");
            let mut far = Conduit::new(far.into()).expect("an end");
            let all = numbered(0, 1 << 20);
            let send = async {
                near.write_all(all).await.expect("room");
                near.shutdown().await.expect("open");
            };
            let mut heard = Vec::new();
            let (_, got) = tokio::join!(send, far.read_to_end(&mut heard));
            assert_eq!(got.expect("no error"), all.len(), "{wire:?}");
            assert!(heard == all, "{wire:?}");
        }
        let (from, to) = std::io::pipe().expect("a pipe");
        let mut pipe = Conduit::of_two(from.into(), to.into()).expect("an end");
        pipe.write_all(b"through a pipe").await.expect("room");
        pipe.shutdown().await.expect("open");
        assert!(!pipe.writes(), "the writer is closed");
        let mut heard = String::new();
        pipe.read_to_string(&mut heard).await.expect("no error");
        assert_eq!(heard, "through a pipe");
        let error = pipe.write_all(b"x").await.expect_err("closed");
        assert_eq!(error.raw_os_error(), Some(gush::Errno::BADF.raw_os_error()));
        // epoll refuses files.
        let mut file = tempfile::tempfile().expect("a file");
        io::Write::write_all(&mut file, b"content").expect("room");
        io::Seek::rewind(&mut file).expect("a position");
        let mut file = Conduit::new(file.into()).expect("an end");
        let mut content = String::new();
        file.read_to_string(&mut content).await.expect("no error");
        assert_eq!(content, "content");
        assert!(file.read_fd().expect("a file").as_fd().try_clone_to_owned().is_ok());
    });
}
