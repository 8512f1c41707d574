//! Fast output into a pipe: `gush_writer`.

use std::ffi::{c_int, c_void};
use std::io::Write;
use std::os::fd::BorrowedFd;

use engine::pipe::Buffer;
use engine::{Call, Errno};

use crate::boundary::{answer, bytes, descriptor, free, give, handle};
use crate::error::{Error, Status};

/// Writes into a pipe faster than write, and into anything else by write. The reader sees the bytes
/// as they were when they were written, however long it keeps them.
#[derive(Debug)]
pub struct Writer {
    inner: engine::pipe::Writer<BorrowedFd<'static>>,
    /// Lent to the caller by `gush_writer_buffer`.
    buffer: Option<Buffer>,
}

impl Writer {
    fn send(
        &mut self,
        send: impl FnOnce(&mut engine::pipe::Writer<BorrowedFd<'static>>) -> std::io::Result<()>,
    ) -> Result<(), Error> {
        if let Some(call) = self.inner.cut_by() {
            return Err(Error::cut(call));
        }
        send(&mut self.inner).map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            Error::writing(self.inner.cut_by().unwrap_or(Call::Write), errno)
        })
    }
}

/// A writer into `fd`, in `*writer`. The descriptor is borrowed, and stays open.
///
/// # Safety
/// The descriptor stays open until the writer is freed. `error` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gush_writer_new(
    fd: c_int,
    writer: *mut *mut Writer,
    error: *mut Error,
) -> Status {
    // SAFETY: the caller's word on all three.
    unsafe {
        answer(error, || {
            give(writer, std::ptr::null_mut())?;
            let inner = engine::pipe::Writer::new(descriptor(fd, "fd")?)
                .map_err(|refused| Error::writing(refused.call, refused.errno))?;
            give(writer, Box::into_raw(Box::new(Writer { inner, buffer: None })))
        })
    }
}

/// Writes all bytes. Small pieces are collected: `gush_writer_flush` sends them. After an error the
/// stream is cut.
///
/// # Safety
/// `writer` is a writer that no other thread uses now. So many bytes may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gush_writer_write(
    writer: *mut Writer,
    data: *const c_void,
    len_bytes: usize,
    error: *mut Error,
) -> Status {
    // SAFETY: the caller's word on all of them.
    unsafe {
        answer(error, || {
            let data = bytes(data.cast(), len_bytes)?;
            handle(writer)?.send(|inner| inner.write_all(data))
        })
    }
}

/// Sends the pieces that were collected.
///
/// # Safety
/// `writer` is a writer that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gush_writer_flush(writer: *mut Writer, error: *mut Error) -> Status {
    // SAFETY: the caller's word on both.
    unsafe { answer(error, || handle(writer)?.send(Write::flush)) }
}

/// Memory to fill in place, in `*memory` and `*len_bytes`: `gush_writer_commit` sends it without a
/// copy. The memory belongs to the writer, its content is undefined, and it is valid until the
/// commit. Asked again before, the function gives the same memory.
///
/// # Safety
/// `writer` is a writer that no other thread uses now. Both places may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gush_writer_buffer(
    writer: *mut Writer,
    memory: *mut *mut c_void,
    len_bytes: *mut usize,
    error: *mut Error,
) -> Status {
    // SAFETY: the caller's word on all of them.
    unsafe {
        answer(error, || {
            let writer = handle(writer)?;
            let buffer = match &mut writer.buffer {
                Some(buffer) => buffer,
                none => none.insert(writer.inner.buffer().map_err(Error::buffering)?),
            };
            give(len_bytes, buffer.len())?;
            give(memory, buffer.as_mut_ptr().cast())
        })
    }
}

/// Sends the first bytes of the memory that `gush_writer_buffer` gave, after the pieces that were
/// collected. The memory must not be touched again.
///
/// # Safety
/// `writer` is a writer that no other thread uses now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gush_writer_commit(
    writer: *mut Writer,
    len_bytes: usize,
    error: *mut Error,
) -> Status {
    // SAFETY: the caller's word on both.
    unsafe {
        answer(error, || {
            let writer = handle(writer)?;
            let room_bytes = writer.buffer.as_ref().map_or(0, |buffer| buffer.len());
            if len_bytes > room_bytes {
                let text = format!("{len_bytes} bytes of a buffer that has {room_bytes}");
                return Err(Error::invalid(&text));
            }
            match writer.buffer.take() {
                Some(buffer) => writer.send(|inner| Ok(inner.commit(buffer, len_bytes)?)),
                None => Ok(()),
            }
        })
    }
}

/// Frees a writer, or nothing if it is null. Pieces that were not flushed are lost.
///
/// # Safety
/// `writer` is null or a writer, and never used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gush_writer_free(writer: *mut Writer) {
    // SAFETY: the caller's word.
    unsafe { free(writer) };
}
