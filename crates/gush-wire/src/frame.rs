//! Frames: a header with length, kind and checksum, and what follows it.
//!
//! A header has 16 bytes, little-endian: the length of what follows (4), the kind (1), three zeros,
//! and a checksum (8), which is the XXH3 of the first 8 bytes and, of a record, of what follows.
//! The data of a file is covered by the transport's checksum, or by the hash of `--verify`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use gush::{Control, Mover};
use gush_text::quote;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::Xxh3;

use crate::compress::{Packer, Unpacker};
use crate::error::Error;
use crate::packing::{Encoding, Turns};

/// The bytes of a header.
const HEADER_BYTES: usize = 16;
/// The longest record: the values of one entry.
pub const MOST_RECORD_BYTES: usize = 1 << 20;
/// The most data in one frame.
pub const MOST_DATA_BYTES: usize = 4 << 20;
/// Bytes read, or collected to be written, at once.
const BUFFER_BYTES: usize = 256 << 10;
/// zstd's level: the fastest, which one processor makes as fast as a line of 1 Gbit/s takes data.
const LEVEL: i32 = 1;
/// Shorter data is copied through the buffer: for this little, more system calls cost more.
pub const COPIED_BYTES: usize = 64 << 10;

/// Takes the bytes of a frame that have moved so far.
pub type Moved<'a> = dyn FnMut(u64) + Send + 'a;

/// Tells of the bytes that a mover has moved, after those `before` it.
fn observer<'m>(
    moved: &'m mut Moved<'_>,
    before: usize,
) -> impl FnMut(&gush::Progress) -> Control + Send + 'm {
    move |progress| {
        moved(before as u64 + progress.bytes);
        Control::Continue
    }
}

const RECORD: u8 = 1;
const DATA: u8 = 2;
const PACKED: u8 = 3;

/// What a header announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A record of this length.
    Record(usize),
    /// Data of this length, at the offset that the record before has named.
    Data(usize),
    /// The same, compressed to this length.
    Packed(usize),
}

fn checksum(start: &[u8], body: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(start);
    hash.update(body);
    hash.digest()
}

fn header(kind: u8, length: usize, body: &[u8]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let length = u32::try_from(length).expect("frames are short");
    header[..4].copy_from_slice(&length.to_le_bytes());
    header[4] = kind;
    let sum = checksum(&header[..8], body);
    header[8..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// How much of an invalid frame a message shows.
const MOST_SHOWN_BYTES: usize = 60;

fn broken(what: impl Into<String>) -> Error {
    Error::Protocol(what.into())
}

/// The first line of what has come, for a message.
fn shown(came: &[u8]) -> String {
    let came = &came[..came.len().min(MOST_SHOWN_BYTES)];
    match came.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end() {
        [] => "an empty line".into(),
        line => quote::always(OsStr::from_bytes(line).as_ref()).to_string(),
    }
}

fn lost(doing: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| Error::Io { doing, error }
}

fn lost_by(doing: &'static str, error: &gush::Error) -> Error {
    lost(doing)(error.errno().map_or(io::ErrorKind::Other.into(), io::Error::from))
}

/// Why the data of a frame is not all in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwritten {
    /// How much of it is.
    pub written_bytes: u64,
    /// The answer of the file.
    pub errno: gush::Errno,
}

fn write_all_at(file: BorrowedFd<'_>, data: &[u8], offset: u64) -> Result<(), Unwritten> {
    let mut at = 0;
    while at < data.len() {
        let place = offset + at as u64;
        let errno = match rustix::io::retry_on_intr(|| rustix::io::pwrite(file, &data[at..], place))
        {
            Ok(0) => gush::Errno::IO,
            Ok(written) => {
                at += written;
                continue;
            }
            Err(errno) => gush::Errno::from_io_error(&errno.into()).unwrap_or(gush::Errno::IO),
        };
        return Err(Unwritten { written_bytes: at as u64, errno });
    }
    Ok(())
}

/// The stream to the other side.
#[derive(Debug)]
pub struct Output {
    stream: File,
    buffer: Vec<u8>,
    packing: Option<Box<Packing>>,
}

/// What compresses data on its way out.
#[derive(Debug)]
struct Packing {
    packer: Packer,
    turns: Turns,
}

fn ns_since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

impl Output {
    /// Writes to `stream`.
    #[must_use]
    pub fn new(stream: File) -> Self {
        Self { stream, buffer: Vec::with_capacity(BUFFER_BYTES), packing: None }
    }

    /// Compresses the data of files from now on, where that is faster.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn compress(&mut self) -> Result<(), Error> {
        let packer = Packer::new(LEVEL)?;
        let packing = Packing { packer, turns: Turns::default() };
        self.packing = Some(Box::new(packing));
        Ok(())
    }

    /// The stream itself, when nothing is left to be flushed.
    #[must_use]
    pub fn into_stream(self) -> File {
        self.stream
    }

    /// Adds a record. `false` if it would be too long for the other side, and was not added.
    ///
    /// # Errors
    /// When the stream fails.
    pub fn record(&mut self, record: &impl Serialize) -> Result<bool, Error> {
        let is_added = self.push(record)?;
        self.flush_if_full()?;
        Ok(is_added)
    }

    fn push(&mut self, record: &impl Serialize) -> Result<bool, Error> {
        let body = postcard::to_stdvec(record).map_err(|error| broken(error.to_string()))?;
        let is_short = body.len() <= MOST_RECORD_BYTES;
        if is_short {
            self.buffer.extend(header(RECORD, body.len(), &body));
            self.buffer.extend(body);
        }
        Ok(is_short)
    }

    /// Adds data that `read` writes into the buffer, after a record that announces it. Neither is
    /// added if it returns an error, or `false` for data that need not be sent.
    ///
    /// # Errors
    /// When the stream fails. The inner error is that of `read`.
    pub fn data_by<E>(
        &mut self,
        announced: &impl Serialize,
        length: usize,
        read: impl FnOnce(&mut [u8]) -> Result<bool, E>,
    ) -> Result<Result<bool, E>, Error> {
        let before = self.buffer.len();
        self.push(announced)?;
        self.buffer.extend(header(DATA, length, &[]));
        let start = self.buffer.len();
        self.buffer.resize(start + length, 0);
        let read = read(&mut self.buffer[start..]);
        match read {
            Ok(true) => self.pack(start),
            _ => self.buffer.truncate(before),
        }
        self.flush_if_full()?;
        Ok(read)
    }

    /// Adds data that is in memory.
    ///
    /// # Errors
    /// When the stream fails.
    pub fn data(&mut self, data: &[u8]) -> Result<(), Error> {
        self.buffer.extend(header(DATA, data.len(), &[]));
        let start = self.buffer.len();
        self.buffer.extend(data);
        self.pack(start);
        self.flush_if_full()
    }

    /// Is data compressed now, and to be brought into memory?
    pub fn packs(&mut self) -> bool {
        self.packing.as_mut().is_some_and(|packing| packing.turns.encoding() == Encoding::Packed)
    }

    /// Compresses the frame whose data begins here in the buffer, where that pays.
    fn pack(&mut self, start: usize) {
        let Self { buffer, packing: Some(packing), .. } = self else { return };
        let (length, begun) = (buffer.len() - start, Instant::now());
        if packing.turns.encoding() == Encoding::Packed
            && let Some(packed) = packing.packer.pack(&buffer[start..])
        {
            buffer.truncate(start - HEADER_BYTES);
            buffer.extend(header(PACKED, packed.len(), &[]));
            buffer.extend(packed);
        }
        packing.turns.sent(length as u64, ns_since(begun));
    }

    /// Moves data from a file to the stream. Returns how much of it the file had: the rest of the
    /// frame is filled with zeros, and the file is not to be used.
    ///
    /// # Errors
    /// When the stream fails.
    pub fn data_from(
        &mut self,
        file: &File,
        offset: u64,
        length: usize,
        limit: Option<&gush::Rate>,
        moved: Option<&mut Moved<'_>>,
    ) -> Result<Result<u64, gush::Error>, Error> {
        self.buffer.extend(header(DATA, length, &[]));
        self.flush()?;
        let begun = Instant::now();
        let mut mover =
            Mover::new(file, &self.stream).source_offset_bytes(offset).length_bytes(length as u64);
        if let Some(limit) = limit {
            mover = mover.limit(limit.clone());
        }
        let mut observer = moved.map(|moved| observer(moved, 0));
        if let Some(observer) = &mut observer {
            mover = mover.observe(observer);
        }
        let moved = mover.run().map(|report| report.bytes);
        let delivered = match &moved {
            Ok(bytes) => *bytes,
            Err(error) if error.side() == Some(gush::Side::Target) => {
                return Err(lost_by("sending data", error));
            }
            Err(error) => error.delivered_bytes(),
        };
        let missing = length - usize::try_from(delivered).unwrap_or(length).min(length);
        io::copy(&mut io::repeat(0).take(missing as u64), &mut self.stream)
            .map_err(lost("sending data"))?;
        if let Some(packing) = &mut self.packing {
            packing.turns.sent(length as u64, 0);
            packing.turns.wrote(ns_since(begun));
        }
        Ok(moved)
    }

    /// How much was collected and not yet written.
    #[must_use]
    pub fn collected_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn flush_if_full(&mut self) -> Result<(), Error> {
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes what was collected.
    ///
    /// # Errors
    /// When the stream fails.
    pub fn flush(&mut self) -> Result<(), Error> {
        let begun = Instant::now();
        let written = self.stream.write_all(&self.buffer).map_err(lost("sending"));
        if let Some(packing) = &mut self.packing {
            packing.turns.wrote(ns_since(begun));
        }
        self.buffer.clear();
        written
    }
}

/// The stream from the other side.
#[derive(Debug)]
pub struct Input {
    stream: File,
    buffer: Vec<u8>,
    /// What was read and not yet taken is between `at` and `end`.
    at: usize,
    end: usize,
    unpacker: Option<Unpacker>,
}

impl Input {
    /// Reads from `stream`.
    #[must_use]
    pub fn new(stream: File) -> Self {
        Self { stream, buffer: Vec::new(), at: 0, end: 0, unpacker: None }
    }

    /// The stream itself, when nothing was read ahead.
    #[must_use]
    pub fn into_stream(self) -> File {
        self.stream
    }

    /// Is nothing read ahead? Then the next frame may be long in coming.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at == self.end
    }

    /// Does something come within this time, or the end?
    #[must_use]
    pub fn comes_within(&self, time: Duration) -> bool {
        let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
        poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], Some(&time)) != Ok(0)
    }

    /// Can a record be taken without waiting?
    #[must_use]
    pub fn has_record(&self) -> bool {
        let ahead = &self.buffer[self.at..self.end];
        ahead.get(..4).is_some_and(|length| {
            let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
            ahead.len() - HEADER_BYTES.min(ahead.len()) >= length && ahead.len() >= HEADER_BYTES
        })
    }

    /// Reads until `bytes` bytes are in the buffer.
    fn fill(&mut self, bytes: usize) -> Result<(), Error> {
        self.buffer.copy_within(self.at..self.end, 0);
        self.end -= self.at;
        self.at = 0;
        while self.end < bytes {
            // Never more than has come, doubled: lengths are only announced.
            let room = (self.end + BUFFER_BYTES).min(bytes.max(BUFFER_BYTES));
            if self.buffer.len() < room {
                self.buffer.resize(room, 0);
            }
            let read = loop {
                match self.stream.read(&mut self.buffer[self.end..]) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => break read,
                }
            };
            match read.map_err(lost("receiving"))? {
                0 => return Err(Error::Ended),
                read => self.end += read,
            }
        }
        Ok(())
    }

    /// Refuses what cannot begin a greeting as soon as it comes: text shorter than a header may be
    /// all that comes.
    ///
    /// # Errors
    /// When the stream fails or ends, or something else comes.
    pub fn expect_greeting(&mut self) -> Result<(), Error> {
        for bytes in 1..=8 {
            self.fill(bytes)?;
            // The magic has 8 bytes, and a version 1 to 5.
            let is_start = matches!(self.buffer[0], 9..=13)
                && self.buffer[1..bytes] == [0, 0, 0, RECORD, 0, 0, 0][..bytes - 1];
            if !is_start {
                return Err(Error::Greeting(shown(&self.buffer[..self.end])));
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> Result<&[u8], Error> {
        if self.end - self.at < bytes {
            self.fill(bytes)?;
        }
        self.at += bytes;
        Ok(&self.buffer[self.at - bytes..self.at])
    }

    /// The next frame. A record's checksum is checked by [`record`](Self::record).
    fn next(&mut self) -> Result<(Frame, [u8; HEADER_BYTES]), Error> {
        let mut head = [0; HEADER_BYTES];
        head.copy_from_slice(self.take(HEADER_BYTES)?);
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let frame = match (head[4], head[5..8] == [0; 3]) {
            (RECORD, true) if length <= MOST_RECORD_BYTES => Frame::Record(length),
            (kind @ (DATA | PACKED), true) if length <= MOST_DATA_BYTES && length > 0 => {
                if head != header(kind, length, &[]) {
                    return Err(broken("a header has a wrong checksum"));
                }
                if kind == DATA { Frame::Data(length) } else { Frame::Packed(length) }
            }
            _ => {
                let came = shown(&self.buffer[self.at - HEADER_BYTES..self.end]);
                return Err(broken(format!("it sent {came}")));
            }
        };
        Ok((frame, head))
    }

    /// The next frame, which is a record.
    ///
    /// # Errors
    /// When the stream fails or ends, or the frame is none of these records.
    pub fn record<R: DeserializeOwned>(&mut self) -> Result<R, Error> {
        match self.next()? {
            (Frame::Record(length), head) => {
                let body = self.take(length)?;
                if head != header(RECORD, length, body) {
                    return Err(broken("a record has a wrong checksum"));
                }
                match postcard::take_from_bytes(body) {
                    Ok((record, [])) => Ok(record),
                    _ => Err(broken("a record cannot be read")),
                }
            }
            _ => Err(broken("data where a record was due")),
        }
    }

    /// Moves the data of the next frame, which is `length` bytes of data, into a file, or nowhere.
    /// The inner error is the file's, and the data is taken from the stream all the same. `moved`
    /// is told of the bytes that are in the file while others are awaited.
    ///
    /// # Errors
    /// When the stream fails or ends, or the frame is another.
    pub fn data(
        &mut self,
        length: usize,
        into: Option<(BorrowedFd<'_>, u64)>,
        mut moved: Option<&mut Moved<'_>>,
    ) -> Result<Result<(), Unwritten>, Error> {
        match self.next()? {
            (Frame::Data(announced), _) if announced == length => {}
            (Frame::Packed(packed), _) if packed < length && length <= MOST_DATA_BYTES => {
                return self.packed(packed, length, into);
            }
            _ => return Err(broken("no data where data was due")),
        }
        let mut at = 0;
        let mut written = Ok(());
        while at < length {
            let left = length - at;
            if let (true, true, Some((file, offset)), Ok(())) =
                (self.is_empty(), left >= COPIED_BYTES, into, &written)
            {
                let mut mover = Mover::new(&self.stream, &file)
                    .target_offset_bytes(offset + at as u64)
                    .length_bytes(left as u64);
                let mut observer = moved.as_deref_mut().map(|moved| observer(moved, at));
                if let Some(observer) = &mut observer {
                    mover = mover.observe(observer);
                }
                match mover.run() {
                    Ok(report) if report.bytes == left as u64 => return Ok(Ok(())),
                    Ok(_) => return Err(Error::Ended),
                    Err(error) if error.side() == Some(gush::Side::Source) => {
                        return Err(lost_by("receiving data", &error));
                    }
                    // Bytes in flight have left the stream, and are lost with the file.
                    Err(error) => {
                        written = Err(Unwritten {
                            written_bytes: at as u64 + error.delivered_bytes(),
                            errno: error.errno().unwrap_or(gush::Errno::IO),
                        });
                        let taken = error.delivered_bytes() + error.in_flight_bytes();
                        at += usize::try_from(taken).unwrap_or(left).min(left);
                        continue;
                    }
                }
            }
            if self.is_empty() {
                self.fill(1)?;
            }
            let bytes = left.min(self.end - self.at);
            if let (Some((file, offset)), Ok(())) = (into, &written) {
                let data = &self.buffer[self.at..self.at + bytes];
                written = write_all_at(file, data, offset + at as u64).map_err(|why| Unwritten {
                    written_bytes: at as u64 + why.written_bytes,
                    ..why
                });
            }
            self.at += bytes;
            at += bytes;
            if let (Some(moved), Ok(())) = (moved.as_deref_mut(), &written) {
                moved(at as u64);
            }
        }
        Ok(written)
    }

    /// Takes `packed` bytes, which are `length` bytes of data.
    fn packed(
        &mut self,
        packed: usize,
        length: usize,
        into: Option<(BorrowedFd<'_>, u64)>,
    ) -> Result<Result<(), Unwritten>, Error> {
        self.take(packed)?;
        if self.unpacker.is_none() {
            self.unpacker = Some(Unpacker::new()?);
        }
        let unpacker = self.unpacker.as_mut().expect("there is one now");
        let data = unpacker.unpack(&self.buffer[self.at - packed..self.at], length)?;
        Ok(into.map_or(Ok(()), |(file, offset)| write_all_at(file, data, offset)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(bytes: &[u8]) -> Input {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        io::Seek::rewind(&mut file).unwrap();
        Input::new(file)
    }

    fn frame(record: &str) -> Vec<u8> {
        let body = postcard::to_stdvec(record).unwrap();
        [&header(RECORD, body.len(), &body)[..], &body].concat()
    }

    #[test]
    fn a_record_arrives_and_the_end_is_noticed() {
        let mut input = stream(&frame("hello"));
        assert_eq!(input.record::<String>().unwrap(), "hello");
        assert!(matches!(input.record::<String>(), Err(Error::Ended)));
    }

    #[test]
    fn every_changed_bit_and_every_cut_is_noticed() {
        let good = frame("hello");
        for at in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[at / 8] ^= 1 << (at % 8);
            assert!(stream(&bad).record::<String>().is_err(), "bit {at}");
        }
        for length in 0..good.len() {
            let ended = stream(&good[..length]).record::<String>();
            assert!(matches!(ended, Err(Error::Ended)), "{length} bytes");
        }
    }

    #[test]
    fn a_length_is_refused_before_memory_is_taken() {
        for (kind, length) in [
            (RECORD, u32::MAX),
            (DATA, u32::MAX),
            (DATA, 0),
            (PACKED, u32::MAX),
            (PACKED, 0),
            (7, 1),
        ] {
            let mut head = header(kind, length as usize, &[]).to_vec();
            head.extend([0; 64]);
            let mut input = stream(&head);
            assert!(matches!(input.next(), Err(Error::Protocol(_))), "{kind} {length}");
            assert!(input.buffer.capacity() <= 2 * BUFFER_BYTES);
        }
    }

    #[test]
    fn packed_data_comes_back_and_is_refused_where_its_length_is_another() {
        let mut sent = tempfile::tempfile().unwrap();
        let mut output = Output::new(sent.try_clone().unwrap());
        output.compress().unwrap();
        output.data(&[7; 100_000]).unwrap();
        output.flush().unwrap();
        let mut line = Vec::new();
        io::Seek::rewind(&mut sent).unwrap();
        sent.read_to_end(&mut line).unwrap();
        assert!(line.len() < 1000 && line[4] == PACKED, "{} bytes", line.len());

        let mut arrived = tempfile::tempfile().unwrap();
        let into = Some((std::os::fd::AsFd::as_fd(&arrived), 0));
        stream(&line).data(100_000, into, None).unwrap().unwrap();
        let mut data = Vec::new();
        arrived.read_to_end(&mut data).unwrap();
        assert!(data == [7; 100_000]);
        for length in [1, 16, 99_999, 100_001, MOST_DATA_BYTES, MOST_DATA_BYTES + 1, usize::MAX] {
            let refused = stream(&line).data(length, None, None);
            assert!(matches!(refused, Err(Error::Protocol(_))), "{length}");
        }
        let cut = stream(&line[..line.len() - 1]).data(100_000, None, None);
        assert!(matches!(cut, Err(Error::Ended)));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes: Vec<u8>) {
            let _ = stream(&bytes).record::<crate::record::ToReceiver>();
            let _ = stream(&bytes).record::<crate::record::ToSender>();
            let _ = postcard::from_bytes::<crate::record::ToReceiver>(&bytes);
        }
    }
}
