//! Locks and atomics that a hosted ring shares with other threads: those of `std`, or, with `--cfg shuttle`, ones that
//! let a scheduler choose the next thread at every use.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, atomic};

/// Releases the lock until `changed` is notified or a millisecond is over.
#[cfg(not(shuttle))]
pub(crate) fn nap<T>(changed: &Condvar, guard: MutexGuard<'_, T>) {
    let _ = changed.wait_timeout(guard, std::time::Duration::from_millis(1));
}

#[cfg(shuttle)]
pub(crate) fn nap<T>(_: &Condvar, guard: MutexGuard<'_, T>) {
    drop(guard);
    shuttle::thread::yield_now();
}

/// Pauses so that the kernel may find memory.
#[cfg(not(shuttle))]
pub(crate) fn pause() {
    std::thread::sleep(std::time::Duration::from_micros(50));
}

#[cfg(shuttle)]
pub(crate) fn pause() {
    shuttle::thread::yield_now();
}
