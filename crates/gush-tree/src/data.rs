//! The data of one file: the engine's set-up, and the verification of the target.

use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use gush::{Choice, Endpoint, Holes, MethodName, Mover, Report, Side, Space};
use gush_text::quote;
use rustix::fs::{self, Advice, FileType};
use rustix::io::retry_on_intr;

use crate::error::Error;
use crate::events::Events;
use crate::job::Job;
use crate::options::{CopyOptions, Moving, Reflink};
use crate::place::{kind, proc_path, stat_of};
use crate::uncached;

/// Methods that may leave blocks shared with the source.
const SHARING_BLOCKS: &[MethodName] = &[MethodName::Reflink, MethodName::CopyFileRange];

/// Moves everything from `source` to `target`, both at their start. What is known of both saves the
/// engine's looks.
pub(crate) fn move_all(
    job: &Job<'_>,
    source: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    known: Option<(Endpoint<'_>, Endpoint<'_>)>,
    events: &mut dyn Events,
) -> Result<Report, Error> {
    let Moving { reflink, holes, choice, .. } = job.options().moving;
    // GNU cp asks for a clone whatever --sparse=always says: its zeros take no space.
    if holes == Holes::Make && (reflink, choice) == (Reflink::Auto, Choice::Auto) {
        match moved(job, (source, target), known, None, Reflink::Always, Holes::Keep, events) {
            Err(refused) if refused.is_untouched() => {}
            ended => return ended,
        }
    }
    moved(job, (source, target), known, None, reflink, holes, events)
}

/// Moves a range of bytes of `source` to the same offset of `target`, where nothing is yet.
pub(crate) fn move_range(
    job: &Job<'_>,
    source: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    range: Range<u64>,
    events: &mut dyn Events,
) -> Result<(), Error> {
    let Moving { reflink, holes, .. } = job.options().moving;
    let report = moved(job, (source, target), None, Some(&range), reflink, holes, events)?;
    match report.bytes == range.end - range.start {
        true => Ok(()),
        false => {
            Err(Error::refusal(job.source.place.shown, "{} became shorter while being copied")
                .hinting("copy it again"))
        }
    }
}

fn moved(
    job: &Job<'_>,
    (source, target): (BorrowedFd<'_>, BorrowedFd<'_>),
    known: Option<(Endpoint<'_>, Endpoint<'_>)>,
    range: Option<&Range<u64>>,
    reflink: Reflink,
    holes: Holes,
    events: &mut dyn Events,
) -> Result<Report, Error> {
    let mut mover = match (known, range) {
        // Nobody asks these descriptors for their positions, but for sendfile, by name or as the
        // plan's choice between two file systems.
        (Some((from, to)), _) if takes_offsets(job.options()) && from.device() == to.device() => {
            Mover::between(from, to).source_offset_bytes(0).target_offset_bytes(0)
        }
        (Some((from, to)), _) => Mover::between(from, to),
        // No `replace`: others have written their ranges to the same file.
        (None, Some(range)) => Mover::new(&source, &target)
            .source_offset_bytes(range.start)
            .target_offset_bytes(range.start)
            .length_bytes(range.end - range.start),
        (None, None) => Mover::new(&source, &target).replace(true),
    };
    let moving = &job.options().moving;
    // A reservation and a hash are of a whole file.
    let space = if range.is_some() { Space::AsWritten } else { space(job, target) };
    let threads = match range {
        // The cache is left in order, which several threads do not keep.
        _ if moving.no_cache => 1,
        // The other threads of a rank have other ranges. More only where that pays.
        Some(_) if moving.threads > 0 => 1,
        _ => moving.threads,
    };
    mover = mover
        .remember(job.common.refusals)
        .digest(range.is_none() && digests_in_passing(job))
        .isolated(moving.isolated)
        .holes(holes)
        .threads(threads)
        .tuning(moving.tuning.clone().space(space));
    mover = match reflink {
        Reflink::Always => mover.method(Choice::Only(MethodName::Reflink)),
        Reflink::Auto => mover.method(moving.choice),
        // copy_file_range shares blocks too, where the file system can.
        Reflink::Never => mover.method(moving.choice).exclude(SHARING_BLOCKS),
    };
    if let Some(limit) = job.common.limit {
        mover = mover.limit(limit.clone());
    }
    if let Some(cancel) = &moving.cancel {
        mover = mover.cancelled_by(cancel);
    }
    let wanted = events.wants_progress();
    let at_bytes = range.map_or(0, |range| range.start);
    let mut passing = moving.no_cache.then(|| uncached::Passing::begin(source, target, at_bytes));
    let is_uncached = passing.is_some();
    let mut watch = |progress: &gush::Progress| {
        if passing.as_mut().is_some_and(|passing| !passing.passed(progress.bytes)) {
            return gush::Control::Stop;
        }
        if wanted { events.progress(progress) } else { gush::Control::Continue }
    };
    if wanted || is_uncached {
        mover = mover.observe(&mut watch);
    }
    let moved = mover.run();
    let stopped_by = passing.as_ref().and_then(uncached::Passing::failed);
    let lost = passing.and_then(uncached::Passing::end);
    // A failure of the move itself comes before one after it.
    if let Some(errno) = stopped_by.or_else(|| lost.filter(|_| moved.is_ok())) {
        return Err(Error::os(job.target.place.shown, "cannot write {} to the disk", errno));
    }
    moved.map_err(|error| failed(job, &error))
}

/// The engine's error, about the file that it concerns.
fn failed(job: &Job<'_>, error: &gush::Error) -> Error {
    let [from, to] = [job.source.place.shown, job.target.place.shown];
    let ours = Error::engine(if error.side() == Some(Side::Target) { to } else { from }, error);
    // A refusal concerns the pair: an EXDEV is the fault of neither file alone.
    let is_of_both = error.is_refused() && error.side().is_none();
    let is_clone = job.options().moving.reflink == Reflink::Always;
    let ours = match is_of_both {
        true if is_clone => {
            let [from, to] = [from, to].map(quote::always);
            ours.saying(format!("failed to clone {to} from {from}"))
        }
        true => ours.onto(to),
        false => ours,
    };
    match is_clone {
        true => ours.hinting("--reflink=auto copies where nothing can be shared"),
        false => ours,
    }
}

/// May the target's offset be named? sendfile(2) writes at the descriptor's own position.
pub(crate) fn takes_offsets(options: &CopyOptions) -> bool {
    options.moving.choice != Choice::Only(MethodName::Sendfile)
}

/// When blocks are allocated for the target.
///
/// ext4 writes into reserved blocks faster than it allocates them one by one (bench/copy.toml).
/// tmpfs would zero each page first, and a clone needs no blocks at all. Blocks are reserved for
/// new files only: when a file is replaced, by truncation or rename, ext4 flushes its delayed
/// blocks at once, so that a crash does not leave an empty file (`auto_da_alloc`, ext4(5)).
/// Reserved blocks would evade this safeguard.
fn space(job: &Job<'_>, target: BorrowedFd<'_>) -> Space {
    const WORTH_RESERVING_BYTES: i64 = 16 << 20;
    const EXT4_MAGIC: u64 = 0xEF53;
    let stat = job.source.stat;
    let moving = &job.options().moving;
    if let Some(space) = moving.space {
        return space;
    }
    let may_gain = job.existing.is_none()
        && kind(stat) == FileType::RegularFile
        && stat.st_size >= WORTH_RESERVING_BYTES
        // A reservation would fill the holes of a sparse file.
        && stat.st_blocks * 512 >= stat.st_size
        && moving.holes != Holes::Make;
    let on_ext4 = || {
        retry_on_intr(|| fs::fstatfs(target))
            .is_ok_and(|about| u64::try_from(about.f_type) == Ok(EXT4_MAGIC))
    };
    if may_gain && on_ext4() { Space::TryReserve } else { Space::AsWritten }
}

/// Is the source hashed while its bytes pass, so that it is read once?
fn digests_in_passing(job: &Job<'_>) -> bool {
    let moving = &job.options().moving;
    let can_digest = match (moving.reflink, moving.choice) {
        (Reflink::Always, _) => false,
        (_, Choice::Only(name)) => name.sees_bytes(),
        _ => true,
    };
    job.options().verify && can_digest && !is_compared(job)
}

/// Is the file compared range by range instead of by hash? A hash covers zeros too, and hashing a
/// hole of 20 GiB takes longer than the rest of the copy. Below 64 MiB of holes the difference is
/// not noticeable.
fn is_compared(job: &Job<'_>) -> bool {
    const HOLES_WORTH_SKIPPING_BYTES: i64 = 64 << 20;
    let stat = job.source.stat;
    kind(stat) == FileType::RegularFile
        && stat.st_size - stat.st_blocks.saturating_mul(512) >= HOLES_WORTH_SKIPPING_BYTES
}

/// Reads the target back from storage and compares the content with the source. Returns the digest
/// of both, or `None` for a file compared range by range, without the holes.
pub(crate) fn verify(
    job: &Job<'_>,
    source: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    sent: Option<gush::Digest>,
) -> Result<Option<gush::Digest>, Error> {
    let shown = job.target.place.shown;
    let again = as_stored(target, shown)?;
    let _as_they_were =
        job.options().moving.no_cache.then(|| [source, again.as_fd()].map(uncached::AsItWas::look));
    if is_compared(job) {
        return match difference((source, job.source.place.shown), (again.as_fd(), shown))? {
            None => Ok(None),
            Some(at) => Err(Error::refusal(
                shown,
                format!(
                    "verification of {{}} failed: the copy differs from the source at byte {at}"
                ),
            )),
        };
    }
    let sent = match sent {
        Some(digest) => digest,
        // The method has not shown the bytes, or several threads have: the source is read once
        // more.
        None => gush::digest_of(&source).map_err(|e| Error::engine(job.source.place.shown, &e))?,
    };
    let arrived = gush::digest_of(&again.as_fd()).map_err(|e| Error::engine(shown, &e))?;
    match sent == arrived {
        true => Ok(Some(arrived)),
        false => Err(Error::refusal(
            shown,
            format!("verification of {{}} failed: blake3 {arrived} arrived, {sent} was sent"),
        )),
    }
}

/// Opens a file just written so that its bytes are read from storage.
pub(crate) fn as_stored(target: BorrowedFd<'_>, shown: &Path) -> Result<File, Error> {
    let stat = stat_of(target, shown)?;
    if kind(&stat) != FileType::RegularFile {
        return Err(Error::refusal(shown, "cannot verify {}: not a regular file"));
    }
    // The comparison must read from storage, not the pages just written.
    // Dirty pages are not dropped by the advice below (posix_fadvise(2)).
    retry_on_intr(|| fs::fdatasync(target))
        .map_err(|errno| Error::os(shown, "cannot sync {} for verification", errno))?;
    let _ = fs::fadvise(target, 0, None, Advice::DontNeed);
    // The target may be open for writing only.
    File::open(proc_path(target)).map_err(|error| Error::io(shown, "cannot re-read {}", error))
}

/// Hashes a file just written, from storage: all of it, or the first bytes.
pub(crate) fn digest_as_stored(
    target: BorrowedFd<'_>,
    first_bytes: Option<u64>,
    shown: &Path,
) -> Result<gush::Digest, Error> {
    let again = as_stored(target, shown)?;
    let Some(first_bytes) = first_bytes else {
        return gush::digest_of(&again.as_fd()).map_err(|error| Error::engine(shown, &error));
    };
    let nowhere = File::options()
        .write(true)
        .open("/dev/null")
        .map_err(|error| Error::io(shown, "cannot hash {}", error))?;
    let mover = Mover::new(&again, &nowhere).length_bytes(first_bytes).digest(true);
    let report = mover.run().map_err(|error| Error::engine(shown, &error))?;
    match report.digest.filter(|_| report.bytes == first_bytes) {
        Some(digest) => Ok(digest),
        None => Err(Error::refusal(shown, "verification of {} failed: it became shorter")),
    }
}

/// The first byte at which a source and its copy, each with its path, differ.
pub(crate) fn difference(
    (source, source_shown): (BorrowedFd<'_>, &Path),
    (target, target_shown): (BorrowedFd<'_>, &Path),
) -> Result<Option<u64>, Error> {
    gush::first_difference(&source, &target).map_err(|error| match error.side() {
        Some(Side::Source) | None => Error::engine(source_shown, &error),
        Some(Side::Target) => Error::engine(target_shown, &error),
    })
}
