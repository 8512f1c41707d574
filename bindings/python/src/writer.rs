//! Fast output into a pipe.

use std::io::{self, Write};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};

use gush::pipe::Technique;
use gush::{Call, Control, Errno};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMemoryView, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

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

/// The base of `gush.Writer`, closed until [opened](Self::open). Several threads take turns.
#[pyclass(frozen, subclass, module = "gush._gush")]
pub(crate) struct Writer {
    /// `None` before it is opened, and once it is closed.
    inner: Mutex<Option<Inner>>,
    target: OnceLock<Target>,
    has_failed: AtomicBool,
    /// The thread that is in a call which may wait.
    caller: Mutex<Option<ThreadId>>,
    /// The exception of a signal's handler, which ended a wait.
    raised: Arc<Mutex<Option<PyErr>>>,
}

struct Target {
    /// The owner of the descriptor.
    file: Py<PyAny>,
    /// The path for errors.
    filename: Option<String>,
    technique: Technique,
}

fn closed() -> PyErr {
    PyValueError::new_err("write to closed file")
}

impl Writer {
    /// Calls `call`, which may wait, unless the descriptor's owner has closed it: the number may be
    /// another file's by now.
    fn run(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Inner) -> io::Result<()> + Send,
    ) -> PyResult<()> {
        if self.is_file_closed(py)? {
            return Err(closed());
        }
        self.check_caller()?;
        let ended = py.detach(|| {
            let mut inner = self.lock();
            let Some(inner) = inner.as_mut() else { return Ok(false) };
            let earlier = inner.cut_by();
            self.set_caller(Some(thread::current().id()));
            let called = call(inner);
            self.set_caller(None);
            called.map(|()| true).map_err(|error| (error, earlier, inner.cut_by()))
        });
        match ended {
            Ok(true) => Ok(()),
            Ok(false) => Err(closed()),
            Err((error, earlier, now)) => {
                self.has_failed.store(true, Ordering::Relaxed);
                let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner).take();
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                let filename = self.target.get().and_then(|target| target.filename.as_deref());
                Err(raised.unwrap_or_else(|| match earlier {
                    Some(call) => failure::of_cut(py, call, filename),
                    None => failure::of_writing(py, now.unwrap_or(Call::Write), errno, filename),
                }))
            }
        }
    }

    fn set_caller(&self, caller: Option<ThreadId>) {
        *self.caller.lock().unwrap_or_else(PoisonError::into_inner) = caller;
    }

    /// A failure was raised already: the close in the `with` statement that it leaves must not
    /// replace it by another one.
    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    fn is_file_closed(&self, py: Python<'_>) -> PyResult<bool> {
        let Some(Target { file, .. }) = self.target.get() else { return Ok(false) };
        match file.bind(py).getattr_opt("closed")? {
            Some(closed) => closed.is_truthy(),
            None => Ok(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Inner>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<()> {
        // Nothing waits here, so the interpreter is kept: giving it up and taking it again costs
        // more than a small piece.
        if let Ok(mut inner) = self.inner.try_lock()
            && let Some(inner) = inner.as_mut()
            && inner.collect(bytes)
        {
            return Ok(());
        }
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
    #[pyo3(signature = (*_of_init, **_named_of_init))]
    fn new(_of_init: &Bound<'_, PyTuple>, _named_of_init: Option<&Bound<'_, PyDict>>) -> Self {
        Self {
            inner: Mutex::new(None),
            target: OnceLock::new(),
            has_failed: AtomicBool::new(false),
            caller: Mutex::default(),
            raised: Arc::default(),
        }
    }

    /// Opens the writer once, for the descriptor of `file`.
    fn open(
        &self,
        py: Python<'_>,
        fd: RawFd,
        file: Py<PyAny>,
        filename: Option<String>,
    ) -> PyResult<()> {
        let raised = Arc::clone(&self.raised);
        let mut asker = Asker::new();
        let inner = Inner::new(Held::new(fd)?).map_err(|refused| {
            failure::of_writing(py, refused.call, refused.errno, filename.as_deref())
        })?;
        let inner = inner.while_waiting(move || match asker.ask(|_| Ok(())) {
            Ok(()) => Control::Continue,
            Err(exception) => {
                *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(exception);
                Control::Stop
            }
        });
        let target = Target { file, filename, technique: inner.technique() };
        self.target.set(target).map_err(|_| PyValueError::new_err("a writer is opened once"))?;
        *self.lock() = Some(inner);
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.target.get().map_or(Ok(()), |target| visit.call(&target.file))
    }

    /// Refuses a call from the handler of a signal that came while this thread waits in another:
    /// it would wait for itself.
    fn check_caller(&self) -> PyResult<()> {
        let caller = *self.caller.lock().unwrap_or_else(PoisonError::into_inner);
        match caller == Some(thread::current().id()) {
            true => Err(PyRuntimeError::new_err("reentrant call inside a writer")),
            false => Ok(()),
        }
    }

    /// How the bytes get into the pipe: ``"fresh"``, ``"socket"`` or ``"write"``.
    #[getter]
    fn technique(&self, py: Python<'_>) -> PyResult<&'static str> {
        // A lock would have to be waited for with the interpreter, which a thread that writes may
        // need.
        match self.target.get() {
            Some(target) if !self.is_file_closed(py)? => Ok(name_of(target.technique)),
            _ => Err(closed()),
        }
    }

    /// Write all bytes of an object with a buffer, and return their number.
    #[pyo3(signature = (data, /))]
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        if let Ok(bytes) = data.cast::<PyBytes>() {
            let bytes = bytes.as_bytes();
            self.write_all(py, bytes)?;
            return Ok(bytes.len());
        }
        let bytes = PyMemoryView::from(data)?.call_method1("cast", ("B",))?;
        // Memory that its owner may change while the interpreter is free is copied first.
        let bytes = PyBuffer::<u8>::get(&bytes)?.to_vec(py)?;
        self.write_all(py, &bytes)?;
        Ok(bytes.len())
    }

    /// Send the pieces that were collected.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.check_caller()?;
        match py.detach(|| self.lock().is_none()) {
            true => Ok(()),
            false => self.run(py, Write::flush),
        }
    }

    /// Sends what was collected, unless a failure was raised already, and takes no further bytes.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let is_empty =
            py.detach(|| self.lock().as_ref().is_none_or(|inner| inner.collected().is_empty()));
        let sent = if is_empty || self.has_failed() { Ok(()) } else { self.flush(py) };
        py.detach(|| self.lock().take());
        sent
    }
}
