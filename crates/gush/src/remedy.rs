//! Remedies for failed calls on the two sides of a move.

use rustix::io::Errno;

use crate::port::Side;

const BOTH: &[Side] = &[Side::Source, Side::Target];

/// The sides, the answer, and the remedy. The first row that fits counts.
#[rustfmt::skip]
const TABLE: &[(&[Side], Errno, &str)] = &[
    (&[Side::Target], Errno::NOSPC, "the target is full: free some space on its file system"),
    (&[Side::Target], Errno::DQUOT, "the user's quota on the target is used up: remove files, or ask for more (`quota -s`)"),
    (&[Side::Target], Errno::FBIG, "the target's file system or the limit on file size (ulimit -f) allows no more"),
    (&[Side::Source], Errno::ISDIR, "a directory has no bytes to move: name a file in it"),
    (&[Side::Source], Errno::BADF, "open the source for reading"),
    (&[Side::Target], Errno::BADF, "open the target for writing"),
    (&[Side::Source], Errno::FAULT, "the source was truncated while it was being copied"),
    (&[Side::Target], Errno::FAULT, "the target was truncated while it was being written"),
    (&[Side::Source], Errno::MSGSIZE, "the next datagram is longer than what is left of the length, or than there is room for"),
    (&[Side::Target], Errno::MSGSIZE, "the target takes no datagram of that size; a smaller buffer makes smaller ones"),
    (BOTH, Errno::IO, "a file of /proc or /sys may not allow this; the kernel log reports a failing device"),

    (BOTH, Errno::CONNREFUSED, "nobody receives at that port or socket"),
    (BOTH, Errno::NETUNREACH, "this machine has no route there; check the network"),
    (BOTH, Errno::HOSTUNREACH, "the host is down, or a firewall refuses"),
    (BOTH, Errno::TIMEDOUT, "the peer no longer answers; is the network up?"),
    (BOTH, Errno::CONNRESET, "the peer broke the connection off: it failed, reached a limit, or closed without reading all"),
    (&[Side::Target], Errno::PIPE, "the peer reads no more"),

    (BOTH, Errno::MFILE, "raise the limit on open files (ulimit -n)"),
    (BOTH, Errno::NFILE, "no program gets another open file: close some, or as root raise fs.file-max (sysctl)"),
    (BOTH, Errno::ROFS, "the file system is mounted read-only: mount -o remount,rw, or choose another place"),
];

/// The remedy for a failed call on one side of a move, where there is one;
/// [`Error::hint`](crate::Error::hint) for programs with calls of their own.
#[must_use]
pub fn hint_for(side: Side, errno: Errno) -> Option<&'static str> {
    TABLE.iter().find(|row| row.0.contains(&side) && row.1 == errno).map(|row| row.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_reached() {
        for (at, (sides, errno, words)) in TABLE.iter().enumerate() {
            let is_reached = |side: &Side| hint_for(*side, *errno) == Some(words);
            assert!(sides.iter().all(is_reached), "row {at}: {words}");
            assert!(!words.ends_with('.') && !words.starts_with(char::is_uppercase), "{words}");
        }
    }
}
