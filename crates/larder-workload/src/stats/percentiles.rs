//! Percentiles of sizes and times.

use std::collections::BTreeMap;

use serde::Serialize;

/// Percentiles of a set of numbers; all 0 if it is empty.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Percentiles {
    /// Mean.
    pub mean: f64,
    /// Smallest.
    pub min: u32,
    /// 10th percentile.
    pub p10: u32,
    /// Median.
    pub p50: u32,
    /// 90th percentile.
    pub p90: u32,
    /// 99th percentile.
    pub p99: u32,
    /// Largest.
    pub max: u32,
}

impl Percentiles {
    /// The percentiles of a list of numbers.
    pub(super) fn of(mut numbers: Vec<u32>) -> Self {
        numbers.sort_unstable();
        let sum: f64 = numbers.iter().map(|&number| f64::from(number)).sum();
        let total = numbers.len() as u64;
        Self::from_ranks(sum, total, |rank| {
            let index = usize::try_from(rank - 1).unwrap_or(usize::MAX);
            numbers.get(index).copied().unwrap_or(0)
        })
    }

    /// The percentiles of numbers that each occur the given number of times.
    pub(super) fn of_counts(counts: &BTreeMap<u32, u64>) -> Self {
        let sum: f64 = counts.iter().map(|(&n, &count)| f64::from(n) * count as f64).sum();
        Self::from_ranks(sum, counts.values().sum(), |rank| {
            let mut passed = 0;
            let reached = counts.iter().find(|(_, count)| {
                passed += **count;
                passed >= rank
            });
            reached.map_or(0, |(number, _)| *number)
        })
    }

    /// `at` returns the number at a rank from 1 to `total`.
    fn from_ranks(sum: f64, total: u64, at: impl Fn(u64) -> u32) -> Self {
        if total == 0 {
            return Self::default();
        }
        let percentile = |percent: u64| {
            let rank = (u128::from(total) * u128::from(percent)).div_ceil(100);
            at(u64::try_from(rank).unwrap_or(total).max(1))
        };
        Self {
            mean: sum / total as f64,
            min: at(1),
            p10: percentile(10),
            p50: percentile(50),
            p90: percentile(90),
            p99: percentile(99),
            max: at(total),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_lists_and_of_counts() {
        let list: Vec<u32> = (1..=100).rev().collect();
        let of_list = Percentiles::of(list.clone());
        let expected = (50.5, 1, 10, 50, 90, 99, 100);
        let Percentiles { mean, min, p10, p50, p90, p99, max } = of_list;
        assert_eq!((mean, min, p10, p50, p90, p99, max), expected);
        let counts = list.into_iter().map(|n| (n, 3)).collect();
        assert_eq!(Percentiles::of_counts(&counts), of_list);
        assert_eq!(Percentiles::of(Vec::new()), Percentiles::default());
        assert_eq!(Percentiles::of(vec![7]).p99, 7);
    }
}
