//! The normal distribution, inverted.

/// The value that a standard normal variable stays below with probability `p`, for `p` in (0, 1).
///
/// Acklam's rational approximation; its relative error is below 1.15e-9.
pub(super) fn inverse(p: f64) -> f64 {
    const TAIL: f64 = 0.02425;
    if p < TAIL {
        tail(p)
    } else if p > 1.0 - TAIL {
        -tail(1.0 - p)
    } else {
        centre(p - 0.5)
    }
}

fn centre(q: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    q * polynomial(&A, q * q) / polynomial(&B, q * q)
}

fn tail(p: f64) -> f64 {
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
        1.0,
    ];
    // For zero the inverse is infinite; the smallest positive number takes its place, 38 standard deviations out.
    let q = (-2.0 * p.max(f64::MIN_POSITIVE).ln()).sqrt();
    polynomial(&C, q) / polynomial(&D, q)
}

fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}

/// The probability that a standard normal variable stays below `x`: [`inverse`] solved by
/// bisection. For set-up only.
pub(super) fn below(x: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if inverse(middle) < x { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_quantiles() {
        // From tables of the normal distribution.
        for (p, x) in [(0.5, 0.0), (0.975, 1.959_963_985), (0.01, -2.326_347_874)] {
            assert!((inverse(p) - x).abs() < 1e-8, "{p}: {}", inverse(p));
            assert!((below(x) - p).abs() < 1e-8, "{x}: {}", below(x));
        }
        assert!((inverse(0.999_999) - 4.753_424_309).abs() < 1e-7);
        assert!(inverse(0.0).is_finite() && inverse(1.0).is_finite());
    }
}
