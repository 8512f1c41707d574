//! The expectations of each way on each pair, as data: the rules of the kernel's sources and manual
//! pages, as probed on Linux 6.18.

use super::{Kind, Outcome, Way};

/// The expectation of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The bytes arrive.
    Works,
    /// The kernel answers this.
    Errno(&'static str),
    /// The call answers 0 although there are bytes.
    FalseEnd,
}

/// A rule: the first that fits a cell is the cell's.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    ways: &'static [&'static str],
    sources: &'static [Kind],
    targets: &'static [Kind],
    /// Source and target on the same file system, or on different ones; none: whichever.
    same: Option<bool>,
    /// The expected outcome; none where the sources promise nothing.
    pub expected: Option<Expected>,
    /// Where that stands.
    pub because: &'static str,
}

use Expected::{Errno, FalseEnd, Works};

const ANY: &[Kind] = &[];
const INVAL: Option<Expected> = Some(Errno("EINVAL"));
const SPLICES: &[&str] = &["splice", "splice-pipe"];
const GIFTS: &[&str] = &["vmsplice", "vmsplice-gift"];
const INTO_PIPES: &[&str] = &["sendfile", "splice", "splice-pipe", "splice-direct"];
const OUT_OF_PIPES: &[&str] =
    &["sendfile", "splice", "splice-pipe", "splice-direct", "vmsplice", "vmsplice-gift"];
/// Without a splice_read of their own.
const NOT_READ: &[Kind] = &[Kind::Null, Kind::ProcfsSeq];
/// Without a splice_write of their own.
const NOT_WRITTEN: &[Kind] = &[Kind::Full, Kind::Procfs];
const REGULAR: &[Kind] = Kind::FILES;
const SHARING: &[Kind] = &[Kind::Xfs, Kind::Btrfs];
const NOT_SHARING: &[Kind] = &[Kind::Ext4, Kind::Tmpfs, Kind::Memfd];
const NOT_REGULAR: &[Kind] = &[
    Kind::Pipe,
    Kind::Fifo,
    Kind::Tcp,
    Kind::UnixStream,
    Kind::UnixDatagram,
    Kind::Udp,
    Kind::Pty,
    Kind::Zero,
    Kind::Null,
    Kind::Full,
];

const fn rule(
    ways: &'static [&'static str],
    sources: &'static [Kind],
    targets: &'static [Kind],
    expected: Option<Expected>,
    because: &'static str,
) -> Rule {
    Rule { ways, sources, targets, same: None, expected, because }
}

const fn among(same: bool, rule: Rule) -> Rule {
    Rule { same: Some(same), ..rule }
}

/// The rules, in order.
#[rustfmt::skip]
const RULES: &[Rule] = &[
    rule(&["read-write"], &[Kind::Null], ANY, Some(Works), "read_null of drivers/char/mem.c answers the end"),
    rule(&["read-write"], ANY, &[Kind::Full], Some(Errno("ENOSPC")), "full(4): a write fails with ENOSPC"),
    rule(&["read-write"], ANY, ANY, Some(Works), "read(2), write(2)"),

    rule(&["sendfile"], &[Kind::Procfs, Kind::ProcfsSeq], &[Kind::UnixDatagram, Kind::Udp], None, "gush refuses: the last datagram could be held back"),
    rule(INTO_PIPES, NOT_READ, ANY, INVAL, "do_splice_read of fs/splice.c: the file has no splice_read"),
    rule(OUT_OF_PIPES, ANY, &[Kind::Append], INVAL, "splice(2): the target is opened in append mode"),
    rule(GIFTS, &[Kind::Null], &[Kind::Direct], None, "gush refuses pieces that may not be aligned; the kernel is not asked"),
    rule(GIFTS, &[Kind::Null], ANY, Some(Works), "nothing is read, so nothing is spliced"),
    rule(&["splice"], Kind::PIPES, &[Kind::Full], INVAL, "do_splice_from of fs/splice.c: the file has no splice_write"),
    rule(&["splice", "vmsplice", "vmsplice-gift"], REGULAR, &[Kind::Full], INVAL, "do_splice_from of fs/splice.c; the file has its bytes still, and gush writes none"),
    rule(&["splice", "vmsplice", "vmsplice-gift"], ANY, &[Kind::Full], Some(Errno("ENOSPC")), "splice says EINVAL; gush then writes what its pipe holds: full(4)"),
    rule(OUT_OF_PIPES, ANY, NOT_WRITTEN, INVAL, "do_splice_from of fs/splice.c: the file has no splice_write"),

    rule(SPLICES, NOT_REGULAR, &[Kind::Direct], None, "fragments of odd sizes: as the file system will have it"),
    rule(SPLICES, &[Kind::Procfs], &[Kind::Direct], None, "fragments of odd sizes: as the file system will have it"),
    rule(GIFTS, ANY, &[Kind::Direct], None, "pieces of odd sizes: as the file system will have it"),
    rule(SPLICES, ANY, ANY, Some(Works), "splice(2); generic_file_splice_read and splice_to_socket of the kernel"),
    rule(GIFTS, ANY, ANY, Some(Works), "vmsplice(2); splice_to_socket and iter_file_splice_write of fs/splice.c"),

    rule(&["splice-direct"], Kind::PIPES, &[Kind::Direct], None, "fragments of odd sizes: as the file system will have it"),
    rule(&["splice-direct"], Kind::PIPES, ANY, Some(Works), "splice(2): one of the two is a pipe"),
    rule(&["splice-direct"], ANY, Kind::PIPES, Some(Works), "splice(2): one of the two is a pipe"),
    rule(&["splice-direct"], ANY, ANY, INVAL, "splice(2): one of the two must be a pipe (do_splice of fs/splice.c)"),

    rule(&["sendfile"], Kind::PIPES, ANY, INVAL, "sendfile(2): the source cannot seek (do_sendfile of fs/read_write.c)"),
    rule(&["sendfile"], &[Kind::UnixDatagram, Kind::Udp], Kind::PIPES, None, "gush refuses: a datagram would be cut to the pipe's room"),
    rule(&["sendfile"], Kind::STREAMS, Kind::PIPES, Some(Works), "do_sendfile of fs/read_write.c: into a pipe it is a splice"),
    rule(&["sendfile"], Kind::STREAMS, ANY, INVAL, "sendfile(2): the source cannot seek (splice_direct_to_actor of fs/splice.c)"),
    rule(&["sendfile"], REGULAR, ANY, Some(Works), "sendfile(2): any target since Linux 2.6.33"),
    rule(&["sendfile"], &[Kind::Procfs], Kind::PIPES, Some(Works), "splice_file_to_pipe of fs/splice.c"),

    rule(&["copy-file-range"], NOT_REGULAR, ANY, INVAL, "copy_file_range(2): not a regular file"),
    rule(&["copy-file-range"], ANY, NOT_REGULAR, INVAL, "copy_file_range(2): not a regular file"),
    rule(&["copy-file-range"], ANY, &[Kind::Append], Some(Errno("EBADF")), "copy_file_range(2): O_APPEND is set for the target"),
    among(false, rule(&["copy-file-range"], REGULAR, REGULAR, Some(Errno("EXDEV")), "copy_file_range(2): two file systems, since Linux 5.19")),
    among(true, rule(&["copy-file-range"], REGULAR, REGULAR, Some(Works), "copy_file_range(2)")),
    among(true, rule(&["copy-file-range"], &[Kind::Procfs], &[Kind::Procfs], Some(FalseEnd), "copy_file_range(2), BUGS: a size of 0 is believed")),

    among(true, rule(&["reflink"], SHARING, SHARING, Some(Works), "ioctl_ficlone(2): this file system shares blocks")),
    among(true, rule(&["reflink"], NOT_SHARING, NOT_SHARING, Some(Errno("EOPNOTSUPP")), "ioctl_ficlone(2): this file system shares no blocks")),
];

impl Rule {
    fn fits(&self, way: &str, from: Kind, to: Kind, same: bool) -> bool {
        let is_in = |kinds: &[Kind], kind| kinds.is_empty() || kinds.contains(&kind);
        self.ways.contains(&way)
            && is_in(self.sources, from)
            && is_in(self.targets, to)
            && self.same.is_none_or(|wanted| wanted == same)
    }

    /// The rule for a cell, if the sources promise anything about the cell; `same` says whether both ends are on
    /// one file system.
    #[must_use]
    pub fn of(way: Way, from: Kind, to: Kind, same: bool) -> Option<&'static Rule> {
        // Special rules stand before general ones.
        let first = RULES.iter().find(|rule| rule.fits(way.name(), from, to, same))?;
        first.expected.is_some().then_some(first)
    }

    /// In a word: `works`, `EINVAL`, `false end`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.expected {
            Some(Works) => "works",
            Some(Errno(name)) => name,
            Some(FalseEnd) => "false end",
            None => "anything",
        }
    }

    /// Does the outcome agree with the rule? Where the engine itself refuses, the kernel's own answer counts; without one
    /// nobody knows whether the rule is right.
    #[must_use]
    pub fn agrees(&self, outcome: &Outcome) -> bool {
        match (self.expected, outcome) {
            (None, _) | (_, Outcome::Absent { .. }) => true,
            (Some(Works), Outcome::Works { .. }) | (Some(FalseEnd), Outcome::FalseEnd) => true,
            (Some(Errno(name)), Outcome::Errno { errno, .. }) => name == errno,
            (Some(expected), Outcome::Refused { kernel, .. }) => {
                match (expected, kernel.as_deref()) {
                    (_, None) => false,
                    (Errno(name), Some(kernel)) => name == kernel,
                    (Works, Some(kernel)) => kernel == "works",
                    (FalseEnd, Some(_)) => true,
                }
            }
            _ => false,
        }
    }

    /// The meaning of an outcome that differs from the rule.
    #[must_use]
    pub fn meaning(&self, outcome: &Outcome) -> &'static str {
        match (self.expected, outcome) {
            (_, Outcome::Wrong { .. }) => {
                "bytes were changed or lost: do not use this way here, and report it"
            }
            (_, Outcome::Hangs { .. }) => "it may hang whoever uses it: do not name it here",
            (_, Outcome::Died { .. }) => {
                "the process died: a defect of gush or of the kernel; report it"
            }
            (_, Outcome::Errno { errno, .. })
                if ["EPERM", "ENOSYS", "EACCES"].contains(&errno.as_str()) =>
            {
                "the call is denied or missing, as in a container or sandbox; auto goes another way"
            }
            (_, Outcome::Errno { errno, .. }) if ["ENOSPC", "EDQUOT"].contains(&errno.as_str()) => {
                "the target's file system is full: make room, or point TMPDIR elsewhere"
            }
            (Some(Works), Outcome::FalseEnd) => "the call lies about the end; auto reads instead",
            (Some(Works), _) => "this kernel does not do it; auto goes another way",
            (Some(_), Outcome::Works { .. }) => "this kernel can do more than Linux 6.18",
            _ => "this kernel says it in another way; auto goes another way all the same",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(way: &str, from: Kind, to: Kind, same: bool) -> Option<&'static str> {
        Rule::of(way.parse().unwrap(), from, to, same).map(Rule::word)
    }

    #[test]
    fn every_way_of_a_rule_exists_and_every_rule_says_where_it_stands() {
        for rule in RULES {
            assert!(rule.ways.iter().all(|name| name.parse::<Way>().is_ok()), "{rule:?}");
            assert!(!rule.because.is_empty());
        }
    }

    #[test]
    fn every_rule_is_the_first_for_some_cell() {
        for (at, rule) in RULES.iter().enumerate() {
            let is_first = |way: &str, from, to, same| {
                RULES.iter().position(|rule| rule.fits(way, from, to, same)) == Some(at)
            };
            let used = rule.ways.iter().any(|way| {
                Kind::ALL.iter().any(|&from| {
                    Kind::ALL
                        .iter()
                        .any(|&to| [true, false].iter().any(|&same| is_first(way, from, to, same)))
                })
            });
            assert!(used, "{rule:?} is never reached");
        }
    }

    #[test]
    fn the_rules_are_those_of_the_manual_pages() {
        assert_eq!(word("splice-direct", Kind::Ext4, Kind::Tcp, false), Some("EINVAL"));
        assert_eq!(word("sendfile", Kind::Ext4, Kind::Ext4, true), Some("works"));
        assert_eq!(word("sendfile", Kind::Tcp, Kind::Ext4, false), Some("EINVAL"));
        assert_eq!(word("splice", Kind::Tcp, Kind::Append, false), Some("EINVAL"));
        assert_eq!(word("copy-file-range", Kind::Ext4, Kind::Tmpfs, false), Some("EXDEV"));
        assert_eq!(word("copy-file-range", Kind::Ext4, Kind::Append, true), Some("EBADF"));
        assert_eq!(word("read-write", Kind::Zero, Kind::Full, false), Some("ENOSPC"));
        assert_eq!(word("mmap-copy", Kind::Ext4, Kind::Ext4, true), None);
    }

    #[test]
    fn a_refusal_by_the_engine_is_judged_by_the_kernels_own_answer() {
        let rule = Rule::of("reflink".parse().unwrap(), Kind::Ext4, Kind::Ext4, true).unwrap();
        let refused = |kernel: Option<&str>| Outcome::Refused {
            why: "its own rule".into(),
            kernel: kernel.map(Into::into),
        };
        assert!(!rule.agrees(&refused(None)), "nobody asked the kernel");
        assert!(rule.agrees(&refused(Some("EOPNOTSUPP"))));
        assert!(!rule.agrees(&refused(Some("works"))));
        assert!(!rule.agrees(&Outcome::Works { bytes: 1 }));
    }
}
