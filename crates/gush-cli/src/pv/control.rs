//! `-R` and `-Q` ask a running `gush pv` through a socket of that process.
//!
//! The socket has an abstract name (unix(7)), which vanishes with the process, and no signal goes
//! to a process that may not expect one. Any process can connect, so each side asks the kernel for
//! the other's credentials: the process answers only its own user and root, and the asking side
//! accepts only the process it meant.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::args::Display;
use super::extra::Extra;

/// The requests to a running `gush pv`.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    Snapshot,
    /// Use these display options, titles, rate limit and size.
    Show(Box<Display>, Option<Extra>),
}

/// The answers of a running `gush pv`.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    Snapshot(Snapshot),
    Done,
}

/// The progress of a transfer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    pub elapsed: Duration,
    /// Bytes, or lines where lines are counted.
    pub count: u64,
    pub expected: Option<u64>,
    pub counts_lines: bool,
}

/// The longest request or answer.
const MOST_BYTES: u64 = 64 << 10;
/// How long the display waits for a peer that has connected and sends nothing.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long to wait for an answer: a stopped process never sends one.
const LONGEST_ANSWER: Duration = Duration::from_secs(30);

/// The listening socket of a running `gush pv`.
#[derive(Debug)]
pub struct Control(UnixListener);

impl Control {
    /// None if the kernel refuses the socket; `-R` and `-Q` then fail.
    pub fn listen() -> Option<Self> {
        let name = name(std::process::id()).ok()?;
        let listener = UnixListener::bind_addr(&name).ok()?;
        // A peer that leaves between poll(2) and accept(2) must not block the display.
        listener.set_nonblocking(true).ok()?;
        Some(Self(listener))
    }

    /// Answers a connected process, if it has permission.
    ///
    /// # Errors
    /// Those of accepting, reading and writing.
    pub fn answer(&self, answer: impl FnOnce(Request) -> Answer) -> io::Result<()> {
        let (asker, _) = self.0.accept()?;
        // The timeouts below bound it instead.
        asker.set_nonblocking(false)?;
        let uid = socket_peercred(&asker)?.uid;
        // From the kernel, so it cannot be forged (unix(7), SO_PEERCRED).
        if uid != geteuid() && !uid.is_root() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        asker.set_read_timeout(Some(PATIENCE))?;
        asker.set_write_timeout(Some(PATIENCE))?;
        let request = receive(&asker)?;
        send(&asker, &answer(request))
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends a request to the `gush pv` with the PID `pid`.
///
/// # Errors
/// `ConnectionRefused` if no `gush pv` has that PID, `PermissionDenied` if the socket belongs to
/// another process, `WouldBlock` if no answer comes, `UnexpectedEof` if the process refuses this
/// user.
pub fn ask(pid: i32, request: &Request) -> io::Result<Answer> {
    let stream = UnixStream::connect_addr(&name(pid.unsigned_abs())?)?;
    let peer = socket_peercred(&stream)?;
    // Any process can bind the name of a process that does not exist.
    if peer.pid.as_raw_nonzero().get() != pid {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    stream.set_read_timeout(Some(LONGEST_ANSWER))?;
    stream.set_write_timeout(Some(LONGEST_ANSWER))?;
    send(&stream, request)?;
    receive(&stream)
}

/// The message for a failure of [`ask`].
pub fn why_unanswered(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "no gush pv with this PID (-R and -Q work only with gush pv)".to_owned()
        }
        io::ErrorKind::PermissionDenied => "the socket belongs to another process".to_owned(),
        io::ErrorKind::WouldBlock => "no answer within 30 s; is it stopped?".to_owned(),
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe => "the process ended or belongs to another user".to_owned(),
        _ => gush_text::os_text(error),
    }
}

/// The name of the socket of process `pid`.
fn name(pid: u32) -> io::Result<SocketAddr> {
    // Containers share abstract names with the host, but not PIDs.
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    SocketAddr::from_abstract_name(format!("gush-pv/{}/{pid}", space.display()))
}

fn send<T: Serialize>(mut stream: &UnixStream, what: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn receive<T: for<'de> Deserialize<'de>>(stream: &UnixStream) -> io::Result<T> {
    let mut line = Vec::new();
    // Bounded: the other side is another program.
    BufReader::new(stream.take(MOST_BYTES)).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&line)?)
}
