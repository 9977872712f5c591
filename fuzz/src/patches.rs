//! Changes to something that is too long to be an input itself: the input says what changes where.
//!
//! ```text
//!  bytes  field
//!      4  place, little-endian; the target takes it modulo its length
//!      1  n: bytes to write, 1 to 16 by its lowest four bits
//!      n  the bytes
//! ```

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patch<'a> {
    /// Offset, before it is brought into range.
    pub place: usize,
    /// The new bytes.
    pub bytes: &'a [u8],
}

impl Patch<'_> {
    /// Writes the bytes into `target`, as far as they fit after their offset.
    pub fn apply(&self, target: &mut [u8]) {
        if target.is_empty() {
            return;
        }
        let at = self.place % target.len();
        target[at..].iter_mut().zip(self.bytes).for_each(|(byte, new)| *byte = *new);
    }
}

/// All changes that an input describes.
pub fn of(mut input: &[u8]) -> impl Iterator<Item = Patch<'_>> {
    std::iter::from_fn(move || {
        let (place, rest) = input.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first()?;
        let (bytes, rest) = rest.split_at_checked(usize::from(length % 16) + 1)?;
        input = rest;
        Some(Patch { place: u32::from_le_bytes(*place) as usize, bytes })
    })
}
