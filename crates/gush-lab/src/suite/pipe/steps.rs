//! The cases as data. Each differs from the baseline in one thing alone: the way of writing, the
//! way of reading, the pages, or who waits how.

/// One case.
#[derive(Debug, PartialEq)]
pub struct Step {
    /// The case's name.
    pub name: &'static str,
    /// The two programs and their techniques, in words.
    pub does: &'static str,
    /// The options of the writer.
    pub write: &'static [&'static str],
    /// The options of the reader.
    pub read: &'static [&'static str],
    /// Bytes to move, by default: about a second or less.
    pub bytes: u64,
    /// Does the technique promise that the written bytes arrive unchanged with any reader?
    pub promises: bool,
    /// Does the case use huge pages?
    pub is_huge: bool,
    /// The group of the case.
    pub group: &'static str,
    pub baseline: &'static str,
    /// The GiB/s of the published program, from … to.
    pub published: Option<(f64, f64)>,
}

/// Who published the figures.
pub const SOURCE: &str =
    "F. Mazzoli, “How fast are Linux pipes anyway?”, Intel i7-8550U, Linux 5.17";

const GIB: u64 = 1 << 30;
const LADDER: &str = "The published steps: 256 KiB buffers, with vmsplice a pipe of 128 KiB";
const READ: &str = "Taken by read, both spinning, a pipe of 1 MiB";
/// Not compared with writes of arbitrary data, which do more.
const CONSTANT: &str = "Constant data alone, both spinning, a pipe of 1 MiB";
const SPLICED: &str = "Spliced to /dev/null, both spinning, a pipe of 1 MiB";

/// A whole pipe of fat slots in one call.
const LARGE_SPLICE: &[&str] = &["--splice", "--busy-loop", "--buffer-size", "8M"];
/// The published reader splices as many bytes a call as the reading reader reads.
const PUBLISHED_SPLICE: &[&str] = &["--splice", "--buffer-size", "256K"];
const PUBLISHED_SPLICE_BUSY: &[&str] = &["--splice", "--busy-loop", "--buffer-size", "256K"];
const SPIN: &[&str] = &["--busy-loop"];
/// With vmsplice the pipe is half the buffer.
const LEND_1M: &[&str] = &["--vmsplice", "--huge-page", "--busy-loop", "--buffer-size", "2M"];
const LEND_HUGE: &[&str] = &["--vmsplice", "--huge-page", "--busy-loop"];
const WRITE_1M: &[&str] = &["--busy-loop", "--pipe-size", "1M"];

const fn step(
    name: &'static str,
    does: &'static str,
    write: &'static [&'static str],
    read: &'static [&'static str],
    bytes: u64,
) -> Step {
    let (promises, is_huge, published) = (true, false, None);
    Step { name, does, write, read, bytes, promises, is_huge, group: "", baseline: "", published }
}

impl Step {
    const fn reused(self) -> Self {
        Self { promises: false, ..self }
    }

    const fn huge(self) -> Self {
        Self { is_huge: true, ..self }
    }

    const fn published(self, from: f64, to: f64) -> Self {
        Self { published: Some((from, to)), ..self }
    }

    const fn of(self, group: &'static str, baseline: &'static str) -> Self {
        Self { group, baseline, ..self }
    }
}

/// Every case, in the order in which they are shown.
pub const STEPS: &[Step] = &[
    step("write-read", "write → read", &[], &[], GIB).published(3.5, 3.7).of(LADDER, "write-read"),
    step("vmsplice-read", "vmsplice → read", &["--vmsplice"], &[], 2 * GIB)
        .reused()
        .published(12.7, 12.7)
        .of(LADDER, "write-read"),
    step("vmsplice-splice", "vmsplice → splice", &["--vmsplice"], PUBLISHED_SPLICE, 4 * GIB)
        .reused()
        .published(32.8, 32.8)
        .of(LADDER, "vmsplice-read"),
    step(
        "vmsplice-splice-untouched",
        "the same, pages never touched",
        &["--vmsplice", "--dont-touch-pages"],
        PUBLISHED_SPLICE,
        4 * GIB,
    )
    .reused()
    .published(25.0, 25.0)
    .of(LADDER, "vmsplice-splice"),
    step(
        "huge-splice",
        "vmsplice of huge pages → splice",
        &["--vmsplice", "--huge-page"],
        PUBLISHED_SPLICE,
        4 * GIB,
    )
    .reused()
    .huge()
    .published(51.0, 51.0)
    .of(LADDER, "vmsplice-splice"),
    step("huge-splice-busy", "the same, both spinning", LEND_HUGE, PUBLISHED_SPLICE_BUSY, 32 * GIB)
        .reused()
        .huge()
        .published(62.5, 65.0)
        .of(LADDER, "huge-splice"),
    step(
        "same-buffer-busy",
        "the same, one buffer for both halves",
        &["--vmsplice", "--huge-page", "--busy-loop", "--same-buffer"],
        PUBLISHED_SPLICE_BUSY,
        32 * GIB,
    )
    .reused()
    .huge()
    .of(LADDER, "huge-splice-busy"),
    step("huge-read-busy", "huge-splice-busy with a reader that reads", LEND_HUGE, SPIN, 8 * GIB)
        .reused()
        .huge()
        .of(LADDER, "huge-splice-busy"),
    step("write-read-busy", "write → read", WRITE_1M, SPIN, 4 * GIB).of(READ, "write-read-busy"),
    step("socket-read", "a Unix socket's slots of 32 KiB → read", SOCKET, SPIN, 8 * GIB)
        .of(READ, "write-read-busy"),
    step("fresh-read", "new huge pages, given away → read", FRESH, SPIN, 8 * GIB)
        .huge()
        .of(READ, "write-read-busy"),
    step("fresh-read-4K", "the same on pages of 4 KiB", FRESH_4K, SPIN, 4 * GIB)
        .of(READ, "fresh-read"),
    step("huge-read-busy-1M", "vmsplice of huge pages → read", LEND_1M, SPIN, 8 * GIB)
        .reused()
        .huge()
        .of(READ, "write-read-busy"),
    step("write-splice-busy", "write → splice", WRITE_1M, LARGE_SPLICE, 4 * GIB)
        .of(SPLICED, "write-splice-busy"),
    step(
        "socket-splice",
        "a Unix socket's slots of 32 KiB → splice",
        SOCKET,
        LARGE_SPLICE,
        8 * GIB,
    )
    .of(SPLICED, "write-splice-busy"),
    step("fresh-splice", "new huge pages, given away → splice", FRESH, LARGE_SPLICE, 16 * GIB)
        .huge()
        .of(SPLICED, "write-splice-busy"),
    step("fresh-splice-4K", "the same on pages of 4 KiB", FRESH_4K, LARGE_SPLICE, 4 * GIB)
        .of(SPLICED, "fresh-splice"),
    step("huge-splice-busy-1M", "vmsplice of huge pages → splice", LEND_1M, LARGE_SPLICE, 32 * GIB)
        .reused()
        .huge()
        .of(SPLICED, "write-splice-busy"),
    step("reservoir-read", "constant data, teed → read", RESERVOIR, SPIN, 32 * GIB)
        .of(CONSTANT, "write-read-busy"),
    step("reservoir-splice", "constant data, teed → splice", RESERVOIR, LARGE_SPLICE, 256 * GIB)
        .of(CONSTANT, "write-splice-busy"),
];

const SOCKET: &[&str] = &["--technique", "socket", "--busy-loop"];
const FRESH: &[&str] = &["--technique", "fresh", "--busy-loop"];
const FRESH_4K: &[&str] = &["--technique", "fresh", "--busy-loop", "--no-huge-page"];
const RESERVOIR: &[&str] = &["--technique", "reservoir", "--busy-loop"];
