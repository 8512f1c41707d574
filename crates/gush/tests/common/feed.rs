//! Feeding the far end of a stream.

use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::io::Errno;

use super::Dice;

/// The way that a feeder hands out bytes.
#[derive(Clone, Copy, Debug)]
pub struct Feed {
    /// Seeds sizes and delays.
    pub seed: u64,
    /// The most bytes a write.
    pub most_bytes: usize,
    /// Whether the descriptor stays open at the end.
    pub keep: bool,
    /// Whether to sleep now and then.
    pub dawdle: bool,
}

/// Writes `bytes` into `fd` from another thread and hands `fd` back; ends early when nobody reads.
pub fn feed(fd: OwnedFd, bytes: Vec<u8>, how: Feed) -> JoinHandle<Option<OwnedFd>> {
    thread::spawn(move || {
        let mut dice = Dice::new(how.seed);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            // Around the sizes that matter: a sector, a page, a pipe, and more than a pipe.
            let len = dice.pick(&[1, 13, 512, 1000, 4096, 4097, 20_000, 65_536, 300_000]);
            let len = len.min(how.most_bytes).min(rest.len());
            if how.dawdle && dice.below(8) == 0 {
                thread::sleep(Duration::from_micros(200 * dice.below(10) as u64));
            }
            match rustix::io::write(&fd, &rest[..len]) {
                Ok(put) => rest = &rest[put..],
                Err(Errno::INTR) => {}
                // A full queue of datagrams may answer ENOBUFS, for which poll(2) has no event.
                Err(Errno::AGAIN | Errno::NOBUFS) => thread::sleep(Duration::from_micros(200)),
                Err(_) => return None,
            }
        }
        how.keep.then_some(fd)
    })
}
