//! A program's start and end without Rust's start-up code.
//!
//! That code (`lang_start` of `library/std/src/rt.rs`) installs a handler for stack overflows. For its guard page glibc
//! reads /proc/self/maps (`pthread_getattr_np`), and every thread gets a second stack for the handler: 0.2 ms of the 1.0 ms that an
//! empty program takes to start and end. Without the handler a stack overflow still ends the process by SIGSEGV, only without the line
//! "has overflowed its stack".

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{self, ExitCode};

use crate::start;

/// The status of a program that panicked, as Rust's start-up code has it.
const PANICKED: u8 = 101;

/// The rest of `main`, after the C library's part.
///
/// `run` finds the standard descriptors open, as Rust's start-up code promises, and SIGPIPE as the parent left it.
pub fn enter(run: fn() -> ExitCode) -> ! {
    if !open_standard_descriptors() {
        // As Rust's start-up code: without these descriptors the next file opened would be taken for standard output.
        process::abort();
    }
    // A panic must not unwind into C's start-up code; 101 is Rust's status for it.
    let code = catch_unwind(AssertUnwindSafe(run)).unwrap_or(ExitCode::from(PANICKED));
    // Flushes standard output, as the end of a Rust program does.
    process::exit(i32::from(number_of(code)))
}

/// Opens /dev/null for each standard descriptor that was closed: otherwise the next file opened would be standard output.
fn open_standard_descriptors() -> bool {
    (0..3).filter(|&standard| start::was_closed(standard)).all(|_| {
        // SAFETY: the path ends in a zero, and nothing else is passed.
        let opened = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
        opened >= 0
    })
}

/// The number of an exit code: the standard library has no stable way to ask.
fn number_of(code: ExitCode) -> u8 {
    // ExitCode shows its number to std alone, so it is compared with each.
    (0..=u8::MAX).find(|&number| ExitCode::from(number) == code).unwrap_or(PANICKED)
}

/// Makes a function the program's `main`, run without Rust's start-up code. The program has `#![no_main]`.
///
/// The function answers a [`std::process::ExitCode`]. SIGPIPE is as the parent left it, not ignored; closed standard descriptors are
/// /dev/null, and [`was_closed`](crate::was_closed) tells; a panic that unwinds ends with status 101, and one of a program built with `panic = "abort"` by SIGABRT. Only for glibc, whose
/// programs are given their arguments before `main` (`library/std/src/sys/args/unix.rs`): elsewhere, use Rust's own `main`.
///
/// ```no_run
/// #![no_main]
/// fn run() -> std::process::ExitCode {
///     println!("{} words", std::env::args().count());
///     std::process::ExitCode::SUCCESS
/// }
///
/// gush_process::main!(run);
/// ```
#[macro_export]
macro_rules! main {
    ($run:path) => {
        // SAFETY: a program has one `main`, and the C library calls it once.
        #[allow(unsafe_code)]
        #[unsafe(no_mangle)]
        extern "C" fn main() -> std::ffi::c_int {
            $crate::enter($run)
        }
    };
}

#[cfg(test)]
mod tests {
    use super::{ExitCode, number_of};

    #[test]
    fn every_exit_code_has_its_number() {
        for number in 0..=u8::MAX {
            assert_eq!(number_of(ExitCode::from(number)), number);
        }
    }
}
