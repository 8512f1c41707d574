//! The sizes of the processor's caches, as the kernel reports them.

use std::fs;
use std::path::Path;

use crate::procfs;

/// The size in bytes of the first processor's cache for data at `level`
/// (`Documentation/ABI/testing/sysfs-devices-system-cpu`); none if the kernel does not say.
pub fn data_bytes(level: u32) -> Option<usize> {
    let caches = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    caches.filter_map(Result::ok).find_map(|cache| size_of(&cache.path(), level))
}

fn size_of(cache: &Path, level: u32) -> Option<usize> {
    let word = |name| procfs::line(cache.join(name));
    // The first level has two caches, and data goes through one of them.
    if word("level")?.parse() != Ok(level) || word("type")? == "Instruction" {
        return None;
    }
    kib_bytes(&word("size")?)
}

/// `32K` as bytes: the kernel prints no other unit (`drivers/base/cacheinfo.c`).
fn kib_bytes(text: &str) -> Option<usize> {
    text.strip_suffix('K')?.parse::<usize>().ok()?.checked_mul(1024).filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_are_read_in_kib() {
        assert_eq!(super::kib_bytes("1024K"), Some(1 << 20));
        assert_eq!(super::kib_bytes("0K"), None);
        assert_eq!(super::kib_bytes("1M"), None);
    }
}
