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
