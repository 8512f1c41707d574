//! What the records of `--json` of several commands have in common. Scripts rely on the names.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use gush::{MethodName, MethodUse, Refusal, Report};
use serde::Serialize;

/// The methods of a move.
#[derive(Debug, Default, Serialize)]
pub struct Methods {
    /// The method that moved most bytes.
    method: Option<&'static str>,
    methods: Vec<Method>,
    fallbacks: Vec<Fallback>,
}

#[derive(Debug, Serialize)]
struct Method {
    name: &'static str,
    bytes: u64,
    steps: u64,
    threads: usize,
}

#[derive(Debug, Serialize)]
struct Fallback {
    method: &'static str,
    why: String,
    errno: Option<i32>,
    errno_name: Option<String>,
}

impl Methods {
    pub fn of(report: &Report) -> Self {
        let method = |used: &MethodUse| Method {
            name: used.name.as_str(),
            bytes: used.bytes,
            steps: used.steps,
            threads: used.threads,
        };
        let fallback = |refusal: &Refusal| Fallback {
            method: refusal.method.as_str(),
            why: refusal.why.to_string(),
            errno: refusal.errno.map(gush::Errno::raw_os_error),
            errno_name: refusal.errno_name(),
        };
        Self {
            method: report.main_method().map(MethodName::as_str),
            methods: report.methods.iter().map(method).collect(),
            fallbacks: report.refusals.iter().map(fallback).collect(),
        }
    }
}

/// The name in hexadecimal, if it is not valid UTF-8.
pub fn bytes_if_odd(path: impl AsRef<Path>) -> Option<String> {
    let bytes = path.as_ref().as_os_str().as_bytes();
    let is_odd = std::str::from_utf8(bytes).is_err();
    is_odd.then(|| bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
