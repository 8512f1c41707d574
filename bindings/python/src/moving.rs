//! One move between two descriptors.

use std::os::fd::RawFd;

use gush::{Choice, Control, Mover, Rate};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

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
    let mut raised = None;
    let mut asker = Asker::new();
    let mut observe = |seen: &gush::Progress| {
        let asked = asker.ask(|py| match &on_progress {
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
    let moved = py.detach(|| {
        let mut mover = Mover::new(&source, &target).method(choice).isolated(isolated);
        if let Some(bytes) = length {
            mover = mover.length_bytes(bytes);
        }
        if let Some(rate) = rate {
            mover = mover.limit(rate);
        }
        mover.observe(&mut observe).run()
    });
    if let Some(exception) = raised {
        return Err(exception);
    }
    let report = moved.map_err(|error| failure::of_engine(py, &error))?;
    if let Some(callback) = &on_progress {
        callback.call1(py, (report.bytes, report.bytes))?;
    }
    let method = report.main_method().map(gush::MethodName::as_str);
    let seconds = report.elapsed.as_secs_f64();
    Ok((report.bytes, report.hole_bytes, seconds, method, report.explain().to_string()))
}
