//! `gush cp` in a directory of a test's own.

use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::{gush, skipped};

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

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
    // The order of a directory is the file system's.
    names.sort();
    names
}

/// Are blocks shared where this test's files are (xfs, btrfs)? Most files are then copied by one
/// clone.
pub fn shares_blocks() -> bool {
    let dir = with_files(&[("a", b"some bytes")]);
    cp(dir.path(), &["--reflink=always", "a", "b"]).status.success()
}

pub fn with_files(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(dir.path().join(name), content).unwrap();
    }
    dir
}

/// A directory with these files, each with the name as content.
pub fn tree(files: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    dir
}

/// A temporary directory that goes with all in it, where only root can remove from a directory
/// that its owner may not write to.
pub struct Closable(pub tempfile::TempDir);

impl Deref for Closable {
    type Target = tempfile::TempDir;

    fn deref(&self) -> &tempfile::TempDir {
        &self.0
    }
}

impl Drop for Closable {
    fn drop(&mut self) {
        open_directories(self.path());
    }
}

/// Removes a tree with such directories.
pub fn remove_tree(root: &Path) {
    open_directories(root);
    fs::remove_dir_all(root).unwrap();
}

fn open_directories(root: &Path) {
    // What this leaves closed, the removal reports.
    let _ = Command::new("chmod").args(["-R", "-f", "u+rwX"]).arg(root).status();
}

/// The paths below a directory, files and directories.
pub fn below(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_path_buf()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                waiting.push(path);
            }
        }
    }
    found.sort();
    found
}

fn bash(mut command: Command, dir: &Path, text: &str) -> Output {
    command.args(["-c", text]).env("G", env!("CARGO_BIN_EXE_gush")).env("LC_ALL", "C.UTF-8");
    command.env("XDG_DATA_HOME", gush_test::own_dir());
    command.current_dir(dir).stdin(Stdio::null()).output().unwrap()
}

/// Runs a script; `$G` is the program.
pub fn script(dir: &Path, text: &str) -> Output {
    bash(Command::new("bash"), dir, text)
}

/// Runs a script that may mount things nobody else sees, on `m`; `None` where that is not allowed.
pub fn with_mounts(dir: &Path, text: &str) -> Option<Output> {
    // Tried by doing it: containers forbid it in several ways.
    let probe = script(dir, "mkdir -p m && unshare -m mount -t tmpfs none m");
    if !probe.status.success() {
        skipped(&format!("no private mounts: {}", stderr(&probe).trim()));
        return None;
    }
    let mut unshare = Command::new("unshare");
    unshare.args(["-m", "bash"]);
    Some(bash(unshare, dir, text))
}
