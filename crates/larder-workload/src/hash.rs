//! Mixes numbers into keys, and keys into their properties.

const A: u64 = 0x9e37_79b9_7f4a_7c15;
const B: u64 = 0xd6e8_feb8_6659_fd93;

/// Mixes two numbers into one; every bit of the result depends on every bit of both. Not safe against adversaries.
#[inline]
pub(super) fn mix(a: u64, b: u64) -> u64 {
    // The fold alone would map all `b` to one number for one particular `a`.
    fold(fold(a ^ A, b ^ B).wrapping_add(a.rotate_left(32)).wrapping_add(b), B)
}

/// Spreads the bits of one number. The results for two neighbouring numbers are related. For a result of [`mix`], the
/// new number is unrelated to the upper bits of the old one.
#[inline]
pub(super) fn finish(number: u64) -> u64 {
    fold(number ^ B, A)
}

/// XOR of the two halves of the product.
#[expect(clippy::cast_possible_truncation, reason = "the two halves, on purpose")]
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// The seed with this number in a series. It is far from the seeds of neighbouring numbers, for a generator that adds
/// and multiplies.
#[inline]
pub(super) fn seed_of(salt: u64, number: u64) -> u64 {
    salt.wrapping_add(number.wrapping_mul(A))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_differ_in_half_of_their_bits() {
        let mut bits = 0_u64;
        for a in 0..1000 {
            bits += u64::from((mix(a, 7) ^ mix(a + 1, 7)).count_ones());
            bits += u64::from((mix(7, a) ^ mix(7, a + 1)).count_ones());
        }
        assert!((62_000..66_000).contains(&bits), "{bits} of 128000 bits differ");
    }

    #[test]
    fn small_numbers_do_not_collide() {
        let mut all: Vec<u64> = (0..300).flat_map(|a| (0..300).map(move |b| mix(a, b))).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 300 * 300);
    }
}
