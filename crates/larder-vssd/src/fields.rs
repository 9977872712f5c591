//! Decoding of consecutive little-endian numbers from bytes.

/// Takes values from the front of a slice. The methods return `None` if too few bytes are left.
#[derive(Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// Bytes that are left.
    pub(crate) fn left(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn number(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}
