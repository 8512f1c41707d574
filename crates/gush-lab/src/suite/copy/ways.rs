//! The ways to copy a file, as a table: the published nine at their sizes, and the engine's
//! methods.

use std::fmt;

use gush::MethodName;

use super::cache_sizes;

/// Who moves the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The engine, by this method alone.
    Engine(MethodName),
    /// The engine, by the methods that the table picks, on all processors.
    Auto,
    /// The C library's streams, a character at a time.
    Characters,
    /// The C library's streams, a buffer at a time.
    Blocks,
    /// The textbook's loop until the call answers 0.
    Loop(Textbook),
}

/// A loop as the textbooks write it, where the engine proves the end otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Textbook {
    Sendfile,
    /// splice(2) into a pipe and out again.
    Splice,
    /// copy_file_range(2), of as much as there is.
    CopyFileRange,
    /// Both files mapped whole, and memcpy(3).
    Mappings,
}

/// The buffer of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// None, or as large as the kernel likes.
    None,
    /// So many bytes.
    Bytes(usize),
    /// As large as this level of the processor's caches for data.
    Cache(u32),
    /// No buffer, but a private pipe of so many bytes.
    Pipe(usize),
}

/// One way to copy a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The name, unique.
    pub name: &'static str,
    /// The technique.
    pub method: &'static str,
    /// Who moves the bytes.
    pub by: By,
    /// The size of the pieces.
    pub buffer: Buffer,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

const fn plain(name: &'static str, method: &'static str, by: By, buffer: Buffer) -> Way {
    Way { name, method, by, buffer }
}

const fn engine(
    name: &'static str,
    method: MethodName,
    method_name: &'static str,
    buffer: Buffer,
) -> Way {
    Way { name, method: method_name, by: By::Engine(method), buffer }
}

use Buffer::{Bytes, Cache, Pipe};
use Textbook::{CopyFileRange, Mappings, Sendfile, Splice};

/// Every way, slow and old ones first.
pub const WAYS: &[Way] = &[
    plain("stdio-char", "stdio-char", By::Characters, Bytes(4 * KIB)),
    plain("stdio-block-1024", "stdio-block", By::Blocks, Bytes(KIB)),
    plain("stdio-block-4096", "stdio-block", By::Blocks, Bytes(4 * KIB)),
    plain("stdio-block-8192", "stdio-block", By::Blocks, Bytes(8 * KIB)),
    engine("read-write-1024", MethodName::ReadWrite, "read-write", Bytes(KIB)),
    engine("read-write-4096", MethodName::ReadWrite, "read-write", Bytes(4 * KIB)),
    engine("read-write-64K", MethodName::ReadWrite, "read-write", Bytes(64 * KIB)),
    engine("read-write-128K", MethodName::ReadWrite, "read-write", Bytes(128 * KIB)),
    engine("read-write-256K", MethodName::ReadWrite, "read-write", Bytes(256 * KIB)),
    engine("read-write-L1", MethodName::ReadWrite, "read-write", Cache(1)),
    engine("read-write-L2", MethodName::ReadWrite, "read-write", Cache(2)),
    plain("sendfile-4096", "sendfile", By::Loop(Sendfile), Bytes(4 * KIB)),
    engine("sendfile", MethodName::Sendfile, "sendfile", Buffer::None),
    plain("mmap-whole", "mmap-copy", By::Loop(Mappings), Buffer::None),
    engine("mmap-copy", MethodName::MmapCopy, "mmap-copy", Bytes(MIB)),
    engine("mmap-write", MethodName::MmapWrite, "mmap-write", Bytes(MIB)),
    engine("read-mmap", MethodName::ReadMmap, "read-mmap", Bytes(4 * MIB)),
    plain("splice-4096", "splice", By::Loop(Splice), Bytes(4 * KIB)),
    plain("splice-64K", "splice", By::Loop(Splice), Pipe(64 * KIB)),
    engine("splice-256K", MethodName::Splice, "splice", Pipe(256 * KIB)),
    engine("splice-1M", MethodName::Splice, "splice", Pipe(MIB)),
    engine("vmsplice", MethodName::Vmsplice, "vmsplice", Bytes(256 * KIB)),
    plain("copy-file-range-loop", "copy-file-range", By::Loop(CopyFileRange), Buffer::None),
    engine("copy-file-range", MethodName::CopyFileRange, "copy-file-range", Buffer::None),
    engine("reflink", MethodName::Reflink, "reflink", Buffer::None),
    engine("direct", MethodName::Direct, "direct", Bytes(MIB)),
    engine("uring", MethodName::Uring, "uring", Bytes(256 * KIB)),
    plain("auto", "auto", By::Auto, Buffer::None),
];

impl Way {
    /// The buffer, or the pipe, in bytes; none if there is none, or the size of a cache is unknown.
    pub fn buffer_bytes(&self) -> Option<usize> {
        match self.buffer {
            Buffer::None => None,
            Bytes(bytes) | Pipe(bytes) => Some(bytes),
            Cache(level) => cache_sizes::data_bytes(level),
        }
    }

    /// Whether the engine can be given advice and asked to reserve space.
    pub fn is_engines(&self) -> bool {
        matches!(self.by, By::Engine(_) | By::Auto)
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_name_their_method() {
        for (index, way) in WAYS.iter().enumerate() {
            assert!(WAYS[..index].iter().all(|other| other.name != way.name), "{way}");
            if let By::Engine(method) = way.by {
                assert_eq!(method.as_str(), way.method, "{way}");
            }
        }
    }

    #[test]
    fn every_method_of_the_engine_is_a_way() {
        for &method in MethodName::ALL {
            assert!(WAYS.iter().any(|way| way.by == By::Engine(method)), "{method}");
        }
    }
}
