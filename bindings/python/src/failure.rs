//! Errors of the engine as Python's exceptions, which the Python half defines.

use std::ffi::OsStr;

use gush::{Call, Errno, Error, Side};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// `gush._errors.make` with these arguments.
fn make(py: Python<'_>, arguments: &Bound<'_, PyDict>) -> PyResult<PyErr> {
    let made = py.import("gush._errors")?.call_method("make", (), Some(arguments))?;
    Ok(PyErr::from_value(made))
}

pub(crate) fn of_engine(py: Python<'_>, error: &Error) -> PyErr {
    let said = match error.io_error() {
        Some(os) if !error.is_refused() => format!("{}: {}", error.without_errno(), words(os)),
        _ => error.without_errno().to_string(),
    };
    let side = error.side().map(|side| match side {
        Side::Source => "source",
        Side::Target => "target",
    });
    let arguments = PyDict::new(py);
    let filled = arguments
        .set_item("errno", error.errno().map(Errno::raw_os_error))
        .and_then(|()| arguments.set_item("message", said))
        .and_then(|()| arguments.set_item("side", side))
        .and_then(|()| arguments.set_item("operation", error.call().map(|call| call.to_string())))
        .and_then(|()| arguments.set_item("delivered_bytes", error.delivered_bytes()))
        .and_then(|()| arguments.set_item("in_flight_bytes", error.in_flight_bytes()))
        .and_then(|()| arguments.set_item("refused", error.is_refused()));
    filled.and_then(|()| make(py, &arguments)).unwrap_or_else(|failed| failed)
}

/// The words of the C library, without Rust's number after them.
pub(crate) fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

pub(crate) fn of_tree(py: Python<'_>, error: &gush_tree::Error) -> PyErr {
    let errno = error.io_error().and_then(std::io::Error::raw_os_error);
    let path: &OsStr = error.path().as_os_str();
    let arguments = PyDict::new(py);
    let filled = arguments
        .set_item("errno", errno)
        .and_then(|()| arguments.set_item("message", text_of(error)))
        .and_then(|()| arguments.set_item("filename", path))
        .and_then(|()| arguments.set_item("delivered_bytes", error.delivered_bytes()));
    filled.and_then(|()| make(py, &arguments)).unwrap_or_else(|failed| failed)
}

/// The operation and the words of the system, without the path.
pub(crate) fn text_of(error: &gush_tree::Error) -> String {
    match error.io_error() {
        Some(os) => format!("{}: {}", error.what(), words(os)),
        None => error.what(),
    }
}

/// The failure of a call of a [`gush::pipe::Writer`].
pub(crate) fn of_writing(
    py: Python<'_>,
    call: Call,
    errno: Errno,
    filename: Option<&str>,
) -> PyErr {
    let why = words(&std::io::Error::from(errno));
    let message = format!("{call} failed on the target: {why}");
    of_target(py, errno, &message, Some(call), filename)
}

/// A call of a writer failed before, and the stream is cut there.
pub(crate) fn of_cut(py: Python<'_>, call: Call, filename: Option<&str>) -> PyErr {
    let message = format!("nothing can be written after the failed {call}: close the writer");
    of_target(py, Errno::IO, &message, None, filename)
}

fn of_target(
    py: Python<'_>,
    errno: Errno,
    message: &str,
    call: Option<Call>,
    filename: Option<&str>,
) -> PyErr {
    let arguments = PyDict::new(py);
    let filled = arguments
        .set_item("errno", errno.raw_os_error())
        .and_then(|()| arguments.set_item("message", message))
        .and_then(|()| arguments.set_item("filename", filename))
        .and_then(|()| arguments.set_item("side", "target"))
        .and_then(|()| arguments.set_item("operation", call.map(Call::name)));
    filled.and_then(|()| make(py, &arguments)).unwrap_or_else(|failed| failed)
}
