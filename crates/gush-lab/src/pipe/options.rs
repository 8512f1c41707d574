//! The options of the two programs, and contradictions among them.

use std::fmt;

use clap::ValueEnum;

use super::{BUFFER_BYTES, Pattern, READ_BYTES, Waiting};
use crate::Error;

/// How the writer puts bytes into the pipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Technique {
    #[default]
    Write,
    /// vmsplice(2) from two buffers in turn, as published: **unsound**.
    Vmsplice,
    /// Huge pages filled anew each time, lent, and given away.
    Fresh,
    /// Through a Unix socket, in slots of 32 KiB.
    Socket,
    /// Constant data teed from a private pipe.
    Reservoir,
}

impl Technique {
    /// Do the sent bytes arrive unchanged with any reader?
    pub fn is_sound(self) -> bool {
        self != Self::Vmsplice
    }

    /// The way of waiting where none was asked for, by a process that may run on so many
    /// `processors`.
    ///
    /// A reservoir refills a pipe within microseconds: with a reader on another processor, the
    /// wake-up after each sleep would be four fifths of the time (`bench/RESULTS.md`). The other
    /// techniques gain nothing while their reader sleeps, and on one processor a writer that spins
    /// only keeps the reader from it.
    pub fn usual_waiting(self, processors: usize) -> Waiting {
        match self {
            Self::Reservoir if processors > 1 => Waiting::Hybrid,
            _ => Waiting::Block,
        }
    }
}

impl fmt::Display for Technique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("none is hidden").get_name())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryOptions {
    /// Ask for huge pages (`MADV_HUGEPAGE`).
    pub huge_page: bool,
    /// Make sure that they came.
    pub check_huge_page: bool,
    pub lock: bool,
    /// Leave the pages as mmap(2) gave them: absent, or the zero page.
    pub dont_touch: bool,
}

impl MemoryOptions {
    fn contradictions(self) -> [(bool, &'static str); 2] {
        [
            (
                self.check_huge_page && !self.huge_page,
                "--check-huge-page checks what --huge-page asks for: add --huge-page",
            ),
            (
                self.check_huge_page && self.dont_touch,
                "--check-huge-page needs pages to look at, and with --dont-touch-pages there are none: leave one out",
            ),
        ]
    }
}

/// The writer's options.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    pub technique: Technique,
    pub buffer_bytes: usize,
    /// The pipe's size; not together with [`Technique::Vmsplice`], where the pipe is half the
    /// buffer.
    pub pipe_bytes: Option<usize>,
    /// Stop after so many bytes; without, when the reader is gone.
    pub bytes: Option<u64>,
    /// `SPLICE_F_GIFT`.
    pub gift: bool,
    /// One buffer in two halves instead of two buffers.
    pub same_buffer: bool,
    pub memory: MemoryOptions,
    /// The way of waiting while the pipe is full.
    pub waiting: Waiting,
    pub pattern: Pattern,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            technique: Technique::Write,
            buffer_bytes: BUFFER_BYTES,
            pipe_bytes: None,
            bytes: None,
            gift: false,
            same_buffer: false,
            memory: MemoryOptions::default(),
            waiting: Waiting::Block,
            pattern: Pattern::Constant,
        }
    }
}

impl WriteOptions {
    /// Do the options agree with each other?
    pub fn check(&self) -> Result<(), Error> {
        let lends = self.technique == Technique::Vmsplice;
        let page_bytes = rustix::param::page_size();
        let memory = self.memory;
        let own = [
            (
                lends && self.pipe_bytes.is_some(),
                "with vmsplice the pipe is half the buffer, or a buffer would be written again while it is in the pipe: leave out --pipe-size",
            ),
            (
                lends && !self.buffer_bytes.is_multiple_of(2 * page_bytes),
                "with vmsplice half the buffer is the pipe, and a pipe is made of pages: --buffer-size must be a multiple of two pages (8K)",
            ),
            (self.gift && !lends, "--gift is a flag of vmsplice: add --vmsplice, or leave it out"),
            (
                self.same_buffer && !lends,
                "--same-buffer concerns the two buffers of vmsplice: add --vmsplice, or leave it out",
            ),
            (
                memory.dont_touch && self.pattern != Pattern::Constant,
                "--dont-touch-pages writes what fresh memory holds, zeros: it has no --pattern",
            ),
            (
                memory.dont_touch && self.technique == Technique::Fresh,
                "fresh fills new pages each time: --dont-touch-pages contradicts it",
            ),
            (
                memory.lock && self.technique == Technique::Fresh,
                "fresh gives its pages away, and locked pages stay: leave out --lock-memory",
            ),
            (
                self.technique == Technique::Reservoir && self.pattern != Pattern::Constant,
                "a reservoir pours the same bytes again and again: it has --pattern constant only",
            ),
            (
                self.technique == Technique::Reservoir && memory != MemoryOptions::default(),
                "a reservoir is kept in the kernel, not in a buffer: leave out --huge-page, --check-huge-page, --lock-memory and --dont-touch-pages",
            ),
        ];
        first_reason(own.into_iter().chain(memory.contradictions()))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Taking {
    #[default]
    Read,
    /// splice(2) to /dev/null, unread.
    Splice,
    /// Keeps pieces in a private pipe for a while, and looks at them later.
    Hold,
}

/// The reader's options.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    pub taking: Taking,
    /// Bytes asked for in one call.
    pub buffer_bytes: usize,
    pub pipe_bytes: Option<usize>,
    /// Bytes to take out; fewer when the writer ends before.
    pub bytes: u64,
    /// `SPLICE_F_MOVE`.
    pub gift: bool,
    pub memory: MemoryOptions,
    /// The way of waiting while the pipe is empty; none: asleep, unless the writer is seen to be
    /// faster than any wake-up.
    pub waiting: Option<Waiting>,
    pub pattern: Pattern,
    /// Compare the arriving bytes with the pattern.
    pub verify: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            taking: Taking::Read,
            buffer_bytes: BUFFER_BYTES,
            pipe_bytes: None,
            bytes: READ_BYTES,
            gift: false,
            memory: MemoryOptions::default(),
            waiting: None,
            pattern: Pattern::Constant,
            verify: false,
        }
    }
}

impl ReadOptions {
    /// Do the options agree with each other?
    pub fn check(&self) -> Result<(), Error> {
        let own = [
            (
                self.verify && self.taking == Taking::Splice,
                "--splice drops the bytes unread, so --verify has nothing to look at: leave one out, or use --hold",
            ),
            (
                self.gift && self.taking == Taking::Read,
                "--gift is a flag of splice (SPLICE_F_MOVE): add --splice, or leave it out",
            ),
            (
                self.pattern != Pattern::Constant && !self.verify && self.taking != Taking::Hold,
                "--pattern says what should arrive, and nothing compares it: add --verify or --hold",
            ),
        ];
        first_reason(own.into_iter().chain(self.memory.contradictions()))
    }
}

fn first_reason(mut reasons: impl Iterator<Item = (bool, &'static str)>) -> Result<(), Error> {
    match reasons.find(|(applies, _)| *applies) {
        Some((_, reason)) => Err(Error::refused(reason)),
        None => Ok(()),
    }
}
