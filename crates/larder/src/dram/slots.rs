//! Numbers for segments, so that an index entry can name one in twenty bits.
//!
//! Readers go from number to segment without a further lock. This makes it sound:
//!
//! 1. A slot is filled before any index entry names it. The segment stays there when it is reused.
//! 2. A slot is emptied only when no index entry names it any more, and after the readers that may have found it have
//!    left. Entries change under their shard's write lock. A thread that follows an entry holds that lock, or is such
//!    a reader ([`ReadProof`]). So a thread that found the number in an entry finds the segment in the slot.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::{OnceLock, PoisonError};

use super::index::{Location, Looking, SLOTS_MAX};
use super::readers::{LockProof, ReadProof};
use super::segment::Segment;
use super::segment::{Pin, Share};
use crate::base::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::base::sync::{Mutex, MutexGuard};

const CHUNK: usize = 1024;
const _: () = assert!(SLOTS_MAX.is_multiple_of(CHUNK), "every slot is in a chunk");

type Chunk = Box<[AtomicPtr<Segment>]>;

#[derive(Debug)]
pub(crate) struct Slots {
    /// The address of the segment of each filled slot; its share is in `table`.
    chunks: Box<[OnceLock<Chunk>]>,
    table: Mutex<Table>,
    /// Memory of the segments besides that for records.
    bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct Table {
    /// From slot 1 on. 0 is no slot.
    shares: Vec<Option<Share>>,
    given_back: Vec<u32>,
}

/// A segment whose share is in a slot. The share is removed only by [`Slots::empty`], which by invariant 2 does not
/// happen while the caller holds its [`ReadProof`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotSegment<'a> {
    segment: NonNull<Segment>,
    _slots: PhantomData<&'a Slots>,
}

impl<'a> SlotSegment<'a> {
    #[inline]
    pub(crate) fn segment(self) -> &'a Segment {
        // SAFETY: there is a share.
        unsafe { self.segment.as_ref() }
    }

    /// Prefetches the beginning of a record that will be looked at soon.
    pub(crate) fn prefetch(self, at: usize) {
        self.segment().prefetch(at);
    }

    /// Pins a record for a reader that has just seen an entry that names it. `None` if the record may be being
    /// overwritten. The pin may outlive `looking`.
    #[inline]
    pub(crate) fn pin(self, at: usize, looking: &Looking<'_>) -> Option<Pin> {
        // SAFETY: there is a share.
        let pin = unsafe { Pin::new(self.segment, at) };
        looking.is_as_it_was().then_some(pin)
    }

    /// Pins a record of a locked shard.
    pub(crate) fn pin_locked(self, at: usize, _locked: &LockProof) -> Pin {
        // SAFETY: there is a share.
        unsafe { Pin::new(self.segment, at) }
    }
}

impl Slots {
    pub(crate) fn new() -> Self {
        let chunks = (0..SLOTS_MAX / CHUNK).map(|_| OnceLock::new()).collect();
        Self { chunks, table: Mutex::default(), bytes: AtomicUsize::new(0) }
    }

    /// Memory of the segments besides that for records.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The number of `segment`; assigns one if it has none. `None` if all are in use.
    pub(crate) fn fill(&self, segment: &Share) -> Option<u32> {
        if segment.slot() != 0 {
            return Some(segment.slot());
        }
        let mut table = self.table();
        let slot = match table.given_back.pop() {
            Some(slot) => slot,
            None if table.shares.len() + 1 < SLOTS_MAX => {
                table.shares.push(None);
                u32::try_from(table.shares.len()).expect("below the number of slots")
            }
            None => return None,
        };
        self.bytes.fetch_add(segment.overhead_bytes(), Ordering::Relaxed);
        let before = self.pointer(slot).swap(segment.as_ptr(), Ordering::Release);
        assert!(before.is_null(), "a slot that is given out is empty");
        table.shares[slot as usize - 1] = Some(segment.clone());
        segment.note_slot(slot);
        Some(slot)
    }

    /// The segment that an index entry names, while the entry's shard is held. It was stored before the entry was.
    #[inline]
    pub(crate) fn get<'a>(&'a self, location: Location, _held: &'a ReadProof) -> SlotSegment<'a> {
        debug_assert!(location.slot != 0, "0 is no slot");
        let segment = self.pointer(location.slot).load(Ordering::Acquire);
        let segment = NonNull::new(segment).expect("a slot named by the index is filled");
        SlotSegment { segment, _slots: PhantomData }
    }

    /// Removes the segment from a slot that no index entry names any more, and that was retired until no reader can
    /// have found it.
    pub(crate) fn empty(&self, slot: u32) -> Option<Share> {
        let mut table = self.table();
        let segment = table.shares[slot as usize - 1].take()?;
        assert_eq!(segment.slot(), slot, "a segment keeps its number");
        self.pointer(slot).store(ptr::null_mut(), Ordering::Release);
        table.given_back.push(slot);
        debug_assert!(table.given_back.len() <= table.shares.len(), "a number is given back once");
        let before = self.bytes.fetch_sub(segment.overhead_bytes(), Ordering::Relaxed);
        debug_assert!(before >= segment.overhead_bytes(), "what is in a slot is counted");
        Some(segment)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pointer(&self, slot: u32) -> &AtomicPtr<Segment> {
        let (chunk, at) = (slot as usize / CHUNK, slot as usize % CHUNK);
        let chunk = self.chunks[chunk]
            .get_or_init(|| (0..CHUNK).map(|_| AtomicPtr::new(ptr::null_mut())).collect());
        &chunk[at]
    }
}
