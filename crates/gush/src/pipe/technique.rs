//! The ways of putting bytes into somebody's pipe that are sound for every reader.

use std::fs;

use super::socket::Fattener;
use crate::endpoint::{Endpoint, Kind};
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
        Self::where_vmsplice(Kernel::get().vmsplice())
    }

    /// The best for this target, where a FIFO can differ from other pipes.
    pub(super) fn of(target: &Endpoint<'_>) -> Self {
        match target.kind() {
            Kind::Pipe => Self::where_vmsplice(lending_into(target)),
            _ => Technique::Write,
        }
    }

    /// Lent pages pay only as huge ones, only if the kernel does not copy them after all, and only
    /// if giving them away keeps the mapping.
    fn where_vmsplice(vmsplice: Vmsplice) -> Self {
        let keeps_mapping = || Kernel::get().advice_drops_pages();
        if vmsplice == Vmsplice::ZeroCopy && huge_pages_may_come() && keeps_mapping() {
            Technique::Fresh
        } else if Fattener::new().is_ok() {
            Technique::Socket
        } else {
            Technique::Write
        }
    }
}

/// What vmsplice(2) does with this pipe, by its kind.
pub(super) fn lending_into(pipe: &Endpoint<'_>) -> Vmsplice {
    if pipe.is_nameless_pipe() {
        Kernel::get().vmsplice()
    } else {
        Kernel::get().vmsplice_into_fifo()
    }
}

/// `never` in brackets means that MADV_HUGEPAGE changes nothing (`admin-guide/mm/transhuge.rst`).
fn huge_pages_may_come() -> bool {
    fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
        .is_ok_and(|modes| !modes.contains("[never]"))
}
