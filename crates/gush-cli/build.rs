//! Links the unwinder into the program where the compiler has it as an archive.
//!
//! `libgcc_s.so` costs each start a library to open and map, and a constructor that asks the processor for its
//! features by `cpuid`, which leaves a virtual machine each time: a tenth of the start of `gush cat`
//! (`bench/RESULTS.md`). The unwinder, the part that Rust needs, is in `libgcc_eh.a`, too.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_for_gnu = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if is_for_gnu && has_unwinder() {
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
        // The archive comes before Rust's own libraries: something must ask for it by then.
        println!("cargo::rustc-link-arg-bins=-Wl,-u,_Unwind_Backtrace");
    }
}

/// Does the compiler that links for this target have the archive? Where no variable names the compiler, the machine's own is
/// asked, and for another machine none.
fn has_unwinder() -> bool {
    let linker = match env::var_os("RUSTC_LINKER") {
        Some(linker) => linker,
        None if env::var_os("HOST") == env::var_os("TARGET") => "cc".into(),
        None => return false,
    };
    // The name itself is the answer where there is no such file.
    let asked = Command::new(linker).arg("-print-file-name=libgcc_eh.a").output();
    asked.is_ok_and(|answer| {
        let place = String::from_utf8_lossy(&answer.stdout);
        Path::new(place.trim()).is_absolute()
    })
}
