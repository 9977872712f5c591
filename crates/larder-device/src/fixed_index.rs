//! Indices of buffers in the rings' tables of registered buffers (io_uring: fixed buffers).
//!
//! Every ring has a table of [`ENTRIES`] entries, and a buffer has the same index in all of them for as long as its
//! memory lives, so a ring finds it without searching. An index is used again when its buffer is gone. The [`Tag`]
//! distinguishes the two: no other buffer of this process ever has the same tag. If a ring remembers another tag at an
//! index, it has old memory registered there.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entries of a ring's table: 16 MiB in blocks of 4096 bytes, as much as one pool keeps. The kernel needs 8 bytes for
/// each entry in every ring, and so do we.
pub(crate) const ENTRIES: usize = 4096;

/// Buffers of more pages than this leave half of the indices to shorter buffers, which are many.
const SHORT_PAGES_MAX: usize = 16;

/// The tag of the buffer that has each index; 0 if the index is free.
static HOLDERS: [AtomicU64; ENTRIES] = [const { AtomicU64::new(0) }; ENTRIES];

/// Number of free indices.
static FREE: AtomicU64 = AtomicU64::new(ENTRIES as u64);

/// How many times an index was given back.
static GIVEN_BACK: AtomicU64 = AtomicU64::new(0);

static INDICES: Mutex<Indices> =
    Mutex::new(Indices { fresh: 0, given_back: Vec::new(), handed_out: 0 });

struct Indices {
    /// Indices from here on were never used.
    fresh: usize,
    given_back: Vec<usize>,
    /// How many times an index was handed out.
    handed_out: u64,
}

/// The right to an index. Dropping it gives the index back.
#[derive(Debug)]
pub(crate) struct FixedIndex(Tag);

/// Identifies one buffer among all that this process ever had, and its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag(NonZeroU64);

/// The buffer of a request, for registration with a ring; a piece of the request is a part of it. The memory that the
/// tag identifies stays in place as long as any piece is held.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) struct Registrable {
    pub(crate) tag: Tag,
    pub(crate) start: *mut u8,
    pub(crate) bytes: usize,
}

impl FixedIndex {
    /// A free index for a buffer of `pages`. `None` if none is left for a buffer of that size; this check takes no
    /// lock.
    pub(crate) fn take(pages: usize) -> Option<Self> {
        if FREE.load(Ordering::Relaxed) <= left_to_others(pages) {
            return None;
        }
        let mut indices = lock();
        let tag = indices.take()?;
        FREE.fetch_sub(1, Ordering::Relaxed);
        HOLDERS[tag.index()].store(tag.0.get(), Ordering::Relaxed);
        Some(Self(tag))
    }

    pub(crate) fn tag(&self) -> Tag {
        self.0
    }
}

/// Number of indices that a buffer of `pages` must leave to shorter ones.
fn left_to_others(pages: usize) -> u64 {
    if pages > SHORT_PAGES_MAX { ENTRIES as u64 / 2 } else { 0 }
}

impl Drop for FixedIndex {
    fn drop(&mut self) {
        let mut indices = lock();
        HOLDERS[self.0.index()].store(0, Ordering::Relaxed);
        GIVEN_BACK.fetch_add(1, Ordering::Relaxed);
        FREE.fetch_add(1, Ordering::Relaxed);
        indices.given_back.push(self.0.index());
    }
}

impl Indices {
    fn take(&mut self) -> Option<Tag> {
        let index = match self.given_back.pop() {
            Some(index) => index,
            None if self.fresh < ENTRIES => {
                self.fresh += 1;
                self.fresh - 1
            }
            None => return None,
        };
        self.handed_out += 1;
        // 2^52 tags are enough for any process.
        NonZeroU64::new(self.handed_out * ENTRIES as u64 + index as u64).map(Tag)
    }
}

#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
impl Tag {
    /// The index, below [`ENTRIES`].
    pub(crate) fn index(self) -> usize {
        // The remainder fits any width of `usize`.
        usize::try_from(self.0.get() % ENTRIES as u64).unwrap_or(0)
    }

    /// Whether the buffer still exists. For code that does not hold the buffer; it may go at any time.
    pub(crate) fn is_held(self) -> bool {
        HOLDERS[self.index()].load(Ordering::Relaxed) == self.0.get()
    }

    /// The tag of an earlier buffer with the same index.
    #[cfg(test)]
    pub(crate) fn earlier(self) -> Self {
        NonZeroU64::new(self.0.get() - ENTRIES as u64).map(Self).expect("not the first one")
    }
}

/// A counter that changes whenever a buffer with an index is freed.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) fn given_back() -> u64 {
    GIVEN_BACK.load(Ordering::Relaxed)
}

fn lock() -> MutexGuard<'static, Indices> {
    INDICES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_has_one_holder_and_a_tag_never_comes_back() {
        let many: Vec<_> = (0..100).map_while(|_| FixedIndex::take(1)).collect();
        let tags: Vec<Tag> = many.iter().map(FixedIndex::tag).collect();
        let mut indices: Vec<usize> = tags.iter().map(|tag| tag.index()).collect();
        indices.sort_unstable();
        indices.dedup();
        assert_eq!(indices.len(), many.len());
        assert!(tags.iter().all(|tag| tag.is_held()));
        let before = given_back();
        drop(many);
        assert!(given_back() >= before + tags.len() as u64);
        assert!(tags.iter().all(|tag| !tag.is_held()));
        let anew: Vec<_> = (0..100).map_while(|_| FixedIndex::take(1)).collect();
        assert!(anew.iter().all(|index| !tags.contains(&index.tag())));
    }

    #[test]
    fn long_buffers_leave_indices_to_short_ones() {
        assert_eq!((left_to_others(1), left_to_others(SHORT_PAGES_MAX)), (0, 0));
        assert_eq!(left_to_others(SHORT_PAGES_MAX + 1), ENTRIES as u64 / 2);
    }

    #[test]
    fn there_are_as_many_as_entries() {
        let mut indices = Indices { fresh: 0, given_back: Vec::new(), handed_out: 0 };
        let tags: Vec<Tag> = std::iter::from_fn(|| indices.take()).collect();
        assert_eq!(tags.len(), ENTRIES);
        assert!(tags.iter().map(|tag| tag.index()).eq(0..ENTRIES));
        indices.given_back.push(7);
        let again = indices.take().unwrap();
        assert!(again.index() == 7 && again != tags[7]);
        assert_eq!(indices.take(), None);
    }
}
