//! `-R` and `-Q`: a running `gush pv` is asked through a socket of that process.
//!
//! The socket has a name of the kernel's (unix(7), abstract), which goes with the process: nothing is left behind, and no
//! signal is sent to a process that does not expect one. Anybody may connect, so each side asks the kernel who the other
//! is: the process answers its own user and root only, and the asking side believes only the process that was meant.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::extra::Extra;
use super::options::Display;

/// The requests to a running `gush pv`.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// How far is the transfer?
    State,
    /// Show progress like this from now on, also in these titles, and keep this rate and this size, if there is one.
    Show(Box<Display>, Option<Extra>),
}

/// The answers of a running `gush pv`.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    State(State),
    Done,
}

/// How far a transfer is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct State {
    pub elapsed: Duration,
    /// Bytes, or lines where lines are counted.
    pub count: u64,
    pub expected: Option<u64>,
    pub counts_lines: bool,
}

/// The longest request or answer.
const MOST_BYTES: u64 = 64 << 10;
/// How long the display waits for somebody who has connected and says nothing.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a running `gush pv` may take to answer: one that is stopped takes for ever.
const LONGEST_ANSWER: Duration = Duration::from_secs(30);

/// The end of a running `gush pv` that is asked.
#[derive(Debug)]
pub struct Control(UnixListener);

impl Control {
    /// Nothing where the kernel permits no such socket: then nobody can ask.
    pub fn listen() -> Option<Self> {
        let name = name(std::process::id()).ok()?;
        let listener = UnixListener::bind_addr(&name).ok()?;
        // An asker that leaves between poll(2) and accept(2) must not hold the display.
        listener.set_nonblocking(true).ok()?;
        Some(Self(listener))
    }

    /// Answers a connected process, if that process may ask.
    ///
    /// # Errors
    /// Those of accepting, reading and writing.
    pub fn answer(&self, answer: impl FnOnce(Request) -> Answer) -> io::Result<()> {
        let (asker, _) = self.0.accept()?;
        // Bounded by the time limits below instead.
        asker.set_nonblocking(false)?;
        let uid = socket_peercred(&asker)?.uid;
        // The kernel's answer, which nobody can make up (unix(7), SO_PEERCRED).
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

/// Asks the `gush pv` with the number `pid`.
///
/// # Errors
/// `ConnectionRefused` where no `gush pv` of that number runs, `PermissionDenied` where another process answers instead,
/// `WouldBlock` where no answer comes, `UnexpectedEof` where the other side does not answer this user.
pub fn ask(pid: i32, request: &Request) -> io::Result<Answer> {
    let stream = UnixStream::connect_addr(&name(pid.unsigned_abs())?)?;
    let peer = socket_peercred(&stream)?;
    // Anybody may have taken the name of a process that is not there.
    if peer.pid.as_raw_nonzero().get() != pid {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    stream.set_read_timeout(Some(LONGEST_ANSWER))?;
    stream.set_write_timeout(Some(LONGEST_ANSWER))?;
    send(&stream, request)?;
    receive(&stream)
}

/// The reason for a failure of [`ask`], and a way out.
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

/// The numbers of processes repeat in each container, names of sockets do not.
fn name(pid: u32) -> io::Result<SocketAddr> {
    // Containers share abstract names with the host, but not process numbers.
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
