//! The lines of `--stats` and `--explain` about a connection that has ended.

use std::fmt::Write;

use gush_link::Record;
use gush_net::Passed;
use serde_json::json;

/// One line of text.
pub fn text(record: &Record) -> String {
    let seconds = record.lasted.as_secs_f64();
    let mut line = format!(
        "{}: {} to {}: {} forward, {} back in {seconds:.3} s",
        record.id,
        record.first,
        record.second,
        gush_text::rounded_bytes(record.forward.bytes),
        gush_text::rounded_bytes(record.back.bytes),
    );
    let lost = record.forward.in_flight_bytes + record.back.in_flight_bytes;
    if lost > 0 {
        // Writing into a `String` cannot fail, here and below.
        let _ = write!(line, ", {lost} bytes read but not delivered");
    }
    if let Some(methods) = methods(record) {
        let _ = write!(line, " ({methods})");
    }
    let _ = write!(line, "; {}", record.ending);
    if let Some(failure) = &record.failure {
        let _ = write!(line, ": {failure}");
    }
    line
}

/// The lines of socat's statistics, without the number of its reads; without `bytes` nothing was
/// opened. The ways are those of `-u` and `-U`.
pub fn as_socat(
    bytes: Option<[u64; 2]>,
    (is_one_way, is_back): (bool, bool),
) -> impl Iterator<Item = String> {
    let not_open = "warning: transfer engine not yet started, statistics not available";
    let (right, left) = ("left to right", "right to left");
    let line = |way, bytes| format!("debug: STATISTICS: {way}: {bytes} byte(s)");
    let first = bytes.map_or(not_open.to_owned(), |[forward, _]| {
        line(if is_back { left } else { right }, forward)
    });
    let second = bytes.filter(|_| !is_one_way && !is_back).map(|[_, back]| line(left, back));
    [Some(first), second].into_iter().flatten()
}

/// A JSON object, whose field names are stable.
pub fn json(record: &Record) -> String {
    json!({
        "id": record.id,
        "first": record.first,
        "second": record.second,
        "forward_bytes": record.forward.bytes,
        "back_bytes": record.back.bytes,
        "forward_lost_bytes": record.forward.in_flight_bytes,
        "back_lost_bytes": record.back.in_flight_bytes,
        "forward_method": method(&record.forward),
        "back_method": method(&record.back),
        "seconds": record.lasted.as_secs_f64(),
        "ended": record.ending.as_str(),
        "error": record.failure.as_ref().map(|failure| json!({
            "message": failure.message,
            "errno": failure.errno,
        })),
    })
    .to_string()
}

/// The method that moved the bytes in each direction, and refusals.
pub fn explained(record: &Record) -> String {
    let direction = |name: &str, passed: &Passed| {
        let mut text = match method(passed) {
            Some(method) => format!("{name} {} bytes by {method}", passed.bytes),
            None if passed.bytes > 0 => format!("{name} {} bytes", passed.bytes),
            None => format!("{name} nothing"),
        };
        for refusal in &passed.refused {
            let errno = refusal.errno_name().unwrap_or_default();
            // Writing into a `String` cannot fail.
            let _ = write!(text, " (refused {}: {}: {errno})", refusal.method, refusal.why);
        }
        text
    };
    let pipes = gush::pipe::Pool::shared().usage();
    format!(
        "{}: {}, {}; pipes of this process: {} in use, {} idle, {} of {} bytes",
        record.id,
        direction("forward", &record.forward),
        direction("back", &record.back),
        pipes.in_use,
        pipes.idle,
        pipes.bytes,
        pipes.budget_bytes
    )
}

/// `None` if the relay was interrupted after bytes moved: the methods are unknown.
fn methods(record: &Record) -> Option<String> {
    Some(match (method(&record.forward), method(&record.back)) {
        (None, None) if record.forward.bytes + record.back.bytes > 0 => return None,
        (None, None) => "nothing moved".to_owned(),
        (Some(forward), None) => format!("{forward} forward"),
        (None, Some(back)) => format!("{back} back"),
        (Some(forward), Some(back)) if forward == back => format!("{forward} both ways"),
        (Some(forward), Some(back)) => format!("{forward} forward, {back} back"),
    })
}

fn method(passed: &Passed) -> Option<&'static str> {
    passed.method.map(gush::MethodName::as_str)
}
