//! The system calls that move bytes: each made once, between files in memory and pipes of our own.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;

use gush::{Choice, Errno, MethodName, Mover};
use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, ResolveFlags, SeekFrom};
use rustix::io::ReadWriteFlags;
use rustix::pipe::{PipeFlags, SpliceFlags};

use super::finding::{Finding, words};
use super::status::Status;
use crate::procfs;

const BYTES: usize = 4096;

/// A call by its topic, the trial, and the meanings of lack and presence.
struct CallTrial {
    topic: &'static str,
    call: &'static str,
    attempt: fn() -> Result<(), Errno>,
    with: &'static str,
    without: &'static str,
}

const TRIALS: &[CallTrial] = &[
    CallTrial {
        topic: "splice",
        call: "splice",
        attempt: || {
            let (reader, _writer) = filled_pipe()?;
            let target = memfd(0)?;
            whole(rustix::pipe::splice(&reader, None, &target, None, BYTES, SpliceFlags::NONBLOCK)?)
        },
        with: "sockets, pipes and devices exchange pages without a copy through this process",
        without: "gush reads and writes instead: one copy more each way",
    },
    CallTrial {
        topic: "tee",
        call: "tee",
        attempt: || {
            let (reader, _writer) = filled_pipe()?;
            let (_second_reader, second_writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            whole(rustix::pipe::tee(&reader, &second_writer, BYTES, SpliceFlags::NONBLOCK)?)
        },
        with: "a stream is duplicated without copying it",
        without: "constant data is written anew each time: gush pipe write --technique reservoir does not work",
    },
    CallTrial {
        topic: "sendfile",
        call: "sendfile",
        attempt: || {
            let (source, target) = (memfd(BYTES)?, memfd(0)?);
            whole(rustix::fs::sendfile(&target, &source, None, BYTES)?)
        },
        with: "files go into sockets straight from the page cache",
        without: "gush splices or reads and writes instead",
    },
    CallTrial {
        topic: "copy-file-range",
        call: "copy_file_range",
        attempt: || {
            let (source, target) = (memfd(BYTES)?, memfd(0)?);
            whole(rustix::fs::copy_file_range(&source, None, &target, None, BYTES)?)
        },
        with: "files of one file system are copied inside the kernel, or inside the server",
        without: "gush reads and writes instead",
    },
    CallTrial {
        topic: "io-uring",
        call: "io_uring",
        attempt: || {
            let (source, target) = (memfd(BYTES)?, memfd(0)?);
            let moved = Mover::new(&source, &target).method(Choice::Only(MethodName::Uring)).run();
            match moved {
                Ok(report) => whole(usize::try_from(report.bytes).unwrap_or(0)),
                Err(error) => {
                    Err(error.io_error().and_then(Errno::from_io_error).unwrap_or(Errno::OPNOTSUPP))
                }
            }
        },
        with: "several reads and writes can be under way at once (--method uring)",
        without: "--method uring is refused; auto does not need it",
    },
    CallTrial {
        topic: "preadv2",
        call: "preadv2",
        attempt: || {
            let (reader, _writer) = filled_pipe()?;
            let mut bytes = [0; BYTES];
            let parts = &mut [IoSliceMut::new(&mut bytes)];
            whole(rustix::io::preadv2(&reader, parts, OWN_POSITION, ReadWriteFlags::NOWAIT)?)
        },
        with: "a pipe is read without waiting, and without a question before",
        without: "gush asks poll before it reads a pipe that others may empty: one call more",
    },
    CallTrial {
        topic: "pwritev2",
        call: "pwritev2",
        attempt: || {
            let (_reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            let parts = &[IoSlice::new(&[b'x'; BYTES])];
            whole(rustix::io::pwritev2(&writer, parts, OWN_POSITION, ReadWriteFlags::NOWAIT)?)
        },
        with: "a pipe is filled without waiting, whatever other processes write into it",
        without: "where gush may not wait, it writes at most 4 KiB into a pipe at a time, and asks poll before",
    },
    CallTrial {
        topic: "openat2",
        call: "openat2",
        attempt: || {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            rustix::fs::openat2(CWD, ".", flags, Mode::empty(), ResolveFlags::BENEATH).map(drop)
        },
        with: "the kernel keeps a path inside the tree that is copied",
        without: "gush opens a path inside a tree one component after the other: more calls for each file",
    },
];

/// Each call of [`TRIALS`].
pub(super) fn all(status: &Status) -> impl Iterator<Item = Finding> {
    TRIALS.iter().map(|trial| match (trial.attempt)() {
        Ok(()) => Finding::fine(trial.topic, format!("{} works", trial.call), trial.with),
        Err(errno) => lacking(trial.topic, trial.call, errno, trial.without, status),
    })
}

/// A call that was refused, with what helps.
pub(super) fn lacking(
    topic: &'static str,
    call: &str,
    errno: Errno,
    without: &str,
    status: &Status,
) -> Finding {
    let finding =
        Finding::absent(topic, format!("{call} is not available: {}", words(errno)), without);
    let is_switch = topic == "io-uring"
        && procfs::line("/proc/sys/kernel/io_uring_disabled").is_some_and(|text| text != "0");
    match errno {
        _ if is_switch => finding.remedy("as root: sysctl kernel.io_uring_disabled=0"),
        Errno::MFILE | Errno::NFILE => {
            finding.remedy(gush_text::remedy(gush_text::Doing::Other, errno).unwrap_or_default())
        }
        Errno::NOMEM => finding.remedy("raise the limits on memory and on locked memory (ulimit -l)"),
        _ if status.is_filtered() => {
            finding.remedy(format!("a filter of system calls is active (see seccomp): allow {call} in its profile"))
        }
        Errno::NOSYS => finding.remedy("this kernel has no such call: use one that does, or a virtual machine instead of a sandbox"),
        Errno::PERM | Errno::ACCESS => finding.remedy("a security module denies it: see its log (dmesg, journalctl)"),
        _ => finding,
    }
}

fn memfd(len: usize) -> Result<OwnedFd, Errno> {
    let fd = rustix::fs::memfd_create("gush-doctor", MemfdFlags::CLOEXEC)?;
    rustix::io::write(&fd, &vec![b'x'; len])?;
    rustix::fs::seek(&fd, SeekFrom::Start(0))?;
    Ok(fd)
}

/// All that was asked for, or the answer of a call that claims success and does nothing.
fn whole(moved: usize) -> Result<(), Errno> {
    if moved == BYTES { Ok(()) } else { Err(Errno::IO) }
}

fn filled_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    whole(rustix::io::write(&writer, &[b'x'; BYTES])?)?;
    Ok((reader, writer))
}

/// The position of the file itself (preadv2(2)).
const OWN_POSITION: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::doctor::Condition;

    #[test]
    fn a_denied_call_under_a_filter_points_at_the_filter() {
        let filtered = lacking("splice", "splice", Errno::PERM, "x", &Status::default());
        assert!(filtered.remedy.unwrap().contains("security module"));
        assert_eq!(
            lacking("tee", "tee", Errno::NOSYS, "x", &Status::default()).state,
            Condition::Absent
        );
    }
}
