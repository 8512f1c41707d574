//! The README's picture of the report is made by the command named there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::skipped;
use tempfile::TempDir;

const COMMAND: &str = "docs/picture.sh";
const PICTURE: &str = "docs/report.png";
const MOST_BYTES: usize = 300_000;
const BROWSERS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Width and height, which follow a PNG's signature and the name of the first chunk.
fn size(picture: &[u8]) -> (u32, u32) {
    assert_eq!(&picture[..8], b"\x89PNG\r\n\x1a\n", "it is no PNG");
    let number = |at: usize| u32::from_be_bytes(picture[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

fn has_browser() -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|dir| BROWSERS.iter().any(|name| dir.join(name).is_file()))
}

#[test]
fn the_picture_is_small_enough_and_in_the_repository() {
    let picture = fs::read(repository().join(PICTURE)).unwrap();
    let (width, height) = size(&picture);
    assert!(width > 500 && height > 500, "{width} x {height}");
    assert!(picture.len() <= MOST_BYTES, "{} bytes", picture.len());
}

#[test]
fn the_command_makes_the_picture() {
    if !has_browser() {
        return skipped("no Chromium on this machine");
    }
    let dir = TempDir::new().unwrap();
    let made = dir.path().join("made.png");
    let output = Command::new(repository().join(COMMAND))
        .env("GUSH", env!("CARGO_BIN_EXE_gush"))
        .env("PICTURE", &made)
        .env("HOME", dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = fs::canonicalize(String::from_utf8(output.stdout).unwrap().trim()).unwrap();
    assert_eq!(printed, made.canonicalize().unwrap(), "it prints where the picture is");
    let stored = fs::read(repository().join(PICTURE)).unwrap();
    let made = fs::read(&made).unwrap();
    assert_eq!(size(&made), size(&stored), "the stored picture was made otherwise");
    // An empty page is a tenth as large; fonts differ between machines, so that no byte is
    // compared.
    assert!(made.len() > stored.len() / 2, "{} bytes: it shows little", made.len());
}

#[test]
fn the_readme_shows_the_picture_and_the_page_about_the_lab_names_the_command() {
    let text = |path| fs::read_to_string(repository().join(path));
    let (Ok(readme), Ok(page)) = (text("README.md"), text("docs/lab.md")) else {
        return skipped("there is no README.md here");
    };
    let mut fenced = false;
    let in_a_block = page.lines().any(|line| {
        fenced ^= line.trim_start().starts_with("```");
        fenced && line.contains(COMMAND)
    });
    assert!(readme.contains(&format!("]({PICTURE})")), "README.md does not show {PICTURE}");
    assert!(in_a_block, "docs/lab.md: no block has `{COMMAND}`");
}

#[test]
fn without_runs_the_command_says_why_it_made_nothing() {
    if !has_browser() {
        return skipped("no Chromium on this machine");
    }
    let dir = TempDir::new().unwrap();
    let output = Command::new(repository().join(COMMAND))
        .arg("/no/such.json")
        .env("GUSH", env!("CARGO_BIN_EXE_gush"))
        .env("PICTURE", dir.path().join("made.png"))
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such.json: cannot read"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "something was left");
}
