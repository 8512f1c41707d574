//! The limit on open descriptors: raised for this process, but not for its child programs.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit before this process raised it.
static GIVEN: OnceLock<Rlimit> = OnceLock::new();

/// Raises this process's limit on open descriptors (RLIMIT_NOFILE) to the hard limit. If the kernel
/// refuses, the limit stays. [`with_given_descriptor_limit`] keeps the raised limit from a child
/// program.
pub fn raise_descriptor_limit() {
    // Noted once: a second call must not take the raised limit for the given one.
    let given = *GIVEN.get_or_init(|| getrlimit(Resource::Nofile));
    // A refusal leaves the limit unchanged.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: given.maximum, maximum: given.maximum });
}

/// Can this process open another descriptor? A program asks while it holds descriptors that it can
/// do without, which must not cost it its work.
#[must_use]
pub fn has_room() -> bool {
    // Standard error is open in every program of Rust.
    rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 0).is_ok()
}

/// Gives a child program the limit on open descriptors from before [`raise_descriptor_limit`]:
/// programs that use select(2) cannot handle descriptors above 1023.
///
/// ```
/// gush_process::raise_descriptor_limit();
/// let mut command = std::process::Command::new("true");
/// gush_process::with_given_descriptor_limit(&mut command);
/// assert!(command.status()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn with_given_descriptor_limit(command: &mut Command) {
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
