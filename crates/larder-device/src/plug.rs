//! Requests that a thread begins one after the other and submits to the kernel together.
//!
//! The block layer of Linux calls this a plug (`blk_start_plug`). In a virtual machine, a call of the kernel for each
//! request costs more than the request itself, because each call notifies the host.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::driver::Driver;

thread_local! {
    static PLUG: Plug = const { Plug { depth: Cell::new(0), held: RefCell::new(Vec::new()) } };
}

struct Plug {
    /// Nesting depth of [`plugged`] on this thread.
    depth: Cell<u32>,
    /// Drivers with requests that the kernel was not told of yet.
    held: RefCell<Vec<Arc<dyn Driver>>>,
}

/// Runs `work`, and submits all requests that it begins on this thread only when it has ended, with as few kernel calls
/// as possible. For futures that poll many others in a row inside [`block_on`](crate::block_on). `work` should be
/// short, because the first request waits for the last. It makes no difference on a thread that does not wait for its
/// requests itself, because they are handed on together anyway, nor on a device that does not support it.
///
/// ```
/// use larder_device::{Device, Io, IoBuffer, MemoryDevice, block_on, plugged};
///
/// let device = MemoryDevice::holding(vec![7; 1 << 20]);
/// let read = |block: u64| {
///     device.submit(Io::Read { offset: 4096 * block, buffer: IoBuffer::zeroed(4096) })
/// };
/// block_on(async {
///     let reads: Vec<_> = plugged(|| (0..8).map(read).collect());
///     for read in reads {
///         assert_eq!(read.await.unwrap().len(), 4096);
///     }
/// });
/// ```
pub fn plugged<T>(work: impl FnOnce() -> T) -> T {
    /// Unplugs when dropped, also during a panic.
    struct Unplugs;
    impl Drop for Unplugs {
        fn drop(&mut self) {
            let depth = PLUG.try_with(|plug| plug.depth.replace(plug.depth.get() - 1));
            if depth == Ok(1) {
                tell_all();
            }
        }
    }
    let unplugs = PLUG.try_with(|plug| plug.depth.set(plug.depth.get() + 1)).map(|()| Unplugs);
    let done = work();
    drop(unplugs);
    done
}

/// Whether this thread is inside [`plugged`].
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) fn is_plugged() -> bool {
    PLUG.try_with(|plug| plug.depth.get() > 0).unwrap_or(false)
}

/// Registers `driver` as having requests to submit when the thread unplugs.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) fn hold(driver: Arc<dyn Driver>) {
    let _ = PLUG.try_with(|plug| {
        let mut held = plug.held.borrow_mut();
        if !held.iter().any(|other| Arc::ptr_eq(other, &driver)) {
            held.push(driver);
        }
    });
}

/// Submits all held requests. A thread that sleeps inside [`plugged`] calls this first.
pub(crate) fn tell_all() {
    let next = || PLUG.try_with(|plug| plug.held.borrow_mut().pop()).ok().flatten();
    std::iter::from_fn(next).for_each(|driver| driver.tell());
}
