//! The limit on descriptors: raised for this process, and not for the programs that it starts.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// As it was before it was raised.
static GIVEN: OnceLock<Rlimit> = OnceLock::new();

pub(crate) fn raise_descriptors() {
    let given = *GIVEN.get_or_init(|| getrlimit(Resource::Nofile));
    // A refusal leaves the limit as it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: given.maximum, maximum: given.maximum });
}

pub(crate) fn give_back_descriptors(command: &mut Command) {
    let Some(given) = GIVEN.get() else { return };
    let Rlimit { current, maximum } = *given;
    let lower = move || {
        setrlimit(Resource::Nofile, Rlimit { current, maximum })?;
        Ok(())
    };
    // SAFETY: setrlimit is all that the child calls between fork and exec; it is a plain system call, and nothing
    // is allocated, not even for an error, which is a number.
    unsafe { command.pre_exec(lower) };
}
