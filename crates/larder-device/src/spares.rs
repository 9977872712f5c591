//! Memory of ended requests, kept for later requests, so that these allocate nothing.
//!
//! A request often ends on another thread than the one that made it. So a thread with too many spares moves some to a
//! heap that all threads share, and a thread without any takes a batch from there.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most spares that a thread keeps.
const KEPT_MAX: usize = 64;
/// Number of spares that move to or from the heap at a time.
const BATCH: usize = 32;
/// Most spares on the heap. If there are more, they were in flight at once only for a moment.
const HEAP_MAX: usize = 1024;
const _: () = assert!(
    BATCH <= KEPT_MAX && HEAP_MAX.is_multiple_of(BATCH),
    "what goes to the heap was kept, and the heap is full when it has no room for more"
);
/// Number of checks whether the other holder has dropped the value, before this thread yields the processor.
const LOOKS: u32 = 64;

/// The spares of one thread.
pub(crate) struct Spares<T: 'static> {
    own: RefCell<Vec<Arc<T>>>,
    heap: &'static Heap<T>,
}

/// The spares that all threads share.
pub(crate) struct Heap<T>(Mutex<Vec<Arc<T>>>);

impl<T> Heap<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Default> Spares<T> {
    pub(crate) const fn new(heap: &'static Heap<T>) -> Self {
        Self { own: RefCell::new(Vec::new()), heap }
    }

    /// A value with no other holder.
    pub(crate) fn take(&self) -> Arc<T> {
        let mut own = self.own.borrow_mut();
        if own.is_empty() {
            let mut heap = self.heap.lock();
            let rest = heap.len().saturating_sub(BATCH);
            own.extend(heap.drain(rest..));
        }
        own.pop().unwrap_or_default()
    }

    /// Keeps `spare`, which must have no other holder.
    pub(crate) fn keep(&self, spare: Arc<T>) {
        debug_assert_eq!(Arc::strong_count(&spare), 1);
        let mut own = self.own.borrow_mut();
        if own.len() == KEPT_MAX {
            let surplus = own.drain(KEPT_MAX - BATCH..);
            let mut heap = self.heap.lock();
            if heap.len() < HEAP_MAX {
                heap.reserve(BATCH);
                heap.extend(surplus);
            }
        }
        debug_assert!(own.len() < KEPT_MAX, "{} are kept", own.len());
        own.push(spare);
    }
}

/// The value of `shared` for its last holder, when all others are about to drop their shares without any other use.
/// Waits until they have.
pub(crate) fn sole<T>(shared: &mut Arc<T>) -> &mut T {
    let mut looks = 0;
    while Arc::get_mut(shared).is_none() {
        looks += 1;
        if looks % LOOKS == 0 {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
    Arc::get_mut(shared).expect("no other owner can clone the only share")
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocation_counter::measure;
    use std::sync::mpsc::sync_channel;

    static HEAP: Heap<u64> = Heap::new();

    thread_local! {
        static SPARES: Spares<u64> = const { Spares::new(&HEAP) };
    }

    /// One thread begins all requests, one at a time, and another ends them.
    #[test]
    fn what_ends_elsewhere_comes_back() {
        let (begun, to_end) = sync_channel::<Arc<u64>>(1);
        let (end, ended) = sync_channel(1);
        let other = std::thread::spawn(move || {
            while let Ok(spare) = to_end.recv() {
                SPARES.with(|spares| spares.keep(spare));
                end.send(()).unwrap();
            }
        });
        let begin = |requests: usize| {
            for _ in 0..requests {
                begun.send(SPARES.with(Spares::take)).unwrap();
                ended.recv().unwrap();
            }
        };
        // The other thread has filled its own spares, and the channels are warm.
        begin(2 * KEPT_MAX);
        let counted = measure(|| begin(10_000));
        assert_eq!(counted.count_total, 0);
        drop(begun);
        other.join().unwrap();
        assert!(HEAP.lock().len() <= KEPT_MAX, "no more than were kept elsewhere");
    }

    #[test]
    fn too_many_are_freed() {
        static HEAP: Heap<u64> = Heap::new();
        let spares = Spares::new(&HEAP);
        (0..3 * HEAP_MAX).for_each(|_| spares.keep(Arc::default()));
        assert_eq!(HEAP.lock().len(), HEAP_MAX);
        assert!(spares.own.borrow().len() <= KEPT_MAX);
    }

    #[test]
    fn the_last_holder_waits_for_the_others() {
        let mut shared = Arc::new(7);
        let other = Arc::clone(&shared);
        let thread = std::thread::spawn(move || drop(other));
        assert_eq!(*sole(&mut shared), 7);
        thread.join().unwrap();
    }
}
