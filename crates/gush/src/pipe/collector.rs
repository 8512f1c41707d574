//! The small pieces of a writer, collected until they are worth a call.

use std::time::Instant;

use super::Buffer;

/// This many buffers filled in a row as fast as [`FAST_BYTES_A_US`] show a writer of bulk, to whom
/// the delay of a larger buffer is nothing.
const FAST_BUFFERS: u32 = 16;
const FAST_BYTES_A_US: u128 = 16;

/// A buffer and how much of it is filled.
#[derive(Debug, Default)]
pub(super) struct Collector {
    /// `None` before the first piece, and after a failure.
    buffer: Option<Buffer>,
    len_bytes: usize,
    /// When the buffer was begun.
    begun: Option<Instant>,
    fast_buffers: u32,
}

impl Collector {
    /// Collects a piece that leaves room for more, or returns `false`.
    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        let Some(buffer) = &mut self.buffer else { return false };
        let Some(room) = buffer.get_mut(self.len_bytes..) else { return false };
        let has_room = bytes.len() < room.len();
        if has_room {
            room[..bytes.len()].copy_from_slice(bytes);
            self.len_bytes += bytes.len();
        }
        has_room
    }

    /// Collects as much of a piece as there is room for. Returns how much, and whether the buffer
    /// is full now.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> (usize, bool) {
        let Some(buffer) = &mut self.buffer else { return (0, false) };
        let room = &mut buffer[self.len_bytes..];
        let taken = bytes.len().min(room.len());
        room[..taken].copy_from_slice(&bytes[..taken]);
        let is_full = taken == room.len();
        self.len_bytes += taken;
        if is_full && let Some(begun) = self.begun {
            let is_fast = self.len_bytes as u128 >= begun.elapsed().as_micros() * FAST_BYTES_A_US;
            self.fast_buffers = if is_fast { self.fast_buffers.saturating_add(1) } else { 0 };
        }
        (taken, is_full)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| &buffer[..self.len_bytes])
    }

    pub(super) fn has_buffer(&self) -> bool {
        self.buffer.is_some()
    }

    /// Does the caller write bulk, without pause?
    pub(super) fn is_fast(&self) -> bool {
        self.fast_buffers >= FAST_BUFFERS
    }

    /// Goes on with an empty buffer.
    pub(super) fn begin(&mut self, buffer: Buffer) {
        (self.buffer, self.len_bytes, self.begun) = (Some(buffer), 0, Some(Instant::now()));
    }

    /// The buffer with what is in it, if there is anything.
    pub(super) fn take(&mut self) -> Option<(Buffer, usize)> {
        if self.len_bytes == 0 {
            return None;
        }
        let len_bytes = std::mem::take(&mut self.len_bytes);
        self.buffer.take().map(|buffer| (buffer, len_bytes))
    }
}
