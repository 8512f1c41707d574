//! Lines of shell around gush, in a directory with a file of noise.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use super::{bounded, noise};

/// The size of the file of [`source`].
pub const MUCH_BYTES: usize = 3_000_017;

/// Standard error as text.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A directory with the file `source`, and the bytes in the file.
pub fn source() -> (TempDir, Vec<u8>) {
    let dir = TempDir::new().unwrap();
    let bytes = noise(MUCH_BYTES, 23);
    fs::write(dir.path().join("source"), &bytes).unwrap();
    (dir, bytes)
}

/// Runs a line of bash in `dir`; `$G` is gush.
pub fn shell(dir: &Path, line: &str) -> Output {
    let mut command = Command::new("bash");
    command.args(["-c", line]).current_dir(dir).env("G", env!("CARGO_BIN_EXE_gush"));
    // A command that hangs fails its own test, and not the whole program of tests.
    bounded(120, &command).output().unwrap()
}
