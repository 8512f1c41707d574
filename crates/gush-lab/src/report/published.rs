//! Figures that others published, to stand beside those of this machine.

/// GiB/s on an Intel i7-8550U under Linux 5.17, from … to, in Francesco Mazzoli's "How fast are Linux
/// pipes anyway?"; by the case that measures the same here.
pub const PIPE: &[(&str, f64, f64)] = &[
    ("write-read", 3.5, 3.7),
    ("vmsplice-read", 12.7, 12.7),
    ("vmsplice-splice", 32.8, 32.8),
    ("vmsplice-splice-untouched", 25.0, 25.0),
    ("huge-splice", 51.0, 51.0),
    ("huge-splice-busy", 62.5, 65.0),
];

/// GiB/s that one thread reads from memory on that machine, by `sysbench memory` (the same text).
pub const MEMORY_READ: f64 = 15.9;

/// A way to copy a file of [`CALLS_SIZE_BYTES`], with the calls that its text counted with strace.
#[derive(Debug)]
pub struct Calls {
    pub method: &'static str,
    /// 0: whatever the buffer.
    pub buffer_bytes: u64,
    pub calls: &'static [(&'static str, u64)],
}

/// The size of the file that was copied for [`CALLS`].
pub const CALLS_SIZE_BYTES: u64 = 512 << 20;

const fn calls(
    method: &'static str,
    buffer_bytes: u64,
    calls: &'static [(&'static str, u64)],
) -> Calls {
    Calls { method, buffer_bytes, calls }
}

/// System calls of whole C programs, loader included, in the text "linux sendfile".
pub const CALLS: &[Calls] = &[
    calls("stdio-char", 0, &[("read", 131_074), ("write", 131_072)]),
    calls("stdio-block", 1024, &[("read", 131_074), ("write", 131_072)]),
    calls("stdio-block", 4096, &[("read", 131_074), ("write", 131_072)]),
    calls("stdio-block", 8192, &[("read", 65_538), ("write", 131_071)]),
    calls("read-write", 1024, &[("read", 524_290), ("write", 524_288)]),
    calls("read-write", 4096, &[("read", 131_074), ("write", 131_072)]),
    calls("read-write", 128 << 10, &[("read", 4098), ("write", 4096)]),
    calls("sendfile", 4096, &[("sendfile", 131_073)]),
    calls("splice", 4096, &[("splice", 262_145)]),
    calls("splice", 64 << 10, &[("splice", 16_385)]),
    calls("copy-file-range", 0, &[("copy_file_range", 1)]),
];
