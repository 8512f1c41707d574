//! FIFOs, sockets and devices, made anew or refused instead of read.

use rustix::fs::{self, FileType, Mode};
use rustix::io::{Errno, retry_on_intr};

use crate::atomic;
use crate::error::Error;
use crate::job::Job;
use crate::place::{Place, kind};
use crate::remedy;

/// Makes a special file like the source; returns the permission bits still missing.
pub(crate) fn recreate(job: &Job<'_>) -> Result<u32, Error> {
    let stat = job.source.stat;
    let kind = kind(stat);
    if kind == FileType::Unknown {
        return Err(Error::refusal(job.source.place.shown, "{} has unknown file type"));
    }
    let withheld = if job.options().preserve.owner { stat.st_mode & 0o077 } else { 0 };
    let mode = Mode::from_bits_retain(stat.st_mode & 0o7777 & !withheld);
    let make = |place: &Place<'_>| {
        retry_on_intr(|| fs::mknodat(place.dir, place.name, kind, mode, stat.st_rdev))
    };
    let made = match make(&job.target.place) {
        Err(Errno::EXIST) if job.displaces => {
            atomic::replace(&job.target.place, job.target.place.name, make)
        }
        other => other,
    };
    made.map(|()| withheld).map_err(|errno| not_made(&job.target.place, kind, errno))
}

/// # Errors
/// The source is a FIFO, socket or device. The text is that of Python's `shutil`.
pub(crate) fn refuse(source: &Place<'_>, kind: FileType) -> Result<(), Error> {
    let what = match kind {
        FileType::Fifo => "named pipe",
        FileType::Socket => "socket",
        FileType::BlockDevice => "block device",
        FileType::CharacterDevice => "character device",
        _ => return Ok(()),
    };
    let text = format!("`{}` is a {what}", source.shown.display());
    Err(Error::about_both(source.shown, text))
}

pub(crate) fn not_made(target: &Place<'_>, kind: FileType, errno: Errno) -> Error {
    let what = match kind {
        FileType::Fifo => "cannot create fifo {}",
        FileType::Socket => "cannot create socket {}",
        _ => "cannot create special file {}",
    };
    remedy::not_made(target, what, errno)
}
