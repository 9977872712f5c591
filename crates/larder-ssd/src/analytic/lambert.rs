//! The Lambert W function, principal branch: the `w >= -1` that solves `w·eʷ = x`.
//!
//! Two methods, joined at `x ≈ -0.26`. Far from the branch point `-1/e`: Halley's iteration on `w - x·e⁻ʷ` (it
//! overflows for no `x`), started from Winitzki's approximation. Near it `w + 1` grows like a square root and both
//! sides of the equation cancel. There the unknown is `v = 1 + w`, and the equation becomes a power series in `v` with
//! positive terms only, in which nothing cancels.
//!
//! The second form is also available separately ([`one_plus_w0`]). Drives with little over-provisioning are close to
//! the branch point, where `x` as a double no longer tells them apart. The crate `lambert_w` has no such form, so we
//! have our own.

use std::f64::consts::E;

/// The double nearest to 1/e.
const INV_E: f64 = 0.367_879_441_171_442_33;
/// `1/e - INV_E`: the rounding error of [`INV_E`].
const INV_E_REST: f64 = -1.242_875_367_278_836_3e-17;
/// Distances from the branch point below which the series is used.
const SERIES_DISTANCE_MAX: f64 = 0.3;
/// Enough terms for full double precision at `v <= 0.7`.
const SERIES_TERMS: u32 = 22;
/// A backstop: both iterations converge in three or four steps.
const STEPS_MAX: usize = 16;

/// W₀(x) for `x >= -1/e`, to about 1e-15 relative. NaN below that, as `ln` is below 0.
///
/// ```
/// use larder_ssd::analytic::lambert::w0;
///
/// assert!((w0(1.0) - 0.567_143_290_409_784).abs() < 1e-15);
/// assert!(w0(-0.4).is_nan());
/// ```
pub fn w0(x: f64) -> f64 {
    if x.is_nan() || x < -INV_E {
        return f64::NAN;
    }
    if x == f64::INFINITY {
        return x;
    }
    // The inner sum is exact near the branch point.
    let distance = E * ((x + INV_E) + INV_E_REST);
    if distance < SERIES_DISTANCE_MAX { near_branch(distance) - 1.0 } else { halley(x) }
}

/// `1 + W₀((distance - 1)/e)` for `distance >= 0`: how far W₀ has risen when `x` is `distance/e` above the branch
/// point. Accurate to about 1e-15 relative, however small the distance. NaN for a negative one.
///
/// ```
/// use larder_ssd::analytic::lambert::one_plus_w0;
///
/// // To first order it is the square root of twice the distance.
/// assert!((one_plus_w0(5e-25) / 1e-12 - 1.0).abs() < 1e-11);
/// ```
pub fn one_plus_w0(distance: f64) -> f64 {
    if distance.is_nan() || distance < 0.0 {
        return f64::NAN;
    }
    if distance < SERIES_DISTANCE_MAX {
        near_branch(distance)
    } else {
        1.0 + w0((distance - 1.0) / E)
    }
}

/// Newton's method for the `v` at which `1 + (v - 1)·eᵛ`, whose derivative is `v·eᵛ`, equals the
/// distance.
fn near_branch(distance: f64) -> f64 {
    if distance <= 0.0 {
        return 0.0; // the double nearest to -1/e is slightly below it
    }
    let p = (2.0 * distance).sqrt();
    let mut v = p * (1.0 - p * (1.0 / 3.0 - p * 11.0 / 72.0));
    for _ in 0..STEPS_MAX {
        let step = (branch_series(v) - distance) / (v * v.exp());
        v -= step;
        if step.abs() <= f64::EPSILON * v {
            break;
        }
    }
    v
}

/// `1 + (v - 1)·eᵛ` as the sum of `(k - 1)/k!·vᵏ` from `k = 2`.
fn branch_series(v: f64) -> f64 {
    let (mut power, mut sum) = (v, 0.0);
    for k in 2..SERIES_TERMS {
        let k = f64::from(k);
        power *= v / k;
        sum += (k - 1.0) * power;
    }
    sum
}

fn halley(x: f64) -> f64 {
    let l = x.ln_1p();
    let mut w = l * (1.0 - l.ln_1p() / (2.0 + l));
    for _ in 0..STEPS_MAX {
        let rest = w - x * (-w).exp();
        let slope = w + 1.0;
        let step = rest / (slope - (w + 2.0) * rest / (2.0 * slope));
        w -= step;
        if step.abs() <= f64::EPSILON * w.abs() {
            break;
        }
    }
    w
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relative(value: f64, expected: f64) -> f64 {
        ((value - expected) / expected).abs()
    }

    #[test]
    fn known_values() {
        // Computed with 40 digits.
        let table = [
            (-0.367_879_441_171_442, -0.999_999_958_248_716_4),
            (-0.36, -0.806_084_315_970_817_6),
            (-0.3, -0.489_402_227_180_214_9),
            (-0.25, -0.357_402_956_181_388_9),
            (-0.2, -0.259_171_101_819_073_76),
            (-0.1, -0.111_832_559_158_962_97),
            (-1e-10, -1.000_000_000_100_000_1e-10),
            (1e-300, 1e-300),
            (0.1, 0.091_276_527_160_862_27),
            (0.5, 0.351_733_711_249_195_8),
            (1.0, 0.567_143_290_409_784),
            (E, 1.0),
            (10.0, 1.745_528_002_740_699_4),
            (100.0, 3.385_630_140_290_05),
            (1e10, 20.028_685_413_304_952),
            (1e300, 684.247_208_629_760_8),
            (f64::MAX, 703.227_033_104_770_2),
        ];
        for (x, w) in table {
            assert!(relative(w0(x), w) < 1e-15, "W0({x}) = {} instead of {w}", w0(x));
        }
    }

    #[test]
    fn edges_of_the_domain() {
        assert_eq!(w0(0.0), 0.0);
        assert_eq!(w0(-INV_E), -1.0);
        assert_eq!(w0(f64::INFINITY), f64::INFINITY);
        for x in [f64::NAN, f64::NEG_INFINITY, -1.0, (-INV_E).next_down()] {
            assert!(w0(x).is_nan(), "{x}");
        }
        assert_eq!(one_plus_w0(0.0), 0.0);
        assert!(one_plus_w0(-1e-300).is_nan() && one_plus_w0(f64::NAN).is_nan());
    }

    #[test]
    fn the_defining_equation_holds() {
        let mut above = 1e-9;
        while above < 1e300 {
            let x = above - INV_E;
            let w = w0(x);
            // The residue magnifies an error of one unit in w by 1 + w.
            let bound = 4.0 * f64::EPSILON * (1.0 + w.abs());
            let residue = (w - x * (-w).exp()).abs();
            assert!(residue <= bound * w.abs(), "x {x}, w {w}, residue {residue}");
            above *= 1.007;
        }
    }

    #[test]
    fn it_rises_through_the_joint_of_the_methods() {
        let joint = (SERIES_DISTANCE_MAX - 1.0) / E;
        let mut last = w0(joint - 1e-13);
        for i in -99..100 {
            let w = w0(joint + 1e-15 * f64::from(i));
            assert!(w - last > -2.0 * f64::EPSILON, "step {i}");
            last = w;
        }
    }

    #[test]
    fn close_to_the_branch_point_nothing_is_lost() {
        // 1 + (v - 1)·eᵛ at v, computed with 40 digits.
        let table = [
            (5.000_000_000_003_333e-25, 1e-12),
            (5.000_000_033_333_333_5e-17, 1e-8),
            (5.003_334_583_666_736e-7, 1e-3),
            (0.005_346_173_731_917_138, 0.1),
            (0.175_639_364_649_935_93, 0.5),
            (1.0, 1.0),
        ];
        for (distance, v) in table {
            let got = one_plus_w0(distance);
            assert!(relative(got, v) < 1e-15, "{distance}: {got} instead of {v}");
        }
    }
}
