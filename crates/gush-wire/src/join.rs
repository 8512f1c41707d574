//! Further streams. Each comes to a process of its own (`gush serve-tree`, started by another ssh),
//! which passes its standard input and output to the process of the session and waits.
//!
//! The session listens on an abstract socket (unix(7)). The kernel tells both sides the user of the
//! other (SO_PEERCRED), and the token that only the two machines' sessions know makes a process of
//! the same user one of this copy.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gush_text::without_controls;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, recvmsg, sendmsg, shutdown, sockopt,
};

use crate::error::{Error, ensure};
use crate::frame::{Input, Output};
use crate::greeting::meet;
use crate::record::{Hello, MOST_STREAMS, ToReceiver, ToSender, Token};

/// How long a process that hands over its streams waits for the answer, and the session for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// After this, a connection that could not be accepted is tried again.
const AGAIN: Duration = Duration::from_millis(100);
/// The answer of the session to streams that it takes.
const TAKEN: u8 = 1;

/// The socket at which further streams join, until it is dropped.
#[derive(Debug)]
pub(crate) struct Host(Arc<UnixListener>);

/// Where the streams come.
#[derive(Debug)]
pub(crate) struct Door {
    listener: Arc<UnixListener>,
    pub token: Token,
}

impl Host {
    pub fn listen() -> io::Result<(Self, Door)> {
        let mut random = [0; 24];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let (socket, secret) = random.split_at(8);
        let token = Token {
            socket: u64::from_le_bytes(socket.try_into().expect("8 bytes")),
            secret: secret.try_into().expect("16 bytes"),
        };
        let listener = Arc::new(UnixListener::bind_addr(&address(token)?)?);
        Ok((Self(Arc::clone(&listener)), Door { listener, token }))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // accept(2) then answers EINVAL (net/unix/af_unix.c, unix_accept).
        let _ = shutdown(&*self.0, Shutdown::Both);
    }
}

fn address(token: Token) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("gush-copy-{:016x}", token.socket))
}

fn is_same_user(stream: &UnixStream) -> bool {
    sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

impl Door {
    /// Accepts streams until the host is dropped; `serve` is to return at once. The connections
    /// stay open as long as the host: at their end the processes that wait have nothing more to do.
    pub fn accept_all(self, mut serve: impl FnMut(Input, Output)) {
        let mut joined = Vec::new();
        loop {
            let connection = match self.listener.accept() {
                Ok((connection, _)) => connection,
                // The listener was shut down.
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => return,
                Err(_) => {
                    thread::sleep(AGAIN);
                    continue;
                }
            };
            if joined.len() == MOST_STREAMS - 1 {
                continue;
            }
            let Some((input, output)) = take(&connection, self.token) else { continue };
            if (&connection).write_all(&[TAKEN]).is_ok() {
                serve(Input::new(input), Output::new(output));
                joined.push(connection);
            }
        }
    }
}

/// The streams that a process hands over, if it knows the token of this copy.
fn take(connection: &UnixStream, token: Token) -> Option<(File, File)> {
    if !is_same_user(connection) {
        return None;
    }
    connection.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut secret = [0; 16];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [IoSliceMut::new(&mut secret)];
    let got = recvmsg(connection, &mut buffers, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    let passed: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    let [input, output] = passed.try_into().ok()?;
    (got.bytes == secret.len() && secret == token.secret)
        .then(|| (File::from(input), File::from(output)))
}

/// Says that a stream has joined. A receiver that has opened it answers a sender by the same.
pub(crate) fn welcome(output: &mut Output, number: u32) -> Result<(), Error> {
    output.record(&ToSender::Joined { number })?;
    output.flush()
}

/// Hands this process's streams to the session, which answers on them, and waits for its end,
/// because ssh ends with this process.
pub(crate) fn hand_over(input: Input, output: Output, token: Token) -> Result<(), Error> {
    ensure(input.is_empty(), "records came before the stream has joined")?;
    let io = |error| Error::Io { doing: "joining the copy", error };
    let refuses = |mut output: Output, why: &str| {
        // The other side may be gone with its copy.
        let _ = output.record(&ToSender::Refused(why.into())).and_then(|_| output.flush());
        Ok(())
    };
    let Ok(mut session) = address(token).and_then(|at| UnixStream::connect_addr(&at)) else {
        return refuses(output, "the copy to join has ended");
    };
    // What listens could be another user's.
    if !is_same_user(&session) {
        return refuses(output, "the copy to join is another user's");
    }
    session.set_read_timeout(Some(PATIENCE)).map_err(io)?;
    let (input, output) = (input.into_stream(), output.into_stream());
    let fds = [input.as_fd(), output.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let secret = [IoSlice::new(&token.secret)];
    let mut answer = [0];
    let answered = sendmsg(&session, &secret, &mut control, SendFlags::NOSIGNAL)
        .map_err(io::Error::from)
        .and_then(|_| session.read_exact(&mut answer));
    match answered {
        Ok(()) => {}
        // The session may still take the streams.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(io(error)),
        Err(_) => return refuses(Output::new(output), "the copy to join did not take the stream"),
    }
    // The other side sees the end of a stream when the session closes it.
    drop((input, output));
    session.set_read_timeout(None).map_err(io)?;
    // Nothing more is sent here: what comes is the end.
    io::copy(&mut session, &mut io::sink()).map(drop).map_err(io)
}

/// Makes a pair of streams, from the other side and to it, one of the other side's session. Returns
/// them with the number that the other side has given them.
pub(crate) fn join(
    (input, output): (File, File),
    token: Token,
) -> Result<((Input, Output), u32), Error> {
    let (mut input, mut output) = (Input::new(input), Output::new(output));
    output.record(&Hello::OURS)?;
    output.record(&ToReceiver::Join(token))?;
    output.flush()?;
    meet(&mut input)?;
    match input.record()? {
        ToSender::Joined { number } => Ok(((input, output), number)),
        ToSender::Refused(why) => Err(Error::Refused(without_controls(&why))),
        _ => Err(Error::Protocol("a stream was not answered".into())),
    }
}
