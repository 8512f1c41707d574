//! `reflink`: the target shares the source's blocks until one of them is written.
//!
//! FICLONE for all of a file, FICLONERANGE for a part that ends on block boundaries or at the end
//! of the source (ioctl_ficlone(2); btrfs, xfs, bcachefs, NFS 4.2, OCFS2, within one file system).
//! Elsewhere the kernel answers EOPNOTSUPP or EXDEV, in containers also EPERM, EACCES or ENOTTY.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::{
    Method, MethodName, Pair, Range, Refusal, Setup, Start, Step, Traits, source_offset,
    target_offset,
};
use crate::fault::Fault;
use crate::kernel::is_refusal;
use crate::port::Side;
use crate::sys::{self, Call};

#[derive(Debug)]
pub(super) struct Reflink;

impl Method for Reflink {
    fn name(&self) -> MethodName {
        MethodName::Reflink
    }

    fn traits(&self) -> Traits {
        Traits {
            keeps_holes: true,
            needs_source_offset: true,
            needs_target_offset: true,
            whole: true,
            ..Traits::default()
        }
    }

    /// A clone of the empty range after the source's end: files and file system are checked before
    /// the length (`__generic_remap_file_range_prep` of `fs/remap_range.c`). NFS answers EINVAL.
    fn probe(&self, pair: &Pair<'_>) -> Result<bool, Refusal> {
        let (source, target) = (pair.source.fd(), pair.target.fd());
        // From the end of the source nothing is shared: the call only says whether it would serve.
        match sys::file::ficlone_range(source, pair.source.size_bytes(), 0, target, 0) {
            Ok(()) => Ok(true),
            // EINVAL is about alignment, and so says that the file system knows the call.
            Err(errno) if errno != Errno::INVAL && is_refusal(errno) => {
                Err(Refusal::by_kernel(self.name(), Call::FicloneRange, errno))
            }
            Err(_) => Ok(false),
        }
    }

    fn start<'fd>(&self, pair: &Pair<'fd>, _setup: &Setup) -> Result<Start<'fd>, Refusal> {
        Ok(Start::range(Reflinking {
            source: pair.source.fd(),
            target: pair.target.fd(),
            source_at: source_offset(self.name(), pair)?,
            target_at: target_offset(self.name(), pair)?,
            length_bytes: pair.length_bytes,
            target_was_bytes: pair.target.size_bytes(),
            has_all: false,
        }))
    }
}

struct Reflinking<'fd> {
    source: BorrowedFd<'fd>,
    target: BorrowedFd<'fd>,
    source_at: u64,
    target_at: u64,
    length_bytes: Option<u64>,
    target_was_bytes: u64,
    has_all: bool,
}

impl Reflinking<'_> {
    /// How many bytes FICLONE shared of a source that had `len` bytes before: the end of the target
    /// shows, if the target has grown.
    fn brought_bytes(&self, len: u64) -> u64 {
        let now_bytes = |fd| sys::file::size_bytes(fd).ok();
        let grown_to = now_bytes(self.target).filter(|&bytes| bytes > self.target_was_bytes);
        grown_to.unwrap_or_else(|| len.min(now_bytes(self.source).unwrap_or(len)))
    }
}

impl Range for Reflinking<'_> {
    fn step(&mut self, budget_bytes: u64) -> Step {
        if self.has_all {
            return Step::End;
        }
        let size_bytes = match sys::file::size_bytes(self.source) {
            Ok(size_bytes) => size_bytes,
            Err(errno) => return Step::from_errno(Call::Fstat, Side::Source, errno),
        };
        // Asked anew: a length of 0 would mean "to the end", of whatever size the file has by then.
        let left = size_bytes.saturating_sub(self.source_at);
        let len = left.min(self.length_bytes.unwrap_or(left)).min(budget_bytes);
        // FICLONE takes no length, so a growing source refuses no clone. With a length, no byte
        // after it may come.
        let is_bounded = self.length_bytes.is_some() || budget_bytes < left;
        let whole = !is_bounded && self.source_at == 0 && self.target_at == 0;
        if len == 0 {
            if !whole || sys::file::size_bytes(self.target) != Ok(0) {
                return Step::Dry;
            }
            // Without the read that proves the end, the source keeps its access time.
            self.target_was_bytes = 0;
        }
        let (call, answer) = if whole {
            (Call::Ficlone, sys::file::ficlone(self.source, self.target))
        } else {
            let answer = sys::file::ficlone_range(
                self.source,
                self.source_at,
                len,
                self.target,
                self.target_at,
            );
            (Call::FicloneRange, answer)
        };
        match answer {
            Ok(()) => {
                // A target that was longer does not show it, so the bytes after `len` are shared
                // again.
                self.has_all = whole && self.target_was_bytes <= len;
                // The file at one moment: later bytes could not be shared after a part of a block.
                let len = if self.has_all { self.brought_bytes(len) } else { len };
                self.source_at += len;
                self.target_at += len;
                self.length_bytes = self.length_bytes.map(|length| length - len);
                if len > 0 { Step::Moved(len) } else { Step::End }
            }
            // Of the tree of shared blocks; data may have room elsewhere
            // (`xfs_reflink_ag_has_free_space` of fs/xfs/xfs_reflink.c).
            Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => {
                Step::Refused(Fault { call, side: Side::Target, errno })
            }
            Err(errno) => Step::from_errno(call, Side::Target, errno),
        }
    }
}
