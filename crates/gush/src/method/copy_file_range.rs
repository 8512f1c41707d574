//! `copy-file-range`: the kernel copies, or leaves the copy to the file system or its server.
//!
//! Within one file system (EXDEV else; across file systems only from Linux 5.3 to 5.18, where it
//! could report success falsely). btrfs and xfs share blocks, NFS and SMB copy on the server,
//! others splice through the page cache. Made-up files such as those of procfs report 0 and copy
//! nothing, so 0 is a question. An O_APPEND target answers EBADF.

use super::{
    Method, MethodName, Pair, Range, Refusal, Setup, Start, Step, Traits, call_bytes,
    refuse_unaligned,
};
use crate::fault::side_between_files;
use crate::kernel::Kernel;
use crate::port::Port;
use crate::sys::{self, Call};

/// The most that one call is asked for: larger requests have been mishandled by file systems.
const MOST_BYTES: usize = 1 << 30;

#[derive(Debug)]
pub(super) struct CopyFileRange;

impl Method for CopyFileRange {
    fn name(&self) -> MethodName {
        MethodName::CopyFileRange
    }

    fn traits(&self) -> Traits {
        // Threads take turns at the target's inode lock, so several may be used and none is gained.
        Traits { parallel: true, ..Traits::default() }
    }

    fn serves(&self, pair: &Pair<'_>, _kernel: &Kernel) -> Result<(), Refusal> {
        refuse_unaligned(self.name(), pair)
    }

    fn start<'fd>(&self, pair: &Pair<'fd>, _setup: &Setup) -> Result<Start<'fd>, Refusal> {
        Ok(Start::range(Copying {
            source: Port::new(&pair.source, pair.source_at),
            target: Port::new(&pair.target, pair.target_at),
        }))
    }
}

struct Copying<'fd> {
    source: Port<'fd>,
    target: Port<'fd>,
}

impl Range for Copying<'_> {
    fn step(&mut self, budget_bytes: u64) -> Step {
        let len = call_bytes(budget_bytes, MOST_BYTES);
        let (source, target) = (self.source.fd, self.target.fd);
        let from = self.source;
        let answer = from.before_last_offset(len, |len| {
            let (from_at, to_at) = (self.source.offset_mut(), self.target.offset_mut());
            sys::file::copy_file_range(source, from_at, target, to_at, len)
        });
        match answer {
            // Perhaps the end, perhaps a file of procfs: a `read` decides (invariant 2).
            Ok(0) => Step::Dry,
            Ok(copied) => Step::Moved(copied as u64),
            Err(errno) => {
                let side = side_between_files(errno, source, self.source.offset());
                Step::from_errno(Call::CopyFileRange, side, errno)
            }
        }
    }
}
