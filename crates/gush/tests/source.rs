//! The kernel is asked in one room: `src/sys/`, where every call passes the seam.

use gush_test as _;
use std::path::{Path, PathBuf};

/// rustix reads the page size from the auxiliary vector (getauxval(3)), and asks no kernel.
const NO_CALL: &str = "rustix::param::page_size";

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
}

/// The code of a file, without comments and without unit tests, which come last.
fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).fold(
        String::new(),
        |mut code, line| {
            code.push_str(line);
            code.push('\n');
            code
        },
    )
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The functions that a text calls, or could call under a name of their own, by a path from `root`.
fn calls_by(code: &str, root: &str) -> Vec<String> {
    let mut calls = Vec::new();
    for (at, _) in code.match_indices(root) {
        if code[..at].ends_with(|c: char| is_name(c) || c == ':') {
            continue;
        }
        let path: String = code[at..].chars().take_while(|&c| is_name(c) || c == ':').collect();
        let called = code[at + path.len()..].starts_with('(');
        let last = path.rsplit("::").next().unwrap_or_default();
        if called && last.starts_with(char::is_lowercase) && path != NO_CALL {
            calls.push(path);
        }
    }
    calls
}

/// The imports of `use rustix::…` that are no types: a function, or a module by which one can be
/// called.
fn imports(code: &str) -> Vec<String> {
    let uses = code.split("use rustix::").skip(1).filter_map(|rest| rest.split(';').next());
    uses.flat_map(|list| {
        let leaves = list.split([',', '{', '}']).map(|leaf| leaf.trim().to_owned());
        let module = list.split("::").next().unwrap_or_default().to_owned();
        leaves
            .map(move |leaf| if leaf == "self" { module.clone() } else { leaf })
            .filter_map(|leaf| leaf.rsplit("::").next().map(str::to_owned))
            .filter(|leaf| leaf.starts_with(|c: char| c.is_lowercase()))
            .collect::<Vec<_>>()
    })
    .collect()
}

fn bypasses(code: &str) -> Vec<String> {
    let mut found = [calls_by(code, "rustix::"), calls_by(code, "libc::")].concat();
    for import in imports(code) {
        // `io` stands for `io::Result` and `io::Errno`; the others are functions or lead to them
        // only.
        match import.as_str() {
            "io" => found.extend(calls_by(code, "io::")),
            _ => found.push(format!("use rustix::…::{import}")),
        }
    }
    found
}

#[test]
fn the_check_knows_a_call_from_a_type() {
    for code in [
        "rustix::fs::fstat(fd)",
        "use rustix::fs::{OFlags, fcntl_getfl};",
        "use rustix::mm::{self, Advice};",
        "use rustix::io;\nio::read(fd, buf)",
        "unsafe { libc::getpid() }",
    ] {
        assert!(!bypasses(code).is_empty(), "{code}");
    }
    for code in [
        "use rustix::io::{self, Errno};\nfn f() -> io::Result<()> { sys::data::read(fd) }",
        "rustix::param::page_size()",
        "sys::pipe::splice(fd)",
        "Errno::from_io_error(e)",
        "use rustix::fs::{OFlags, SeekFrom};\nrustix::event::PollFlags::IN",
    ] {
        assert_eq!(bypasses(code), [""; 0], "{code}");
    }
}

/// Ways around the seam by the standard library, and clocks.
const STANDARD: [&str; 7] =
    ["std::fs", "std::net", "std::process", "std::thread", "std::time", "thread::", "Instant::"];

#[test]
fn a_flow_has_no_clock_no_thread_and_no_file() {
    let flow = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/flow");
    let mut files = Vec::new();
    rust_files(&flow, &mut files);
    assert!(files.len() > 10, "only {} files", files.len());
    for path in files {
        let code = code_of(&std::fs::read_to_string(&path).expect("a source file"));
        let found: Vec<_> = STANDARD.iter().filter(|&&way| code.contains(way)).collect();
        assert!(found.is_empty(), "{}: {found:?}", path.display());
    }
}

#[test]
fn every_system_call_of_the_engine_passes_the_seam() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    let own = |path: &&PathBuf| {
        !path.starts_with(src.join("sys")) && path.file_name().is_none_or(|name| name != "tests.rs")
    };
    let (mut wrong, mut looked_at) = (Vec::new(), 0);
    for path in files.iter().filter(own) {
        let text = std::fs::read_to_string(path).expect("a source file");
        looked_at += 1;
        let name = path.strip_prefix(&src).expect("in src").display();
        wrong.extend(bypasses(&code_of(&text)).iter().map(|call| format!("{name}: {call}")));
    }
    assert!(looked_at > 30, "only {looked_at} files");
    assert!(wrong.is_empty(), "not through src/sys/:\n{}", wrong.join("\n"));
}
