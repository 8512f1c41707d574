//! Calls on sockets that move no bytes: making a pair, asking and setting options.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{self, AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};
use rustix::{io, ioctl};

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

/// `SO_ERROR` (socket(7)): the error of the connection, which is reported once.
///
/// # Errors
/// That one.
pub(crate) fn take_error(fd: BorrowedFd<'_>) -> io::Result<()> {
    plain(Call::GetSocketOption, || sockopt::socket_error(fd))?
}

/// `SO_ACCEPTCONN` (socket(7)): does the socket wait for connections?
pub(crate) fn is_listening(fd: BorrowedFd<'_>) -> io::Result<bool> {
    plain(Call::GetSocketOption, || sockopt::socket_acceptconn(fd))
}

/// `SIOCOUTQ` (tcp(7), unix(7)), which has the number of `TIOCOUTQ`
/// (`include/uapi/linux/sockios.h`).
pub(crate) fn unacknowledged_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    const SIOCOUTQ: ioctl::Opcode = libc::TIOCOUTQ as ioctl::Opcode;
    plain(Call::Unacknowledged, || {
        // SAFETY: the request stores one `int`, in the getter's own `c_int` (`tcp_ioctl` of
        // net/ipv4/tcp.c, `unix_ioctl` of net/unix/af_unix.c, `tty_mode_ioctl` of a terminal).
        let request = unsafe { ioctl::Getter::<SIOCOUTQ, c_int>::new() };
        // SAFETY: above; nothing else of the caller's memory is touched.
        let bytes = unsafe { ioctl::ioctl(fd, request) }?;
        Ok(u64::try_from(bytes).unwrap_or(0))
    })
}

/// Ends the writing direction (shutdown(2)).
pub(crate) fn end_writing(fd: BorrowedFd<'_>) -> io::Result<()> {
    plain(Call::Shutdown, || net::shutdown(fd, Shutdown::Write))
}

/// Setting TCP_NODELAY sends what waits for more (`__tcp_sock_set_nodelay`); then it is restored.
pub(crate) fn send_kept(fd: BorrowedFd<'_>) -> io::Result<()> {
    let was_set = plain(Call::GetSocketOption, || sockopt::tcp_nodelay(fd));
    plain(Call::SetSocketOption, || sockopt::set_tcp_nodelay(fd, true))?;
    match was_set {
        Ok(false) => plain(Call::SetSocketOption, || sockopt::set_tcp_nodelay(fd, false)),
        _ => Ok(()),
    }
}

/// `SO_SNDBUF` (socket(7)).
pub(crate) fn set_send_buffer(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    plain(Call::SetSocketOption, || sockopt::set_socket_send_buffer_size(fd, bytes))
}

/// `SO_PEEK_OFF` (socket(7)): where a look with MSG_PEEK begins, and which each look moves on; -1
/// is none.
pub(crate) fn peek_offset(fd: BorrowedFd<'_>) -> io::Result<c_int> {
    plain(Call::GetSocketOption, || {
        let (mut offset_bytes, mut len) = (-1, size_of::<c_int>() as libc::socklen_t);
        // SAFETY: the pointers are those of two live locals, of the length that is passed.
        let answer = unsafe {
            libc::getsockopt(
                fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEEK_OFF,
                (&raw mut offset_bytes).cast(),
                &raw mut len,
            )
        };
        if answer == 0 { Ok(offset_bytes) } else { Err(super::file::last_errno()) }
    })
}

/// `SO_PEEK_OFF` (socket(7)); -1 switches the offset off.
pub(crate) fn set_peek_offset(fd: BorrowedFd<'_>, offset_bytes: libc::c_int) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_PEEK_OFF, &offset_bytes.to_ne_bytes())
}

/// Any option (setsockopt(2)).
pub(crate) fn set_option(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &[u8],
) -> io::Result<()> {
    plain(Call::SetSocketOption, || {
        // SAFETY: the pointer and the length are those of a live slice, which the kernel only
        // reads.
        let answer = unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                level,
                name,
                value.as_ptr().cast(),
                value.len() as libc::socklen_t,
            )
        };
        if answer == 0 { Ok(()) } else { Err(super::file::last_errno()) }
    })
}
