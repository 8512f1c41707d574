//! The program that the other tests start is the one that users get.

use std::path::Path;
use std::process::Command;

use gush_test::skipped;

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

/// A library that only the unwinder needs is a tenth of the start of `gush cat`.
#[test]
fn the_unwinder_is_in_the_program_where_the_compiler_has_it() {
    let archive = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    if !archive.is_ok_and(|answer| answer.stdout.starts_with(b"/")) {
        return skipped("no cc with libgcc_eh.a");
    }
    let Ok(told) = Command::new("readelf").arg("-dW").arg(env!("CARGO_BIN_EXE_gush")).output()
    else {
        return skipped("no readelf");
    };
    let told = String::from_utf8_lossy(&told.stdout);
    let needed: Vec<&str> = told.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(needed.iter().any(|line| line.contains("libc.so")), "{told}");
    assert!(!needed.iter().any(|line| line.contains("libgcc_s")), "{needed:#?}");
}
