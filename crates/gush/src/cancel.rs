//! Ending moves from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends the moves with this flag ([`Mover::cancelled_by`](crate::Mover::cancelled_by)), from any
/// thread and for good; a clone ends the same moves.
///
/// A move checks between two steps, and every 50 ms of a wait. It then delivers the bytes in flight
/// as far as the target takes them at once, and fails with an error that is
/// [cancelled](crate::Error::is_cancelled) and counts the rest. A call in which the kernel itself
/// waits is not interrupted, such as a read of a dead network file system or of `/proc/kmsg`; the
/// same holds for an [observer](crate::Mover::observe).
///
/// ```
/// use gush::{Cancel, Mover};
///
/// let (idle, _writer) = std::io::pipe()?;
/// let target = tempfile::tempfile()?;
/// let cancel = Cancel::new();
/// let error = std::thread::scope(|scope| {
///     let moving = scope.spawn(|| Mover::new(&idle, &target).cancelled_by(&cancel).run());
///     cancel.cancel();
///     moving.join().unwrap().unwrap_err()
/// });
/// assert!(error.is_cancelled());
/// assert_eq!((error.delivered_bytes(), error.in_flight_bytes()), (0, 0));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A flag not yet used.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the moves with this flag, present and future.
    pub fn cancel(&self) {
        // Only the flag itself is passed on: what else the threads share has its own order.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Was the flag used?
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
