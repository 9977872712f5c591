//! Locks and atomic numbers of what many threads touch at once: those of `std`, or, with
//! `--cfg shuttle`, ones whose every use lets a scheduler choose who goes on. So
//! `cargo xtask interleave` runs the code itself, and no copy of it, in thousands of orders.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic,
};

/// Numbers that every thread changes all the time are kept in stripes, a cache line each, so that
/// threads do not wait for each other's caches. There are so many: a power of two. Where orders are
/// tried out there are few, for some of the few threads to share one.
pub(crate) const STRIPES: usize = if cfg!(shuttle) { 2 } else { 8 };

/// The stripe of this thread. Threads share one when there are more of them than stripes.
#[cfg(not(shuttle))]
#[inline]
pub(crate) fn stripe() -> usize {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const NONE_YET: usize = STRIPES;
    // Made at compile time and never dropped: to look it up is a load.
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

/// Lets others go on, who will change what was looked at `looks` times in vain. Not for long: for
/// what takes others less than a microsecond, unless they were interrupted.
///
/// Whoever was interrupted waits for a core, and so this thread leaves its own. It sleeps for that, and does not
/// yield: whoever yields is put behind all that are runnable, which with many threads a core is a tenth of a
/// second; whoever has slept goes before those who have not.
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

/// Bytes that are about to be written. Where orders are tried out others go on while they are neither
/// old nor new.
#[cfg(not(shuttle))]
#[inline]
pub(crate) fn begin_to_write(_: &mut [u8]) {}

#[cfg(shuttle)]
pub(crate) fn begin_to_write(bytes: &mut [u8]) {
    bytes.fill(0xee);
    shuttle::thread::yield_now();
}
