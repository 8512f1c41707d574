//! Which ends are recognised as having a descriptor: shown by the method that moved the bytes. And
//! the functions that stand in for tokio's: their types, results and effects.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::process::Command;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::common::{numbered, run};
use crate::forwards::forwards;
use gush::MethodName;
use gush_net::{Conduit, Direction, Error, Relay, RelayOptions, copy, copy_bidirectional};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixStream};

/// More than a short message, which a relay always reads and writes.
const BYTES: usize = 400_000;

async fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let near = TcpStream::connect(listener.local_addr().expect("an address"));
    let (near, far) = tokio::join!(near, listener.accept());
    (near.expect("connected"), far.expect("accepted").0)
}

async fn unix() -> (UnixStream, UnixStream) {
    UnixStream::pair().expect("a pair")
}

/// Feeds one end, takes from the other, and answers the method that moved most in between.
async fn method_between(
    mut feeder: impl AsyncWrite + Unpin,
    mut taker: impl AsyncRead + Unpin,
    relayed: impl Future<Output = Result<gush_net::Totals, Error>>,
) -> Option<MethodName> {
    let feed = async {
        feeder.write_all(numbered(0, BYTES)).await.expect("room");
        feeder.shutdown().await.expect("open");
        feeder
    };
    let take = async {
        let mut all = vec![0; BYTES];
        taker.read_exact(&mut all).await.expect("all of it");
        assert!(all == numbered(0, BYTES), "other bytes");
        // The end of the other direction, where there is one.
        drop(taker);
    };
    let (totals, _, ()) = tokio::join!(relayed, feed, take);
    let totals = totals.expect("no failure");
    assert_eq!(totals.forward.bytes, BYTES as u64);
    totals.forward.method
}

/// `$near` and `$far` as seen by the relay, each made of a stream.
macro_rules! one_way {
    ($pair:ident, |$source:ident| $from:expr, |$target:ident| $to:expr) => {
        run(async {
            let ((feeder, mut $source), (mut $target, taker)) = ($pair().await, $pair().await);
            let (_, _) = (&mut $source, &mut $target);
            let (mut from, mut to) = ($from, $to);
            let options = RelayOptions::new();
            let relayed = async { Relay::new(&options).copy(&mut from, &mut to).await };
            method_between(feeder, taker, relayed).await
        })
    };
}

macro_rules! every_face_of {
    ($pair:ident) => {{
        let by_reference = Some(MethodName::Splice);
        assert_eq!(one_way!($pair, |a| a, |b| b), by_reference, "streams");
        let owned = one_way!($pair, |a| a.into_split().0, |b| b.into_split().1);
        assert_eq!(owned, by_reference, "owned halves");
        let borrowed = one_way!($pair, |a| a.split().0, |b| b.split().1);
        assert_eq!(borrowed, by_reference, "borrowed halves");
        let mixed = one_way!($pair, |a| a.split().0, |b| b.into_split().1);
        assert_eq!(mixed, by_reference, "a borrowed and an owned half");

        let by_memory = Some(MethodName::ReadWrite);
        assert_eq!(one_way!($pair, |a| &mut a, |b| b), by_memory, "in a reference");
        assert_eq!(one_way!($pair, |a| a, |b| Box::new(b)), by_memory, "in a box");
        let generic = one_way!($pair, |a| tokio::io::split(a).0, |b| b);
        assert_eq!(generic, by_memory, "a half of any stream");
        let buffered = one_way!($pair, |a| tokio::io::BufReader::new(a), |b| b);
        assert_eq!(buffered, by_memory, "buffered");
    }};
}

#[test]
fn tokios_streams_and_halves_go_by_reference_and_what_hides_them_through_memory() {
    every_face_of!(tcp);
    every_face_of!(unix);
    let conduits = one_way!(
        unix,
        |a| Conduit::new(a.into_std().expect("a stream").into()).expect("an end"),
        |b| Conduit::new(b.into_std().expect("a stream").into()).expect("an end")
    );
    assert_eq!(conduits, Some(MethodName::Splice));
}

#[test]
fn in_both_directions_streams_go_by_reference_and_others_through_memory() {
    run(async {
        let ((feeder, mut a), (mut b, taker)) = (tcp().await, unix().await);
        let options = RelayOptions::new();
        let method =
            method_between(feeder, taker, async { Relay::new(&options).run(&mut a, &mut b).await })
                .await;
        assert_eq!(method, Some(MethodName::Splice), "streams");

        let ((feeder, mut a), (mut b, taker)) = (tcp().await, tokio::io::duplex(3000));
        let method =
            method_between(feeder, taker, async { Relay::new(&options).run(&mut a, &mut b).await })
                .await;
        assert_eq!(method, Some(MethodName::ReadWrite), "a pipe in memory");

        // Unsized, and not `'static`.
        let ((feeder, mut a), (mut b, taker)) = (tcp().await, unix().await);
        let a: &mut (dyn Both + '_) = &mut a;
        let method =
            method_between(feeder, taker, async { Relay::new(&options).run(a, &mut b).await })
                .await;
        assert_eq!(method, Some(MethodName::ReadWrite), "a trait object");
    });
}

trait Both: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Both for S {}

/// Calls that must compile, and be `Send` exactly if the ends are.
#[test]
fn the_functions_take_whatever_tokios_do() {
    fn is_send<T: Send>(future: T) -> T {
        future
    }
    fn of_any<A, B>(a: &mut A, b: &mut B) -> impl Future<Output = io::Result<(u64, u64)>>
    where
        A: AsyncRead + AsyncWrite + Unpin + ?Sized,
        B: AsyncRead + AsyncWrite + Unpin + ?Sized,
    {
        copy_bidirectional(a, b)
    }
    struct Unsent(
        tokio::io::DuplexStream,
        #[expect(dead_code, reason = "it is not Send")] Rc<Cell<u8>>,
    );
    impl AsyncRead for Unsent {
        forwards!(poll_read);
    }
    impl AsyncWrite for Unsent {
        forwards!(poll_write, poll_flush, poll_shutdown);
    }
    run(async {
        let ((mut client, a), (mut b, mut server)) = (tokio::io::duplex(10), unix().await);
        let mut a = Unsent(a, Rc::default());
        let talk = async {
            client.write_all(b"question").await.expect("room");
            client.shutdown().await.expect("open");
            let mut heard = String::new();
            server.read_to_string(&mut heard).await.expect("no error");
            assert_eq!(heard, "question");
            server.write_all(b"the answer").await.expect("room");
            drop(server);
            let mut heard = String::new();
            client.read_to_string(&mut heard).await.expect("no error");
            assert_eq!(heard, "the answer");
        };
        let (counts, ()) = tokio::join!(of_any(&mut a, &mut b), talk);
        assert_eq!(counts.expect("no failure"), (8, 10));

        let ((mut a, peer), (mut b, _)) = (tcp().await, tokio::io::duplex(10));
        drop(peer);
        is_send(copy_bidirectional(&mut a, &mut b)).await.expect("no failure");
        let mut relay = Relay::new(&RelayOptions::new());
        is_send(relay.run(&mut a, &mut b)).await.expect("no failure");
        assert_eq!(is_send(copy(&mut a, &mut b)).await.expect("no failure"), 0);
    });
}

#[test]
fn an_error_for_tokios_callers_is_the_systems_own() {
    run(async {
        let ((mut client, mut a), (mut b, server)) = (unix().await, unix().await);
        drop(server);
        client.write_all(b"nobody reads this").await.expect("room");
        let error = copy_bidirectional(&mut a, &mut b).await.expect_err("nobody reads");
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        assert_eq!(error.raw_os_error(), Some(gush::Errno::PIPE.raw_os_error()));
    });
}

/// A stream whose answers are known.
struct Scripted {
    says: VecDeque<io::Result<&'static [u8]>>,
    takes: bool,
    flushes: bool,
}

impl AsyncRead for Scripted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.says.pop_front() {
            Some(said) => Poll::Ready(said.map(|bytes| buf.put_slice(bytes))),
            None => Poll::Pending,
        }
    }
}

impl AsyncWrite for Scripted {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(if self.takes { Ok(bytes.len()) } else { Err(ErrorKind::BrokenPipe.into()) })
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.flushes { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The failure of a copy between two such streams, at once and without a runtime.
fn failure_between(mut a: Scripted, mut b: Scripted) -> ErrorKind {
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let mut copied = std::pin::pin!(copy_bidirectional(&mut a, &mut b));
    let polled = (0..4).find_map(|_| match copied.as_mut().poll(&mut cx) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    });
    polled.expect("at once, as tokio's").expect_err("it fails").kind()
}

/// tokio's function needs neither the timers of a runtime nor, between streams without descriptors,
/// a runtime.
#[test]
fn an_error_for_tokios_callers_needs_no_timers() {
    let silent = || Scripted { says: VecDeque::new(), takes: true, flushes: true };
    let speaker = Scripted { says: [Ok(&b"nobody reads this"[..])].into(), ..silent() };
    let deaf = Scripted { takes: false, ..silent() };
    assert_eq!(failure_between(speaker, deaf), ErrorKind::BrokenPipe);
    // Nor does it wait for a target that never sends on what it keeps.
    let cut = [Ok(&b"the first word"[..]), Err(ErrorKind::ConnectionReset.into())];
    let cut = Scripted { says: cut.into(), ..silent() };
    let keeper = Scripted { says: [Ok(&b""[..])].into(), flushes: false, ..silent() };
    assert_eq!(failure_between(cut, keeper), ErrorKind::ConnectionReset);
    // Nor where the one that keeps has taken the last words of the side that failed.
    let asks = [Ok(&b"a request"[..])].into();
    let keeper = Scripted { says: asks, flushes: false, ..silent() };
    let answers = [Ok(&b"refused"[..]), Ok(&b""[..])].into();
    let refuser = Scripted { says: answers, takes: false, ..silent() };
    assert_eq!(failure_between(keeper, refuser), ErrorKind::BrokenPipe);

    let without_timers = tokio::runtime::Builder::new_current_thread().enable_io().build();
    without_timers.expect("a runtime").block_on(async {
        let ((mut client, mut a), (mut b, mut server)) = (unix().await, unix().await);
        // Writing to the server fails from here on, and the server is silent but for an answer that
        // has arrived.
        rustix::net::shutdown(&b, rustix::net::Shutdown::Write).expect("open");
        server.write_all(b"go away").await.expect("room");
        client.write_all(b"nobody reads this").await.expect("room");
        let error = copy_bidirectional(&mut a, &mut b).await.expect_err("nobody reads");
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        let mut heard = [0; 7];
        client.read_exact(&mut heard).await.expect("what had arrived");
        assert_eq!(&heard, b"go away");
    });
}

/// Reads as the stream inside, and takes nothing.
struct Deaf(tokio::io::DuplexStream);

impl AsyncRead for Deaf {
    forwards!(poll_read);
}

impl AsyncWrite for Deaf {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(ErrorKind::BrokenPipe.into()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A stream of tokio says "not now", even with bytes at hand, once its task has had its turn.
#[test]
fn an_answer_at_hand_is_delivered_after_a_failure_though_a_neighbour_has_spent_the_turn() {
    run(async {
        let (b, mut server) = tokio::io::duplex(64);
        let (mut client, mut a) = tokio::io::duplex(64);
        server.write_all(b"refused").await.expect("room");
        client.write_all(b"request").await.expect("room");
        let mut b = Deaf(b);
        let mut copied = std::pin::pin!(copy_bidirectional(&mut a, &mut b));
        let failed = std::future::poll_fn(|cx| {
            // One unit of 128 is left: the request is read, and nothing else.
            for _ in 0..127 {
                let unit = std::pin::pin!(tokio::task::coop::consume_budget());
                let _ = unit.poll(cx);
            }
            copied.as_mut().poll(cx)
        });
        assert_eq!(failed.await.expect_err("nobody takes it").kind(), ErrorKind::BrokenPipe);
        let mut heard = [0; 7];
        let reading = client.read_exact(&mut heard);
        tokio::time::timeout(std::time::Duration::from_secs(60), reading)
            .await
            .expect("it is there")
            .expect("all");
        assert_eq!(&heard, b"refused");
    });
}

/// The counts are the caller's, and outlive the future.
#[test]
fn counts_outlive_a_cancelled_relay_and_a_failed_one() {
    run(async {
        for memory in [false, true] {
            let options = RelayOptions::new();
            let ((mut client, near), (mut b, mut server)) = (unix().await, unix().await);
            let mut near = match memory {
                true => Conduit::of_stream(near),
                false => Conduit::new(near.into_std().expect("a stream").into()).expect("an end"),
            };
            client.write_all(b"12345").await.expect("room");
            let mut heard = [0; 5];
            let cancelled = tokio::select! {
                ended = async { Relay::new(&options).run(&mut near, &mut b).await } => Some(ended),
                heard = server.read_exact(&mut heard) => heard.map(|_| None).expect("five bytes"),
            };
            assert!(cancelled.is_none(), "it goes on");
            assert_eq!(options.counts().delivered_bytes(Direction::Forward), 5);

            drop(server);
            client.write_all(b"678").await.expect("room");
            let error =
                Relay::new(&options).run(&mut near, &mut b).await.expect_err("nobody reads");
            assert_eq!(options.counts().delivered_bytes(Direction::Forward), 5);
            assert_eq!(options.counts().in_flight_bytes(Direction::Forward), 3);
            assert_eq!(error.passed(Direction::Forward).in_flight_bytes, 3);
        }
    });
}

/// Whoever wants relays compiles no more than these.
#[test]
fn the_crate_depends_on_tokio_rustix_and_the_engine_only() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--edges", "normal", "--depth", "1", "--prefix", "none", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo, which runs these tests");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8(output.stdout).expect("names");
    let names: Vec<_> = output.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["gush-net", "gush", "rustix", "tokio"]);
}
