//! Numbers for segments, so that an index entry can name one in twenty bits.
//!
//! Readers go from number to segment without a lock of their own; this is what makes it sound:
//!
//! 1. A slot is filled before any index entry names it.
//! 2. A slot is emptied only when no index entry names it any more. Entries change under their
//!    shard's write lock, and who follows one holds that lock ([`Held`]): so whoever found the
//!    number in an entry finds the segment in the slot.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::{Arc, OnceLock, PoisonError};

use super::index::{Held, Location, SLOTS_MAX};
use super::segment::Segment;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicPtr, Ordering};

const CHUNK: usize = 1024;

type Chunk = Box<[AtomicPtr<Segment>]>;

#[derive(Debug)]
pub(crate) struct Slots {
    chunks: Box<[OnceLock<Chunk>]>,
    unused: Mutex<Unused>,
}

#[derive(Debug)]
struct Unused {
    given_back: Vec<u32>,
    /// Never given out so far, from here on. 0 is no slot.
    next: u32,
}

impl Slots {
    pub(crate) fn new() -> Self {
        let chunks = (0..SLOTS_MAX / CHUNK).map(|_| OnceLock::new()).collect();
        Self { chunks, unused: Mutex::new(Unused { given_back: Vec::new(), next: 1 }) }
    }

    /// Gives `segment` a number. `None` if all are in use.
    pub(crate) fn fill(&self, segment: Arc<Segment>) -> Option<u32> {
        let slot = {
            let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
            match unused.given_back.pop() {
                Some(slot) => slot,
                None if (unused.next as usize) < SLOTS_MAX => {
                    unused.next += 1;
                    unused.next - 1
                }
                None => return None,
            }
        };
        let pointer = Arc::into_raw(segment).cast_mut();
        self.pointer(slot).store(pointer, Ordering::Release);
        Some(slot)
    }

    /// The segment that an index entry names, as long as the entry's shard is locked.
    pub(crate) fn get<'a>(&'a self, location: Location, _held: &'a Held) -> &'a Segment {
        let pointer = self.pointer(location.slot).load(Ordering::Acquire);
        assert!(!pointer.is_null(), "a slot named by the index is filled");
        // SAFETY: the pointer came from `Arc::into_raw`, and that count is given up only by
        // `empty`, which by invariant 2 does not happen while `held` lives.
        unsafe { &*pointer }
    }

    /// The same, pinned: it outlives the lock.
    pub(crate) fn pin(&self, location: Location, _held: &Held) -> Arc<Segment> {
        let pointer = self.pointer(location.slot).load(Ordering::Acquire);
        assert!(!pointer.is_null(), "a slot named by the index is filled");
        // SAFETY: as in `get`, the slot's own count keeps the segment alive here; the new count
        // belongs to the `Arc` that is returned.
        unsafe {
            Arc::increment_strong_count(pointer);
            Arc::from_raw(pointer)
        }
    }

    /// Takes the segment out of a slot that no index entry names any more.
    pub(crate) fn empty(&self, slot: u32) -> Option<Arc<Segment>> {
        let pointer = self.pointer(slot).swap(ptr::null_mut(), Ordering::AcqRel);
        if pointer.is_null() {
            return None;
        }
        self.unused.lock().unwrap_or_else(PoisonError::into_inner).given_back.push(slot);
        // SAFETY: from `Arc::into_raw` in `fill`; the swap makes sure that its count is taken back
        // once.
        Some(unsafe { Arc::from_raw(pointer) })
    }

    fn pointer(&self, slot: u32) -> &AtomicPtr<Segment> {
        let (chunk, at) = (slot as usize / CHUNK, slot as usize % CHUNK);
        let chunk = self.chunks[chunk]
            .get_or_init(|| (0..CHUNK).map(|_| AtomicPtr::new(ptr::null_mut())).collect());
        &chunk[at]
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        let next = self.unused.get_mut().unwrap_or_else(PoisonError::into_inner).next;
        (1..next).for_each(|slot| drop(self.empty(slot)));
    }
}
