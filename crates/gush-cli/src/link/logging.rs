//! Log lines on standard error.

use std::fmt;
use std::io::{self, Write};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::messages::Messages;
use super::options::LogFormat;
use crate::console::MessageSink;

/// Sends records of at least `level` to `messages`, as messages of the command `as_name`.
pub fn start(level: LevelFilter, format: LogFormat, messages: &Messages, as_name: &str) {
    let prefix = as_name.replace(' ', ": ");
    let messages = messages.clone();
    let builder = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(move || Whole { line: Vec::new(), messages: messages.clone() })
        .with_ansi(false);
    let stamp = format.stamp();
    match format {
        LogFormat::Json => builder.json().flatten_event(true).with_target(false).init(),
        LogFormat::Timed => builder.event_format(Line { prefix, timed: true, stamp }).init(),
        // A service manager adds the time.
        _ => builder.event_format(Line { prefix, timed: false, stamp }).init(),
    }
}

/// Collects a line, which the formatter writes in parts.
struct Whole {
    line: Vec<u8>,
    messages: Messages,
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        // As a whole, so that lines of several threads do not mix.
        self.messages.say(&self.line);
    }
}

/// `PREFIX: LEVEL: message field=value`, like all messages.
struct Line {
    prefix: String,
    timed: bool,
    stamp: Option<fn(&str) -> String>,
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
        if let Some(stamp) = self.stamp {
            let mut text = format!("{level}: ");
            context.field_format().format_fields(Writer::new(&mut text), event)?;
            return writeln!(out, "{}", stamp(&text));
        }
        write!(out, "{}: {level}: ", self.prefix)?;
        context.field_format().format_fields(out.by_ref(), event)?;
        writeln!(out)
    }
}
