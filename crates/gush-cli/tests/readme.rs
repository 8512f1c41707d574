//! The README's commands work as written, from a fresh clone.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::skipped;
use gush_test::Port;
use tempfile::TempDir;

const RUN: &str = "cargo run --release --";
const TEST: &str = "cargo test --workspace --no-fail-fast";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The blocks fenced as plain `sh`; what a reader is not to run at once is fenced otherwise (`sh no-run`, `console`).
fn blocks(markdown: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = markdown.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "```sh" {
            let block: Vec<_> = lines.by_ref().take_while(|line| line.trim() != "```").collect();
            blocks.push(block.join("\n"));
        } else if line.trim_start().starts_with("```") {
            lines.by_ref().find(|line| line.trim() == "```");
        }
    }
    blocks
}

fn readme() -> Option<String> {
    let readme = fs::read_to_string(repository().join("README.md"));
    if readme.is_err() {
        skipped("there is no README.md here");
    }
    readme.ok()
}

#[test]
fn the_commands_of_the_readme_work() {
    let Some(readme) = readme() else { return };
    let clone = TempDir::new().unwrap();
    for entry in fs::read_dir(repository()).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), clone.path().join(entry.file_name())).unwrap();
        }
    }
    // Cargo has made it when it runs the first command.
    fs::create_dir(clone.path().join("target")).unwrap();
    let before = top_names(clone.path());
    let data = TempDir::new().unwrap();
    let programs = TempDir::new().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_gush"), programs.path().join("gush")).unwrap();
    let path =
        format!("{}:{}", programs.path().display(), std::env::var("PATH").unwrap_or_default());

    // Somebody may listen at the README's own.
    let ports: Vec<_> = (9000..9010).map(|number| (number, Port::reserve())).collect();
    let with_free_ports = |line: String| {
        ports.iter().fold(line, |line, (number, port)| {
            line.replace(&format!(":{number}"), &format!(":{}", port.number()))
        })
    };
    for block in blocks(&readme) {
        // The tests are running already, and the program is built.
        let script: String = block
            .lines()
            .filter(|line| !line.starts_with(TEST))
            .map(|line| with_free_ports(line.replace(RUN, "gush") + "\n"))
            .collect();
        // What a failing block leaves in the background would hold its output open.
        let script = format!("trap 'kill $(jobs -p) 2>/dev/null || :' EXIT\n{script}");
        // A reader may try a block twice; those of the lab take long, and leave nothing behind.
        let times = if block.contains(" link ") || block.contains(" man ") { 2 } else { 1 };
        for _ in 0..times {
            let output = Command::new("bash")
                .args(["-euo", "pipefail", "-c", &script])
                .current_dir(clone.path())
                .env("PATH", &path)
                .env("XDG_DATA_HOME", data.path())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{block}\n{said}");
        }
    }
    // Beside what .gitignore names, the commands leave nothing in the clone.
    for name in top_names(clone.path()).difference(&before) {
        assert!(name.ends_with(".copy") || name == "target", "{name} is left untracked");
    }
}

fn top_names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn the_readme_names_the_two_commands_that_do_everything() {
    let Some(readme) = readme() else { return };
    let blocks = blocks(&readme);
    let has = |command: &str| {
        blocks.iter().flat_map(|block| block.lines()).any(|line| line.starts_with(command))
    };
    assert!(has(&format!("{RUN} cp ")), "no block has `{RUN} cp SRC DST`");
    assert!(has(TEST), "no block has `{TEST}`");
}

#[test]
fn ci_runs_the_test_command_of_the_readme() {
    let ci = fs::read_to_string(repository().join(".ci/run")).unwrap();
    let runs = |line: &str| line.strip_prefix("bounded ") == Some(TEST);
    assert!(ci.lines().any(runs), ".ci/run does not run `{TEST}`");
}
