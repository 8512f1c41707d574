//! Calls on pipes: making, sizing, splicing.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io;
#[cfg(feature = "faults")]
use rustix::io::ReadWriteFlags;
use rustix::net::SocketType;
use rustix::pipe::{self, IoSliceRaw, PipeFlags, SpliceFlags};

use super::Call;
use super::data::before_last_offset;
use super::seam::{plain, sized, waiting};

pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    // Reads happen only where bytes are known to be inside. A read that cut a packet (`pipe_read`
    // of fs/pipe.c) leaves fewer than known, and without O_NONBLOCK the next would wait for ever.
    plain(Call::Pipe, || pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK))
}

/// `F_GETPIPE_SZ` (fcntl(2)).
pub(crate) fn pipe_size(fd: BorrowedFd<'_>) -> io::Result<usize> {
    plain(Call::GetPipeSize, || pipe::fcntl_getpipe_size(fd))
}

/// `FIONREAD`: how many bytes a pipe holds (pipe(7)).
pub(crate) fn unread_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    plain(Call::Unread, || io::ioctl_fionread(fd))
}

/// `F_SETPIPE_SZ`: returns the capacity that the kernel chose (fcntl(2)).
pub(crate) fn set_pipe_size(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
    plain(Call::SetPipeSize, || pipe::fcntl_setpipe_size(fd, bytes))
}

pub(crate) fn splice(
    from: BorrowedFd<'_>,
    from_at: Option<&mut u64>,
    to: BorrowedFd<'_>,
    to_at: Option<&mut u64>,
    len: usize,
    flags: SpliceFlags,
) -> io::Result<usize> {
    let len = before_last_offset(from_at.as_deref().copied(), len);
    let len = before_last_offset(to_at.as_deref().copied(), len);
    sized(Call::Splice, len, |len| {
        #[cfg(feature = "faults")]
        if super::faults::copies() {
            let mut bytes = vec![0; len.min(rustix::param::page_size())];
            let taken = match from_at {
                Some(at) => {
                    let taken = io::pread(from, &mut bytes, *at)?;
                    *at += taken as u64;
                    taken
                }
                None => io::read(from, &mut bytes)?,
            };
            return io::write(to, &bytes[..taken]);
        }
        pipe::splice(from, from_at, to, to_at, len, flags)
    })
}

/// Hands pages to a pipe.
///
/// # Safety
/// `from..from + len` must stay mapped, and must not be written, as long as any pipe, socket or
/// other holder of the pages may still read them (vmsplice(2), invariant 4).
pub(crate) unsafe fn vmsplice(
    to: BorrowedFd<'_>,
    from: *const u8,
    len: usize,
    flags: SpliceFlags,
) -> io::Result<usize> {
    sized(Call::Vmsplice, len, |len| {
        // SAFETY: the slice only names the pages for the kernel, and the caller keeps them as lent.
        let slice = unsafe { std::slice::from_raw_parts(from, len) };
        #[cfg(feature = "faults")]
        if super::faults::copies() {
            let nowait = flags.contains(SpliceFlags::NONBLOCK);
            let flags = if nowait { ReadWriteFlags::NOWAIT } else { ReadWriteFlags::empty() };
            return io::pwritev2(to, &[std::io::IoSlice::new(slice)], u64::MAX, flags);
        }
        // SAFETY: promised by the caller.
        unsafe { pipe::vmsplice(to, &[IoSliceRaw::from_slice(slice)], flags) }
    })
}

/// Duplicates the bytes of one pipe into another, without taking them (tee(2)).
pub(crate) fn tee(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    len: usize,
    flags: SpliceFlags,
) -> io::Result<usize> {
    sized(Call::Tee, len, |len| pipe::tee(from, to, len, flags))
}

/// Waits for any of `fds`; answers how many are ready.
pub(crate) fn poll(fds: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> io::Result<usize> {
    waiting(Call::Poll, || rustix::event::poll(fds, timeout))
}

/// Is one of `events` (or an error, or the end) there now?
///
/// POLLERR alone can be a message in a stream's error queue (`MSG_ZEROCOPY`, SO_TIMESTAMPING),
/// which says nothing about bytes. Any other socket is asked by its next call.
///
/// # Errors
/// That of poll(2), or of the stream.
pub(crate) fn is_ready(fd: BorrowedFd<'_>, events: PollFlags) -> io::Result<bool> {
    match poll_now(fd, events)? {
        // POLLERR alone may be a message in the error queue; SO_ERROR decides.
        PollFlags::ERR if super::socket::type_of(fd) == Ok(SocketType::STREAM) => {
            super::socket::take_error(fd).map(|()| false)
        }
        events => Ok(!events.is_empty()),
    }
}

/// Which of `events` (or an error, or the end) are there now?
pub(crate) fn poll_now(fd: BorrowedFd<'_>, events: PollFlags) -> io::Result<PollFlags> {
    let mut fds = [PollFd::from_borrowed_fd(fd, events)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(fds[0].revents())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::{AsFd, AsRawFd};

    use rustix::event::PollFlags;

    use super::{is_ready, poll_now};
    use crate::kernel::{Kernel, Vmsplice};

    /// A stream with a message in the error queue, which polls POLLERR for good, and the other end.
    fn with_error_message() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("TCP");
        let (mut far, _) = listener.accept().expect("a connection");
        let (one, bytes) = (1, [1; 9000]);
        // SAFETY: pointers and lengths are those of live locals, which the kernel only reads: they
        // are not written after the call, and the bytes have been taken before this function
        // returns.
        let sent = unsafe {
            let (one, len) = ((&raw const one).cast(), size_of::<libc::c_int>() as libc::socklen_t);
            let (level, name) = (libc::SOL_SOCKET, libc::SO_ZEROCOPY);
            assert_eq!(libc::setsockopt(near.as_raw_fd(), level, name, one, len), 0);
            libc::send(near.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_ZEROCOPY)
        };
        assert_eq!(sent, 9000);
        far.read_exact(&mut [0; 9000]).expect("the bytes");
        while !poll_now(near.as_fd(), PollFlags::empty()).expect("poll").contains(PollFlags::ERR) {
            std::thread::yield_now();
        }
        (near, far)
    }

    #[test]
    fn a_message_in_the_error_queue_is_no_byte_and_no_hang_up() {
        let (near, mut far) = with_error_message();
        assert_eq!(is_ready(near.as_fd(), PollFlags::IN), Ok(false));
        assert_eq!(is_ready(near.as_fd(), PollFlags::OUT), Ok(true));
        assert_eq!(is_ready(near.as_fd(), PollFlags::empty()), Ok(false));
        far.write_all(b"byte").expect("room");
        while !poll_now(near.as_fd(), PollFlags::IN).expect("poll").contains(PollFlags::IN) {
            std::thread::yield_now();
        }
        assert_eq!(is_ready(near.as_fd(), PollFlags::IN), Ok(true));
    }

    #[test]
    fn an_error_of_anything_but_a_stream_is_there() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        assert_eq!(is_ready(writer.as_fd(), PollFlags::empty()), Ok(true));

        let socket = UdpSocket::bind("127.0.0.1:0").expect("UDP");
        let closed = UdpSocket::bind("127.0.0.1:0").expect("UDP").local_addr().expect("an address");
        socket.connect(closed).expect("connect");
        socket.send(b"nobody").expect("room");
        while !poll_now(socket.as_fd(), PollFlags::IN).expect("poll").contains(PollFlags::ERR) {
            std::thread::yield_now();
        }
        assert_eq!(is_ready(socket.as_fd(), PollFlags::IN), Ok(true), "the next call decides");
        let error = socket.recv(&mut [0]).expect_err("nobody is there");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "still there");
    }

    /// The same question as the engine's probe, asked by the C library's functions alone.
    #[test]
    fn vmsplice_is_what_the_c_library_finds() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping of one page, which nobody else knows of, and which is never
        // unmapped.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), 1, prot, flags, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED);
        let slice = libc::iovec { iov_base: page, iov_len: 1 };
        // SAFETY: the page is mapped for good; invariant 4 is broken on purpose, on a page of this
        // test's own.
        let taken = unsafe {
            page.cast::<u8>().write_volatile(b'a');
            let taken = libc::vmsplice(writer.as_raw_fd(), &raw const slice, 1, 0);
            page.cast::<u8>().write_volatile(b'b');
            taken
        };
        let expected = if taken < 0 {
            Vmsplice::Absent(super::super::file::last_errno())
        } else {
            let mut byte = [0];
            reader.read_exact(&mut byte).expect("the byte");
            if byte == *b"b" { Vmsplice::ZeroCopy } else { Vmsplice::Copies }
        };
        assert_eq!(Kernel::get().vmsplice(), expected);
    }
}
