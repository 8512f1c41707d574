//! The load sent through a pair: the number of bytes, the pattern, the size of the pieces.

use std::sync::{Arc, OnceLock};

use super::Kind;

/// Enough for several fills of a pipe, and no multiple of a page: the last piece is always odd.
const VERIFY_BYTES: u64 = 300_001;

/// The most bytes, to verify and at speed, for small, slow and lossy ends; UDP loses bytes at speed
/// and is not timed.
const MOST_BYTES: &[(Kind, u64, u64)] = &[
    (Kind::Udp, 40_001, 0),
    (Kind::UnixDatagram, 100_001, 16 << 20),
    (Kind::Pty, 20_001, 1 << 20),
];

/// The question about a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Whether the cell works, with a few bytes compared at the far end.
    Verify,
    /// How fast so many bytes pass, which are only counted at the far end.
    Speed(u64),
}

/// The bytes of one attempt.
#[derive(Clone, Debug)]
pub(in crate::suite) struct Load {
    pub(in crate::suite) bytes: u64,
    /// The bytes that are sent again and again.
    pub(super) block: Arc<[u8]>,
    /// The most bytes of one write where messages or a terminal are involved.
    pub(super) message_bytes: Option<usize>,
    pub(super) verifies: bool,
}

/// A write that fits every kind of datagram and a terminal's buffer.
const MESSAGE_BYTES: usize = 4096;
/// The length of /proc/self/comm (`TASK_COMM_LEN` of `include/linux/sched.h`, without its end).
const COMM_BYTES: u64 = 15;
/// O_DIRECT takes nothing less everywhere.
const DIRECT_BYTES: u64 = 4096;

/// The time of fewer bytes is mostly that of the start.
const TIMED_BYTES: u64 = 64 << 10;

impl Load {
    /// Are so many bytes enough to be timed?
    pub(super) fn can_be_timed(bytes: u64) -> bool {
        bytes >= TIMED_BYTES
    }

    pub(super) fn of(source: Kind, target: Kind, aim: Aim) -> Self {
        let both = [source, target];
        let mosts = MOST_BYTES.iter().filter(|(kind, ..)| both.contains(kind));
        let bytes = match aim {
            Aim::Verify => mosts.map(|(_, verify, _)| *verify).fold(VERIFY_BYTES, u64::min),
            Aim::Speed(bytes) => mosts.map(|(.., speed)| *speed).fold(bytes, u64::min),
        };
        let bytes =
            if both.contains(&Kind::Direct) { bytes.next_multiple_of(DIRECT_BYTES) } else { bytes };
        // /proc/self/comm keeps 15 bytes of a name (proc_pid_comm(5)).
        let bytes = if target == Kind::Procfs { bytes.min(COMM_BYTES) } else { bytes };
        let small = both.iter().any(|kind| kind.has_messages() || *kind == Kind::Pty);
        Self {
            bytes,
            block: block(),
            message_bytes: small.then_some(MESSAGE_BYTES),
            verifies: aim == Aim::Verify,
        }
    }

    /// The bytes themselves, where they are few.
    pub(super) fn content(&self) -> Vec<u8> {
        let bytes = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        self.block[..bytes.min(self.block.len())].to_vec()
    }
}

/// A mebibyte of random bytes without a zero byte, so that a hole or a lost byte always shows.
fn block() -> Arc<[u8]> {
    static BLOCK: OnceLock<Arc<[u8]>> = OnceLock::new();
    let make = || {
        let mut random = fastrand::Rng::with_seed(1);
        (0..1 << 20).map(|_| random.u8(1..)).collect()
    };
    BLOCK.get_or_init(make).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_fit_the_narrower_end() {
        let bytes = |source, target, aim| Load::of(source, target, aim).bytes;
        assert_eq!(bytes(Kind::Pipe, Kind::Tcp, Aim::Verify), VERIFY_BYTES);
        assert_eq!(bytes(Kind::Udp, Kind::Pty, Aim::Verify), 20_001);
        assert_eq!(bytes(Kind::Direct, Kind::Pipe, Aim::Verify) % DIRECT_BYTES, 0);
        assert_eq!(bytes(Kind::Ext4, Kind::Procfs, Aim::Verify), COMM_BYTES);
        assert_eq!(bytes(Kind::Ext4, Kind::Tcp, Aim::Speed(1 << 30)), 1 << 30);
        assert_eq!(bytes(Kind::Pty, Kind::Tcp, Aim::Speed(1 << 30)), 1 << 20);
        assert_eq!(bytes(Kind::Udp, Kind::Tcp, Aim::Speed(1 << 30)), 0);
    }

    #[test]
    fn the_content_has_no_zero_byte_to_confuse_with_a_hole() {
        let content = Load::of(Kind::Pipe, Kind::Pipe, Aim::Verify).content();
        assert!(content.len() as u64 == VERIFY_BYTES && !content.contains(&0));
    }
}
