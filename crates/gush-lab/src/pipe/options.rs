//! The options of the two programs, and contradictions among them.

use std::fmt;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use gush_text::{memory_bytes, size_bytes};

use super::{BUFFER_BYTES, Pattern, READ_BYTES, SPLICE_BYTES, Waiting};
use crate::{Error, affinity};

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

// No doc comment: it would replace the description of the command.
#[derive(Clone, Debug, Default, Args)]
pub struct Shared {
    /// Call again at once instead of sleeping
    #[arg(long)]
    pub busy_loop: bool,
    /// Ask poll(2) before each call
    #[arg(long)]
    pub poll: bool,
    /// Wait so: block in the call, poll before it, spin, or spin some microseconds and then sleep
    /// [default: block; hybrid where gush pipe write has a reservoir, and gush pipe read --splice
    /// once it meets slots of more than a page]
    #[arg(long, value_name = "HOW", value_parser = named::<Waiting>())]
    pub wait: Option<Waiting>,
    /// Ask for huge pages
    #[arg(long)]
    pub huge_page: bool,
    /// Make sure that a huge page backs the buffer (root only)
    #[arg(long)]
    pub check_huge_page: bool,
    /// Bytes moved at a time [default: 256K; 8M where gush pipe read splices]
    #[arg(long, value_name = "SIZE", value_parser = memory_bytes)]
    pub buffer_size: Option<usize>,
    /// Bytes that the pipe should hold
    #[arg(long, value_name = "SIZE", value_parser = memory_bytes)]
    pub pipe_size: Option<usize>,
    /// Keep the buffer in memory (mlock)
    #[arg(long)]
    pub lock_memory: bool,
    /// Leave the buffer's pages as the kernel gave them
    #[arg(long)]
    pub dont_touch_pages: bool,
    /// The bytes: all X, or numbers that count
    #[arg(long, value_name = "NAME", value_parser = named::<Pattern>(), default_value = "constant")]
    pub pattern: Pattern,
    /// Stay on processor N
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
    /// Tell more on standard error
    #[arg(long)]
    pub verbose: bool,
    /// Tell failures only
    #[arg(long, conflicts_with = "verbose")]
    pub quiet: bool,
}

/// A parser of the names of `T`; what their docs say is for programmers.
fn named<T: ValueEnum + Send + Sync + 'static>() -> impl TypedValueParser<Value = T> {
    let values = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let names = values.map(|value| value.help(None::<&str>));
    PossibleValuesParser::new(names).try_map(|name| T::from_str(&name, false))
}

impl Shared {
    /// The way to wait; none if nothing was asked for.
    pub fn waiting(&self) -> Option<Waiting> {
        match (self.busy_loop, self.poll) {
            (false, false) => self.wait,
            (false, true) => Some(Waiting::Poll),
            (true, false) => Some(Waiting::Spin),
            (true, true) => Some(Waiting::SpinPoll),
        }
    }

    /// Stays on the requested processor.
    pub fn pin(&self) -> Result<(), Error> {
        let Some(cpu) = self.cpu else { return Ok(()) };
        affinity::pin(cpu).map_err(|_| {
            let allowed = affinity::allowed().unwrap_or_default();
            let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            Error::refused(format!(
                "cannot stay on processor {cpu}: this process may use {}",
                allowed.join(", ")
            ))
        })
    }

    fn contradictions(&self) -> [(bool, &'static str); 3] {
        [
            (
                self.wait.is_some() && (self.busy_loop || self.poll),
                "--wait excludes --busy-loop (the same as --wait spin) and --poll (the same as --wait poll)",
            ),
            (
                self.check_huge_page && !self.huge_page,
                "--check-huge-page checks what --huge-page asks for: add --huge-page",
            ),
            (
                self.check_huge_page && self.dont_touch_pages,
                "--check-huge-page needs pages to look at, and with --dont-touch-pages there are none: leave one out",
            ),
        ]
    }
}

/// Write into the pipe on standard output until its reader is gone
#[derive(Clone, Debug, Default, Args)]
#[command(max_term_width = 100)]
pub struct WriteOptions {
    #[command(flatten)]
    pub shared: Shared,
    /// Write by NAME: write, vmsplice (unsound, to show the fault), fresh, socket, reservoir
    #[arg(long, value_name = "NAME", value_parser = named::<Technique>(), hide_possible_values = true)]
    pub technique: Option<Technique>,
    /// Same as --technique vmsplice
    #[arg(long)]
    pub vmsplice: bool,
    /// Give the pages away as far as the kernel knows (SPLICE_F_GIFT)
    #[arg(long)]
    pub gift: bool,
    /// One buffer in two halves instead of two buffers (with vmsplice)
    #[arg(long)]
    pub same_buffer: bool,
    /// Have pages of the usual size alone, also for --technique fresh
    #[arg(long, conflicts_with_all = ["huge_page", "check_huge_page"])]
    pub no_huge_page: bool,
    /// End after SIZE bytes
    #[arg(long, value_name = "SIZE", value_parser = size_bytes)]
    pub bytes: Option<u64>,
    /// Tell failures only: the reader prints the figures
    #[arg(long)]
    pub csv: bool,
}

impl WriteOptions {
    /// The way of writing.
    pub fn technique(&self) -> Technique {
        if self.vmsplice { Technique::Vmsplice } else { self.technique.unwrap_or_default() }
    }

    /// Bytes moved by one call.
    pub fn buffer_bytes(&self) -> usize {
        self.shared.buffer_size.unwrap_or(BUFFER_BYTES)
    }

    /// The way of waiting while the pipe is full.
    pub fn waiting(&self) -> Waiting {
        self.shared.waiting().unwrap_or_else(|| {
            self.technique().usual_waiting(affinity::allowed().map_or(1, |all| all.len()))
        })
    }

    /// Do the options agree with each other?
    pub fn check(&self) -> Result<(), Error> {
        let technique = self.technique();
        let lends = technique == Technique::Vmsplice;
        let page_bytes = rustix::param::page_size();
        let Shared { huge_page, check_huge_page, lock_memory, dont_touch_pages, .. } = self.shared;
        if let Some(other) = self.technique.filter(|other| self.vmsplice && other.is_sound()) {
            return Err(Error::refused(format!(
                "--vmsplice and --technique {other} are two ways of writing: leave one out"
            )));
        }
        let own = [
            (
                lends && self.shared.pipe_size.is_some(),
                "with vmsplice the pipe is half the buffer, or a buffer would be written again while it is in the pipe: leave out --pipe-size",
            ),
            (
                lends && !self.buffer_bytes().is_multiple_of(2 * page_bytes),
                "with vmsplice half the buffer is the pipe, and a pipe is made of pages: --buffer-size must be a multiple of two pages (8K)",
            ),
            (self.gift && !lends, "--gift is a flag of vmsplice: add --vmsplice, or leave it out"),
            (
                self.same_buffer && !lends,
                "--same-buffer concerns the two buffers of vmsplice: add --vmsplice, or leave it out",
            ),
            (
                dont_touch_pages && self.shared.pattern != Pattern::Constant,
                "--dont-touch-pages writes what fresh memory holds, zeros: it has no --pattern",
            ),
            (
                dont_touch_pages && technique == Technique::Fresh,
                "fresh fills new pages each time: --dont-touch-pages contradicts it",
            ),
            (
                lock_memory && technique == Technique::Fresh,
                "fresh gives its pages away, and locked pages stay: leave out --lock-memory",
            ),
            (
                technique == Technique::Reservoir && self.shared.pattern != Pattern::Constant,
                "a reservoir pours the same bytes again and again: it has --pattern constant only",
            ),
            (
                technique == Technique::Reservoir
                    && (huge_page || check_huge_page || lock_memory || dont_touch_pages),
                "a reservoir is kept in the kernel, not in a buffer: leave out --huge-page, --check-huge-page, --lock-memory and --dont-touch-pages",
            ),
        ];
        first_reason(own.into_iter().chain(self.shared.contradictions()))
    }
}

/// Take bytes out of the pipe on standard input, and print their rate
#[derive(Clone, Debug, Default, Args)]
#[command(max_term_width = 100)]
pub struct ReadOptions {
    #[command(flatten)]
    pub shared: Shared,
    /// Splice the bytes to /dev/null instead of reading them
    #[arg(long)]
    pub splice: bool,
    /// Let the kernel move pages as far as it can (SPLICE_F_MOVE)
    #[arg(long)]
    pub gift: bool,
    /// Take SIZE bytes, and fail if fewer come [default: at most 10G]
    #[arg(long, value_name = "SIZE", value_parser = size_bytes)]
    pub bytes: Option<u64>,
    /// Compare the bytes with --pattern
    #[arg(long)]
    pub verify: bool,
    /// Splice the bytes into a private pipe, let the writer go on, and verify them then
    #[arg(long)]
    pub hold: bool,
    /// Print one line of comma-separated values: GiB/s, bytes, buffer size, pipe size, then the
    /// flags
    #[arg(long)]
    pub csv: bool,
}

impl ReadOptions {
    /// Bytes to take out; fewer when the writer ends before.
    pub fn bytes(&self) -> u64 {
        self.bytes.unwrap_or(READ_BYTES)
    }

    /// Bytes asked for in one call.
    pub fn buffer_bytes(&self) -> usize {
        let usual_bytes = if self.splice { SPLICE_BYTES } else { BUFFER_BYTES };
        self.shared.buffer_size.unwrap_or(usual_bytes)
    }

    /// Do the options agree with each other?
    pub fn check(&self) -> Result<(), Error> {
        let own = [
            (
                self.hold && self.splice,
                "--splice drops the bytes unread, --hold keeps them to look at: leave one out",
            ),
            (
                self.verify && self.splice,
                "--splice drops the bytes unread, so --verify has nothing to look at: leave one out, or use --hold",
            ),
            (
                self.gift && !self.splice && !self.hold,
                "--gift is a flag of splice (SPLICE_F_MOVE): add --splice, or leave it out",
            ),
            (
                self.shared.pattern != Pattern::Constant && !self.verify && !self.hold,
                "--pattern says what should arrive, and nothing compares it: add --verify or --hold",
            ),
        ];
        first_reason(own.into_iter().chain(self.shared.contradictions()))
    }
}

fn first_reason(mut reasons: impl Iterator<Item = (bool, &'static str)>) -> Result<(), Error> {
    match reasons.find(|(applies, _)| *applies) {
        Some((_, reason)) => Err(Error::refused(reason)),
        None => Ok(()),
    }
}
