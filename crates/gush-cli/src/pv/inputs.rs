//! The sizes of the files to copy.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use gush::{Endpoint, Kind};

/// The names without a repeated `-`: standard input is consumed by the first.
fn lasting<'a>(names: impl Iterator<Item = &'a OsStr>) -> impl Iterator<Item = &'a OsStr> {
    let mut has_passed = false;
    names.filter(move |name| *name != "-" || !std::mem::replace(&mut has_passed, true))
}

/// The size of all files together; none if one has no size, or all are empty.
pub fn total_bytes<'a>(names: impl Iterator<Item = &'a OsStr>) -> Option<u64> {
    let mut total = 0_u64;
    for name in lasting(names) {
        let bytes = if name == "-" {
            left_bytes(&rustix::stdio::stdin())?
        } else {
            // As in pv, a file whose metadata cannot be read makes the size unknown; the error is
            // reported later.
            let metadata = Path::new(name).metadata().ok()?;
            let has_size = metadata.is_file() || metadata.file_type().is_block_device();
            match metadata.is_dir() {
                true => 0,
                false => has_size.then(|| bytes_at(Path::new(name)).unwrap_or(0))?,
            }
        };
        // The sizes of sparse files can add up to more than 64 bits.
        total = total.saturating_add(bytes);
    }
    Some(total).filter(|&total| total > 0)
}

/// The bytes after the position of a file or block device.
pub fn left_bytes(fd: &impl AsFd) -> Option<u64> {
    let endpoint = Endpoint::of(fd).ok()?;
    let has_size = matches!(endpoint.kind(), Kind::File | Kind::Block);
    let position = endpoint.position()?;
    has_size.then(|| endpoint.size_bytes().saturating_sub(position))
}

/// The bytes of a block device.
pub fn device_bytes(fd: &impl AsFd) -> Option<u64> {
    let endpoint = Endpoint::of(fd).ok()?;
    (endpoint.kind() == Kind::Block).then(|| endpoint.size_bytes()).filter(|&bytes| bytes > 0)
}

/// The size of a file, a block device, or all files in a directory tree.
///
/// # Errors
/// That of the first path whose metadata cannot be read.
pub fn bytes_at(path: &Path) -> io::Result<u64> {
    let metadata = path.metadata()?;
    if metadata.is_dir() {
        return bytes_below(path);
    }
    Ok(bytes_of(path, &metadata)?.unwrap_or(metadata.len()))
}

/// The size of the file or block device with this metadata; none for other kinds.
///
/// # Errors
/// Those of opening a device.
pub fn bytes_of(path: &Path, metadata: &Metadata) -> io::Result<Option<u64>> {
    if metadata.file_type().is_block_device() {
        // A device has size 0 in its metadata; its end is its size.
        return File::open(path)?.seek(SeekFrom::End(0)).map(Some);
    }
    Ok(metadata.is_file().then_some(metadata.len()))
}

fn bytes_below(dir: &Path) -> io::Result<u64> {
    // A list instead of recursion, so that a deep tree cannot overflow the stack.
    let (mut total, mut dirs) = (0_u64, vec![dir.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in dir.read_dir()? {
            let entry = entry?;
            // Of the entry itself: following links could loop.
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                dirs.push(entry.path());
            } else if metadata.is_file() {
                total = total.saturating_add(metadata.len());
            }
        }
    }
    Ok(total)
}
