//! Locks that outlive a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lock, also after a thread panicked while it held it: to be used for what is never half made.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
