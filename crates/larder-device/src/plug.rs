//! Requests that a thread begins one after the other, of which the kernel is told at once.
//!
//! The block layer of Linux calls this a plug (`blk_start_plug`). Where the drive is a guest's, a call of the kernel
//! for each request costs more than the request does: each rings the host's wake_event.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::park::Driver;

thread_local! {
    static PLUG: Plug = const { Plug { depth: Cell::new(0), held: RefCell::new(Vec::new()) } };
}

struct Plug {
    /// Calls of [`plugged`] that this thread is in.
    depth: Cell<u32>,
    /// Who has requests that the kernel does not know of.
    held: RefCell<Vec<Arc<dyn Driver>>>,
}

/// Does `work`, and tells the kernel of all requests that it begins on this thread only when it has ended,
/// with as few calls as possible. For futures that poll many others in a row inside
/// [`block_on`](crate::block_on); `work` should be short, for the first request waits for the last. On a
/// thread that does not wait for its requests itself it makes no difference, as they are handed on together
/// anyway, nor where a device knows no such thing.
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
    /// Ends it, after a panic too.
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

/// `driver` has requests that the kernel is to be told of when the thread unplugs.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) fn hold(driver: Arc<dyn Driver>) {
    let _ = PLUG.try_with(|plug| {
        let mut held = plug.held.borrow_mut();
        if !held.iter().any(|other| Arc::ptr_eq(other, &driver)) {
            held.push(driver);
        }
    });
}

/// Tells the kernel of what is held. Whoever sleeps inside [`plugged`] does so first.
pub(crate) fn tell_all() {
    let next = || PLUG.try_with(|plug| plug.held.borrow_mut().pop()).ok().flatten();
    std::iter::from_fn(next).for_each(|driver| driver.tell());
}
