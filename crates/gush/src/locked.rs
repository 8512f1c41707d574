//! Locks that a panic of another thread does not take away.

use std::sync::{LockResult, PoisonError};

/// The guard or the content of a lock that a thread may have held while it panicked.
///
/// That panic is reported by itself, and what is locked is valid between any two changes.
pub trait Unpoisoned<T> {
    /// Takes it in any case.
    fn unpoisoned(self) -> T;
}

impl<T> Unpoisoned<T> for LockResult<T> {
    fn unpoisoned(self) -> T {
        self.unwrap_or_else(PoisonError::into_inner)
    }
}
