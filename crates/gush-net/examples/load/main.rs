//! Load for a relay: `load CASE --listen PORT --connect PORT [--bytes N] [--count N] [--clients N]
//! -- RELAY… [-- ANOTHER…]`.
//!
//! The program starts the relay, plays the client, which connects to the relay, and the server,
//! which the relay connects to, and ends the relay. It prints one line of JSON: figures of the
//! load, and of the relay alone (processor seconds, memory). A lost byte or connection is a
//! failure. Sending is sendfile from memory (write where that call is missing), and receiving drops
//! bytes inside the kernel, so that neither adds much to the relay's time.
//!
//! | case | the load | figures |
//! |---|---|---|
//! | `bulk` | one connection, `--bytes` from client to server | `gib_per_s`, `relay_s_per_gib` |
//! | `many` | `--clients` connections at once, `--bytes` both ways on each, every byte checked | `seconds`, `relay_s`, `kib_per_connection` |
//! | `short` | `--count` connections of one small question and answer, `--clients` at a time | `seconds`, `connections_per_s`, `relay_s` |
//! | `pingpong` | one connection, `--count` messages of 64 bytes there and back | `median_us`, `p99_us`, `p999_us`, `max_us` |
//! | `bodies` | the same with messages of `--bytes`, which the server receives whole before answering | as `pingpong` |
//! | `file-out` | the relay sends `--bytes` of a file to each client; `--get 1` asks for `/source` by HTTP before | as `bulk` |
//! | `file-in` | the relay stores `--bytes` that the client sends, and ends | as `bulk` |
//!
//! `--connect` is the port that the client connects to, and `--relay` the one of the measured
//! relay, if the two are not the same: another relay, after a second `--`, then stands between
//! them, as for TLS.

mod relay;

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use relay::Relay;
use rustix::net::RecvFlags;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

type Failed = Box<dyn Error + Send + Sync>;
/// Names and values.
type Outcome = Result<Vec<(&'static str, f64)>, Failed>;

const GIB: f64 = (1_u64 << 30) as f64;

struct Load {
    listen: u16,
    connect: u16,
    bytes: u64,
    count: u64,
    clients: u64,
    /// Ask for the file by HTTP.
    gets: bool,
}

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut load =
        Load { listen: 0, connect: 0, bytes: 1 << 20, count: 1000, clients: 64, gets: false };
    let mut parts = arguments.split(|word| word == "--");
    let own = parts.next().unwrap_or_default();
    let (case, options) = own.split_first().ok_or("usage: load CASE [--NAME VALUE]… -- RELAY…")?;
    let mut port = None;
    for pair in options.chunks(2) {
        let value: u64 = pair.get(1).ok_or("a value is missing")?.parse()?;
        match pair[0].as_str() {
            "--listen" => load.listen = value as u16,
            "--connect" => load.connect = value as u16,
            "--relay" => port = Some(value as u16),
            "--bytes" => load.bytes = value,
            "--count" => load.count = value,
            "--clients" => load.clients = value,
            "--get" => load.gets = value > 0,
            other => return Err(format!("no option is called {other}").into()),
        }
    }
    let measured = parts.next().ok_or("-- RELAY… is missing")?;
    let relay = Relay::start(measured, port.unwrap_or(load.connect))?;
    let _others: Vec<Relay> =
        parts.map(|command| Relay::start(command, load.connect)).collect::<Result<_, _>>()?;
    let runtime = tokio::runtime::Runtime::new;
    let figures = match case.as_str() {
        "bulk" => load.bulk(&relay)?,
        "pingpong" => load.there_and_back(64)?,
        "bodies" => load.there_and_back(load.bytes as usize)?,
        "many" => load.many(&runtime()?, &relay)?,
        "short" => load.short(&runtime()?, &relay)?,
        "file-out" => load.file_out(&relay)?,
        "file-in" => load.file_in(relay)?,
        other => return Err(format!("no case is called {other}").into()),
    };
    let figures = figures.iter().map(|(name, value)| format!(r#""{name}":{value:.6}"#));
    println!("{{{}}}", figures.collect::<Vec<_>>().join(","));
    Ok(())
}

/// Sends `total` bytes from memory.
fn send(client: &TcpStream, total: u64) -> Result<(), Failed> {
    let file = rustix::fs::memfd_create("load", rustix::fs::MemfdFlags::CLOEXEC)?;
    let piece_bytes = total.min(64 << 20);
    let mut memory = File::from(file);
    let pattern = vec![0xa5; piece_bytes as usize];
    memory.write_all(&pattern)?;
    let mut sent = 0;
    while sent < total {
        let mut at = sent % piece_bytes;
        let most = (piece_bytes - at).min(total - sent) as usize;
        sent += match rustix::fs::sendfile(client.as_fd(), &memory, Some(&mut at), most) {
            Err(rustix::io::Errno::NOSYS) => {
                (&mut &*client).write(&pattern[..most.min(256 << 10)])?
            }
            sent => sent?,
        } as u64;
    }
    client.shutdown(Shutdown::Write)?;
    Ok(())
}

/// Receives to the end, dropping bytes inside the kernel (MSG_TRUNC, tcp(7)).
fn drain(server: &TcpStream) -> Result<u64, Failed> {
    let mut nothing = vec![std::mem::MaybeUninit::<u8>::uninit(); 4 << 20];
    let mut received = 0;
    loop {
        match rustix::net::recv(server, &mut nothing[..], RecvFlags::TRUNC)?.1 {
            0 => return Ok(received),
            got => received += got as u64,
        }
    }
}

impl Load {
    /// Both ends of a connection through the relay.
    fn connected(&self) -> std::io::Result<(TcpStream, TcpStream)> {
        let listener = TcpListener::bind(("127.0.0.1", self.listen))?;
        let client = TcpStream::connect(("127.0.0.1", self.connect))?;
        // Some relays connect on only when the first byte has come; none waits for more than that.
        let (server, _) = listener.accept()?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        Ok((client, server))
    }

    fn bulk(&self, relay: &Relay) -> Outcome {
        let (client, server) = self.connected()?;
        let used = relay.cpu_seconds();
        let total = self.bytes;
        let begun = Instant::now();
        let sender = thread::spawn(move || send(&client, total));
        let received = drain(&server)?;
        let seconds = begun.elapsed().as_secs_f64();
        sender.join().map_err(|_| "the sender panicked")??;
        all("bytes arrived", received, total)?;
        Ok(self.throughput(seconds, relay.cpu_seconds() - used))
    }

    fn throughput(&self, seconds: f64, relay_s: f64) -> Vec<(&'static str, f64)> {
        let gib = self.bytes as f64 / GIB;
        vec![("gib_per_s", gib / seconds), ("relay_s_per_gib", relay_s / gib)]
    }

    fn file_out(&self, relay: &Relay) -> Outcome {
        let used = relay.cpu_seconds();
        let mut client = TcpStream::connect(("127.0.0.1", self.connect))?;
        let begun = Instant::now();
        if self.gets {
            client.write_all(b"GET /source HTTP/1.0\r\n\r\n")?;
        }
        let received = drain(&client)?;
        let seconds = begun.elapsed().as_secs_f64();
        // Before the connection is closed here: the relay, which may end then, is still there.
        let used = relay.cpu_seconds() - used;
        // An answer by HTTP has a head.
        all("bytes arrived", received.min(self.bytes), self.bytes)?;
        Ok(self.throughput(seconds, used))
    }

    fn file_in(&self, mut relay: Relay) -> Outcome {
        let client = TcpStream::connect(("127.0.0.1", self.connect))?;
        let begun = Instant::now();
        send(&client, self.bytes)?;
        drop(client);
        let status = relay.ended()?;
        let seconds = begun.elapsed().as_secs_f64();
        if !status.success() {
            return Err(format!("the relay ended with {status}").into());
        }
        // Of the relay alone: no other child has been waited for.
        let used = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let used_us = (used.user_time() + used.system_time()).num_microseconds();
        Ok(self.throughput(seconds, used_us as f64 / 1e6))
    }

    fn there_and_back(&self, message_bytes: usize) -> Outcome {
        let (mut client, mut server) = self.connected()?;
        let count = self.count;
        let echo = thread::spawn(move || {
            let mut message = vec![0; message_bytes];
            while server.read_exact(&mut message).is_ok() {
                if server.write_all(&message).is_err() {
                    break;
                }
            }
        });
        let mut nanos = Vec::with_capacity(count as usize);
        let mut message = vec![7; message_bytes];
        for round in 0..count + count / 10 {
            let begun = Instant::now();
            client.write_all(&message)?;
            client.read_exact(&mut message)?;
            // The first tenth warms up.
            if round >= count / 10 {
                nanos.push(begun.elapsed().as_nanos() as u64);
            }
        }
        drop(client);
        echo.join().map_err(|_| "the echo panicked")?;
        nanos.sort_unstable();
        let quantile = |q: f64| nanos[((nanos.len() - 1) as f64 * q) as usize] as f64 / 1e3;
        let over = nanos.iter().filter(|ns| **ns >= 35_000_000).count();
        Ok(vec![
            ("median_us", quantile(0.5)),
            ("p99_us", quantile(0.99)),
            ("p999_us", quantile(0.999)),
            ("max_us", quantile(1.0)),
            ("over_35_ms", over as f64),
        ])
    }

    fn many(&self, runtime: &tokio::runtime::Runtime, relay: &Relay) -> Outcome {
        let is_over = AtomicBool::new(false);
        let used = relay.cpu_seconds();
        thread::scope(|scope| {
            let growth = relay.growth_bytes(scope, &is_over);
            let exchanged = runtime.block_on(self.exchanges());
            is_over.store(true, Ordering::Relaxed);
            let growth = growth.join().map_err(|_| "the look at the memory panicked")?;
            let kib_each = growth as f64 / 1024.0 / self.clients as f64;
            Ok(vec![
                ("seconds", exchanged?),
                ("relay_s", relay.cpu_seconds() - used),
                ("kib_per_connection", kib_each),
            ])
        })
    }

    fn short(&self, runtime: &tokio::runtime::Runtime, relay: &Relay) -> Outcome {
        // A first few make the relay open what it keeps.
        runtime.block_on(self.questions(self.clients))?;
        let (used, open) = (relay.cpu_seconds(), relay.descriptors());
        let seconds = runtime.block_on(self.questions(self.count))?;
        let (used, left) = (relay.cpu_seconds() - used, relay.descriptors());
        if left > open {
            return Err(format!("{} descriptors more than before are open", left - open).into());
        }
        let rate = self.count as f64 / seconds;
        Ok(vec![("seconds", seconds), ("connections_per_s", rate), ("relay_s", used)])
    }

    /// A server with room for all clients at once. Where the queue of a listener is full, the
    /// kernel drops the last message of a handshake: the client takes itself for connected, and the
    /// server hears of it only when the client sends.
    fn listener(&self) -> std::io::Result<tokio::net::TcpListener> {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind((std::net::Ipv4Addr::LOCALHOST, self.listen).into())?;
        socket.listen(4096)
    }

    /// The seconds of all exchanges.
    async fn exchanges(&self) -> Result<f64, Failed> {
        let listener = self.listener()?;
        let (clients, bytes) = (self.clients, self.bytes);
        let begun = Instant::now();
        let serving = tokio::spawn(async move {
            let mut servers = Vec::new();
            for _ in 0..clients {
                servers.push(listener.accept().await?.0);
            }
            std::io::Result::Ok(servers)
        });
        let mut asking = Vec::new();
        for _ in 0..clients {
            asking.push(tokio::net::TcpStream::connect(("127.0.0.1", self.connect)).await?);
        }
        // All of them are open before the first byte moves.
        let servers = serving.await??;
        let exchanges = |streams: Vec<_>, send, receive| {
            let mut tasks = tokio::task::JoinSet::new();
            for stream in streams {
                tasks.spawn(exchange(stream, bytes, send, receive));
            }
            right(tasks)
        };
        let (asked, served) = tokio::try_join!(exchanges(asking, 1, 2), exchanges(servers, 2, 1))?;
        all("connections were right", asked.min(served), clients)?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// The seconds of `count` questions and answers.
    async fn questions(&self, count: u64) -> Result<f64, Failed> {
        let listener = self.listener()?;
        let serving = tokio::spawn(async move {
            while let Ok((mut server, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut question = [0; 100];
                    if server.read_exact(&mut question).await.is_ok() {
                        let _gone = server.write_all(&question).await;
                    }
                });
            }
        });
        let (begun, connect) = (Instant::now(), self.connect);
        let mut workers = tokio::task::JoinSet::new();
        for worker in 0..self.clients {
            let share = count / self.clients + u64::from(worker < count % self.clients);
            workers.spawn(async move {
                let mut answered = 0;
                for _ in 0..share {
                    let stream = tokio::net::TcpStream::connect(("127.0.0.1", connect)).await;
                    let Ok(mut client) = stream else { continue };
                    let mut answer = Vec::new();
                    if client.write_all(&[7; 100]).await.is_ok()
                        && client.read_to_end(&mut answer).await.is_ok()
                    {
                        answered += u64::from(answer == [7; 100]);
                    }
                }
                answered
            });
        }
        let answered: u64 = workers.join_all().await.iter().sum();
        all("connections were answered", answered, count)?;
        let seconds = begun.elapsed().as_secs_f64();
        // Whoever relays has a moment to let go of the last ones.
        tokio::time::sleep(Duration::from_millis(200)).await;
        serving.abort();
        let _ = serving.await;
        Ok(seconds)
    }
}

/// Refuses less than everything.
fn all(what: &str, found: u64, all: u64) -> Result<(), Failed> {
    match found < all {
        true => Err(format!("{found} of {all} {what}").into()),
        false => Ok(()),
    }
}

async fn right(mut tasks: tokio::task::JoinSet<std::io::Result<bool>>) -> Result<u64, Failed> {
    let mut right = 0;
    while let Some(task) = tasks.join_next().await {
        right += u64::from(task??);
    }
    Ok(right)
}

/// Sends `bytes` of one pattern, receives as many of another, to the end; was every byte right?
async fn exchange(
    stream: tokio::net::TcpStream,
    bytes: u64,
    send: u8,
    receive: u8,
) -> std::io::Result<bool> {
    let (mut reading, mut writing) = stream.into_split();
    let sending = tokio::spawn(async move {
        let mut sent = 0;
        while sent < bytes {
            let piece = block(send, sent, (bytes - sent).min(64 << 10) as usize);
            writing.write_all(piece).await?;
            sent += piece.len() as u64;
        }
        writing.shutdown().await
    });
    let (mut buf, mut at, mut right) = (vec![0; 64 << 10], 0, true);
    loop {
        let got = reading.read(&mut buf).await?;
        if got == 0 {
            break;
        }
        right &= buf[..got] == *block(receive, at, got);
        at += got as u64;
    }
    sending.await??;
    Ok(right && at == bytes)
}

/// The bytes at a place of a stream whose period is a prime number.
fn block(seed: u8, from: u64, count: usize) -> &'static [u8] {
    const PERIOD: usize = 65_521;
    static BLOCKS: [std::sync::OnceLock<Vec<u8>>; 3] = [const { std::sync::OnceLock::new() }; 3];
    let bytes = BLOCKS[usize::from(seed)].get_or_init(|| {
        let mut word = u32::from(seed).wrapping_mul(2_654_435_761);
        let mut next = || {
            word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (word >> 24) as u8
        };
        let period: Vec<u8> = (0..PERIOD).map(|_| next()).collect();
        period.iter().copied().cycle().take(PERIOD + (64 << 10)).collect()
    });
    let begin = (from % PERIOD as u64) as usize;
    &bytes[begin..begin + count]
}
