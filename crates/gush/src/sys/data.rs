//! Reading and writing memory: the calls that copy between user space and a descriptor.

use std::ffi::c_void;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::{self, Errno, ReadWriteFlags};
use rustix::net::{RecvFlags, SendFlags};

use super::Call;
use super::file::last_errno;
use super::seam::sized;

pub(crate) fn read(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    sized(Call::Read, buf.len(), |len| io::read(fd, &mut buf[..len]))
}

pub(crate) fn pread(fd: BorrowedFd<'_>, buf: &mut [u8], at: u64) -> io::Result<usize> {
    let len = before_last_offset(Some(at), buf.len());
    sized(Call::Pread, len, |len| io::pread(fd, &mut buf[..len], at))
}

/// `pread` into a mapped target, `len` bytes at `to`: memory shared with other processes, so no
/// Rust reference to that memory is made.
///
/// # Safety
/// `to..to + len` must be mapped for writing for the whole call, and nothing in this process may
/// hold a reference into that range.
pub(crate) unsafe fn pread_raw(
    fd: BorrowedFd<'_>,
    to: *mut u8,
    len: usize,
    at: u64,
) -> io::Result<usize> {
    let at = offset(at)?;
    sized(Call::Pread, len, |len| {
        // SAFETY: the caller promises the memory, of which `sized` asks for no more; a page that
        // vanished (truncated target) makes the kernel answer EFAULT, it raises no signal.
        answered(unsafe { libc::pread64(fd.as_raw_fd(), to.cast(), len, at) })
    })
}

/// A read that never waits, with or without O_NONBLOCK.
///
/// `RWF_NOWAIT` on pipes: since Linux 6.4 (`FMODE_NOWAIT` in `fs/pipe.c`); else EOPNOTSUPP.
pub(crate) fn read_nowait(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    sized(Call::Preadv2, buf.len(), |len| {
        io::preadv2(
            fd,
            &mut [IoSliceMut::new(&mut buf[..len])],
            OWN_POSITION,
            ReadWriteFlags::NOWAIT,
        )
    })
}

/// A read of no bytes, which only asks whether the descriptor can be read.
pub(crate) fn read_nothing(fd: BorrowedFd<'_>) -> io::Result<usize> {
    sized(Call::Readv, 0, |_| io::readv(fd, &mut [IoSliceMut::new(&mut [])]))
}

/// A write of no bytes, which only asks whether the descriptor can be written.
pub(crate) fn write_nothing(fd: BorrowedFd<'_>) -> io::Result<usize> {
    sized(Call::Writev, 0, |_| io::writev(fd, &[IoSlice::new(&[])]))
}

pub(crate) fn recv_nowait(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    sized(Call::Recv, buf.len(), |len| {
        rustix::net::recv(fd, &mut buf[..len], RecvFlags::DONTWAIT).map(|(got, _)| got)
    })
}

/// A look at the next bytes of a stream, which stay in the socket.
pub(crate) fn peek_nowait(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    sized(Call::Recv, buf.len(), |len| {
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        rustix::net::recv(fd, &mut buf[..len], flags).map(|(got, _)| got)
    })
}

/// Calls again after EMSGSIZE, which may be a router's answer to an earlier datagram: the socket
/// keeps it until the next call, and sends later datagrams in fragments (`__udp4_lib_err` of
/// net/ipv4/udp.c). The second EMSGSIZE is about this datagram.
fn past_path_mtu<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    match call() {
        Err(Errno::MSGSIZE) => call(),
        answer => answer,
    }
}

/// Takes one datagram; EMSGSIZE where `buf` was too small, and the rest is lost (recv(2),
/// `MSG_TRUNC`).
pub(crate) fn recv_whole(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    sized(Call::Recv, buf.len(), |len| {
        let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
        let (_, real) = past_path_mtu(|| rustix::net::recv(fd, &mut buf[..len], flags))?;
        // With MSG_TRUNC the kernel answers the datagram's whole length, also where the buffer took
        // less.
        if real > len { Err(Errno::MSGSIZE) } else { Ok(real) }
    })
}

/// The size of the next datagram, which stays in the socket.
pub(crate) fn recv_size(fd: BorrowedFd<'_>) -> io::Result<usize> {
    sized(Call::Recv, 0, |_| {
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK | RecvFlags::TRUNC;
        // No byte is wanted: MSG_TRUNC makes the answer the size, and MSG_PEEK leaves the datagram.
        past_path_mtu(|| rustix::net::recv(fd, &mut [0; 0], flags)).map(|(_, real)| real)
    })
}

pub(crate) fn write(fd: BorrowedFd<'_>, buf: &[u8]) -> io::Result<usize> {
    sized(Call::Write, buf.len(), |len| io::write(fd, &buf[..len]))
}

pub(crate) fn pwrite(fd: BorrowedFd<'_>, buf: &[u8], at: u64) -> io::Result<usize> {
    let len = before_last_offset(Some(at), buf.len());
    if len < buf.len() && len == 0 {
        return Err(Errno::FBIG);
    }
    sized(Call::Pwrite, len, |len| io::pwrite(fd, &buf[..len], at))
}

/// Writes from a mapped source, `len` bytes at `from`: memory shared with other processes, so no
/// Rust reference to that memory is made.
///
/// # Safety
/// `from..from + len` must be mapped for reading for the whole call.
pub(crate) unsafe fn write_raw(
    fd: BorrowedFd<'_>,
    from: *const u8,
    len: usize,
    at: Option<u64>,
    nowait: Nowait,
) -> io::Result<usize> {
    let (raw_fd, from) = (fd.as_raw_fd(), from.cast::<c_void>());
    // SAFETY of all four calls: the caller promises the memory, of which `sized` asks for no more.
    // Only the kernel reads it, which answers EFAULT for a page that a truncation took away.
    match (at.map(offset).transpose()?, nowait) {
        (Some(at), _) => sized(Call::Pwrite, len, |len| {
            // SAFETY: above.
            answered(unsafe { libc::pwrite64(raw_fd, from, len, at) })
        }),
        (None, Nowait::Plain) => sized(Call::Write, len, |len| {
            // SAFETY: above.
            answered(unsafe { libc::write(raw_fd, from, len) })
        }),
        (None, Nowait::Pipe) => sized(Call::Pwritev2, len, |len| {
            let part = libc::iovec { iov_base: from.cast_mut(), iov_len: len };
            // SAFETY: above; the kernel reads one `iovec`, and -1 is the descriptor's own position.
            answered(unsafe { libc::pwritev2(raw_fd, &raw const part, 1, -1, libc::RWF_NOWAIT) })
        }),
        (None, Nowait::Socket) => sized(Call::Send, len, |len| {
            // MSG_NOSIGNAL: a library must not let SIGPIPE end its program; EPIPE says the same.
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // SAFETY: above.
            answered(unsafe { libc::send(raw_fd, from, len, flags) })
        }),
    }
}

/// How many of `len` bytes from the offset on lie before the largest offset, 2^63 - 1. The kernel
/// refuses a call that goes beyond, also where only a part is there (`rw_verify_area` of
/// fs/read_write.c).
pub(crate) fn before_last_offset(at: Option<u64>, len: usize) -> usize {
    let room = at.map_or(u64::MAX, |at| i64::MAX.cast_unsigned().saturating_sub(at));
    len.min(usize::try_from(room).unwrap_or(usize::MAX))
}

fn offset(at: u64) -> io::Result<libc::off64_t> {
    // The kernel answers EINVAL to a negative offset, which a larger number would become.
    libc::off64_t::try_from(at).map_err(|_| Errno::INVAL)
}

/// The count of a C library function, or the errno.
fn answered(count: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(count).map_err(|_| last_errno())
}

/// How a descriptor is asked not to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nowait {
    /// A plain call: the descriptor is a file, or non-blocking itself.
    Plain,
    /// `RWF_NOWAIT`.
    Pipe,
    /// `MSG_DONTWAIT`.
    Socket,
}

pub(crate) fn write_nowait(fd: BorrowedFd<'_>, buf: &[u8]) -> io::Result<usize> {
    sized(Call::Pwritev2, buf.len(), |len| {
        io::pwritev2(fd, &[IoSlice::new(&buf[..len])], OWN_POSITION, ReadWriteFlags::NOWAIT)
    })
}

pub(crate) fn send_nowait(fd: BorrowedFd<'_>, buf: &[u8]) -> io::Result<usize> {
    // As above: EPIPE is the answer, and no signal.
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sized(Call::Send, buf.len(), |len| past_path_mtu(|| rustix::net::send(fd, &buf[..len], flags)))
}

/// The bytes wait for what follows at once, and leave in the same segment (MSG_MORE, send(2)).
pub(crate) fn send_before_more(fd: BorrowedFd<'_>, buf: &[u8]) -> io::Result<usize> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL | SendFlags::MORE;
    sized(Call::Send, buf.len(), |len| rustix::net::send(fd, &buf[..len], flags))
}

/// preadv2(2): an offset of -1 means the descriptor's own position.
const OWN_POSITION: u64 = u64::MAX;
