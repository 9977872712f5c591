//! How many published numbers a result meets.
//!
//! This is independent of the criterion of the experiment, and the same for all: each published number that was
//! measured counts, and is met if ours is at most 15 % away. What is derived or this project's own does not count.

use std::fmt;

use super::judge::SAME;
use super::measured::{Origin, Reference, Summary};

/// A published number and ours.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Distance {
    metric: &'static str,
    /// Ours by the published one.
    times: f64,
}

/// Our numbers beside the published ones.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Agreement {
    published: usize,
    within: usize,
    missing: usize,
    farthest: Option<Distance>,
}

impl Agreement {
    /// Compares the means of `measured` with what was published.
    pub fn of(references: &[Reference], measured: &Summary) -> Self {
        let mut agreement = Self::default();
        for reference in references.iter().filter(|it| it.origin == Origin::Published) {
            agreement.published += 1;
            agreement.count(reference, measured.mean(reference.metric));
        }
        agreement
    }

    fn count(&mut self, reference: &Reference, ours: f64) {
        if ours.is_nan() {
            self.missing += 1;
            return;
        }
        if (ours - reference.value).abs() <= SAME * reference.value.abs().max(f64::EPSILON) {
            self.within += 1;
            return;
        }
        let times = ours / reference.value;
        let distance = |times: f64| if times > 0.0 { times.ln().abs() } else { f64::INFINITY };
        if self.farthest.is_none_or(|it| distance(times) > distance(it.times)) {
            self.farthest = Some(Distance { metric: reference.metric, times });
        }
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.published == 0 {
            return f.write_str("no published numbers to compare with");
        }
        let percent = SAME * 100.0;
        write!(f, "{} of {} published numbers within {percent:.0} %", self.within, self.published)?;
        if self.missing > 0 {
            write!(f, ", {} not measured", self.missing)?;
        }
        match self.farthest {
            Some(Distance { metric, times }) if times.is_finite() => {
                write!(f, "; farthest: {metric}, {times:.2} times the published one")
            }
            Some(Distance { metric, .. }) => write!(f, "; farthest: {metric}, published as 0"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(references: &[Reference], ours: &[(&str, f64)]) -> String {
        let metrics = ours.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Agreement::of(references, &Summary::of(&[metrics])).to_string()
    }

    #[test]
    fn published_numbers_alone_are_counted_and_the_farthest_is_named() {
        let references = [
            Reference::published("a", 2.0, "here"),
            Reference::published("b", 10.0, "here"),
            Reference::published("c", 10.0, "here"),
            Reference::derived("d", 1.0, "a / b"),
            Reference::ours("e", 1.0, "counted"),
        ];
        let ours = [("a", 2.29), ("b", 49.0), ("c", 4.0), ("d", 9.0), ("e", 9.0)];
        assert_eq!(
            told(&references, &ours),
            "1 of 3 published numbers within 15 %; farthest: b, 4.90 times the published one"
        );
        // A tenth is farther than five times.
        let ours = [("a", 2.31), ("b", 49.0), ("c", 1.0)];
        assert_eq!(
            told(&references, &ours),
            "0 of 3 published numbers within 15 %; farthest: c, 0.10 times the published one"
        );
        assert_eq!(
            told(&references, &[("a", 1.71)]),
            "1 of 3 published numbers within 15 %, 2 not measured"
        );
        assert_eq!(told(&references[3..], &ours), "no published numbers to compare with");
    }
}
