//! The ways of putting bytes into somebody's pipe that are sound for every reader.

use std::fs;

use super::socket::Fattener;
use crate::kernel::{Kernel, Vmsplice};

/// The way that a [`super::Writer`] hands bytes over; each is sound for every reader.
///
/// ```
/// use gush::pipe::{Technique, Writer};
/// let (_reader, pipe) = std::io::pipe()?;
/// let writer = Writer::with(pipe, Technique::Write)?;
/// assert_eq!(writer.technique(), Technique::Write);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Technique {
    /// Huge pages, lent and given away.
    Fresh,
    /// Through a Unix socket.
    Socket,
    /// `write`.
    Write,
}

impl Technique {
    /// The best that this kernel and process allow for a pipe.
    #[must_use]
    pub fn probe() -> Self {
        if Kernel::get().vmsplice() == Vmsplice::ZeroCopy && huge_pages_may_come() {
            Technique::Fresh
        } else if Fattener::new().is_ok() {
            Technique::Socket
        } else {
            Technique::Write
        }
    }
}

/// `never` in brackets means that MADV_HUGEPAGE changes nothing (`admin-guide/mm/transhuge.rst`).
fn huge_pages_may_come() -> bool {
    fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
        .is_ok_and(|modes| !modes.contains("[never]"))
}
