//! The strings of a collection while it is read.

use super::wrong::Wrong;

/// What each string takes beside its bytes: its end, and later a reference to it.
const BESIDE: usize = 24;

/// Strings one behind the other, which take a bounded memory.
#[derive(Debug)]
pub(super) struct Strings {
    data: Vec<u8>,
    ends: Vec<usize>,
    /// What they may have in the encoding of a collection.
    bytes_max: usize,
}

impl Strings {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { data: Vec::new(), ends: Vec::new(), bytes_max }
    }

    /// Adds a string.
    pub(super) fn add(&mut self, string: &[u8]) -> Result<(), Wrong> {
        // A collection has 4 bytes for each beside its data.
        let next = self.data.len() + string.len() + 4 * (self.ends.len() + 1);
        if next > self.bytes_max {
            return Err(Wrong::CollectionTooLong);
        }
        self.data.extend_from_slice(string);
        self.ends.push(self.data.len());
        Ok(())
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| self.data.get(begin..*end).unwrap_or_default())
    }
}

/// The longest values that a dump may become, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Longest {
    pub(crate) string: usize,
    /// In our encoding.
    pub(crate) collection: usize,
}

impl Longest {
    /// The most memory that reading a dump of this length takes.
    pub(crate) fn memory(self, dump_bytes: usize) -> usize {
        /// The most that compressed bytes become.
        const LONGER: usize = 264;
        let longest = self.string.max(self.collection.saturating_mul(BESIDE / 4));
        dump_bytes.saturating_mul(LONGER).min(longest)
    }
}
