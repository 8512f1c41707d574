//! Reading and writing memory: the calls that copy between user space and a descriptor.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use rustix::io::{self, ReadWriteFlags};
use rustix::net::{RecvFlags, SendFlags};

use super::Call;
use super::seam::sized;

pub(crate) fn read(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    sized(Call::Read, buf.len(), |len| io::read(fd, &mut buf[..len]))
}

pub(crate) fn pread(fd: BorrowedFd<'_>, buf: &mut [u8], at: u64) -> io::Result<usize> {
    sized(Call::Pread, buf.len(), |len| io::pread(fd, &mut buf[..len], at))
}

/// `pread` into memory that only the kernel may touch (a mapped target), `len` bytes at `to`.
///
/// # Safety
/// `to..to + len` must be mapped, and nothing in this process may hold a reference into it.
pub(crate) unsafe fn pread_raw(
    fd: BorrowedFd<'_>,
    to: *mut u8,
    len: usize,
    at: u64,
) -> io::Result<usize> {
    sized(Call::Pread, len, |len| {
        // SAFETY: the caller promises exclusive, mapped memory; a page that vanished (truncated
        // target) makes the kernel answer EFAULT, it raises no signal.
        let buf =
            unsafe { std::slice::from_raw_parts_mut(to.cast::<std::mem::MaybeUninit<u8>>(), len) };
        io::pread(fd, buf, at).map(|(read, _)| read.len())
    })
}

/// A read that never waits, whatever the descriptor's own O_NONBLOCK says.
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

pub(crate) fn recv_nowait(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    sized(Call::Recv, buf.len(), |len| {
        rustix::net::recv(fd, &mut buf[..len], RecvFlags::DONTWAIT).map(|(got, _)| got)
    })
}

/// Looks at what a socket has without taking it: a datagram stays whole.
pub(crate) fn recv_peek(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    sized(Call::Recv, buf.len(), |len| {
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        rustix::net::recv(fd, &mut buf[..len], flags).map(|(got, _)| got)
    })
}

pub(crate) fn write(fd: BorrowedFd<'_>, buf: &[u8]) -> io::Result<usize> {
    sized(Call::Write, buf.len(), |len| io::write(fd, &buf[..len]))
}

pub(crate) fn pwrite(fd: BorrowedFd<'_>, buf: &[u8], at: u64) -> io::Result<usize> {
    sized(Call::Pwrite, buf.len(), |len| io::pwrite(fd, &buf[..len], at))
}

/// Writes from memory that another process may change or take away (a mapped source).
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
    // SAFETY: the slice goes to the kernel only, which copies from it and answers EFAULT for a page
    // that a truncation took away; no Rust code reads through it.
    let buf = unsafe { std::slice::from_raw_parts(from, len) };
    match (at, nowait) {
        (Some(at), _) => pwrite(fd, buf, at),
        (None, Nowait::Plain) => write(fd, buf),
        (None, Nowait::Pipe) => write_nowait(fd, buf),
        (None, Nowait::Socket) => send_nowait(fd, buf),
    }
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
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sized(Call::Send, buf.len(), |len| rustix::net::send(fd, &buf[..len], flags))
}

/// preadv2(2): an offset of -1 means the descriptor's own position.
const OWN_POSITION: u64 = u64::MAX;
