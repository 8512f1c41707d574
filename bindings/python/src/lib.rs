//! The native half of the Python package `gush`; the other half, in `python/gush`, is what users
//! see.
//!
//! Waits here release the interpreter, and check for signals every 50 ms.

mod descriptor;
mod failure;
mod moving;
mod signals;
mod tree;
mod writer;

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Facts about the running kernel and this process.
#[pyfunction]
fn doctor(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let kernel = gush::Kernel::get();
    let vmsplice = match kernel.vmsplice() {
        gush::Vmsplice::ZeroCopy => "hands pages over".to_owned(),
        gush::Vmsplice::Copies => "copies".to_owned(),
        gush::Vmsplice::Absent(errno) => format!("absent: {errno}"),
    };
    let facts = PyDict::new(py);
    facts.set_item("version", env!("CARGO_PKG_VERSION"))?;
    facts.set_item("processors", kernel.processors())?;
    facts.set_item("pipe_max_bytes", kernel.pipe_max_bytes())?;
    facts.set_item("vmsplice", vmsplice)?;
    facts.set_item("writer", writer::name_of(gush::pipe::Technique::probe()))?;
    let methods: Vec<_> = gush::MethodName::ALL.iter().map(|name| name.as_str()).collect();
    facts.set_item("methods", methods)?;
    Ok(facts)
}

#[pymodule]
fn _gush(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(doctor, module)?)?;
    module.add_function(wrap_pyfunction!(moving::move_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(moving::copy_opened, module)?)?;
    module.add_function(wrap_pyfunction!(tree::copy_tree, module)?)?;
    module.add_class::<writer::Writer>()
}
