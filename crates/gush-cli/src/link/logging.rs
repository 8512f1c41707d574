//! Log lines on standard error.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::options::LogFormat;
use super::unblocked::takes_bytes;

/// Sends what is at least as important as `level` to standard error.
pub fn start(level: LevelFilter, format: LogFormat) {
    let builder = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(Unblocked::default)
        .with_ansi(false);
    match format {
        LogFormat::Json => builder.json().flatten_event(true).with_target(false).init(),
        LogFormat::Text => builder.event_format(Line { timed: false }).init(),
        LogFormat::Timed => builder.event_format(Line { timed: true }).init(),
    }
}

/// Standard error, which drops a line rather than wait for a reader: the clients of this thread would wait too.
#[derive(Default)]
struct Unblocked {
    line: Vec<u8>,
}

/// Lines that were dropped since the last one that was written.
static DROPPED: AtomicU64 = AtomicU64::new(0);

impl Write for Unblocked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Unblocked {
    fn drop(&mut self) {
        let mut stderr = io::stderr().lock();
        if !takes_bytes(&stderr, Duration::ZERO) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let dropped = DROPPED.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let told =
                format!("gush: link: warning: {dropped} lines were dropped: nobody read them\n");
            self.line.splice(..0, told.into_bytes());
        }
        // Nobody is left to be told that nobody can be told.
        let _ = stderr.write_all(&self.line);
    }
}

/// `gush: link: LEVEL: message field=value`, in the manner of all messages.
struct Line {
    timed: bool,
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if self.timed {
            SystemTime.format_time(&mut out)?;
            out.write_char(' ')?;
        }
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG | Level::TRACE => "debug",
        };
        write!(out, "gush: link: {level}: ")?;
        context.field_format().format_fields(out.by_ref(), event)?;
        writeln!(out)
    }
}
