//! DLWA when the victim is the best of `d` units drawn at random: Van Houdt's mean-field model.
//!
//! B. Van Houdt, "A mean field model for a class of garbage collection algorithms in flash-based
//! solid state drives" (SIGMETRICS 2013). With `m_j` the share of units that hold `j` live pages of
//! `b`, `s_j` the share that hold at least `j`, and `ρ = 1/α`, uniform random writes move it by
//!
//! ```text
//! p_j     = s_j^d - s_{j+1}^d                          a victim holds j live pages
//! dm_j/dt = κ·((j+1)·m_{j+1} - j·m_j) - p_j + [j = b],   κ = (b - Σ j·p_j)/(ρ·b)
//! DLWA    = b/(b - Σ j·p_j) = α/κ
//! ```
//!
//! Van Houdt integrates this to the fixed point. There is a shorter way to the same point: there, the sum of the
//! equations from `j` to `b` is `κ·j·(s_j - s_{j+1}) = 1 - s_j^d`. Given κ, this yields `s_b`, then `s_{b-1}` and so
//! on, each as the only root of an increasing convex function. All `s_j` fall as κ rises, so exactly one κ matches the
//! live data, `Σ s_j = ρ·b`. We find it by bisection.

use super::{SpareRatio, refused};
use crate::error::Error;

/// Relative width at which the bisection of κ stops.
const KAPPA_RELATIVE: f64 = 1e-13;
/// Enough halvings to get from any bracket to that width.
const BISECTIONS_MAX: usize = 128;
/// Newton's method takes a few steps; with very many choices, some tens.
const STEPS_MAX: usize = 200;

/// DLWA of a drive whose garbage collection draws `choices` units and reclaims the one with the fewest live pages. Host
/// data and moved data share the open unit.
///
/// One choice is [`random`](super::dlwa::random). With as many choices as there are units (`u32::MAX` will do) the
/// policy is greedy, and the result is better than the formula of [`greedy`](super::dlwa::greedy) when victims hold
/// only a few dead pages.
///
/// The model assumes a large number of units. Simulations of a few thousand agree to 0.1 % at 7 % of over-provisioning
/// and to 0.6 % at 1 %. The numerical error is below 1e-9 relative for spare ratios from 1e-4. The time grows with the
/// pages per unit: a few milliseconds for a thousand.
///
/// ```
/// use larder_ssd::analytic::{SpareRatio, d_choices::d_choices};
///
/// # fn main() -> Result<(), larder_ssd::Error> {
/// let dlwa = d_choices(SpareRatio::new(0.07)?, 64, 2)?;
/// assert!((dlwa - 10.277).abs() < 1e-3);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If a unit has no pages, or `choices` is 0.
pub fn d_choices(spare: SpareRatio, pages_per_unit: u32, choices: u32) -> Result<f64, Error> {
    if pages_per_unit == 0 {
        return Err(refused("unit size in pages", 0, format_args!("at least 1")));
    }
    if choices == 0 {
        return Err(refused("number of choices", 0, format_args!("at least 1")));
    }
    let live_pages = f64::from(pages_per_unit) / spare.alpha();
    // DLWA is between 1 and that of random victims.
    let (mut low, mut high) = (spare.ratio(), spare.alpha());
    for _ in 0..BISECTIONS_MAX {
        if high - low <= KAPPA_RELATIVE * low {
            break;
        }
        let kappa = 0.5 * (low + high);
        if live_pages_at_rest(kappa, pages_per_unit, f64::from(choices)) > live_pages {
            low = kappa;
        } else {
            high = kappa;
        }
    }
    Ok((2.0 * spare.alpha() / (low + high)).max(1.0))
}

/// Σ s_j: live pages of the average unit.
fn live_pages_at_rest(kappa: f64, pages_per_unit: u32, choices: f64) -> f64 {
    let (mut share, mut sum) = (0.0, 0.0);
    for j in (1..=pages_per_unit).rev() {
        share = next_share(kappa * f64::from(j), share, choices);
        sum += share;
    }
    sum
}

/// The root `s` of `rate·(s - above) + s^d - 1` between `above` and 1.
fn next_share(rate: f64, above: f64, choices: f64) -> f64 {
    // From the left of the root of a convex function, a Newton step leads to its right; each later step leads closer.
    let at_above = above.powf(choices - 1.0);
    let mut share = (above + (1.0 - above * at_above) / (rate + choices * at_above)).min(1.0);
    for _ in 0..STEPS_MAX {
        let power = share.powf(choices - 1.0);
        let excess = rate * (share - above) + share * power - 1.0;
        let next = share - excess / (rate + choices * power);
        if next >= share {
            break;
        }
        share = next;
    }
    share.clamp(above, 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::dlwa::{fifo, greedy, random};
    use super::*;

    fn at(op_percent: f64, pages: u32, choices: u32) -> f64 {
        d_choices(SpareRatio::new(op_percent / 100.0).unwrap(), pages, choices).unwrap()
    }

    fn assert_rows(pages: u32, choices: &[u32], table: &[(f64, &[f64])]) {
        for (op_percent, row) in table {
            for (choices, expected) in choices.iter().zip(*row) {
                let got = at(*op_percent, pages, *choices);
                let error = (got / expected - 1.0).abs();
                assert!(error < 1e-3, "OP {op_percent} b {pages} d {choices}: {got} {expected}");
            }
        }
    }

    #[test]
    fn it_rests_where_the_differential_equation_does() {
        // Expected values: an independent integration of the differential equation to its fixed point.
        assert_rows(
            64,
            &[1, 2, 3, 5, 10, 20, 50],
            &[
                (7.0, &[15.286, 10.277, 8.841, 7.875, 7.323, 7.131, 7.052]),
                (11.0, &[10.091, 6.911, 6.000, 5.387, 5.041, 4.924, 4.879]),
                (20.0, &[6.000, 4.203, 3.688, 3.343, 3.150, 3.086, 3.063]),
                (28.0, &[4.571, 3.245, 2.866, 2.612, 2.471, 2.425, 2.408]),
            ],
        );
        assert_rows(
            256,
            &[2, 3, 5, 10, 20, 50],
            &[
                (7.0, &[10.584, 9.232, 8.327, 7.828, 7.669, 7.614]),
                (11.0, &[7.050, 6.177, 5.592, 5.272, 5.171, 5.136]),
                (20.0, &[4.253, 3.751, 3.417, 3.234, 3.177, 3.158]),
                (28.0, &[3.274, 2.903, 2.655, 2.520, 2.478, 2.465]),
            ],
        );
        assert_rows(
            16,
            &[2, 10, 50],
            &[
                (7.0, &[9.472, 5.921, 5.517]),
                (11.0, &[6.493, 4.335, 4.099]),
                (20.0, &[4.034, 2.868, 2.748]),
                (28.0, &[3.144, 2.300, 2.213]),
            ],
        );
    }

    /// The model as its author solves it: small steps from an even spread until nothing changes.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn integrated(alpha: f64, pages: usize, choices: f64) -> f64 {
        let b = pages as f64;
        let mut units = vec![0.0; pages + 2];
        let live = b / alpha;
        units[live as usize] = 1.0 - live.fract();
        units[live as usize + 1] = live.fract();
        let mut kept = 0.0;
        for _ in 0..200_000 {
            let mut victims = vec![0.0; pages + 1];
            let mut above = 0.0_f64;
            for j in (0..=pages).rev() {
                let here = above + units[j];
                victims[j] = here.powf(choices) - above.powf(choices);
                above = here;
            }
            kept = victims.iter().enumerate().map(|(j, p)| j as f64 * p).sum();
            let kappa = (b - kept) * alpha / b;
            let step = 0.02;
            for j in 0..=pages {
                let dying = (j as f64 + 1.0) * units[j + 1] - j as f64 * units[j];
                let filled = if j == pages { 1.0 } else { 0.0 };
                victims[j] = kappa * dying - victims[j] + filled;
            }
            units.iter_mut().zip(&victims).for_each(|(unit, change)| *unit += step * change);
        }
        b / (b - kept)
    }

    #[test]
    fn it_rests_where_small_steps_lead() {
        for (op_percent, pages, choices) in [(7.0, 16, 2), (20.0, 16, 10), (50.0, 8, 3)] {
            let steps = integrated(1.0 + op_percent / 100.0, pages, f64::from(choices));
            let got = at(op_percent, u32::try_from(pages).unwrap(), choices);
            assert!((got / steps - 1.0).abs() < 1e-9, "{op_percent} {pages} {choices}: {steps}");
        }
    }

    #[test]
    fn one_choice_is_none() {
        for op_percent in [0.01, 1.0, 7.0, 28.0, 300.0] {
            let expected = random(SpareRatio::new(op_percent / 100.0).unwrap());
            for pages in [1, 16, 100] {
                let got = at(op_percent, pages, 1);
                assert!((got / expected - 1.0).abs() < 1e-9, "{op_percent} {pages}: {got}");
            }
        }
    }

    #[test]
    fn units_of_one_page_have_a_closed_form() {
        // The probability that all d units drawn are live is ρ^d.
        for (alpha, choices) in [(1.07, 1), (1.07, 4), (1.5, 3), (3.0, 40)] {
            let expected = 1.0 / (1.0 - (1.0_f64 / alpha).powi(choices));
            let got = at(100.0 * (alpha - 1.0), 1, choices.unsigned_abs());
            assert!((got / expected - 1.0).abs() < 1e-10, "{alpha} {choices}: {got}");
        }
    }

    #[test]
    fn more_choices_write_less() {
        // The limit of many choices lies above Desnoyers' formula by at most this margin.
        for (op_percent, margin) in [(1.0, 0.032), (2.0, 0.021), (7.0, 1.3e-3), (20.0, 2e-4)] {
            let mut last = f64::INFINITY;
            for choices in [1, 2, 3, 5, 10, 20, 50, 1000, u32::MAX] {
                let dlwa = at(op_percent, 64, choices);
                assert!(1.0 <= dlwa && dlwa <= last, "{op_percent} {choices}: {dlwa} {last}");
                last = dlwa;
            }
            let formula = greedy(SpareRatio::new(op_percent / 100.0).unwrap(), 64).unwrap();
            assert!((last / formula - 1.0).abs() < margin, "{op_percent}: {last} {formula}");
        }
        // With large units, ten choices are slightly worse than FIFO.
        assert!(at(7.0, 256, 10) > fifo(SpareRatio::new(0.07).unwrap()));
    }

    #[test]
    fn all_choices_are_greedy() {
        // Simulated: 8000 units of 64 pages, two of them in reserve, greedy victims.
        for (op_percent, simulated) in [(1.0, 29.14), (2.0, 18.70), (7.0, 6.991)] {
            let error = at(op_percent, 64, u32::MAX) / simulated - 1.0;
            assert!((0.0..6e-3).contains(&error), "{op_percent}: {error}");
        }
    }

    #[test]
    fn the_ends_of_the_range_are_survived() {
        for ratio in [SpareRatio::MIN, SpareRatio::MAX] {
            for choices in [1, 2, u32::MAX] {
                let dlwa = d_choices(SpareRatio::new(ratio).unwrap(), 32, choices).unwrap();
                assert!(dlwa.is_finite() && dlwa >= 1.0, "{ratio} {choices}: {dlwa}");
            }
        }
        let spare = SpareRatio::new(0.1).unwrap();
        assert!(d_choices(spare, 0, 2).is_err());
        assert!(d_choices(spare, 64, 0).is_err());
    }
}
