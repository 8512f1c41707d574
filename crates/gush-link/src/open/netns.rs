//! Sockets of another network namespace: `netns=`.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;

use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::error::OpenError;

/// The directory of ip-netns(8).
const NAMES: &str = "/run/netns";

fn step(name: &str) -> String {
    format!("enter the network namespace {name}")
}

/// The file of the namespace.
pub(super) fn file(name: &str) -> Result<File, OpenError> {
    if name.contains('/') {
        return Err(OpenError::said(step(name), "its name has no slash"));
    }
    File::open(Path::new(NAMES).join(name)).map_err(|error| {
        let error = OpenError::new(step(name), error).passing(false);
        error.instead_hinted("`ip netns list` shows the names")
    })
}

/// The result of `make` in the namespace: a socket stays where it was made. On a thread that ends
/// there, so that no other work of this process is done in the namespace.
pub(super) fn within<T: Send>(name: &str, make: impl FnOnce() -> T + Send) -> Result<T, OpenError> {
    let namespace = file(name)?;
    let entered = thread::scope(|scope| {
        let made = thread::Builder::new().spawn_scoped(scope, || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(namespace.as_fd(), kind).map(|()| make())
        })?;
        made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(Into::into)
    });
    entered.map_err(|error: std::io::Error| {
        let takes_root = Errno::from_io_error(&error) == Some(Errno::PERM);
        let error = OpenError::new(step(name), error).passing(false);
        if takes_root { error.hinted("this takes root") } else { error }
    })
}
