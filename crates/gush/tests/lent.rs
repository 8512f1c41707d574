//! Invariant 4 as the compiler enforces it: lent memory cannot be written by safe code.
//!
//! A doctest marked `compile_fail` passes on any error, a misspelt name included; the number next
//! to it is looked at by nightly compilers only. Here each forbidden line is next to one that is
//! allowed in the very same place, and the compiler must give the very reason.

use std::path::{Path, PathBuf};
use std::process::Command;

struct Forbidden {
    name: &'static str,
    before: &'static str,
    allowed: &'static str,
    forbidden: &'static str,
    /// As `rustc --explain` knows it.
    error: &'static str,
}

const FORBIDDEN: &[Forbidden] = &[
    Forbidden {
        name: "storing through the slice of lent pages",
        before: "let lent = gush::Pages::new(4096).unwrap().lend();",
        allowed: "let _ = lent.as_slice()[0];",
        forbidden: "lent.as_slice()[0] = 1;",
        error: "E0594",
    },
    Forbidden {
        name: "borrowing lent pages for writing",
        before: "let mut lent = gush::Pages::new(4096).unwrap().lend();",
        allowed: "lent.as_slice(); lent = gush::Pages::new(4096).unwrap().lend();",
        forbidden: "lent.as_mut_slice();",
        error: "E0599",
    },
    Forbidden {
        name: "keeping pages that were lent",
        before: "let mut pages = gush::Pages::new(4096).unwrap();",
        allowed: "pages.as_mut_slice()[0] = 1; let lent = pages.lend();",
        forbidden: "let lent = pages.lend(); pages.as_mut_slice()[0] = 1;",
        error: "E0382",
    },
    Forbidden {
        name: "keeping a slice over the lending",
        before: "let mut pages = gush::Pages::new(4096).unwrap(); let slice = pages.as_mut_slice();",
        allowed: "slice[0] = 1; let lent = pages.lend();",
        forbidden: "let lent = pages.lend(); slice[0] = 1;",
        error: "E0505",
    },
    Forbidden {
        name: "keeping a slice over the lending of a strip's piece",
        before: "let mut strip = gush::Strip::new(gush::Pages::new(8192).unwrap()); \
                 let rest = strip.rest_mut();",
        allowed: "rest[0] = 1; strip.lend(3);",
        forbidden: "strip.lend(3); rest[0] = 1;",
        error: "E0499",
    },
    Forbidden {
        name: "storing into the lent piece of a strip",
        before: "let mut strip = gush::Strip::new(gush::Pages::new(8192).unwrap()); strip.lend(3);",
        allowed: "strip.rest_mut()[0] = strip.lent()[0];",
        forbidden: "strip.lent()[0] = 1;",
        error: "E0594",
    },
    Forbidden {
        name: "keeping a writer's buffer that was committed",
        before: "let (_reader, pipe) = std::io::pipe().unwrap(); \
                 let mut writer = gush::pipe::Writer::new(pipe).unwrap(); \
                 let mut buffer = writer.buffer().unwrap();",
        allowed: "buffer[0] = 1; writer.commit(buffer, 4096).unwrap();",
        forbidden: "writer.commit(buffer, 4096).unwrap(); buffer[0] = 1;",
        error: "E0382",
    },
    Forbidden {
        name: "taking back what somebody may still read",
        before: "let lent = gush::Pages::new(4096).unwrap().lend();",
        allowed: "let pages: gush::Pages = lent.renew().unwrap();",
        forbidden: "let pages: gush::Pages = lent.reclaim_unchecked();",
        error: "E0133",
    },
];

/// The libraries that cargo built for these tests, the newest first.
fn libraries() -> Vec<PathBuf> {
    let own = std::env::current_exe().expect("own path");
    let entries = std::fs::read_dir(own.parent().expect("target/…/deps")).expect("a directory");
    let mut found: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("libgush-") && name.ends_with(".rlib")
        })
        .collect();
    found.sort_by_key(|path| path.metadata().and_then(|about| about.modified()).ok());
    found.reverse();
    found
}

/// The target that this test was compiled for, which is not the compiler's own where another one
/// was named.
fn target() -> String {
    let libc = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    format!("{}-unknown-linux-{libc}", std::env::consts::ARCH)
}

/// Where the compiler finds what `library` depends on. Procedural macros are programs of the host:
/// with a target named, they lie in `target/debug/deps`, and the library in
/// `target/TARGET/debug/deps`.
fn dependencies(library: &Path) -> Vec<PathBuf> {
    let deps = library.parent().expect("its directory");
    let mut all = vec![deps.to_owned()];
    let above: Vec<_> = deps.ancestors().take(4).collect();
    if let [_, profile, triple, target] = above[..]
        && let Some(profile) = profile.file_name()
        && triple.ends_with(self::target())
    {
        all.push(target.join(profile).join("deps"));
    }
    all
}

fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()))
}

/// Does a function of these lines compile? The compiler's words if not.
fn compiles(library: &Path, lines: [&str; 2]) -> Result<(), String> {
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("lib.rs");
    std::fs::write(&source, format!("pub fn f() {{\n{}\n}}\n", lines.join("\n"))).expect("a file");
    let output = rustc()
        .args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "--cap-lints=allow"])
        .arg(format!("--target={}", target()))
        .arg("--out-dir")
        .arg(dir.path())
        .args(dependencies(library).iter().map(|dir| format!("-Ldependency={}", dir.display())))
        .arg(format!("--extern=gush={}", library.display()))
        .arg(&source)
        .output()
        .expect("rustc");
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn invariant_4_safe_code_that_writes_lent_memory_does_not_compile() {
    // The compiler of another user may lie where this one may not enter.
    let probe = rustc().arg("--version").output();
    if !probe.as_ref().is_ok_and(|output| output.status.success()) {
        return gush_test::skipped(&format!("no rustc that this user can run: {probe:?}"));
    }
    let first = &FORBIDDEN[0];
    // Older builds are next to the newest one, perhaps without what they depend on.
    let library = libraries().into_iter().find_map(|library| {
        compiles(&library, [first.before, first.allowed]).ok().map(|()| library)
    });
    let library = library.expect("a library that cargo built");
    let mut wrong = Vec::new();
    for case in FORBIDDEN {
        if let Err(said) = compiles(&library, [case.before, case.allowed]) {
            wrong.push(format!("{}: what is allowed does not compile: {said}", case.name));
        }
        match compiles(&library, [case.before, case.forbidden]) {
            Ok(()) => wrong.push(format!("{} compiles", case.name)),
            Err(said) => {
                let errors: Vec<_> =
                    said.lines().filter(|line| line.starts_with("error[")).collect();
                if !matches!(errors[..], [one] if one.contains(case.error)) {
                    wrong.push(format!("{}: not by {}: {said}", case.name, case.error));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
