//! The binary logarithm in integers. The result must be bit-identical on every machine, because it determines the
//! shard of a key.

/// Number of fraction bits.
pub(super) const FRACTION_BITS: u32 = 40;
/// The table has 2 to the power of this number of steps between one and two.
const STEP_BITS: u32 = 10;
const STEPS: usize = 1 << STEP_BITS;

static TABLE: [u64; STEPS + 1] = table();

/// log2(number), with an error of at most 2^-21, and monotonic. 0 counts as 1.
pub(super) fn log2(number: u64) -> u64 {
    let number = number.max(1);
    let whole = number.ilog2();
    // The bits after the leading one, as a fraction of 2^64.
    let rest = (number << (63 - whole)) << 1;
    let step = usize::try_from(rest >> (64 - STEP_BITS)).unwrap_or(0);
    let within = rest << STEP_BITS >> 32;
    let (low, high) = (TABLE[step], TABLE[step + 1]);
    (u64::from(whole) << FRACTION_BITS) + low + (((high - low) * within) >> 32)
}

/// log2 of 1, 1 + 1/1024, … 2.
const fn table() -> [u64; STEPS + 1] {
    let mut table = [0; STEPS + 1];
    table[STEPS] = 1 << FRACTION_BITS;
    let mut step = 1;
    while step < STEPS {
        // Between 1 and 2, with 62 fraction bits: squaring doubles its logarithm.
        let mut number: u128 = ((STEPS + step) as u128) << (62 - STEP_BITS);
        let mut bit = FRACTION_BITS;
        while bit > 0 {
            bit -= 1;
            number = (number * number) >> 62;
            if number >> 63 == 1 {
                number >>= 1;
                table[step] |= 1 << bit;
            }
        }
        step += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn as_f64(fixed: u64) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let float = fixed as f64;
        float / f64::from(FRACTION_BITS).exp2()
    }

    proptest! {
        #[test]
        fn it_is_the_logarithm_and_never_falls(a in any::<u64>(), shift in 0_u32..64, add in 0_u64..9) {
            let a = (a >> shift).max(1);
            #[allow(clippy::cast_precision_loss)]
            let real = (a as f64).log2();
            prop_assert!((as_f64(log2(a)) - real).abs() < 1e-6);
            prop_assert!(log2(a) <= log2(a.saturating_add(add)));
            prop_assert!(log2(a) < 64 << FRACTION_BITS);
        }
    }
}
