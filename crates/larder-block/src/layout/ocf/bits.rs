//! The sectors of a line as bits.

use std::ops::Range;

/// The runs of ones in `bits`, as positions.
pub(super) fn runs(mut bits: u128) -> impl Iterator<Item = Range<u32>> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let zeros = bits.trailing_zeros();
        bits >>= zeros;
        let ones = bits.trailing_ones();
        bits = bits.checked_shr(ones).unwrap_or(0);
        let first = done + zeros;
        done = first + ones;
        Some(first..done)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_ones() {
        let found = |bits: u128| runs(bits).collect::<Vec<_>>();
        assert_eq!(found(0), []);
        assert_eq!(found(u128::MAX), vec![0..128; 1]);
        assert_eq!(found(0b1011 << 120 | 6), [1..3, 120..122, 123..124]);
        assert_eq!(found(1 << 127), vec![127..128; 1]);
    }
}
