//! FizzBuzz as fast as a sound pipe takes lines: `1`, `2`, `Fizz`, … up to the largest 64-bit
//! number.
//!
//! ```sh
//! cargo build --release --example fizzbuzz
//! target/release/examples/fizzbuzz | gush pipe read --splice --busy-loop
//! target/release/examples/fizzbuzz --from 18446744073709551601
//! ```
//!
//! The text is made in place, in memory that [`Writer::buffer`] gives out and [`Writer::commit`]
//! sends away: into a pipe as huge pages that are lent and never written again, so that the reader
//! may read, splice, tee or keep them; into anything else by `write`. `lines` makes the text.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use gush::Wait;
use gush::pipe::{Technique, Writer};

#[path = "fizzbuzz/lines.rs"]
mod lines;
use lines::Lines;

const USAGE: &str = "\
usage: fizzbuzz [--from N] [--lines N] [--technique fresh|socket|write] [--naive]

Writes FizzBuzz to standard output, to the end of the 64-bit numbers or until the reader is gone.

  --from N        the first number, 1 to 18446744073709551615 (1)
  --lines N       how many lines at most (all)
  --technique T   huge pages given away, through a Unix socket, or write (the best that is allowed)
  --naive         make the text line by line with writeln!, to compare
  --help          this text
";

/// A reader about to go on is met without a wake-up; an idle one costs no processor time.
const SPIN: Duration = Duration::from_micros(50);

fn main() -> ExitCode {
    let order = match Order::parse(std::env::args().skip(1)) {
        Ok(Some(order)) => order,
        Ok(None) => return finish(io::stdout().write_all(USAGE.as_bytes())),
        Err(why) => {
            eprint!("fizzbuzz: {why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    finish(order.run())
}

/// A reader that has enough is no failure.
fn finish(ending: io::Result<()>) -> ExitCode {
    match ending {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fizzbuzz: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The options of the command line.
struct Order {
    from: u64,
    lines: u64,
    technique: Option<Technique>,
    naive: bool,
}

impl Order {
    /// `None` asks for the usage.
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut order = Self { from: 1, lines: u64::MAX, technique: None, naive: false };
        while let Some(word) = words.next() {
            let (name, given) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            let mut value =
                || given.clone().or_else(|| words.next()).ok_or(format!("{name} needs a value"));
            match name {
                "--from" => order.from = number(name, &value()?, 1)?,
                "--lines" => order.lines = number(name, &value()?, 0)?,
                "--technique" => order.technique = Some(technique(&value()?)?),
                "--naive" if given.is_none() => order.naive = true,
                "--help" | "-h" if given.is_none() => return Ok(None),
                _ => return Err(format!("unknown argument '{word}'")),
            }
        }
        Ok(Some(order))
    }

    fn run(&self) -> io::Result<()> {
        let stdout = io::stdout();
        let writer = match self.technique {
            None => Writer::new(stdout)?,
            Some(technique) => Writer::with(stdout, technique)?,
        };
        let writer = writer.wait(Wait::Hybrid(SPIN));
        if self.naive { self.write_naively(writer) } else { self.fill_in_place(writer) }
    }

    fn fill_in_place(&self, mut writer: Writer<io::Stdout>) -> io::Result<()> {
        let mut lines = Lines::new(self.from, self.lines);
        loop {
            let mut buffer = writer.buffer()?;
            match lines.fill(&mut buffer) {
                0 => return Ok(()),
                len_bytes => writer.commit(buffer, len_bytes)?,
            }
        }
    }

    fn write_naively(&self, writer: Writer<io::Stdout>) -> io::Result<()> {
        let mut out = io::BufWriter::with_capacity(256 << 10, writer);
        let last = self.from.saturating_add(self.lines.saturating_sub(1));
        for number in (self.from..=last).take_while(|_| self.lines > 0) {
            match (number % 3, number % 5) {
                (0, 0) => writeln!(out, "FizzBuzz")?,
                (0, _) => writeln!(out, "Fizz")?,
                (_, 0) => writeln!(out, "Buzz")?,
                _ => writeln!(out, "{number}")?,
            }
        }
        out.flush()
    }
}

fn number(name: &str, text: &str, least: u64) -> Result<u64, String> {
    let wrong = |why: &dyn Display| format!("{name} '{text}': {why}");
    let number = text.parse().map_err(|error| wrong(&error))?;
    if number < least { Err(wrong(&format!("{least} is the least"))) } else { Ok(number) }
}

fn technique(text: &str) -> Result<Technique, String> {
    match text {
        "fresh" => Ok(Technique::Fresh),
        "socket" => Ok(Technique::Socket),
        "write" => Ok(Technique::Write),
        _ => Err(format!("--technique '{text}': fresh, socket or write")),
    }
}
