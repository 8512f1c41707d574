//! The options of both programs, reader and writer.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use gush_lab::Error;
use gush_lab::pipe::{MemoryOptions, Pattern, Waiting};
use gush_text::memory_bytes;

#[derive(Debug, Args)]
pub struct Shared {
    /// Call again at once instead of sleeping
    #[arg(long)]
    busy_loop: bool,
    /// Ask poll(2) before each call
    #[arg(long)]
    poll: bool,
    /// Wait so: block in the call, poll before it, spin, or spin some microseconds and then sleep
    /// [default: block; hybrid where gush pipe write has a reservoir, and gush pipe read --splice
    /// once it meets slots of more than a page]
    #[arg(long, value_name = "HOW", value_parser = named::<Waiting>())]
    wait: Option<Waiting>,
    /// Ask for huge pages
    #[arg(long)]
    huge_page: bool,
    /// Make sure that a huge page backs the buffer (root only)
    #[arg(long)]
    check_huge_page: bool,
    /// Bytes moved at a time [default: 256K; 8M where gush pipe read splices]
    #[arg(long, value_name = "SIZE", value_parser = memory_bytes)]
    pub buffer_size: Option<usize>,
    /// Bytes that the pipe should hold
    #[arg(long, value_name = "SIZE", value_parser = memory_bytes)]
    pub pipe_size: Option<usize>,
    /// Keep the buffer in memory (mlock)
    #[arg(long)]
    lock_memory: bool,
    /// Leave the buffer's pages as the kernel gave them
    #[arg(long)]
    dont_touch_pages: bool,
    /// The bytes: all X, or numbers that count
    #[arg(long, value_name = "NAME", value_parser = named::<Pattern>(), default_value = "constant")]
    pub pattern: Pattern,
    /// Stay on processor N
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Tell more on standard error
    #[arg(long)]
    pub verbose: bool,
    /// Tell failures only
    #[arg(long, conflicts_with = "verbose")]
    pub quiet: bool,
}

/// A parser of the names of `T`; what their docs say is for programmers.
pub fn named<T: ValueEnum + Send + Sync + 'static>() -> impl TypedValueParser<Value = T> {
    let values = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let names = values.map(|value| value.help(None::<&str>));
    PossibleValuesParser::new(names).try_map(|name| T::from_str(&name, false))
}

impl Shared {
    /// The way to wait, from --wait or from --busy-loop and --poll; none if nothing was asked for.
    pub fn waiting(&self) -> Result<Option<Waiting>, Error> {
        Ok(Some(match (self.wait, self.busy_loop, self.poll) {
            (Some(_), true, _) | (Some(_), _, true) => {
                return Err(Error::Refused(
                    "--wait excludes --busy-loop (the same as --wait spin) and --poll (the same as --wait poll)"
                        .to_owned(),
                ));
            }
            (None, false, false) => return Ok(None),
            (Some(waiting), ..) => waiting,
            (None, false, true) => Waiting::Poll,
            (None, true, false) => Waiting::Spin,
            (None, true, true) => Waiting::SpinPoll,
        }))
    }

    pub fn memory(&self) -> MemoryOptions {
        MemoryOptions {
            huge_page: self.huge_page,
            check_huge_page: self.check_huge_page,
            lock: self.lock_memory,
            dont_touch: self.dont_touch_pages,
        }
    }

    /// Stays on the requested processor.
    pub fn pin(&self) -> Result<(), Error> {
        let Some(cpu) = self.cpu else { return Ok(()) };
        gush_lab::affinity::pin(cpu).map_err(|_| {
            let allowed = gush_lab::affinity::allowed().unwrap_or_default();
            let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            Error::Refused(format!(
                "cannot stay on processor {cpu}: this process may use {}",
                allowed.join(", ")
            ))
        })
    }
}
