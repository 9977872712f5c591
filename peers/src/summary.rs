//! Medians and spread over rounds.

use larder_workload::Spread;

use crate::run::Outcome;
use crate::system::System;

/// All rounds of a system with a workload and a number of clients.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) workload: &'static str,
    pub(crate) system: System,
    pub(crate) clients: usize,
    pub(crate) rounds: Vec<Outcome>,
}

impl Row {
    /// The spread of a number over the rounds; `None` if no round has it.
    pub(crate) fn spread(&self, number: impl Fn(&Outcome) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.rounds.iter().filter_map(number))
    }

    /// Median of the ratios of this row's number to the other's in the same round.
    pub(crate) fn ratio(&self, other: &Self, number: impl Fn(&Outcome) -> f64) -> Option<f64> {
        let ratios = self
            .rounds
            .iter()
            .zip(&other.rounds)
            .map(|(mine, theirs)| number(mine) / number(theirs))
            .filter(|ratio| ratio.is_finite());
        Spread::of(ratios).map(|spread| spread.median)
    }
}

/// A spread in the short form for a table cell.
pub(crate) fn short(spread: &Spread) -> String {
    let digits = |number: f64| match number.abs() {
        large if large >= 100.0 => format!("{number:.0}"),
        _ => format!("{number:.2}"),
    };
    format!("{} ({}-{})", digits(spread.median), digits(spread.min), digits(spread.max))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A row of rounds with these throughputs.
    pub(crate) fn row(system: System, throughputs: &[f64]) -> Row {
        let outcome = |ops_per_second: &f64| Outcome {
            ops_per_second: *ops_per_second,
            cpu_us_per_op: 0.25,
            hit_ratio: 0.9,
            p50_get_us: 0.1,
            p99_get_us: 0.2,
            p99_set_us: 0.3,
            bytes_written_per_byte_set: None,
            counted_written_per_byte_set: None,
            peak_rss_bytes: 1e6,
            empty_rss_bytes: 1e5,
            dram_bytes: 1e6,
            load_average: 1.0,
        };
        let rounds = throughputs.iter().map(outcome).collect();
        Row { workload: "dram", system, clients: 2, rounds }
    }

    #[test]
    fn medians_are_of_rounds_and_ratios_of_pairs() {
        let mine = row(System::Larder, &[4.0, 2.0, 9.0]);
        let other = row(System::Foyer, &[2.0, 1.0, 3.0]);
        let spread = mine.spread(|o| Some(o.ops_per_second)).unwrap();
        assert_eq!(spread, Spread { median: 4.0, min: 2.0, max: 9.0 });
        assert_eq!(mine.ratio(&other, |o| o.ops_per_second), Some(2.0));
        let even = row(System::Larder, &[1.0, 2.0]).spread(|o| Some(o.ops_per_second));
        assert_eq!(even.unwrap().median, 1.5);
        assert_eq!(mine.spread(|o| o.bytes_written_per_byte_set), None);
    }
}
