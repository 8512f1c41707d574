//! Three million lines into standard output, by [`gush::pipe::Writer`] or by std's `BufWriter`.
//!
//! ```sh
//! cargo build --release -p gush --example lines
//! target/release/examples/lines writer | cat >/dev/null
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;

use gush::pipe::Writer;

const LINES: u32 = 3_000_000;

fn write_lines(mut to: impl Write) -> io::Result<()> {
    for line in 0..LINES {
        writeln!(to, "line {line} of a program that prints what it finds")?;
    }
    to.flush()
}

fn main() -> io::Result<()> {
    // Without the line buffer of `io::stdout`, which would copy twice.
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    match std::env::args().nth(1).as_deref() {
        Some("writer") => write_lines(Writer::new(stdout)?),
        Some("bufwriter") => write_lines(BufWriter::with_capacity(64 << 10, stdout)),
        // The time of any writer, less the writing.
        Some("nowhere") => write_lines(BufWriter::with_capacity(64 << 10, io::sink())),
        _ => Err(io::Error::other("usage: lines writer|bufwriter|nowhere")),
    }
}
