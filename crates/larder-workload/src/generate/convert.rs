//! Conversions of numbers from one type to another where the bounds are known but the compiler cannot see them.

/// Converts a size, time or count that was computed in floating point: cuts off the fraction and keeps the result in
/// range.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
#[inline]
pub(super) fn to_u64(number: f64) -> u64 {
    number as u64
}

/// As [`to_u64`], for 32 bits.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
#[inline]
pub(super) fn to_u32(number: f64) -> u32 {
    number as u32
}

/// An index from 0 to `count - 1`, evenly spread over the values of `hash`.
#[inline]
pub(super) fn spread(hash: u64, count: u64) -> u64 {
    ((u128::from(hash) * u128::from(count)) >> 64) as u64
}

/// A number in [0, 1) from the upper 53 bits of a hash.
#[inline]
pub(super) fn unit(hash: u64) -> f64 {
    const SCALE: f64 = 1.0 / (1_u64 << 53) as f64;
    (hash >> 11) as f64 * SCALE
}
