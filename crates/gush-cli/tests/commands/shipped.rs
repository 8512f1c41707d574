//! The program that the other tests start is the one that users get.

use std::path::Path;
use std::process::Command;

use gush_test::skipped;

/// Is the name of a room in the program's symbols? Both of Rust's manglings write a room's name so.
fn has_symbols_of(program: &[u8], room: &str) -> bool {
    memchr::memmem::find(program, room.as_bytes()).is_some()
}

#[test]
fn the_tested_program_has_no_seam_for_faults() {
    let program = std::fs::read(Path::new(env!("CARGO_BIN_EXE_gush"))).unwrap();
    assert!(has_symbols_of(&program, "4gush3sys"), "a stripped program proves nothing");
    assert!(
        !has_symbols_of(&program, "4gush3sys6faults"),
        "the feature `faults` of gush is on: test what is shipped by `cargo test --workspace`"
    );
}

/// The libraries that the loader opens for the program, or why nobody can say.
fn needed() -> Result<Vec<String>, &'static str> {
    let told = Command::new("readelf").arg("-dW").arg(env!("CARGO_BIN_EXE_gush")).output();
    let told = told.map_err(|_| "no readelf")?.stdout;
    let told = String::from_utf8_lossy(&told);
    let needed: Vec<String> =
        told.lines().filter(|line| line.contains("(NEEDED)")).map(str::to_owned).collect();
    assert!(needed.iter().any(|line| line.contains("libc.so")), "{told}");
    Ok(needed)
}

/// A library that only the unwinder needs is a tenth of the start of `gush cat`.
#[test]
fn the_unwinder_is_in_the_program_where_the_compiler_has_it() {
    let archive = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    if !archive.is_ok_and(|answer| answer.stdout.starts_with(b"/")) {
        return skipped("no cc with libgcc_eh.a");
    }
    match needed() {
        Ok(needed) => assert!(!needed.iter().any(|line| line.contains("libgcc_s")), "{needed:#?}"),
        Err(reason) => skipped(reason),
    }
}

/// A library that only the report and the progress bar need is a sixteenth of the start of `gush cat`.
///
/// A mathematical function that `gush_process::math` does not define yet brings the library back.
#[test]
fn the_program_does_not_need_libm() {
    match needed() {
        Ok(needed) => assert!(!needed.iter().any(|line| line.contains("libm.")), "{needed:#?}"),
        Err(reason) => skipped(reason),
    }
}

/// Rust's start-up code reads /proc/self/maps for the guard page of the stack: a tenth of the start of `gush cat`.
#[test]
fn the_program_starts_without_the_start_up_code_of_rust() {
    if cfg!(not(target_env = "gnu")) {
        return skipped("only glibc gives a program its arguments before main");
    }
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let options = ["-o", log.to_str().unwrap(), "-e", "trace=openat,sigaltstack"];
    let mut command = match crate::common::strace(&options) {
        Ok(command) => command,
        Err(why) => return skipped(&why),
    };
    assert!(command.args(["cat", "/dev/null"]).status().unwrap().success());
    let calls = std::fs::read_to_string(&log).unwrap();
    assert!(calls.contains("/dev/null"), "{calls}");
    assert!(!calls.contains("/proc/self/maps") && !calls.contains("sigaltstack"), "{calls}");
}

/// `.cargo/config.toml` asks the compiler for less protection than it gives by itself, and the linker for all of it.
#[test]
fn the_program_is_protected_as_any_other() {
    let told = Command::new("readelf").args(["-dlW", env!("CARGO_BIN_EXE_gush")]).output();
    let Ok(told) = told else { return skipped("no readelf") };
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    for (what, mark) in [
        ("its tables are written before main only", "GNU_RELRO"),
        ("every function of a library is looked up before main", "BIND_NOW"),
        ("its address is random", " PIE"),
    ] {
        assert!(told.contains(mark), "{what}: {told}");
    }
}
