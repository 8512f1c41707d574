//! The limit on open descriptors: raised for this process, but not for its child programs.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit before this process raised it.
static GIVEN: OnceLock<Rlimit> = OnceLock::new();

pub(crate) fn raise_descriptors() {
    // Noted once: a second call must not take the raised limit for the given one.
    let given = *GIVEN.get_or_init(|| getrlimit(Resource::Nofile));
    // A refusal leaves the limit unchanged.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: given.maximum, maximum: given.maximum });
}

pub(crate) fn has_room() -> bool {
    // Standard error is open in every program of Rust.
    rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 0).is_ok()
}

pub(crate) fn give_back_descriptors(command: &mut Command) {
    let Some(given) = GIVEN.get() else { return };
    let Rlimit { current, maximum } = *given;
    let lower = move || {
        setrlimit(Resource::Nofile, Rlimit { current, maximum })?;
        Ok(())
    };
    // SAFETY: between fork and exec the child calls setrlimit alone, a plain system call. Nothing
    // is allocated, not even for an error, which is a number.
    unsafe { command.pre_exec(lower) };
}
