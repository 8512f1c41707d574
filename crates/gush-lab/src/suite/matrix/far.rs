//! The far ends of streams: a thread that feeds, a thread that drains.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gush::Errno;
use rustix::event::PollFlags;
use rustix::fs::OFlags;

use super::raw::is_ready;
use super::{Kind, Load};
use crate::affinity;

/// The orders to a helper.
const GO_ON: u8 = 0;
/// Take the bytes that are still coming, then end.
const FINISH: u8 = 1;
/// End now.
const ABANDON: u8 = 2;

/// How long a helper waits before the next look at its orders.
const SLICE_MS: i64 = 20;
/// How long nothing may come after the end, where no end shows.
const IDLE_SLICES: u32 = 25;

/// A thread at the far end of a stream.
#[derive(Debug)]
pub(super) struct Helper {
    thread: JoinHandle<Done>,
    order: Arc<AtomicU8>,
}

/// The work that a helper did.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Bytes that passed.
    pub(super) bytes: u64,
    /// Those bytes, from a drain that was to keep them.
    pub(super) kept: Vec<u8>,
    /// The far end, kept open: a terminal whose master is closed drops the bytes in its queue.
    _far: Option<OwnedFd>,
}

impl Helper {
    fn start(
        far: OwnedFd,
        processor: Option<usize>,
        work: impl FnOnce(&OwnedFd, &AtomicU8) -> (u64, Vec<u8>) + Send + 'static,
        keeps_open: bool,
    ) -> Self {
        let order = Arc::new(AtomicU8::new(GO_ON));
        let seen = order.clone();
        let thread = thread::spawn(move || {
            if let Some(processor) = processor {
                // Unpinned it is slower, not wrong.
                let _ = affinity::pin(processor);
            }
            // Never waits inside a call, so that it always hears.
            let flags = rustix::fs::fcntl_getfl(&far).unwrap_or(OFlags::empty());
            let _ = rustix::fs::fcntl_setfl(&far, flags | OFlags::NONBLOCK);
            let (bytes, kept) = work(&far, &seen);
            Done { bytes, kept, _far: keeps_open.then_some(far) }
        });
        Self { thread, order }
    }

    /// Lets the helper take the bytes still coming, and waits for the helper's end.
    pub(super) fn finish(self) -> Done {
        self.order.store(FINISH, Ordering::Release);
        self.thread.join().unwrap_or_default()
    }

    /// Ends the helper at once, and waits for the end.
    pub(super) fn abandon(self) -> Done {
        self.order.store(ABANDON, Ordering::Release);
        self.thread.join().unwrap_or_default()
    }
}

/// Feeds `load` into the far end of a source, on `processor` if that is said.
pub(super) fn feed(far: OwnedFd, processor: Option<usize>, kind: Kind, load: &Load) -> Helper {
    let (block, bytes) = (load.block.clone(), load.bytes);
    let most_bytes = load.message_bytes.unwrap_or(256 << 10);
    let work = move |far: &OwnedFd, order: &AtomicU8| {
        let mut fed = 0_u64;
        while fed < bytes && order.load(Ordering::Acquire) == GO_ON {
            let from = usize::try_from(fed % block.len() as u64).unwrap_or(0);
            let left = usize::try_from(bytes - fed).unwrap_or(usize::MAX);
            let piece = &block[from..];
            let piece = &piece[..piece.len().min(left).min(most_bytes)];
            match rustix::io::write(far, piece) {
                Ok(put) => fed += put as u64,
                Err(Errno::AGAIN) => {
                    // A datagram socket is writable although its peer's queue is full.
                    if is_ready(far.as_fd(), PollFlags::OUT, SLICE_MS) {
                        thread::sleep(Duration::from_micros(50));
                    }
                }
                Err(Errno::INTR | Errno::NOBUFS) => {}
                Err(_) => break,
            }
        }
        (fed, Vec::new())
    };
    // A datagram socket ends by no read of 0, and a terminal that loses its master hangs up.
    Helper::start(far, processor, work, !kind.shows_the_end())
}

/// Drains the far end of a target that is to get `bytes` of `load`, on `processor` if that is said.
pub(super) fn drain(
    far: OwnedFd,
    processor: Option<usize>,
    kind: Kind,
    load: &Load,
    bytes: u64,
) -> Helper {
    let (shows_the_end, keeps) = (kind.shows_the_end(), load.verifies);
    let work = move |far: &OwnedFd, order: &AtomicU8| {
        let (mut got, mut kept) = (0_u64, Vec::new());
        // Without memory nobody reads, and the case reports that no byte arrived.
        let Ok(mut buf) = gush::Pages::new(256 << 10) else { return (0, Vec::new()) };
        let mut idle_slices = 0;
        loop {
            if !shows_the_end && got >= bytes && !is_ready(far.as_fd(), PollFlags::IN, 0) {
                break;
            }
            if !is_ready(
                far.as_fd(),
                PollFlags::IN,
                if order.load(Ordering::Acquire) == ABANDON { 0 } else { SLICE_MS },
            ) {
                match order.load(Ordering::Acquire) {
                    ABANDON => break,
                    FINISH => idle_slices += 1,
                    _ => {}
                }
                // Where no end shows, a long silence is the only sign.
                if idle_slices > IDLE_SLICES {
                    break;
                }
                continue;
            }
            idle_slices = 0;
            match rustix::io::read(far, buf.as_mut_slice()) {
                Ok(0) if shows_the_end => break,
                Ok(len) => {
                    got += len as u64;
                    if keeps {
                        kept.extend_from_slice(&buf.as_slice()[..len]);
                    }
                }
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => break,
            }
        }
        (got, kept)
    };
    Helper::start(far, processor, work, false)
}
