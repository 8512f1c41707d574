//! Questions and settings of sockets that the standard library has no word for.

use std::os::fd::AsFd;

use crate::sys::{pipe, socket};

/// How many bytes written to a socket the peer has not acknowledged (TCP: SIOCOUTQ, tcp(7)), or not
/// read (Unix sockets, with overhead). A FIN on TCP counts as one until acknowledged.
///
/// # Errors
/// The error of ioctl(2): `ENOTTY` for a descriptor that is no socket.
pub fn unacknowledged_bytes(fd: &impl AsFd) -> std::io::Result<u64> {
    Ok(socket::unacknowledged_bytes(fd.as_fd())?)
}

/// How many of the bytes written to `fd` its reader has not taken: [`unacknowledged_bytes`] of a
/// socket, those still to leave a terminal (`TIOCOUTQ`, ioctl_tty(2)), those in a pipe
/// (`FIONREAD`). `None` where the kernel keeps no such count.
///
/// While nothing is written, a smaller answer than the last one shows that the reader is alive,
/// although there is no room for more yet. A Unix socket counts whole messages. What other
/// processes write to the same pipe counts as well, and so does what they write to the same file
/// after the position of `fd`.
pub fn untaken_bytes(fd: &impl AsFd) -> Option<u64> {
    let fd = fd.as_fd();
    socket::unacknowledged_bytes(fd).or_else(|_| pipe::unread_bytes(fd)).ok()
}

/// Ends the writing direction of a socket (shutdown(2)): the peer reads an end of data.
///
/// # Errors
/// The error of shutdown(2): `ENOTCONN` where the peer has gone already.
pub fn end_writing(fd: &impl AsFd) -> std::io::Result<()> {
    Ok(socket::end_writing(fd.as_fd())?)
}

/// Sends what a TCP socket holds back for more bytes (MSG_MORE). Options stay as they were.
///
/// # Errors
/// The error of setsockopt(2): `EOPNOTSUPP` for a socket of another protocol.
pub fn send_kept(fd: &impl AsFd) -> std::io::Result<()> {
    Ok(socket::send_kept(fd.as_fd())?)
}

/// Sets where a look into a socket's queue (`MSG_PEEK`) begins, so that each continues after the
/// last; `None` lets every look begin at the head (`SO_PEEK_OFF`, socket(7)).
///
/// # Errors
/// `EOPNOTSUPP` for a socket that has no such offset.
pub fn set_peek_offset(fd: impl AsFd, offset_bytes: Option<u16>) -> rustix::io::Result<()> {
    socket::set_peek_offset(fd.as_fd(), offset_bytes.map_or(-1, i32::from))
}

/// Sets any option of a socket (setsockopt(2)): `level` and `name` are its numbers in C.
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_socket_option(
    fd: impl AsFd,
    level: i32,
    name: i32,
    value: &[u8],
) -> rustix::io::Result<()> {
    socket::set_option(fd.as_fd(), level, name, value)
}
