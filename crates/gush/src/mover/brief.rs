//! The short way of a file in a tree: one clone, or one copy_file_range(2) and the `read` that
//! proves the end.
//!
//! For a small file a [`Move`](super::drive::Move) costs as much as a system call. The short way
//! makes the move's calls where the answers to all its questions are known, and nobody may stop it
//! meanwhile. After any unexpected answer a move goes on after the bytes that have arrived.

use std::time::Instant;

use rustix::io::Errno;

use super::ends::Ends;
use super::request::Request;
use super::{Choice, Holes, Observer};
use crate::endpoint::HoleReport;
use crate::error::Error;
use crate::fault::{Fault, side_between_files};
use crate::method::{MethodName, Step};
use crate::plan;
use crate::port::{Port, Side};
use crate::progress::{Control, Progress};
use crate::report::{MethodUse, Report};
use crate::sys::{self, Call, CallCounts};
use crate::tuning::{Advice, Space};

/// The first step of a move that somebody looks at.
const WATCHED_BYTES: u64 = 4 << 20;

/// How far the short way has led.
pub(super) enum Brief {
    /// Everything has arrived, and a `read` has answered 0.
    Done(Report),
    /// The rest is a move's, after this part.
    Begun(Box<MethodUse>),
    /// Nothing has moved.
    NotTaken,
}

/// Copies by the short way, if the request and both ends permit that.
///
/// # Errors
/// As a move's.
pub(super) fn copy(
    request: &Request<'_>,
    ends: &Ends<'_>,
    observer: Option<&mut Observer<'_>>,
) -> Result<Brief, Error> {
    let Some((method, (from, to))) = way(request, ends, observer.is_some()) else {
        return Ok(Brief::NotTaken);
    };
    let started = Instant::now();
    let expected_bytes = ends.source.size_bytes().saturating_sub(from);
    let is_shared = method == MethodName::Reflink;
    let (call, bytes) = match (expected_bytes, method) {
        (0, MethodName::Reflink) => match shares_nothing(ends, (from, to)) {
            true => (Call::Ficlone, 0),
            false => return Ok(Brief::NotTaken),
        },
        (0, _) => (Call::CopyFileRange, 0),
        (_, MethodName::Reflink) => match share_once(ends, (from, to), expected_bytes)? {
            0 => return Ok(Brief::NotTaken),
            shared => (Call::FicloneRange, shared),
        },
        _ => (Call::CopyFileRange, copy_once(ends, (from, to), expected_bytes)?),
    };
    if let (1.., Some(observer)) = (bytes, observer) {
        let elapsed = started.elapsed();
        let expected_bytes = Some(expected_bytes);
        if observer(&Progress { bytes, expected_bytes, elapsed, method }) == Control::Stop {
            return Err(Error::stopped().after(bytes, 0));
        }
    }
    let is_sized = bytes == expected_bytes;
    let is_whole = is_sized
        && match is_shared {
            // A clone is the file at one moment; a read would change the source's access time.
            true => sys::file::size_bytes(ends.source.fd()) == Ok(from + bytes),
            false => is_end(ends, from + bytes, bytes)?,
        };
    let steps = u64::from(bytes > 0);
    // Known without looking at the thread's counts, of which there are dozens.
    let calls: &[Call] = match (bytes, is_sized, is_shared) {
        (0, true, false) => &[Call::Pread],
        (_, true, false) => &[call, Call::Pread],
        (_, true, true) => &[call, Call::Fstat],
        (_, false, _) => &[call],
    };
    let used =
        || MethodUse { name: method, bytes, steps, threads: 1, calls: CallCounts::once(calls) };
    if !is_whole {
        return Ok(Brief::Begun(Box::new(used())));
    }
    Ok(Brief::Done(Report {
        bytes,
        hole_bytes: 0,
        elapsed: started.elapsed(),
        methods: if bytes > 0 || is_shared { vec![used()] } else { Vec::new() },
        refusals: Vec::new(),
        leaves_file: false,
        #[cfg(feature = "digest")]
        digest: None,
    }))
}

/// One call. 0 where the kernel refuses, is interrupted, or knows no byte: a move asks again.
fn copy_once(ends: &Ends<'_>, at: (u64, u64), expected_bytes: u64) -> Result<u64, Error> {
    let (mut from, mut to) = at;
    // Bounded by `offsets`, so no cast cuts the number.
    let most = usize::try_from(expected_bytes).unwrap_or(usize::MAX);
    let (source, target) = (ends.source.fd(), ends.target.fd());
    match sys::file::copy_file_range(source, Some(&mut from), target, Some(&mut to), most) {
        Ok(copied) => Ok(copied as u64),
        Err(errno) => {
            let side = side_between_files(errno, source, Some(from));
            match Step::from_errno(Call::CopyFileRange, side, errno) {
                Step::Failed(fault) => Err(Error::failed(fault)),
                _ => Ok(0),
            }
        }
    }
}

/// One clone of so many bytes; 0 where the kernel refuses. EINVAL also means that the source has
/// another size by now (`ioctl_file_clone` of `fs/ioctl.c`), and a move begins anew.
fn share_once(ends: &Ends<'_>, (from, to): (u64, u64), expected_bytes: u64) -> Result<u64, Error> {
    let (source, target) = (ends.source.fd(), ends.target.fd());
    match sys::file::ficlone_range(source, from, expected_bytes, target, to) {
        Ok(()) => Ok(expected_bytes),
        // A move copies where there is no room for sharing.
        Err(Errno::NOSPC | Errno::DQUOT) => Ok(0),
        Err(errno) => match Step::from_errno(Call::FicloneRange, Side::Target, errno) {
            Step::Failed(fault) => Err(Error::failed(fault)),
            _ => Ok(0),
        },
    }
}

/// Clones an empty file. `false` where that is refused, or the source has grown: FICLONE takes no
/// length.
fn shares_nothing(ends: &Ends<'_>, at: (u64, u64)) -> bool {
    let (source, target) = (ends.source.fd(), ends.target.fd());
    at == (0, 0)
        && sys::file::ficlone(source, target).is_ok()
        && sys::file::size_bytes(target) == Ok(0)
}

/// Does a `read` answer 0 (invariant 2)? `false` also where it is interrupted.
fn is_end(ends: &Ends<'_>, at: u64, moved_bytes: u64) -> Result<bool, Error> {
    match Port::new(&ends.source, Some(at)).read(&mut [0]) {
        Ok(got) => Ok(got == 0),
        Err(Errno::INTR | Errno::AGAIN) => Ok(false),
        Err(errno) => {
            let fault = Fault { call: Call::Read, side: Side::Source, errno };
            Err(Error::failed(fault).after(moved_bytes, 0))
        }
    }
}

/// The method and both offsets, if a move would begin so, and the difference cannot be seen.
fn way(
    request: &Request<'_>,
    ends: &Ends<'_>,
    is_watched: bool,
) -> Option<(MethodName, (u64, u64))> {
    let most_bytes = if is_watched { WATCHED_BYTES } else { plan::PARALLEL_BYTES };
    let Ends { source, target } = ends;
    let (from, to) = (request.source_offset?, request.target_offset?);
    let memory = request.refusals?;
    let is_plain = request.choice == Choice::Auto
        && request.excluded.is_empty()
        && request.length_bytes.is_none()
        && request.holes == Holes::Keep
        && request.cancel.is_none()
        && !request.is_limited()
        && !request.shows_bytes()
        && (request.tuning.advice, request.tuning.space) == (Advice::None, Space::AsWritten);
    let is_usual = ends.are_both_files()
        && source.has_offsets()
        && source.device() == target.device()
        && !source.is_same_file(target)
        && !source.is_direct()
        && !target.is_direct()
        && source.size_bytes() < most_bytes
        // Nothing old is to be cut off.
        && target.size_bytes() <= to;
    let is_taken = is_plain && is_usual && source.holes() == HoleReport::None;
    // Blocks are shared where that is possible.
    let mut order = [MethodName::Reflink, MethodName::CopyFileRange].into_iter();
    let method = order.find(|&name| is_taken && !memory.knows(name, source, target))?;
    Some((method, (from, to)))
}
