//! The answers of `gush lab matrix` compared with the kernel's sources and manual pages.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::not_applicable;

/// What a rule promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    /// The bytes arrive.
    Works,
    /// The kernel answers this.
    Errno(&'static str),
    /// The call answers 0 although there are bytes.
    FalseEnd,
}

/// A rule: the first that fits a cell is the cell's.
#[derive(Debug)]
struct Rule {
    ways: &'static [&'static str],
    sources: &'static [&'static str],
    targets: &'static [&'static str],
    /// Source and target on the same file system, or on different ones; none: either.
    same: Option<bool>,
    /// Nothing where the sources promise nothing.
    promise: Option<Promise>,
    because: &'static str,
}

use Promise::{Errno, FalseEnd, Works};

const ANY: &[&str] = &[];
const INVAL: Option<Promise> = Some(Errno("EINVAL"));
const SPLICES: &[&str] = &["splice"];
const GIFTS: &[&str] = &["vmsplice"];
const INTO_PIPES: &[&str] = &["sendfile", "splice", "splice-direct"];
const OUT_OF_PIPES: &[&str] = &["sendfile", "splice", "splice-direct", "vmsplice"];
/// Without a splice_read of their own.
const NOT_READ: &[&str] = &["null", "procfs-seq"];
/// Without a splice_write of their own.
const NOT_WRITTEN: &[&str] = &["full", "procfs"];
const REGULAR: &[&str] =
    &["file", "ext4", "tmpfs", "xfs", "btrfs", "overlay", "append", "direct", "memfd"];
const PIPES: &[&str] = &["pipe", "fifo"];
const STREAMS: &[&str] = &["tcp", "unix-stream", "unix-datagram", "udp", "pty"];
const SHARING: &[&str] = &["xfs", "btrfs"];
const NOT_SHARING: &[&str] = &["ext4", "tmpfs", "memfd"];
const NOT_REGULAR: &[&str] =
    &["pipe", "fifo", "tcp", "unix-stream", "unix-datagram", "udp", "pty", "zero", "null", "full"];

const fn rule(
    ways: &'static [&'static str],
    sources: &'static [&'static str],
    targets: &'static [&'static str],
    promise: Option<Promise>,
    because: &'static str,
) -> Rule {
    Rule { ways, sources, targets, same: None, promise, because }
}

const fn among(same: bool, rule: Rule) -> Rule {
    Rule { same: Some(same), ..rule }
}

/// The rules, in order: special ones come before general ones.
#[rustfmt::skip]
const RULES: &[Rule] = &[
    rule(&["read-write"], &["null"], ANY, Some(Works), "read_null of drivers/char/mem.c answers the end"),
    rule(&["read-write"], ANY, &["full"], Some(Errno("ENOSPC")), "full(4): a write fails with ENOSPC"),
    rule(&["read-write"], ANY, ANY, Some(Works), "read(2), write(2)"),

    rule(&["sendfile"], &["procfs", "procfs-seq"], &["unix-datagram", "udp"], None, "gush refuses: the last datagram could be held back"),
    rule(INTO_PIPES, NOT_READ, ANY, INVAL, "do_splice_read of fs/splice.c: the file has no splice_read"),
    rule(OUT_OF_PIPES, ANY, &["append"], INVAL, "splice(2): the target is opened in append mode"),
    rule(GIFTS, &["null"], &["direct"], None, "gush refuses pieces that may not be aligned; the kernel is not asked"),
    rule(GIFTS, &["null"], ANY, Some(Works), "nothing is read, so nothing is spliced"),
    rule(&["splice"], PIPES, &["full"], INVAL, "do_splice_from of fs/splice.c: the file has no splice_write"),
    rule(&["splice", "vmsplice"], REGULAR, &["full"], INVAL, "do_splice_from of fs/splice.c; the file has its bytes still, and gush writes none"),
    rule(&["splice", "vmsplice"], ANY, &["full"], Some(Errno("ENOSPC")), "splice says EINVAL; gush then writes what its pipe holds: full(4)"),
    rule(GIFTS, PIPES, &["procfs"], Some(Works), "splice says EINVAL; gush then writes what it has taken out of the pipe"),
    rule(OUT_OF_PIPES, ANY, NOT_WRITTEN, INVAL, "do_splice_from of fs/splice.c: the file has no splice_write"),

    rule(SPLICES, NOT_REGULAR, &["direct"], None, "fragments of odd sizes: as the file system will have it"),
    rule(SPLICES, &["procfs"], &["direct"], None, "fragments of odd sizes: as the file system will have it"),
    rule(GIFTS, ANY, &["direct"], None, "pieces of odd sizes: as the file system will have it"),
    rule(SPLICES, ANY, ANY, Some(Works), "splice(2); generic_file_splice_read and splice_to_socket of the kernel"),
    rule(GIFTS, ANY, ANY, Some(Works), "vmsplice(2); splice_to_socket and iter_file_splice_write of fs/splice.c"),

    rule(&["splice-direct"], PIPES, &["direct"], None, "fragments of odd sizes: as the file system will have it"),
    rule(&["splice-direct"], PIPES, ANY, Some(Works), "splice(2): one of the two is a pipe"),
    rule(&["splice-direct"], ANY, PIPES, Some(Works), "splice(2): one of the two is a pipe"),
    rule(&["splice-direct"], ANY, ANY, INVAL, "splice(2): one of the two must be a pipe (do_splice of fs/splice.c)"),

    rule(&["sendfile"], PIPES, ANY, INVAL, "sendfile(2): the source cannot seek (do_sendfile of fs/read_write.c)"),
    rule(&["sendfile"], &["unix-datagram", "udp"], PIPES, None, "gush refuses: a datagram would be cut to the pipe's room"),
    rule(&["sendfile"], STREAMS, PIPES, Some(Works), "do_sendfile of fs/read_write.c: into a pipe it is a splice"),
    rule(&["sendfile"], STREAMS, ANY, INVAL, "sendfile(2): the source cannot seek (splice_direct_to_actor of fs/splice.c)"),
    rule(&["sendfile"], REGULAR, ANY, Some(Works), "sendfile(2): any target since Linux 2.6.33"),
    rule(&["sendfile"], &["procfs"], PIPES, Some(Works), "splice_file_to_pipe of fs/splice.c"),

    rule(&["copy-file-range"], NOT_REGULAR, ANY, INVAL, "copy_file_range(2): not a regular file"),
    rule(&["copy-file-range"], ANY, NOT_REGULAR, INVAL, "copy_file_range(2): not a regular file"),
    rule(&["copy-file-range"], ANY, &["append"], Some(Errno("EBADF")), "copy_file_range(2): O_APPEND is set for the target"),
    among(false, rule(&["copy-file-range"], REGULAR, REGULAR, Some(Errno("EXDEV")), "copy_file_range(2): two file systems, since Linux 5.19")),
    among(true, rule(&["copy-file-range"], REGULAR, REGULAR, Some(Works), "copy_file_range(2)")),
    among(true, rule(&["copy-file-range"], &["procfs"], &["procfs"], Some(FalseEnd), "copy_file_range(2), BUGS: a size of 0 is believed")),

    among(true, rule(&["reflink"], SHARING, SHARING, Some(Works), "ioctl_ficlone(2): this file system shares blocks")),
    among(true, rule(&["reflink"], NOT_SHARING, NOT_SHARING, Some(Errno("EOPNOTSUPP")), "ioctl_ficlone(2): this file system shares no blocks")),
];

/// A cell of the matrix: what was tried, and the answer.
struct Cell {
    way: String,
    source: String,
    target: String,
    works: bool,
    word: String,
}

impl Cell {
    fn of(sample: &Value) -> Self {
        let facts = &sample["facts"];
        let text = |name: &str| facts[name].as_str().unwrap_or_default().to_owned();
        let works = facts["works"] == Value::Bool(true);
        let [way, source, target, word] = ["method", "source", "target", "errno"].map(text);
        Self { way, source, target, works, word }
    }

    /// Files with flags lie on the file system of the temporary files, which is ext4 here.
    fn is_on_one_file_system(&self) -> bool {
        let [source, target] = [&self.source, &self.target].map(|kind| match kind.as_str() {
            "append" | "direct" | "fifo" => "ext4",
            kind => kind,
        });
        source == target
    }

    fn fits(&self, rule: &Rule) -> bool {
        let is_in = |kinds: &[&str], kind: &str| kinds.is_empty() || kinds.contains(&kind);
        rule.ways.contains(&self.way.as_str())
            && is_in(rule.sources, &self.source)
            && is_in(rule.targets, &self.target)
            && rule.same.is_none_or(|same| same == self.is_on_one_file_system())
    }

    /// Does the answer keep the promise? A rule of gush's own may refuse what the kernel would do.
    fn keeps(&self, promise: Promise) -> bool {
        match promise {
            _ if ["refused", "absent"].contains(&self.word.as_str()) => true,
            Works => self.works,
            Errno(name) => self.word == name,
            FalseEnd => self.word == "false-end",
        }
    }
}

/// The kernel of the rules; older ones are known to answer otherwise (`docs/kernels.md`).
const SINCE: (u32, u32) = (6, 12);

fn kernel() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// File systems in memory, each mounted under its own name, with temporary files on ext4.
const MOUNTS: &str = r#"
    exec 3>&1 >&2; set -e; mount -t tmpfs none m; cd m
    for kind in ext4 xfs btrfs; do
        truncate -s 512M $kind.image; mkdir $kind
        case $kind in ext4) mkfs.ext4 -q -F $kind.image;; *) mkfs.$kind -q -f $kind.image;; esac
        mount -o loop $kind.image $kind
    done
    mkdir lower upper work overlay
    mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay
    TMPDIR=$PWD/ext4 exec "$G" lab matrix --no-store --json >&3
"#;

#[test]
fn every_answer_is_what_the_kernels_sources_and_manual_pages_promise() {
    if kernel() < SINCE {
        return not_applicable("the rules are those of newer kernels");
    }
    if matches!(gush::Kernel::get().vmsplice(), gush::Vmsplice::Absent(_)) {
        return crate::common::skipped("vmsplice is denied: its rules cannot be compared");
    }
    let dir = TempDir::new().unwrap();
    let Some(output) = crate::common::cp::with_mounts(dir.path(), MOUNTS) else { return };
    if output.stdout.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr);
        return crate::common::skipped(&format!("file systems cannot be made: {}", said.trim()));
    }
    assert!(output.status.success(), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cells: Vec<Cell> =
        document["runs"][0]["samples"].as_array().unwrap().iter().map(Cell::of).collect();
    for kind in REGULAR.iter().filter(|kind| **kind != "file") {
        assert!(cells.iter().any(|cell| cell.source == *kind), "no {kind}");
    }
    let mut reached = BTreeMap::new();
    let mut broken = Vec::new();
    for cell in &cells {
        let Some(at) = RULES.iter().position(|rule| cell.fits(rule)) else { continue };
        *reached.entry(at).or_insert(0) += 1;
        let Rule { promise, because, .. } = &RULES[at];
        if promise.is_some_and(|promise| !cell.keeps(promise)) {
            let Cell { way, source, target, word, .. } = cell;
            broken.push(format!("{way} {source}→{target}: '{word}', not {promise:?} ({because})"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    for (at, rule) in RULES.iter().enumerate() {
        assert!(reached.contains_key(&at), "{rule:?} is the first rule of no cell");
    }
}
