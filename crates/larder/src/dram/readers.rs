//! Readers without a lock, and how one waits until they have left.
//!
//! A reader is counted from [`Readers::enter`] on until its [`Inside`] is dropped. Who takes away
//! what readers may look at (a table, the segment of a slot) goes three steps: let nobody find it who
//! comes later; [`Readers::wait`]; free it. Readers never wait, and write nothing but a count in a
//! cache line of their own thread.
//!
//! This is why nobody looks at what was freed. The waiter has a fence between its change and its look
//! at the counts, and sees each of them at zero once. Take any reader, and the count that it added to:
//!
//! - Either the zero that was seen comes after the addition. Then it comes after the subtraction too:
//!   the reader has left. It left with `Release` and was seen with `Acquire`, so that what it looked at
//!   was looked at before it is freed.
//! - Or it comes before the addition. Then the fence comes before the addition in the one order of
//!   all `SeqCst` operations. The addition comes before the loads by which the reader finds
//!   anything, table and entries, if these are `SeqCst`: so they see the change.
//!
//! With one count a stripe a waiter might never see a zero: threads that share it could relieve each
//! other. So there are two, and the phase says which one newcomers use. The waiter first looks at
//! the one that they do not use, turns the phase, and looks at the other. For a reader that read
//! the phase before and adds to its count after, both cases above hold as well: the phase matters
//! to progress alone.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::PoisonError;

use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};
use crate::sync::{Mutex, STRIPES, stripe, wait_a_little};

/// Proof that the index's shard is locked, or that a reader is inside: tables stay where they are and
/// slots that entries name stay filled as long as this lives.
#[derive(Debug)]
pub(crate) struct Held(());

impl Held {
    /// The caller holds the lock of a shard, and looks at this shard only.
    pub(super) fn by_lock() -> Self {
        Self(())
    }
}

/// Counts readers.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    stripes: [Stripe; STRIPES],
    /// Its lowest bit is the count of a stripe that newcomers use.
    phase: AtomicUsize,
    /// Held by the one who waits.
    turn: Mutex<()>,
}

#[repr(align(64))]
#[derive(Debug, Default)]
struct Stripe([AtomicUsize; 2]);

/// A reader, until it is dropped. It must not take locks, nor wait.
#[derive(Debug)]
pub(crate) struct Inside<'a> {
    count: &'a AtomicUsize,
    held: Held,
}

impl Readers {
    pub(crate) fn enter(&self) -> Inside<'_> {
        let phase = self.phase.load(Ordering::Relaxed);
        let count = &self.stripes[stripe()].0[phase & 1];
        count.fetch_add(1, Ordering::SeqCst);
        Inside { count, held: Held(()) }
    }

    /// Returns when every reader has left who may have seen what was there before the call.
    pub(crate) fn wait(&self) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        fence(Ordering::SeqCst);
        let phase = self.phase.load(Ordering::Relaxed);
        self.see_zeros(!phase & 1);
        self.phase.store(phase.wrapping_add(1), Ordering::Relaxed);
        self.see_zeros(phase & 1);
    }

    fn see_zeros(&self, phase: usize) {
        for stripe in &self.stripes {
            let mut looks = 0;
            while stripe.0[phase].load(Ordering::Acquire) != 0 {
                wait_a_little(looks);
                looks += 1;
            }
        }
    }
}

impl Inside<'_> {
    pub(crate) fn held(&self) -> &Held {
        &self.held
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Release);
    }
}

/// A slice that is looked at all the time, and now and then replaced by a longer one.
#[derive(Debug)]
pub(crate) struct Published<T> {
    first: AtomicPtr<T>,
    /// Never more than there are from `first` on: it is changed later and read earlier.
    len: AtomicUsize,
}

impl<T: Send + Sync> Published<T> {
    pub(crate) fn new(slice: Box<[T]>) -> Self {
        let len = AtomicUsize::new(slice.len());
        Self { first: AtomicPtr::new(Box::into_raw(slice).cast()), len }
    }

    /// The slice. A reader without a lock may find only the beginning of it while it is replaced.
    pub(crate) fn get<'a>(&'a self, _held: &'a Held) -> &'a [T] {
        let len = self.len.load(Ordering::SeqCst);
        let first = self.first.load(Ordering::SeqCst);
        // SAFETY: what `first` is comes from `Box::into_raw` with at least `len` elements, and is
        // freed in two places. In `drop` nobody borrows `self`. In `replace` nobody has it: not the one
        // who replaces it, whose `Held` is borrowed for that alone; nobody else by a lock, for
        // his excludes them; and no reader, for he waited after the change (see above).
        unsafe { std::slice::from_raw_parts(first, len) }
    }

    /// Where the slice is, and how long. While it is replaced the two may not belong together.
    pub(crate) fn address(&self) -> (*const T, usize) {
        (self.first.load(Ordering::Relaxed), self.len.load(Ordering::Relaxed))
    }

    /// Puts `new` in its place, which is not shorter. The caller has locked others out, but for
    /// `readers`.
    pub(crate) fn replace(&self, new: Box<[T]>, readers: &Readers, _held: &mut Held) {
        let old_len = self.len.load(Ordering::SeqCst);
        assert!(new.len() >= old_len, "it only grows");
        let new_len = new.len();
        let old = self.first.swap(Box::into_raw(new).cast(), Ordering::SeqCst);
        self.len.store(new_len, Ordering::SeqCst);
        readers.wait();
        // SAFETY: as in `get`; the swap makes sure that it is freed once. With the lock held `len`
        // was what it was made with.
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(old, old_len)) });
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        let slice = ptr::slice_from_raw_parts_mut(*self.first.get_mut(), *self.len.get_mut());
        // SAFETY: from `Box::into_raw` with this length, and nobody borrows it (see `get`).
        drop(unsafe { Box::from_raw(slice) });
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn the_waiter_returns_when_those_inside_have_left_and_not_before() {
        let (readers, waited) = (Readers::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let inside = readers.enter();
            scope.spawn(|| {
                readers.wait();
                waited.store(true, Ordering::SeqCst);
            });
            // Others come and go; the waiter turns the phase, and waits for the one who stays.
            while readers.phase.load(Ordering::SeqCst) == 0 {
                drop(readers.enter());
            }
            let newcomer = readers.enter();
            assert!(!waited.load(Ordering::SeqCst));
            drop(inside);
            while !waited.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            drop(newcomer);
        });
    }

    #[test]
    fn what_is_replaced_is_whole_for_those_who_look() {
        let slice_of = |number: usize| vec![number; 64 + number / 100].into_boxed_slice();
        let (readers, published) = (Readers::default(), Published::new(slice_of(0)));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut newest = 0;
                    while newest < 2000 {
                        let inside = readers.enter();
                        let seen = published.get(inside.held());
                        assert!(seen[0] >= newest && seen.iter().all(|&number| number == seen[0]));
                        newest = seen[0];
                        // The length may be that of the one before.
                        assert!(
                            (64 + newest.saturating_sub(1) / 100..=64 + newest / 100)
                                .contains(&seen.len())
                        );
                    }
                });
            }
            let mut held = Held::by_lock();
            (1..=2000).for_each(|new| published.replace(slice_of(new), &readers, &mut held));
        });
    }
}
