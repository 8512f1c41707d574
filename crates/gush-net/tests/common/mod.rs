//! Peers, relays between them, and bytes that can be checked.
#![allow(dead_code, unused_imports, reason = "each test program uses a part of it")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gush_net::{ByteCounts, Conduit, Direction, Error, Relay, RelayOptions, Totals};
pub use gush_test::{not_applicable, skipped};

/// The kinds of stream at the ends of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Tcp,
    Unix,
}

/// A connected pair of blocking streams.
pub fn pair(wire: Wire) -> (Peer, Peer) {
    match wire {
        Wire::Tcp => {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let near = TcpStream::connect(listener.local_addr().unwrap()).expect("connected");
            let (far, _) = listener.accept().expect("accepted");
            // Or short messages would wait for acknowledgements, and tests of turns would take
            // seconds.
            near.set_nodelay(true).unwrap();
            far.set_nodelay(true).unwrap();
            (Peer::Tcp(near), Peer::Tcp(far))
        }
        Wire::Unix => {
            let (near, far) = UnixStream::pair().expect("a pair");
            (Peer::Unix(near), Peer::Unix(far))
        }
    }
}

/// One end of a connection, in blocking hands.
#[derive(Debug)]
pub enum Peer {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Peer {
    pub fn try_clone(&self) -> Peer {
        match self {
            Peer::Tcp(stream) => Peer::Tcp(stream.try_clone().unwrap()),
            Peer::Unix(stream) => Peer::Unix(stream.try_clone().unwrap()),
        }
    }

    pub fn finish(&self) {
        let answer = match self {
            Peer::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Peer::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
        answer.expect("shutdown");
    }

    /// Closes a TCP stream so that the peer sees a reset.
    pub fn reset(self) {
        let linger = Some(Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&self, linger).expect("SO_LINGER");
    }
}

impl AsFd for Peer {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match self {
            Peer::Tcp(stream) => stream.as_fd(),
            Peer::Unix(stream) => stream.as_fd(),
        }
    }
}

impl From<Peer> for OwnedFd {
    fn from(peer: Peer) -> OwnedFd {
        match peer {
            Peer::Tcp(stream) => stream.into(),
            Peer::Unix(stream) => stream.into(),
        }
    }
}

impl Read for Peer {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Peer::Tcp(stream) => stream.read(buf),
            Peer::Unix(stream) => stream.read(buf),
        }
    }
}

impl Write for Peer {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        match self {
            Peer::Tcp(stream) => stream.write(buf),
            Peer::Unix(stream) => stream.write(buf),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A relay at work in a separate thread, between two peers that the test plays.
pub struct Bridge {
    pub client: Peer,
    pub server: Peer,
    pub counts: Arc<ByteCounts>,
    pub relay: JoinHandle<Result<Totals, Error>>,
}

impl Bridge {
    pub fn new(a: Wire, b: Wire, options: RelayOptions) -> Self {
        let ((client, near), (far, server)) = (pair(a), pair(b));
        let counts = options.counts();
        let relay = spawn_relay(near.into(), far.into(), options);
        Self { client, server, counts, relay }
    }

    /// The same between tokio's own streams.
    pub fn of_tokio(a: Wire, b: Wire, options: RelayOptions) -> Self {
        let ((client, near), (far, server)) = (pair(a), pair(b));
        let counts = options.counts();
        let relay = spawn_tokio_relay(near, far, options);
        Self { client, server, counts, relay }
    }
}

/// As [`spawn_relay`], between tokio's own streams.
pub fn spawn_tokio_relay(
    a: Peer,
    b: Peer,
    options: RelayOptions,
) -> JoinHandle<Result<Totals, Error>> {
    use tokio::net;
    let tcp = |stream: TcpStream| {
        stream.set_nonblocking(true).unwrap();
        net::TcpStream::from_std(stream).unwrap()
    };
    let unix = |stream: UnixStream| {
        stream.set_nonblocking(true).unwrap();
        net::UnixStream::from_std(stream).unwrap()
    };
    std::thread::spawn(move || {
        run(async {
            match (a, b) {
                (Peer::Tcp(a), Peer::Tcp(b)) => {
                    Relay::new(&options).run(&mut tcp(a), &mut tcp(b)).await
                }
                (Peer::Tcp(a), Peer::Unix(b)) => {
                    Relay::new(&options).run(&mut tcp(a), &mut unix(b)).await
                }
                (Peer::Unix(a), Peer::Tcp(b)) => {
                    Relay::new(&options).run(&mut unix(a), &mut tcp(b)).await
                }
                (Peer::Unix(a), Peer::Unix(b)) => {
                    Relay::new(&options).run(&mut unix(a), &mut unix(b)).await
                }
            }
        })
    })
}

/// Relays between two descriptors in a separate thread.
pub fn spawn_relay(
    a: OwnedFd,
    b: OwnedFd,
    options: RelayOptions,
) -> JoinHandle<Result<Totals, Error>> {
    std::thread::spawn(move || {
        run(async {
            let (mut a, mut b) = (Conduit::new(a).unwrap(), Conduit::new(b).unwrap());
            Relay::new(&options).run(&mut a, &mut b).await
        })
    })
}

/// Runs a future on this thread. A relay that hangs is dropped after two minutes: the peers see
/// their connections end, and the test fails.
pub fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut future = std::pin::pin!(future);
        let ended = tokio::time::timeout(Duration::from_secs(120), &mut future).await;
        // Told before the future is dropped: then the test fails by what its peers see.
        ended.expect("it hangs: it has not ended after 120 s")
    })
}

/// Bytes that look random and can be checked at any place: lost, doubled or displaced bytes show.
#[derive(Clone, Debug)]
pub struct Pattern {
    word: u64,
    left: Vec<u8>,
}

impl Pattern {
    pub fn new(seed: u64) -> Self {
        Self { word: seed | 1, left: Vec::new() }
    }

    fn next(&mut self) -> u8 {
        if self.left.is_empty() {
            self.word ^= self.word << 13;
            self.word ^= self.word >> 7;
            self.word ^= self.word << 17;
            self.left.extend_from_slice(&self.word.to_le_bytes());
        }
        self.left.pop().expect("filled above")
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next()).collect()
    }
}

/// The bytes at a place of a stream whose period is a prime number: lost, doubled or displaced
/// bytes show, and a comparison costs no more than a copy.
pub fn numbered(from_bytes: u64, count_bytes: usize) -> &'static [u8] {
    // The largest prime below 256 KiB: no buffer of a power of two shows the same bytes twice.
    const PERIOD: usize = 262_139;
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = BYTES.get_or_init(|| {
        let period = Pattern::new(7).bytes(PERIOD);
        period.iter().copied().cycle().take(PERIOD + (1 << 20)).collect()
    });
    let begin = (from_bytes % PERIOD as u64) as usize;
    &bytes[begin..begin + count_bytes]
}

/// Writes the first `total_bytes` of that stream.
pub fn write_numbered(out: &mut impl Write, total_bytes: u64) -> std::io::Result<()> {
    let mut at = 0;
    while at < total_bytes {
        let piece = (total_bytes - at).min(256 << 10);
        out.write_all(numbered(at, piece as usize))?;
        at += piece;
    }
    Ok(())
}

/// Reads to the end and checks every byte; answers how many came.
pub fn read_numbered(input: &mut impl Read) -> std::io::Result<u64> {
    let mut buf = vec![0; 256 << 10];
    let mut at = 0;
    loop {
        let got = input.read(&mut buf)?;
        if got == 0 {
            return Ok(at);
        }
        assert!(buf[..got] == *numbered(at, got), "wrong bytes in {at}..{}", at + got as u64);
        at += got as u64;
    }
}

/// Waits until nothing has gone that way for a while; answers how much has.
pub fn settled(counts: &ByteCounts, way: Direction) -> u64 {
    let mut last = (0, Instant::now());
    while last.1.elapsed() < Duration::from_millis(500) {
        let sum = counts.delivered_bytes(way);
        if sum != last.0 {
            last = (sum, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    last.0
}
