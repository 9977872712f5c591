//! The utilisation at which DLWA exceeds a limit.

use serde::Serialize;

/// Bisection steps for a function: the result is exact to a millionth of a percent.
const BISECTIONS: u32 = 40;

/// Where a limit is exceeded, between the least and the highest utilisation that was simulated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Limit {
    /// `passed` (at [`utilization`](Self::utilization)), `kept` (up to the highest utilisation) or `exceeded` (from the
    /// least on).
    pub status: &'static str,
    /// Percent of the drive at which DLWA exceeds the limit; `None` unless it is passed.
    pub utilization: Option<f64>,
}

const KEPT: Limit = Limit { status: "kept", utilization: None };
const EXCEEDED: Limit = Limit { status: "exceeded", utilization: None };

/// The first crossing of a curve through points in ascending order, interpolated linearly.
pub(super) fn of_points(curve: &[(f64, f64)], limit: f64) -> Limit {
    if curve.first().is_some_and(|&(_, dlwa)| dlwa > limit) {
        return EXCEEDED;
    }
    let crossing = curve.windows(2).find_map(|pair| {
        let [(from, low), (to, high)] = pair else { return None };
        (*low <= limit && *high > limit).then(|| from + (to - from) * (limit - low) / (high - low))
    });
    match crossing {
        Some(utilization) => Limit { status: "passed", utilization: Some(utilization) },
        None => KEPT,
    }
}

/// The first crossing of a rising function, by bisection. Where the function has no value, the limit counts as
/// exceeded.
pub(super) fn of_function(
    dlwa: impl Fn(f64) -> Option<f64>,
    (mut from, mut to): (f64, f64),
    limit: f64,
) -> Limit {
    let too_high = |utilization: f64| dlwa(utilization).is_none_or(|dlwa| dlwa > limit);
    if too_high(from) {
        return EXCEEDED;
    }
    if !too_high(to) {
        return KEPT;
    }
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(from, to);
        if too_high(middle) {
            to = middle;
        } else {
            from = middle;
        }
    }
    Limit { status: "passed", utilization: Some(from) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CURVE: [(f64, f64); 3] = [(50.0, 1.1), (70.0, 1.5), (100.0, 3.5)];

    #[test]
    fn points_are_joined_by_straight_lines() {
        let at = |limit| of_points(&CURVE, limit).utilization;
        assert!((at(1.3).unwrap() - 60.0).abs() < 1e-9);
        assert!((at(2.5).unwrap() - 85.0).abs() < 1e-9);
        assert!((at(1.5).unwrap() - 70.0).abs() < 1e-9);
        assert_eq!(of_points(&CURVE, 1.05), EXCEEDED);
        assert_eq!(of_points(&CURVE, 3.5), KEPT);
        assert_eq!(of_points(&[], 2.0), KEPT);
    }

    #[test]
    fn functions_are_bisected() {
        let dlwa = |utilization: f64| Some(1.0 + utilization / 100.0);
        let limit = of_function(dlwa, (50.0, 100.0), 1.75);
        assert!((limit.utilization.unwrap() - 75.0).abs() < 1e-6, "{limit:?}");
        assert_eq!(of_function(dlwa, (50.0, 100.0), 1.2), EXCEEDED);
        assert_eq!(of_function(dlwa, (50.0, 100.0), 2.0), KEPT);
        assert_eq!(of_function(|_| None, (50.0, 100.0), 2.0), EXCEEDED);
    }
}
