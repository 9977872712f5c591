//! A slice that readers without a lock find, and that is replaced by longer and shorter ones.
#![allow(unsafe_code)]

use std::ptr;

use super::readers::{Held, LockedAlone, Readers};
use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// A slice that is looked at all the time, and now and then replaced by another one.
#[derive(Debug)]
pub(crate) struct Published<T> {
    first: AtomicPtr<T>,
    /// At no moment more than there are from `first` on: it is changed later if there are more now, and
    /// earlier if there are fewer.
    len: AtomicUsize,
}

/// A slice that was replaced, and is freed when this is dropped. No box, which would be the only one to
/// know its content: readers may still look at it.
#[derive(Debug)]
pub(crate) struct Old<T>(*mut [T]);

// SAFETY: it owns the slice, but for readers, of whatever threads.
unsafe impl<T: Send + Sync> Send for Old<T> {}

impl<T> Drop for Old<T> {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw`, and nobody else frees it: it was swapped out once. This module
        // gives it to `Readers::retire` alone, which gives it back when nobody looks at it.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl<T: Send + Sync> Published<T> {
    pub(crate) fn new(slice: Box<[T]>) -> Self {
        let len = AtomicUsize::new(slice.len());
        Self { first: AtomicPtr::new(Box::into_raw(slice).cast()), len }
    }

    /// The slice. A reader without a lock may find only the beginning of it while it is replaced.
    pub(crate) fn get<'a>(&'a self, _held: &'a Held) -> &'a [T] {
        let mut first = self.first.load(Ordering::SeqCst);
        let len = loop {
            let len = self.len.load(Ordering::SeqCst);
            let again = self.first.load(Ordering::SeqCst);
            if again == first {
                break len;
            }
            first = again; // replaced meanwhile: somebody has gone on
        };
        // SAFETY: what `first` is comes from `Box::into_raw` with at least `len` elements: `len` was
        // loaded while it was there, for it does not come back after it was replaced, not before whoever
        // is held here has left. It is freed in two places. In `drop` nobody borrows `self`. What
        // `replace` retired is freed when nobody has it: not the one who replaced it, whose `LockedAlone` was
        // borrowed for that alone; nobody else by a lock, for its excludes them; and no reader, which is
        // what it waits for.
        unsafe { std::slice::from_raw_parts(first, len) }
    }

    /// Where the slice is, and how long. While it is replaced the two may not belong together.
    pub(crate) fn address(&self) -> (*const T, usize) {
        (self.first.load(Ordering::Relaxed), self.len.load(Ordering::Relaxed))
    }

    /// Puts `new` in its place, and retires the old one. The caller has locked others out, but for
    /// `readers`.
    pub(crate) fn replace<R: From<Old<T>>>(
        &self,
        new: Box<[T]>,
        readers: &Readers<R>,
        _locked: &mut LockedAlone,
    ) {
        let old_len = self.len.load(Ordering::SeqCst);
        let new_len = new.len();
        assert!(new_len > 0, "who looks expects something in what takes the place of another");
        if new_len < old_len {
            self.len.store(new_len, Ordering::SeqCst);
        }
        let old = self.first.swap(Box::into_raw(new).cast(), Ordering::SeqCst);
        self.len.store(new_len, Ordering::SeqCst);
        // With the lock held `len` was what it was made with.
        readers.retire(R::from(Old(ptr::slice_from_raw_parts_mut(old, old_len))));
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

    impl Old<usize> {
        /// Whoever still looked at it would see this.
        fn spoil(self) {
            // SAFETY: as in `drop`.
            unsafe { &mut *self.0 }.fill(usize::MAX);
        }
    }

    #[test]
    fn what_is_replaced_is_whole_for_those_who_look() {
        let len_of = |number: usize| 64 + number * 37 % 200;
        let slice_of = |number: usize| vec![number; len_of(number)].into_boxed_slice();
        let (readers, published) = (Readers::<Old<_>>::default(), Published::new(slice_of(0)));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut newest = 0;
                    while newest < 2000 {
                        let inside = readers.enter();
                        let seen = published.get(inside.held());
                        assert!(seen[0] >= newest && seen.iter().all(|&number| number == seen[0]));
                        newest = seen[0];
                        // The length may be that of the one before or after, if it is less.
                        assert!(seen.len() <= len_of(newest));
                    }
                });
            }
            let mut locked = LockedAlone::new();
            for new in 1..=2000 {
                published.replace(slice_of(new), &readers, &mut locked);
                readers.collect().into_iter().for_each(Old::spoil);
            }
        });
    }
}
