//! `gush pipe read`.

use std::process::ExitCode;

use clap::Parser;
use gush_lab::Error;
use gush_lab::pipe::{BUFFER_BYTES, ReadOptions, Reading, SPLICE_BYTES, Taking, Waiting, read};
use gush_text::size_bytes;

use super::shared::Shared;
use crate::talk::Talker;

/// Take bytes out of the pipe on standard input, and print their rate
#[derive(Debug, Parser)]
#[command(max_term_width = 100)]
pub struct ReadArgs {
    #[command(flatten)]
    shared: Shared,
    /// Splice the bytes to /dev/null instead of reading them
    #[arg(long)]
    splice: bool,
    /// Let the kernel move pages as far as it can (SPLICE_F_MOVE)
    #[arg(long)]
    gift: bool,
    /// Take SIZE bytes, and fail if fewer come [default: at most 10G]
    #[arg(long, value_name = "SIZE", value_parser = size_bytes)]
    bytes: Option<u64>,
    /// Compare the bytes with --pattern
    #[arg(long)]
    verify: bool,
    /// Splice the bytes into a private pipe, let the writer go on, and verify them then
    #[arg(long)]
    hold: bool,
    /// Print one line of comma-separated values: GiB/s, bytes, buffer size, pipe size, then the
    /// flags
    #[arg(long)]
    csv: bool,
}

/// Bytes taken where `--bytes` does not say.
const MOST_BYTES: u64 = 10 << 30;

impl ReadArgs {
    /// Whether only failures are reported.
    fn is_silent(&self) -> bool {
        self.shared.quiet || self.csv
    }

    fn resolve(&self) -> Result<ReadOptions, Error> {
        let taking = match (self.hold, self.splice) {
            (true, true) => {
                return Err(Error::Refused(
                    "--splice drops the bytes unread, --hold keeps them to look at: leave one out"
                        .to_owned(),
                ));
            }
            (true, false) => Taking::Hold,
            (false, true) => Taking::Splice,
            (false, false) => Taking::Read,
        };
        let usual_bytes = if taking == Taking::Splice { SPLICE_BYTES } else { BUFFER_BYTES };
        let options = ReadOptions {
            taking,
            buffer_bytes: self.shared.buffer_size.unwrap_or(usual_bytes),
            pipe_bytes: self.shared.pipe_size,
            bytes: self.bytes.unwrap_or(MOST_BYTES),
            gift: self.gift,
            memory: self.shared.memory(),
            waiting: self.shared.waiting()?,
            pattern: self.shared.pattern,
            verify: self.verify,
        };
        options.check()?;
        Ok(options)
    }
}

pub fn run(options: &ReadArgs) -> ExitCode {
    let talker = Talker::new("gush pipe read");
    let (resolved, reading) = match measure(options, &talker) {
        Ok(answer) => answer,
        Err(error) => return talker.fail(error),
    };
    let line = if options.csv { csv(&resolved, &reading) } else { reading.to_string() };
    let printed = talker.page(format!("{line}\n").as_bytes());
    match reading.cut_short(resolved.bytes) {
        Some(why) if options.bytes.is_some() => talker.fail(why),
        Some(note) => {
            if !options.is_silent() {
                talker.say(note);
            }
            printed
        }
        None => printed,
    }
}

fn measure(options: &ReadArgs, talker: &Talker) -> Result<(ReadOptions, Reading), Error> {
    let resolved = options.resolve()?;
    if gush_process::was_closed(0) {
        return Err(Error::Refused(
            "standard input is closed: connect the two, gush pipe write | gush pipe read"
                .to_owned(),
        ));
    }
    options.shared.pin()?;
    if options.shared.verbose {
        talker.say(format_args!("{resolved:?}"));
    }
    let silent = options.is_silent();
    let mut say = |note: &str| {
        if !silent {
            talker.say(note);
        }
    };
    let reading = read(&resolved, &rustix::stdio::stdin(), &mut say)?;
    Ok((resolved, reading))
}

/// The published program's columns in order; columns that only the writer knows are 0.
fn csv(options: &ReadOptions, reading: &Reading) -> String {
    let waiting = options.waiting;
    let flags = [
        matches!(waiting, Some(Waiting::Spin | Waiting::SpinPoll)),
        matches!(waiting, Some(Waiting::Poll | Waiting::SpinPoll)),
        options.memory.huge_page,
        options.memory.check_huge_page,
        false,
        options.taking == Taking::Splice,
        options.gift,
        options.memory.lock,
        options.memory.dont_touch,
        false,
    ];
    let flags: Vec<&str> = flags.iter().map(|&flag| if flag { "1" } else { "0" }).collect();
    format!(
        "{:.6},{},{},{},{}",
        reading.gib_per_s(),
        reading.bytes,
        reading.buffer_bytes,
        reading.pipe_bytes.unwrap_or(0),
        flags.join(",")
    )
}
