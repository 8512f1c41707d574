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

#[test]
fn the_program_is_protected_as_any_other() {
    let reported = Command::new("readelf").args(["-dlW", env!("CARGO_BIN_EXE_gush")]).output();
    let Ok(reported) = reported else { return skipped("no readelf") };
    let reported = String::from_utf8_lossy(&reported.stdout).into_owned();
    for (what, mark) in [
        ("its tables are written before main only", "GNU_RELRO"),
        ("every function of a library is looked up before main", "BIND_NOW"),
        ("its address is random", " PIE"),
    ] {
        assert!(reported.contains(mark), "{what}: {reported}");
    }
}
