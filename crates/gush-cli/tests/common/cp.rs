//! `gush cp` in a directory of a test's own.

use std::fs;
use std::path::Path;
use std::process::Output;

use super::gush;

pub fn cp(dir: &Path, arguments: &[&str]) -> Output {
    gush().arg("cp").args(arguments).current_dir(dir).output().unwrap()
}

pub fn succeeds(dir: &Path, arguments: &[&str]) -> Output {
    let output = cp(dir, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cp {arguments:?}: {said}");
    output
}

pub fn fails(dir: &Path, arguments: &[&str]) -> String {
    let output = cp(dir, arguments);
    assert_eq!(output.status.code(), Some(1), "cp {arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

pub fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub fn with_files(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(dir.path().join(name), content).unwrap();
    }
    dir
}
