//! A slice that readers find without a lock, and that can be replaced by a longer or shorter one.
#![allow(unsafe_code)]

use std::ptr;

use super::readers::{LockProofAlone, ReadProof, Readers};
use crate::base::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// A slice that is read all the time, and replaced now and then.
#[derive(Debug)]
pub(crate) struct PublishedSlice<T> {
    first: AtomicPtr<T>,
    /// Never more than the length of the slice at `first`: it is changed later if the new slice is longer, and
    /// earlier if it is shorter.
    len: AtomicUsize,
}

/// A slice that was replaced; it is freed when this is dropped. Not a box, which would claim unique access: readers
/// may still look at it.
#[derive(Debug)]
pub(crate) struct ReplacedSlice<T>(*mut [T]);

// SAFETY: it owns the slice, apart from readers on any thread.
unsafe impl<T: Send + Sync> Send for ReplacedSlice<T> {}

impl<T> Drop for ReplacedSlice<T> {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw`, and freed only here, since it was swapped out once. This module passes it
        // only to `Readers::retire`, which returns it when no reader looks at it.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl<T: Send + Sync> PublishedSlice<T> {
    pub(crate) fn new(slice: Box<[T]>) -> Self {
        let len = AtomicUsize::new(slice.len());
        Self { first: AtomicPtr::new(Box::into_raw(slice).cast()), len }
    }

    /// The slice. While it is replaced, a reader without a lock may get only its beginning.
    pub(crate) fn get<'a>(&'a self, _held: &'a ReadProof) -> &'a [T] {
        let mut first = self.first.load(Ordering::SeqCst);
        let len = loop {
            let len = self.len.load(Ordering::SeqCst);
            let again = self.first.load(Ordering::SeqCst);
            if again == first {
                break len;
            }
            first = again; // replaced in between: another thread has made progress
        };
        // SAFETY: `first` comes from `Box::into_raw` with at least `len` elements: `len` was loaded while it was in
        // place, and a replaced slice does not come back before the reader that is held here has left. It is freed in
        // two places. In `drop` `self` is not borrowed. A slice that `replace` retired is freed when it has no users:
        // the thread that replaced it has none, because its `LockProofAlone` was borrowed mutably for that; holders of
        // a lock are excluded by its lock; and the free waits for readers.
        unsafe { std::slice::from_raw_parts(first, len) }
    }

    /// Address and length of the slice. During a replacement the two may not match.
    pub(crate) fn address(&self) -> (*const T, usize) {
        (self.first.load(Ordering::Relaxed), self.len.load(Ordering::Relaxed))
    }

    /// Replaces the slice with `new`, and retires the old one. The caller has locked out all but `readers`.
    pub(crate) fn replace<R: From<ReplacedSlice<T>>>(
        &self,
        new: Box<[T]>,
        readers: &Readers<R>,
        _locked: &mut LockProofAlone,
    ) {
        let old_len = self.len.load(Ordering::SeqCst);
        let new_len = new.len();
        assert!(new_len > 0, "readers expect the new slice to have entries");
        if new_len < old_len {
            self.len.store(new_len, Ordering::SeqCst);
        }
        let old = self.first.swap(Box::into_raw(new).cast(), Ordering::SeqCst);
        self.len.store(new_len, Ordering::SeqCst);
        // Under the lock `len` has the value with which the slice was made.
        readers.retire(R::from(ReplacedSlice(ptr::slice_from_raw_parts_mut(old, old_len))));
    }
}

impl<T> Drop for PublishedSlice<T> {
    fn drop(&mut self) {
        let slice = ptr::slice_from_raw_parts_mut(*self.first.get_mut(), *self.len.get_mut());
        // SAFETY: from `Box::into_raw` with this length, and not borrowed (see `get`).
        drop(unsafe { Box::from_raw(slice) });
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    impl ReplacedSlice<usize> {
        /// Makes a late reader see wrong content.
        fn spoil(self) {
            // SAFETY: as in `drop`.
            unsafe { &mut *self.0 }.fill(usize::MAX);
        }
    }

    #[test]
    fn readers_see_replaced_slices_whole() {
        let len_of = |number: usize| 64 + number * 37 % 200;
        let slice_of = |number: usize| vec![number; len_of(number)].into_boxed_slice();
        let (readers, published) =
            (Readers::<ReplacedSlice<_>>::default(), PublishedSlice::new(slice_of(0)));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut newest = 0;
                    while newest < 2000 {
                        let inside = readers.enter();
                        let seen = published.get(inside.held());
                        assert!(seen[0] >= newest && seen.iter().all(|&number| number == seen[0]));
                        newest = seen[0];
                        // The length may be that of the slice before or after, if that is shorter.
                        assert!(seen.len() <= len_of(newest));
                    }
                });
            }
            let mut locked = LockProofAlone::new();
            for new in 1..=2000 {
                published.replace(slice_of(new), &readers, &mut locked);
                readers.collect().into_iter().for_each(ReplacedSlice::spoil);
            }
        });
    }
}
