//! Calls on sockets that move no bytes: making a pair, asking and setting options.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::io;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use super::Call;
use super::seam::plain;

/// A connected pair of non-blocking Unix stream sockets (socketpair(2)).
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    plain(Call::Socketpair, || {
        net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
    })
}

/// `SO_TYPE` (socket(7)).
pub(crate) fn type_of(fd: BorrowedFd<'_>) -> io::Result<SocketType> {
    plain(Call::GetSocketOption, || sockopt::socket_type(fd))
}

/// `SO_SNDBUF` (socket(7)).
pub(crate) fn set_send_buffer(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    plain(Call::SetSocketOption, || sockopt::set_socket_send_buffer_size(fd, bytes))
}

/// `SO_PEEK_OFF` (socket(7)); -1 switches it off.
pub(crate) fn set_peek_offset(fd: BorrowedFd<'_>, offset_bytes: libc::c_int) -> io::Result<()> {
    plain(Call::SetSocketOption, || {
        // SAFETY: the pointer and the length are those of a live local, which the kernel only reads.
        let answer = unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEEK_OFF,
                (&raw const offset_bytes).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if answer == 0 { Ok(()) } else { Err(super::file::last_errno()) }
    })
}
