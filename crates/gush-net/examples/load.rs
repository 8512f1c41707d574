//! Load for a relay: `load CASE --listen PORT --connect PORT [--bytes N] [--count N] [--clients N] [-- RELAY…]`.
//!
//! With a command for the relay, the relay is started first and ended afterwards, and a lost byte or connection is a failure.
//!
//! The program plays the client, which connects to the relay, and the server, which the relay connects to, and
//! prints one line of JSON. Sending is sendfile from memory, and receiving drops bytes inside the
//! kernel, so that neither adds much to the relay's time.
//!
//! | case | the load |
//! |---|---|
//! | `bulk` | one connection, `--bytes` from client to server |
//! | `many` | `--clients` connections at once, `--bytes` both ways on each, every byte checked |
//! | `short` | `--count` connections of one small question and answer, `--clients` at a time |
//! | `pingpong` | one connection, `--count` messages of 64 bytes there and back |
//! | `bodies` | the same with messages of `--bytes`, which the server receives whole before answering |

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::RecvFlags;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

type Outcome = Result<String, Box<dyn Error + Send + Sync>>;

struct Load {
    listen: u16,
    connect: u16,
    bytes: u64,
    count: u64,
    clients: u64,
    /// A lost connection is a failure.
    is_strict: bool,
}

/// A relay that lives as long as the load.
struct Relay {
    process: Child,
    port: u16,
}

impl Relay {
    /// Starts a relay, and waits until the relay listens on `port`: without connecting, because a relay may take one client only.
    fn start(command: &[String], port: u16) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let (program, words) = command.split_first().ok_or("-- needs the command of a relay")?;
        if listens(port)? {
            return Err(format!("somebody listens on port {port} already").into());
        }
        let process = Command::new(program).args(words).stdin(Stdio::null()).spawn()?;
        let mut relay = Self { process, port };
        for _ in 0..PATIENCE {
            if listens(port)? {
                return Ok(relay);
            }
            if let Some(status) = relay.process.try_wait()? {
                return Err(format!("{program} ended before it listened: {status}").into());
            }
            thread::sleep(MOMENT);
        }
        Err(format!("{program} does not listen on port {port}").into())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        // A relay of several processes is gone when its last one is, and the next relay needs the port.
        for _ in 0..PATIENCE {
            if !listens(self.port).unwrap_or(false) {
                break;
            }
            thread::sleep(MOMENT);
        }
    }
}

/// How long a relay is waited for: so many moments.
const PATIENCE: u32 = 1000;
const MOMENT: Duration = Duration::from_millis(5);

/// Does a socket listen on `port`? (proc_net_tcp(5))
fn listens(port: u16) -> std::io::Result<bool> {
    const LISTEN: &str = "0A";
    let local = format!(":{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp")?;
    Ok(table.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next().is_some_and(|address| address.ends_with(&local))
            && fields.nth(1) == Some(LISTEN)
    }))
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut load =
        Load { listen: 0, connect: 0, bytes: 1 << 20, count: 1000, clients: 64, is_strict: false };
    let mut parts = arguments.splitn(2, |word| word == "--");
    let (own, relay) = (parts.next().unwrap_or_default(), parts.next());
    let (case, options) = own.split_first().ok_or("usage: load CASE [--NAME VALUE]…")?;
    for pair in options.chunks(2) {
        let value: u64 = pair.get(1).ok_or("a value is missing")?.parse()?;
        match pair[0].as_str() {
            "--listen" => load.listen = value as u16,
            "--connect" => load.connect = value as u16,
            "--bytes" => load.bytes = value,
            "--count" => load.count = value,
            "--clients" => load.clients = value,
            other => return Err(format!("no option is called {other}").into()),
        }
    }
    load.is_strict = relay.is_some();
    let _relay = relay.map(|command| Relay::start(command, load.connect)).transpose()?;
    let line = match case.as_str() {
        "bulk" => load.bulk()?,
        "pingpong" => load.there_and_back(64)?,
        "bodies" => load.there_and_back(load.bytes as usize)?,
        "many" => tokio::runtime::Runtime::new()?.block_on(load.many())?,
        "short" => tokio::runtime::Runtime::new()?.block_on(load.short())?,
        other => return Err(format!("no case is called {other}").into()),
    };
    println!("{line}");
    Ok(())
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

    fn bulk(&self) -> Outcome {
        let (client, server) = self.connected()?;
        let file = rustix::fs::memfd_create("load", rustix::fs::MemfdFlags::CLOEXEC)?;
        let piece_bytes = self.bytes.min(64 << 20);
        let mut memory = std::fs::File::from(file);
        memory.write_all(&vec![0xa5; piece_bytes as usize])?;
        let total = self.bytes;
        let begun = Instant::now();
        let sender = thread::spawn(move || -> std::io::Result<()> {
            let mut sent = 0;
            while sent < total {
                let mut at = sent % piece_bytes;
                let most = (piece_bytes - at).min(total - sent) as usize;
                sent += rustix::fs::sendfile(client.as_fd(), &memory, Some(&mut at), most)? as u64;
            }
            client.shutdown(Shutdown::Write)
        });
        let mut received = 0;
        // MSG_TRUNC on TCP: received and dropped without being copied (tcp(7)).
        let mut nothing = vec![std::mem::MaybeUninit::<u8>::uninit(); 4 << 20];
        loop {
            let got = rustix::net::recv(&server, &mut nothing[..], RecvFlags::TRUNC)?.1;
            if got == 0 {
                break;
            }
            received += got as u64;
        }
        let seconds = begun.elapsed().as_secs_f64();
        sender.join().map_err(|_| "the sender panicked")??;
        if received != total {
            return Err(format!("{received} of {total} bytes arrived").into());
        }
        Ok(format!(r#"{{"seconds":{seconds:.6},"bytes":{received}}}"#))
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
        Ok(format!(
            r#"{{"median_us":{:.2},"p99_us":{:.2},"p999_us":{:.2},"max_us":{:.2},"over_35_ms":{over}}}"#,
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            quantile(1.0),
        ))
    }

    /// Refuses to count less than everything as done, where that is asked for.
    fn check(&self, what: &str, found: u64, all: u64) -> Result<(), Box<dyn Error + Send + Sync>> {
        match found < all && self.is_strict {
            true => Err(format!("{found} of {all} {what}").into()),
            false => Ok(()),
        }
    }

    async fn many(&self) -> Outcome {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", self.listen)).await?;
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
        let connected = begun.elapsed().as_secs_f64();
        let exchanges = |streams: Vec<_>, send, receive| {
            let mut tasks = tokio::task::JoinSet::new();
            for stream in streams {
                tasks.spawn(exchange(stream, bytes, send, receive));
            }
            all(tasks)
        };
        let (asked, served) = tokio::try_join!(exchanges(asking, 1, 2), exchanges(servers, 2, 1))?;
        self.check("connections were right", asked.min(served), clients)?;
        let seconds = begun.elapsed().as_secs_f64();
        Ok(format!(
            r#"{{"seconds":{seconds:.6},"connect_seconds":{connected:.6},"right":{}}}"#,
            asked.min(served)
        ))
    }

    async fn short(&self) -> Outcome {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", self.listen)).await?;
        tokio::spawn(async move {
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
            let share = self.count / self.clients + u64::from(worker < self.count % self.clients);
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
        self.check("connections were answered", answered, self.count)?;
        let seconds = begun.elapsed().as_secs_f64();
        // Whoever relays has a moment to let go of the last ones.
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok(format!(r#"{{"seconds":{seconds:.6},"answered":{answered}}}"#))
    }
}

async fn all(
    mut tasks: tokio::task::JoinSet<std::io::Result<bool>>,
) -> Result<u64, Box<dyn Error + Send + Sync>> {
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
