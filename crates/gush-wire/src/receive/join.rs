//! Further streams: each comes to a process of its own (`gush serve-tree`, started by another ssh),
//! which passes its standard input to the session's process and waits.
//!
//! The session listens on an abstract socket (unix(7)). The kernel tells both sides the user of the
//! other (SO_PEERCRED), and the token that only the sender and the session know makes a process of
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

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, recvmsg, sendmsg, shutdown, sockopt,
};

use super::session::Session;
use crate::error::{Error, ensure};
use crate::frame::{Input, Output};
use crate::record::{MOST_STREAMS, ToSender, Token};

/// What a process that hands over a stream has to wait for an answer, or is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// After this, a connection that could not be accepted is tried again.
const AGAIN: Duration = Duration::from_millis(100);
/// The answer of the session to a stream that it takes.
const TAKEN: u8 = 1;

/// The socket at which further streams join, until it is dropped.
pub(super) struct Host(Arc<UnixListener>);

impl Host {
    /// Listens, and accepts streams in a thread of its own.
    pub fn start(session: &Arc<Session>) -> io::Result<(Self, Token)> {
        let mut random = [0; 24];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let (socket, secret) = random.split_at(8);
        let token = Token {
            socket: u64::from_le_bytes(socket.try_into().expect("8 bytes")),
            secret: secret.try_into().expect("16 bytes"),
        };
        let listener = Arc::new(UnixListener::bind_addr(&address(token)?)?);
        let (host, session) = (Self(Arc::clone(&listener)), Arc::clone(session));
        thread::Builder::new().spawn(move || accept_all(&listener, &session, token))?;
        Ok((host, token))
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

/// Accepts streams until the listener is shut down. The connections stay open as long as the
/// process: at their end the processes that wait have nothing more to do.
fn accept_all(listener: &UnixListener, session: &Arc<Session>, token: Token) {
    let mut joined = Vec::new();
    loop {
        let connection = match listener.accept() {
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
        let Some(stream) = take(&connection, token) else { continue };
        if !session.begin_stream() {
            continue;
        }
        let serving = Arc::clone(session);
        let serve = move || {
            let served = serving.serve_further(&mut Input::new(stream));
            serving.end_stream(served);
        };
        // The answer comes first: without it the sender sends nothing.
        if (&connection).write_all(&[TAKEN]).is_err()
            || thread::Builder::new().spawn(serve).is_err()
        {
            session.end_stream(Ok(()));
            continue;
        }
        joined.push(connection);
    }
}

/// The stream that a process hands over, if it is one of this copy.
fn take(connection: &UnixStream, token: Token) -> Option<File> {
    if !is_same_user(connection) {
        return None;
    }
    connection.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut secret = [0; 16];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [IoSliceMut::new(&mut secret)];
    let got = recvmsg(connection, &mut buffers, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    let passed: Option<OwnedFd> = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    (got.bytes == secret.len() && secret == token.secret).then_some(File::from(passed?))
}

/// Hands this process's stream to the session, tells the sender, and waits for the session's end:
/// with this process ssh would end, too.
pub(crate) fn hand_over(input: Input, mut output: Output, token: Token) -> Result<(), Error> {
    ensure(input.is_empty(), "records came before the stream has joined")?;
    let io = |error| Error::Io { doing: "joining the copy", error };
    let mut refuses = |why: &str| {
        output.record(&ToSender::Refused(why.into()))?;
        output.flush()
    };
    let Ok(mut session) = address(token).and_then(|at| UnixStream::connect_addr(&at)) else {
        return refuses("the copy to join has ended");
    };
    // What listens could be another user's.
    if !is_same_user(&session) {
        return refuses("the copy to join is another user's");
    }
    session.set_read_timeout(Some(PATIENCE)).map_err(io)?;
    let stream = input.into_stream();
    let fds = [stream.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let secret = [IoSlice::new(&token.secret)];
    let mut answer = [0];
    let is_taken = sendmsg(&session, &secret, &mut control, SendFlags::NOSIGNAL).is_ok()
        && session.read_exact(&mut answer).is_ok();
    if !is_taken {
        return refuses("the copy to join did not take the stream");
    }
    output.record(&ToSender::Joined)?;
    output.flush()?;
    session.set_read_timeout(None).map_err(io)?;
    // Nothing more is sent here: what comes is the end.
    io::copy(&mut session, &mut io::sink()).map(drop).map_err(io)
}
