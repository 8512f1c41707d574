//! The program that the other tests start is the one that users get.

use gush_test as _;
use std::path::Path;

/// Is the name of a room in the program's symbols? Both of Rust's manglings write it so.
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
