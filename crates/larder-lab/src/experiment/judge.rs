//! Verdicts: our results against the published ones.
//!
//! A criterion says when the numbers count as reproduced. A publication may also claim something that its own numbers,
//! or ours, do not support. Then the experiment as a whole diverges, however well the rest agrees, and the reason says
//! what does agree.

use std::fmt;
use std::ops::RangeInclusive;

use serde::Serialize;

use super::{Origin, Reference};

/// How our result relates to the published one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// The result meets the criterion.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// Direction and order are right, but the numbers do not meet the criterion.
    #[serde(rename = "reproduced in shape")]
    InShape,
    /// Neither the numbers nor direction and order match.
    #[serde(rename = "diverges")]
    Diverges,
    /// Something that the criterion needs was not measured, or the drive was not in a steady state: the numbers say
    /// nothing about the publication.
    #[serde(rename = "not judged")]
    NotJudged,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Reproduced => "reproduced",
            Self::InShape => "reproduced in shape",
            Self::Diverges => "diverges",
            Self::NotJudged => "not judged",
        })
    }
}

/// A verdict with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// The reason for the verdict, in words and numbers.
    pub reason: String,
}

impl Judgement {
    /// Makes a judgement without a verdict, for `reasons`.
    pub(super) fn refused(reasons: &[String]) -> Self {
        Self { verdict: Verdict::NotJudged, reason: reasons.join("; ") }
    }

    /// Adds a note to the reason.
    pub(super) fn with_note(mut self, note: &str) -> Self {
        self.reason += &format!(". Note: {note}");
        self
    }
}

/// Largest accepted relative difference from a published value: 15 %. The publication itself gives the write
/// amplification of a full drive as 3.5, 3.28 and 3.22, in its figure, its table and the documentation of the
/// measurements.
pub(super) const SAME: f64 = 0.15;
/// DLWA with placement of a cache whose small-object engine is much smaller than the over-provisioning. The paper's is
/// 1.03.
pub(super) const NEXT_TO_NONE: RangeInclusive<f64> = 1.0..=1.05;

/// Checks that lead to a judgement: all of `exact` for "reproduced", all of `shape` for "in shape".
#[derive(Debug, Default)]
pub(super) struct Checks {
    failed_exact: Vec<String>,
    failed_shape: Vec<String>,
    passed: Vec<String>,
    notes: Vec<String>,
}

impl Checks {
    /// A condition of the criterion.
    pub(super) fn exact(mut self, holds: bool, what: impl Into<String>) -> Self {
        let list = if holds { &mut self.passed } else { &mut self.failed_exact };
        list.push(what.into());
        self
    }

    /// Adds the check that our value is within `tolerance` of the reference of `metric`, on either side.
    pub(super) fn near(
        self,
        what: &str,
        ours: f64,
        references: &[Reference],
        metric: &str,
        tolerance: f64,
    ) -> Self {
        let off = ours / published(references, metric) - 1.0;
        let text = compared(what, ours, references, metric);
        self.exact(off.abs() <= tolerance, text)
    }

    /// Adds the check that our value is at most `times` times the reference of `metric`, and the reference at most
    /// `times` times ours.
    pub(super) fn times(
        self,
        what: &str,
        ours: f64,
        references: &[Reference],
        metric: &str,
        times: f64,
    ) -> Self {
        let by = ours / published(references, metric);
        self.within([by; 2], times, compared(what, ours, references, metric))
    }

    /// Adds the check that ratios to a published value, from the least to the most, are between `1 / times` and
    /// `times`.
    pub(super) fn within(
        self,
        [least, most]: [f64; 2],
        times: f64,
        what: impl Into<String>,
    ) -> Self {
        let within = 1.0 / times..=times;
        self.exact(within.contains(&least) && within.contains(&most), what)
    }

    /// A condition on direction or order. Without it, the result is not even in shape.
    pub(super) fn shape(mut self, holds: bool, what: impl Into<String>) -> Self {
        let list = if holds { &mut self.passed } else { &mut self.failed_shape };
        list.push(what.into());
        self
    }

    /// A claim of the publication that is checked as it stands. If it does not hold, the experiment diverges.
    pub(super) fn claim(self, holds: bool, what: impl Into<String>) -> Self {
        self.shape(holds, what)
    }

    /// Adds a remark outside of the criterion.
    pub(super) fn note(mut self, what: impl Into<String>) -> Self {
        self.notes.push(what.into());
        self
    }

    pub(super) fn judge(self) -> Judgement {
        let verdict = match (self.failed_shape.is_empty(), self.failed_exact.is_empty()) {
            (true, true) => Verdict::Reproduced,
            (true, false) => Verdict::InShape,
            (false, _) => Verdict::Diverges,
        };
        let failed: Vec<_> = [self.failed_shape, self.failed_exact].concat();
        let mut reason = if failed.is_empty() {
            format!("holds: {}", self.passed.join("; "))
        } else {
            format!("does not hold: {}", failed.join("; "))
        };
        if !failed.is_empty() && !self.passed.is_empty() {
            reason += &format!(". Holds: {}", self.passed.join("; "));
        }
        for note in self.notes {
            reason += &format!(". Note: {note}");
        }
        Judgement { verdict, reason }
    }
}

/// Our value beside the reference of `metric`, in words.
fn compared(what: &str, ours: f64, references: &[Reference], metric: &str) -> String {
    let wanted = published(references, metric);
    let origin = references.iter().find(|it| it.metric == metric).map(|it| it.origin);
    let named = match origin {
        Some(Origin::Ours) => "found in another way".to_owned(),
        Some(origin) => origin.to_string(),
        None => "published nowhere".to_owned(),
    };
    format!("{what}: {ours:.3}, {named} {wanted} ({:+.0} %)", (ours / wanted - 1.0) * 100.0)
}

/// The value that `metric` is compared with. NaN if there is none, which no number is near.
pub(super) fn published(references: &[Reference], metric: &str) -> f64 {
    references.iter().find(|value| value.metric == metric).map_or(f64::NAN, |value| value.value)
}

/// Whether `metric` is judged by its reference: nothing that was fitted to a figure is.
pub(super) fn is_judged(references: &[Reference], metric: &str) -> bool {
    references.iter().any(|it| it.metric == metric && it.origin != Origin::Fitted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_has_two_sides() {
        let paper = [Reference::published("a", 2.0, "here")];
        let judge =
            |ours, metric| Checks::default().near("a", ours, &paper, metric, 0.15).judge().verdict;
        for (ours, verdict) in [(1.69, Verdict::InShape), (1.71, Verdict::Reproduced)] {
            assert_eq!(judge(ours, "a"), verdict, "{ours}");
        }
        for (ours, verdict) in [(2.29, Verdict::Reproduced), (2.31, Verdict::InShape)] {
            assert_eq!(judge(ours, "a"), verdict, "{ours}");
        }
        assert_eq!(judge(f64::NAN, "a"), Verdict::InShape);
        assert_eq!(judge(2.0, "b"), Verdict::InShape, "nothing is published of b");
    }

    #[test]
    fn what_was_fitted_is_not_judged() {
        let paper = [Reference::published("a", 2.0, "here"), Reference::fitted("b", 2.0, "here")];
        let judged = ["a", "b", "c"].map(|metric| is_judged(&paper, metric));
        assert_eq!(judged, [true, false, false]);
    }

    #[test]
    fn times_has_two_sides() {
        let paper = [Reference::published("a", 3.0, "here")];
        let judge = |ours| Checks::default().times("a", ours, &paper, "a", 1.5).judge().verdict;
        for ours in [1.99, 4.51, f64::NAN] {
            assert_eq!(judge(ours), Verdict::InShape, "{ours}");
        }
        for ours in [2.01, 4.49] {
            assert_eq!(judge(ours), Verdict::Reproduced, "{ours}");
        }
    }

    #[test]
    fn shape_comes_before_numbers() {
        let judge = |exact, shape| {
            Checks::default().exact(exact, "numbers").shape(shape, "order").judge().verdict
        };
        assert_eq!(judge(true, true), Verdict::Reproduced);
        assert_eq!(judge(false, true), Verdict::InShape);
        assert_eq!(judge(true, false), Verdict::Diverges);
        let reason = Checks::default().exact(false, "a <= 1").judge().reason;
        assert_eq!(reason, "does not hold: a <= 1");
    }

    #[test]
    fn a_claim_that_does_not_hold_diverges_and_what_holds_is_named() {
        let judge = |claim| Checks::default().exact(true, "a <= 1").claim(claim, "a is 0").judge();
        assert_eq!(judge(true).verdict, Verdict::Reproduced);
        let judgement = judge(false);
        assert_eq!(judgement.verdict, Verdict::Diverges);
        assert_eq!(judgement.reason, "does not hold: a is 0. Holds: a <= 1");
    }
}
