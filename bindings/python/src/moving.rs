//! One move between two descriptors.

use std::os::fd::RawFd;

use gush::{Choice, Control, Endpoint, Kind, Mover, Rate};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustix::fs::OFlags;

use crate::descriptor::Held;
use crate::failure;
use crate::signals::Asker;

/// Bytes, bytes of holes, seconds, the main method, and the explanation.
type Account = (u64, u64, f64, Option<&'static str>, String);

/// Moves bytes from one descriptor to another.
#[pyfunction]
#[pyo3(signature = (source, target, *, length=None, method=None, isolated=false, limit=None, on_progress=None))]
#[expect(clippy::too_many_arguments, reason = "Python names each of them")]
pub(crate) fn move_bytes(
    py: Python<'_>,
    source: RawFd,
    target: RawFd,
    length: Option<u64>,
    method: Option<&str>,
    isolated: bool,
    limit: Option<u64>,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<Account> {
    let (source, target) = (Held::new(source)?, Held::new(target)?);
    let choice = method.unwrap_or("auto").parse::<Choice>();
    let choice = choice.map_err(|unknown| PyValueError::new_err(unknown.to_string()))?;
    let rate = limit.map(|limit| {
        let none = || PyValueError::new_err("limit has to be 1 byte a second or more");
        Rate::bytes_per_second(limit).ok_or_else(none)
    });
    let rate = rate.transpose()?;
    let act = |observe: Observe<'_>| {
        let mut mover = Mover::new(&source, &target).method(choice).isolated(isolated);
        if let Some(bytes) = length {
            mover = mover.length_bytes(bytes);
        }
        if let Some(rate) = rate {
            mover = mover.limit(rate);
        }
        mover.observe(observe).run()
    };
    let report = run(py, act, on_progress.as_ref())?;
    if let Some(callback) = &on_progress {
        callback.call1(py, (report.bytes, report.bytes))?;
    }
    let method = report.main_method().map(gush::MethodName::as_str);
    let seconds = report.elapsed.as_secs_f64();
    Ok((report.bytes, report.hole_bytes, seconds, method, report.explain().to_string()))
}

/// Copies a file to another, both just opened by the caller with these flags.
#[pyfunction]
pub(crate) fn copy_opened(
    py: Python<'_>,
    source: (RawFd, u32),
    target: (RawFd, u32),
) -> PyResult<()> {
    let fds = [Held::new(source.0)?, Held::new(target.0)?];
    // Of regular files all is known that the engine would ask.
    let opened = |fd, flags| {
        let stat = rustix::fs::fstat(fd).ok()?;
        let endpoint = Endpoint::of_opened_file(fd, &stat, OFlags::from_bits_retain(flags))?;
        // A file that the kernel makes up while it is read takes no offsets.
        (endpoint.kind() == Kind::File).then_some(endpoint)
    };
    let act = |observe: Observe<'_>| {
        let mover = match (opened(&fds[0], source.1), opened(&fds[1], target.1)) {
            (Some(from), Some(to)) => {
                Mover::between(from, to).source_offset_bytes(0).target_offset_bytes(0)
            }
            _ => Mover::new(&fds[0], &fds[1]),
        };
        mover.observe(observe).run()
    };
    run(py, act, None).map(drop)
}

type Observe<'a> = &'a mut (dyn FnMut(&gush::Progress) -> Control + Send);

/// Moves the bytes without the interpreter, which is asked now and then for signals.
fn run(
    py: Python<'_>,
    act: impl FnOnce(Observe<'_>) -> Result<gush::Report, gush::Error> + Send,
    on_progress: Option<&Py<PyAny>>,
) -> PyResult<gush::Report> {
    let mut raised = None;
    let mut asker = Asker::new();
    let mut observe = |seen: &gush::Progress| {
        let asked = asker.ask(|py| match on_progress {
            Some(callback) => callback.call1(py, (seen.bytes, seen.expected_bytes)).map(drop),
            None => Ok(()),
        });
        match asked {
            Ok(()) => Control::Continue,
            Err(exception) => {
                raised = Some(exception);
                Control::Stop
            }
        }
    };
    let moved = py.detach(|| act(&mut observe));
    match raised {
        Some(exception) => Err(exception),
        None => moved.map_err(|error| failure::of_engine(py, &error)),
    }
}
