//! Log lines on standard error.

use std::fmt;
use std::io;

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::options::LogFormat;

/// Sends what is at least as important as `level` to standard error.
pub fn start(level: LevelFilter, format: LogFormat) {
    let builder =
        tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr).with_ansi(false);
    match format {
        LogFormat::Json => builder.json().flatten_event(true).with_target(false).init(),
        LogFormat::Text => builder.event_format(Line { timed: false }).init(),
        LogFormat::Timed => builder.event_format(Line { timed: true }).init(),
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
