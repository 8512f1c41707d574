//! A file in the page cache, or out of the page cache, and a check of either.

use std::fs::File;
use std::io::{self, Read};

use rustix::fs::{Advice, fadvise};

use crate::{Error, foreign};

/// Drops a file from the page cache, and makes sure that all its pages are gone.
///
/// Dirty pages stay (posix_fadvise(2)), so they are written first. Copies in the disk's own memory
/// or in a virtual machine's host are out of reach.
///
/// # Errors
/// [`Error::Refused`] where pages stay: tmpfs keeps its files nowhere else.
pub(super) fn drop_from_cache(file: &File) -> Result<(), Error> {
    const TRIES: usize = 5;
    // Dirty pages are not dropped (posix_fadvise(2)).
    file.sync_all().map_err(|error| Error::failed("cannot write the source to its disk", error))?;
    let mut pages = 0;
    // Pages in a processor's batch are not dropped at the first try (`lru_add_drain` of mm/swap.c).
    for _ in 0..TRIES {
        fadvise(file, 0, None, Advice::DontNeed)
            .map_err(|errno| Error::failed("cannot drop the source from the cache", errno))?;
        pages = cached_pages(file)?;
        if pages == 0 {
            return Ok(());
        }
    }
    Err(Error::refused(format!(
        "{pages} pages of the source stay in memory after POSIX_FADV_DONTNEED: this file system keeps \
         them there, or somebody uses them; give --dir a directory on a disk"
    )))
}

/// Brings all of a file into the page cache.
pub(super) fn bring_into_cache(mut file: &File, bytes: u64) -> Result<(), Error> {
    let all = bytes.div_ceil(rustix::param::page_size() as u64);
    // Mostly it is there: asking is much cheaper than reading.
    if cached_pages(file)? >= all {
        return Ok(());
    }
    io::copy(&mut file.by_ref(), &mut io::sink())
        .map_err(|error| Error::failed("cannot read the source", error))?;
    // Read through, and yet the cache may have let go the beginning before the end was in.
    let pages = cached_pages(file)?;
    if pages >= all {
        return Ok(());
    }
    Err(Error::refused(format!(
        "only {pages} of the source's {all} pages stay in memory: it is too large for this machine; \
         give a smaller --size"
    )))
}

fn cached_pages(file: &File) -> Result<u64, Error> {
    foreign::cached_pages(file)
        .map_err(|error| Error::failed("cannot ask what the page cache holds", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    #[test]
    fn a_file_on_a_disk_leaves_the_cache_and_comes_back() {
        let mut file = match tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")) {
            Ok(file) => file,
            Err(error) => return gush_test::not_applicable(&format!("the sources' disk: {error}")),
        };
        file.write_all(&vec![7; 1 << 20]).unwrap();
        file.rewind().unwrap();
        match drop_from_cache(&file) {
            Ok(()) => assert_eq!(cached_pages(&file).unwrap(), 0),
            Err(error) => {
                assert!(
                    error.to_string().contains("of the source stay in memory"),
                    "{}",
                    error.to_string()
                );
                return gush_test::not_applicable(&format!("not on a disk: {}", error));
            }
        }
        bring_into_cache(&file, 1 << 20).unwrap();
        assert!(cached_pages(&file).unwrap() >= (1 << 20) / rustix::param::page_size() as u64);
    }
}
