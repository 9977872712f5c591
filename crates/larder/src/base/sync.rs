//! Locks and atomics for shared state. They are those of `std`, or, with `--cfg shuttle`, ones that let a scheduler
//! choose the next thread at every use. So `cargo xtask interleave` runs the code itself, and not a copy of it, in
//! thousands of orders.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic,
};

/// Number of stripes, a power of two. Numbers that every thread changes all the time are kept in stripes of a cache
/// line each, so that threads do not share a line. Under shuttle there are few, so that some of its few threads share
/// a stripe.
pub(crate) const STRIPES: usize = if cfg!(shuttle) { 2 } else { 8 };

/// The stripe of this thread. Threads share one when there are more of them than stripes.
#[cfg(not(shuttle))]
#[inline]
pub(crate) fn stripe() -> usize {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const NONE_YET: usize = STRIPES;
    // Initialized at compile time and never dropped, so access is a single load.
    thread_local!(static STRIPE: Cell<usize> = const { Cell::new(NONE_YET) });
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    STRIPE.with(|stripe| {
        if stripe.get() == NONE_YET {
            stripe.set(THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES);
        }
        stripe.get()
    })
}

#[cfg(shuttle)]
pub(crate) fn stripe() -> usize {
    shuttle::current::try_get_current_task().map_or(0, usize::from) % STRIPES
}

/// Lets other threads run after `looks` checks in vain. For short waits only: for work that takes another thread less
/// than a microsecond, unless it was preempted.
///
/// A preempted thread waits for a core, so this thread leaves its own. It sleeps instead of yielding: a thread that
/// yields goes behind all runnable threads, which with many threads per core takes a tenth of a second; a thread that
/// has slept runs before those that have not.
#[cfg(not(shuttle))]
pub(crate) fn wait_a_little(looks: u32) {
    match looks {
        0..32 => std::hint::spin_loop(),
        _ => std::thread::sleep(std::time::Duration::from_micros(20)),
    }
}

#[cfg(shuttle)]
pub(crate) fn wait_a_little(_: u32) {
    shuttle::thread::yield_now();
}

/// Marks bytes that are about to be written. Under shuttle other threads run while the bytes are neither old nor new.
#[cfg(not(shuttle))]
#[inline]
pub(crate) fn begin_to_write(_: &mut [u8]) {}

#[cfg(shuttle)]
pub(crate) fn begin_to_write(bytes: &mut [u8]) {
    bytes.fill(0xee);
    shuttle::thread::yield_now();
}
