//! Fast output into a pipe.

use std::io::Write;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};

use gush::pipe::Technique;
use gush::{Call, Control, Errno};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::descriptor::Held;
use crate::failure;
use crate::signals::Asker;

pub(crate) fn name_of(technique: Technique) -> &'static str {
    match technique {
        Technique::Fresh => "fresh",
        Technique::Socket => "socket",
        _ => "write",
    }
}

type Inner = gush::pipe::Writer<Held>;

/// The writer of `gush.Writer`. Several threads take turns.
#[pyclass(frozen, module = "gush._gush")]
pub(crate) struct Writer {
    inner: Mutex<Inner>,
    technique: &'static str,
    /// The exception of a signal's handler, which ended a wait.
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Writer {
    fn run(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Inner) -> std::io::Result<()> + Send,
    ) -> PyResult<()> {
        let ended = py.detach(|| {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let earlier = inner.cut_by();
            call(&mut inner).map_err(|error| (error, earlier, inner.cut_by()))
        });
        ended.map_err(|(error, earlier, now)| {
            let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner).take();
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            raised.unwrap_or_else(|| match earlier {
                Some(call) => failure::of_cut(py, call),
                None => failure::of_writing(py, now.unwrap_or(Call::Write), errno),
            })
        })
    }

    fn write_all(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<()> {
        self.run(py, |inner| {
            let mut left = bytes;
            while !left.is_empty() {
                // write_all would begin anew after a signal.
                let put = inner.write(left)?;
                left = &left[put..];
            }
            Ok(())
        })
    }
}

#[pymethods]
impl Writer {
    #[new]
    fn new(py: Python<'_>, fd: RawFd) -> PyResult<Self> {
        let raised = Arc::new(Mutex::new(None));
        let raised_later = Arc::clone(&raised);
        let mut asker = Asker::new();
        let inner = Inner::new(Held::new(fd)?)
            .map_err(|refused| failure::of_writing(py, refused.call, refused.errno))?;
        let inner = inner.while_waiting(move || match asker.ask(|_| Ok(())) {
            Ok(()) => Control::Continue,
            Err(exception) => {
                *raised_later.lock().unwrap_or_else(PoisonError::into_inner) = Some(exception);
                Control::Stop
            }
        });
        let technique = name_of(inner.technique());
        Ok(Self { inner: Mutex::new(inner), technique, raised })
    }

    #[getter]
    fn technique(&self) -> &'static str {
        // A lock would have to be waited for with the interpreter, which a thread that writes may need.
        self.technique
    }

    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        if let Ok(bytes) = data.cast::<PyBytes>() {
            let bytes = bytes.as_bytes();
            self.write_all(py, bytes)?;
            return Ok(bytes.len());
        }
        // Memory that its owner may change while the interpreter is free is copied first.
        let bytes = PyBuffer::<u8>::get(data)?.to_vec(py)?;
        self.write_all(py, &bytes)?;
        Ok(bytes.len())
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, Write::flush)
    }
}
