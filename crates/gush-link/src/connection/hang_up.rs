//! A client that hangs up before anything is relayed.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::event::PollFlags;
use rustix::io::ioctl_fionread;
use rustix::net::sockopt;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::open::End;
use crate::session::Shared;
use crate::watch::watch;

/// A client while the other address is opened.
#[derive(Clone, Copy)]
pub(super) struct Client<'p> {
    socket: BorrowedFd<'p>,
    /// Is its data relayed?
    is_read: bool,
    /// Is a close the proper end of its data, since nothing is sent back?
    ends_by_closing: bool,
}

impl<'p> Client<'p> {
    /// `None` for a program: its output is buffered, and its exit status counts.
    pub fn of(client: &'p End, shared: &Shared) -> Option<Self> {
        let socket = client.conduit.facts().socket.filter(|_| client.keeper.process().is_none())?;
        let one_way = shared.settings.one_way;
        let is_read = !one_way || !shared.flipped;
        Some(Self { socket, is_read, ends_by_closing: one_way && is_read })
    }

    /// Resolves when the client is gone: on reset, or on a full close, which the kernel reports of
    /// Unix sockets only. A client that closed after sending data waits for that data to be
    /// relayed.
    pub async fn hung_up(self) -> io::Error {
        if let Ok(watched) = watch(self.socket, Interest::READABLE) {
            return self.gone(watched).await;
        }
        // The socket of a TLS stream is registered already, and epoll accepts it again only under
        // another number (EEXIST).
        let copy = self.socket.try_clone_to_owned().and_then(|fd| watch(fd, Interest::READABLE));
        match copy {
            Ok(watched) => self.gone(watched).await,
            Err(_) => std::future::pending().await,
        }
    }

    async fn gone<F: AsFd + AsRawFd>(self, watched: AsyncFd<F>) -> io::Error {
        let mut interest = Interest::READABLE | Interest::ERROR;
        loop {
            let mut guard = match watched.ready(interest).await {
                Ok(guard) => guard,
                Err(error) => return error,
            };
            let ready = guard.ready();
            if ready.is_error() || self.is_gone() {
                return match sockopt::socket_error(watched.get_ref()) {
                    Ok(Err(errno)) | Err(errno) => errno.into(),
                    Ok(Ok(())) => io::ErrorKind::ConnectionAborted.into(),
                };
            }
            if ready.is_read_closed() {
                // The end of data stays ready; a full close also makes the socket writable
                // (EPOLLHUP).
                interest = Interest::WRITABLE | Interest::ERROR;
            }
            if ready.is_write_closed() {
                interest = Interest::ERROR;
            }
            guard.clear_ready();
        }
    }

    /// Has the client closed, with no data left that is to be relayed?
    fn is_gone(self) -> bool {
        // Both directions, as unix_poll of net/unix/af_unix.c reports them.
        let is_closed = gush::poll_now(&self.socket, PollFlags::empty())
            .is_ok_and(|events| events.contains(PollFlags::HUP));
        let has_unread = || ioctl_fionread(self.socket).is_ok_and(|bytes| bytes > 0);
        is_closed && !self.ends_by_closing && !(self.is_read && has_unread())
    }
}
