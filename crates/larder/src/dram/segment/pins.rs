//! References that keep a segment: parts of the tier hold [`Share`]s, values hold [`Pin`]s.
//!
//! Shares are few and seldom change. Pins come and go with every hit, so they are counted in stripes: two threads
//! that hit the same segment should not contend for a cache line. A pin remembers its stripe, is given back to it,
//! and its clones are counted there too. So a stripe at zero stays at zero once no reader can find the segment any
//! more.
//!
//! The last reference frees the segment. When the last share is dropped, each stripe is marked [`GIVEN_UP`]. A stripe
//! is done when it is marked and at zero, which exactly one thread sees: the one that marks it, or the one whose pin
//! was its last. `undone` counts the stripes that are not done, plus one for the marking itself, so the marking is
//! complete before the segment is freed.
#![allow(unsafe_code)]

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use super::super::record::ItemView;
use super::Segment;
use crate::base::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use crate::base::sync::{STRIPES, stripe};

/// One stripe for this number of bytes of a segment, at most [`STRIPES`]: short segments would gain little for the
/// memory. Under shuttle segments are short.
const STRIPE_BYTES: usize = if cfg!(shuttle) { 256 } else { 32 << 10 };
/// There are no more shares. The bits below count pins: 2^63 of them would take centuries.
const GIVEN_UP: u64 = 1 << 63;

/// The pin counts of a segment.
#[derive(Debug)]
pub(crate) struct Pins {
    /// A power of two.
    stripes: Box<[PinStripe]>,
    undone: AtomicUsize,
}

#[repr(align(64))]
#[derive(Debug, Default)]
struct PinStripe(AtomicU64);

/// A shared reference of the tier to a segment.
#[derive(Debug, Clone)]
pub(crate) struct Share(Arc<Owner>);

/// From `Box::into_raw`, and valid until all stripes are done.
#[derive(Debug)]
struct Owner(NonNull<Segment>);

/// Prevents a record from being overwritten, and its segment from being reused or freed, even after the tier has
/// given the segment up.
#[derive(Debug)]
pub(crate) struct Pin {
    segment: NonNull<Segment>,
    /// The stripe that counts it.
    stripe: u32,
    /// Offset of the record.
    at: u32,
}

// SAFETY: it leads to a segment, which is `Send` and `Sync` (asserted below), and may be the one that frees it.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}
// SAFETY: as above.
unsafe impl Send for Pin {}
// SAFETY: as above.
unsafe impl Sync for Pin {}

const _: () = {
    assert!(STRIPES.is_power_of_two(), "a segment has as many, or a half, or a quarter of them");
    assert!(
        align_of::<PinStripe>() == 64,
        "threads of two stripes do not wait for each other's cache line"
    );
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Segment>();
};

impl Pins {
    pub(super) fn of_segment(bytes: usize) -> Self {
        let stripes = (bytes / STRIPE_BYTES).clamp(1, STRIPES);
        let stripes: Box<[_]> = (0..1 << stripes.ilog2()).map(|_| PinStripe::default()).collect();
        let undone = AtomicUsize::new(stripes.len() + 1);
        Self { stripes, undone }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.stripes)
    }

    /// Whether there are pins. Reads through dropped pins happened before this. `SeqCst` for overwriting.
    pub(super) fn are_any(&self) -> bool {
        self.stripes.iter().any(|stripe| stripe.0.load(Ordering::SeqCst) != 0)
    }
}

/// Counts down by `done`. Returns whether these were the last; if not, the segment and its content may be gone
/// afterwards.
fn are_all_done(undone: &AtomicUsize, done: usize) -> bool {
    let before = undone.fetch_sub(done, Ordering::AcqRel);
    debug_assert!(before >= done, "a stripe is done once");
    before == done
}

impl Share {
    pub(crate) fn new(segment: Segment) -> Self {
        let segment = Box::into_raw(Box::new(segment));
        Self(Arc::new(Owner(NonNull::new(segment).expect("a box is never null"))))
    }

    /// Whether there is no other reference to the segment, except that of its slot. If no entry names the segment,
    /// only the caller can change that: a later pin is given back before anything is read (`index`).
    pub(crate) fn is_alone(&self) -> bool {
        let slots = usize::from(self.slot() != 0);
        if Arc::strong_count(&self.0) != 1 + slots {
            return false;
        }
        // After other shares were dropped and entries were removed, and before the check for pins.
        fence(Ordering::SeqCst);
        !self.pins.are_any()
    }

    /// Address of the segment, valid while there is a share.
    pub(in crate::dram) fn as_ptr(&self) -> *mut Segment {
        self.0.0.as_ptr()
    }

    /// Pins a record that readers cannot find yet: the caller is about to publish it, or never does.
    pub(crate) fn pin(&self, at: usize) -> Pin {
        // SAFETY: this share keeps it during the call.
        unsafe { Pin::new(self.0.0, at) }
    }
}

impl Deref for Share {
    type Target = Segment;

    fn deref(&self) -> &Segment {
        // SAFETY: a segment is freed after its owner is dropped.
        unsafe { self.0.0.as_ref() }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: `undone` counts this owner until the end of this function.
        let pins = unsafe { &self.0.as_ref().pins };
        let mark = |stripe: &&PinStripe| {
            let before = stripe.0.fetch_or(GIVEN_UP, Ordering::AcqRel);
            debug_assert!(before < GIVEN_UP, "a segment is given up once");
            before == 0
        };
        let done = 1 + pins.stripes.iter().filter(mark).count();
        if are_all_done(&pins.undone, done) {
            // SAFETY: from `Box::into_raw`; there are no shares, and all stripes are done.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

impl Pin {
    /// # Safety
    ///
    /// `segment` is that of a [`Share`] that outlives this call.
    #[inline]
    pub(in crate::dram) unsafe fn new(segment: NonNull<Segment>, at: usize) -> Self {
        // SAFETY: valid because of the share.
        let stripes = unsafe { &segment.as_ref().pins.stripes };
        let stripe = stripe() & (stripes.len() - 1);
        // `SeqCst` for the later check whether the record was overwritten.
        let before = stripes[stripe].0.fetch_add(1, Ordering::SeqCst);
        debug_assert!(before < GIVEN_UP, "a share keeps the segment until it is pinned");
        let at = u32::try_from(at).expect("entries point to places of fewer bits");
        Self { segment, stripe: u32::try_from(stripe).expect("there are few stripes"), at }
    }

    /// Offset of the record.
    pub(super) fn at(&self) -> usize {
        self.at as usize
    }

    /// The record.
    #[inline]
    pub(crate) fn record(&self) -> ItemView<'_> {
        Segment::pinned_record(self)
    }

    /// Whether the record has this key.
    #[inline]
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        Segment::pinned_has_key(self, key)
    }

    fn stripe(&self) -> &AtomicU64 {
        &self.pins.stripes[self.stripe as usize].0
    }
}

impl Deref for Pin {
    type Target = Segment;

    fn deref(&self) -> &Segment {
        // SAFETY: the stripe is not done before this pin is dropped.
        unsafe { self.segment.as_ref() }
    }
}

impl Clone for Pin {
    fn clone(&self) -> Self {
        let before = self.stripe().fetch_add(1, Ordering::Relaxed);
        debug_assert!(before & !GIVEN_UP > 0, "a clone is counted beside the pin that it is of");
        Self { ..*self }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let before = self.stripe().fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before & !GIVEN_UP > 0, "a pin is given back where it was taken");
        // If the segment was not given up yet, that may happen at any time from here on.
        if before == GIVEN_UP | 1 && are_all_done(&self.pins.undone, 1) {
            // SAFETY: as in the drop of the owner.
            drop(unsafe { Box::from_raw(self.segment.as_ptr()) });
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::super::super::record::{encode, record_bytes};
    use super::super::Writer;
    use super::*;
    use crate::base::item::ItemRef;
    use crate::base::key::KeyHash;

    #[test]
    fn a_segment_is_alone_when_all_its_pins_have_gone() {
        for bytes in [1, STRIPE_BYTES, 3 * STRIPE_BYTES, 99 * STRIPE_BYTES] {
            let segment = Writer::allocate(bytes).segment().clone();
            let pin = segment.pin(0);
            let other = std::thread::scope(|scope| scope.spawn(|| pin.clone()).join().unwrap());
            assert_eq!(other.capacity(), bytes);
            drop(pin);
            assert!(!segment.is_alone());
            drop(other);
            assert!(segment.is_alone());
            let share = segment.clone();
            assert!(!segment.is_alone());
            drop(share);
            assert!(segment.is_alone());
            segment.note_slot(1);
            assert!(!segment.is_alone(), "the slot has no share");
        }
    }

    /// The sanitizer checks that it is freed, and only once.
    #[test]
    fn values_outlive_the_shares() {
        for _ in 0..500 {
            let mut writer = Writer::allocate(4 * STRIPE_BYTES);
            let item = ItemRef::new(KeyHash::of(b"bread"), b"bread", b"rye", 0);
            writer.append(record_bytes(&item), |room| encode(room, &item)).unwrap();
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    let pin = writer.segment().pin(0);
                    scope.spawn(move || {
                        let clones: Vec<_> = (0..3).map(|_| pin.clone()).collect();
                        drop(pin);
                        clones.into_iter().for_each(|pin| assert_eq!(pin.record().value, b"rye"));
                    });
                }
                drop(writer);
            });
        }
    }

    #[test]
    fn short_segments_pay_for_one_stripe() {
        let stripes = |bytes| Writer::allocate(bytes).segment().pins.stripes.len();
        let counts = [1, STRIPE_BYTES, 2 * STRIPE_BYTES, 7 * STRIPE_BYTES, 1000 * STRIPE_BYTES];
        assert_eq!(counts.map(stripes), [1, 1, 2, 4, STRIPES]);
    }
}
