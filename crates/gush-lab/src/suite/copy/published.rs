//! The published table of system calls, for files of any size.

use crate::count::Calls;

/// The calls that the published table has for the way of this name, or would have for a file of
/// `size_bytes`; none for a way that the table lacks, and for sizes that the block sizes do not
/// divide.
///
/// The table counted C programs that copy 512 MiB: `131072 write, 131074 read` by 4096 bytes are a
/// read for every block, one that answers 0, and one of the loader's.
pub fn published(way: &str, size_bytes: u64) -> Option<Calls> {
    // The table's block sizes are powers of two, so the largest is a multiple of all others.
    const LARGEST_BLOCK: u64 = 128 << 10;
    /// copy_file_range moves less than 2 GiB a call.
    const LARGEST_FILE: u64 = 1 << 30;
    if size_bytes == 0 || !size_bytes.is_multiple_of(LARGEST_BLOCK) || size_bytes > LARGEST_FILE {
        return None;
    }
    let blocks = |bytes: u64| size_bytes / bytes;
    let reads_writes = |read, write| vec![("read", read + 2), ("write", write)];
    let calls = match way {
        "stdio-char" | "stdio-block-1024" | "stdio-block-4096" | "read-write-4096" => {
            reads_writes(blocks(4096), blocks(4096))
        }
        // The first block goes through the stream's buffer by half, the rest around it.
        "stdio-block-8192" => reads_writes(blocks(8192), blocks(4096) - 1),
        "read-write-1024" => reads_writes(blocks(1024), blocks(1024)),
        "read-write-64K" => reads_writes(blocks(64 << 10), blocks(64 << 10)),
        "read-write-128K" => reads_writes(blocks(128 << 10), blocks(128 << 10)),
        "sendfile-4096" => vec![("sendfile", blocks(4096) + 1)],
        "splice-4096" => vec![("splice", 2 * blocks(4096) + 1)],
        "splice-64K" => vec![("splice", 2 * blocks(64 << 10) + 1)],
        "copy-file-range-loop" => vec![("copy_file_range", 2)],
        _ => return None,
    };
    Some(calls.into_iter().map(|(name, count)| (name.to_owned(), count)).collect())
}

/// The entry of the published table for 512 MiB, with its correction, if it differs from the calls
/// needed.
pub fn printed(way: &str, size_bytes: u64) -> Option<&'static str> {
    // The table counts copies of this one size.
    const PRINTED_BYTES: u64 = 512 << 20;
    const PRINTED: &[(&str, &str)] = &[
        ("read-write-64K", "printed: read=4098;write=4096, the calls of blocks of 128 KiB"),
        ("copy-file-range-loop", "printed: copy_file_range=1; the second call proves the end"),
    ];
    let slip = PRINTED.iter().find(|(name, _)| *name == way && size_bytes == PRINTED_BYTES);
    slip.map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_otherwise_differs_from_the_corrected_count() {
        for way in ["read-write-64K", "copy-file-range-loop"] {
            let corrected = crate::count::line(&published(way, 512 << 20).expect("a count"));
            let printed = printed(way, 512 << 20).expect("a slip");
            let count = printed["printed: ".len()..].split([',', ' ']).next().unwrap_or_default();
            assert_ne!(count.trim_end_matches(';'), corrected, "{way}");
        }
        assert_eq!(printed("read-write-64K", 1 << 20), None, "nothing was printed for that size");
    }

    #[test]
    fn the_table_of_512_mib_is_as_published() {
        const TABLE: &[(&str, &str)] = &[
            ("stdio-char", "read=131074;write=131072"),
            ("stdio-block-1024", "read=131074;write=131072"),
            ("stdio-block-4096", "read=131074;write=131072"),
            ("stdio-block-8192", "read=65538;write=131071"),
            ("read-write-1024", "read=524290;write=524288"),
            ("read-write-4096", "read=131074;write=131072"),
            ("read-write-64K", "read=8194;write=8192"),
            ("read-write-128K", "read=4098;write=4096"),
            ("sendfile-4096", "sendfile=131073"),
            ("splice-4096", "splice=262145"),
            ("splice-64K", "splice=16385"),
            ("copy-file-range-loop", "copy_file_range=2"),
        ];
        for (way, line) in TABLE {
            let calls = published(way, 512 << 20).unwrap();
            assert_eq!(crate::count::line(&calls), *line, "{way}");
        }
    }
}
