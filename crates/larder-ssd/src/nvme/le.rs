//! Little-endian fields at fixed places. Reading beyond the end gives `None`, writing there is a
//! bug.

#![deny(clippy::indexing_slicing)]

pub(super) fn u8_at(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u128_at(bytes: &[u8], at: usize) -> Option<u128> {
    Some(u128::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Writes `value` at `at`.
///
/// # Panics
/// If it does not fit: the structures of this module have fixed sizes.
pub(super) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    let (_, room) = bytes.split_at_mut(at);
    let (room, _) = room.split_at_mut(value.len());
    room.copy_from_slice(value);
}
