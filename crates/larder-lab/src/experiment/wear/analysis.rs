//! How often channels must be exchanged: the paper's analysis in numbers.

use larder_ssd::analytic::levelling::Rotation;
use larder_ssd::analytic::life::Endurance;

use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::{Experiment, Judgement, Metrics, Reference, Settings, Summary};
use crate::replay::Monitor;

/// Units and imbalance of the rows, by name in metrics. Four units are the dies of a channel.
const ROWS: [(&str, u32, f64); 7] = [
    ("n4_d10", 4, 0.1),
    ("n8_d10", 8, 0.1),
    ("n16_d5", 16, 0.05),
    ("n16_d10", 16, 0.1),
    ("n16_d20", 16, 0.2),
    ("n32_d10", 32, 0.1),
    ("n64_d10", 64, 0.1),
];
/// Five years.
const LIFE_DAYS: f64 = 5.0 * 365.25;
/// Rated cycles and weeks of life at the corners of the paper's budget, for a drive of 1 TB.
const BUDGETS: [(u32, f64); 2] = [(3000, 250.0), (10_000, 150.0)];
/// The paper's drive: 4 dies of 16 GiB on each of 16 channels.
const FLASH_BYTES: u64 = 1 << 40;

const fn worked(metric: &'static str, value: f64) -> Reference {
    Reference::derived(metric, value, "worked from the formulas of section 4")
}

const fn text(metric: &'static str, value: f64) -> Reference {
    Reference::published(metric, value, "text of section 4")
}

pub(in crate::experiment) static WEAR_ANALYSIS: Experiment = Experiment {
    name: "wear-analysis",
    title: "how often tenants must change places so that channels wear out together",
    reproduces: "FlashBlox (FAST'17), section 4 and Table 2: rounds K, exchanges NK and the time between two \
                 of them; the budget of writes",
    criterion: "each number the same to two digits; one writer that moves on at each turn is within the bound \
                after NK + 1 turns and not after two thirds of them, counted turn by turn",
    parameters: &[],
    metrics: &[
        (
            "rounds.*",
            "K: rounds of one writer over all units, by number of units N and imbalance delta in percent",
        ),
        ("swaps.*", "NK: exchanges in all"),
        ("swaps_bound.*", "N / delta: the simpler bound of it"),
        ("days90.*", "days between two exchanges in 90 % of five years (alpha 0.9)"),
        ("days90_bound.*", "the same by the simpler bound"),
        (
            "days100.*",
            "days between two exchanges in all of five years (alpha 1); the paper's twelve days",
        ),
        ("days100_bound.*", "the same by the simpler bound"),
        (
            "turns_walked.*",
            "turns after which one writer that moves on at each stays within the bound, counted",
        ),
        (
            "budget_mib.*",
            "MiB a second that wear out 1 TiB in the given number of weeks, by rated cycles and weeks",
        ),
    ],
    references: &[
        text("budget_mib.3000x250", 21.0),
        text("budget_mib.10000x150", 116.0),
        worked("rounds.n4_d10", 7.25),
        worked("swaps.n4_d10", 29.0),
        worked("swaps_bound.n4_d10", 40.0),
        worked("days90.n4_d10", 56.7),
        worked("days90_bound.n4_d10", 41.1),
        worked("days100.n4_d10", 63.0),
        worked("days100_bound.n4_d10", 45.7),
        worked("rounds.n8_d10", 8.63),
        worked("swaps.n8_d10", 69.0),
        worked("swaps_bound.n8_d10", 80.0),
        worked("days90.n8_d10", 23.8),
        worked("days90_bound.n8_d10", 20.5),
        worked("days100.n8_d10", 26.5),
        worked("days100_bound.n8_d10", 22.8),
        worked("rounds.n16_d5", 18.7),
        worked("swaps.n16_d5", 299.0),
        worked("swaps_bound.n16_d5", 320.0),
        worked("days90.n16_d5", 5.5),
        worked("days90_bound.n16_d5", 5.1),
        worked("days100.n16_d5", 6.1),
        worked("days100_bound.n16_d5", 5.7),
        worked("rounds.n16_d10", 9.31),
        worked("swaps.n16_d10", 149.0),
        worked("swaps_bound.n16_d10", 160.0),
        worked("days90.n16_d10", 11.0),
        worked("days90_bound.n16_d10", 10.3),
        worked("days100.n16_d10", 12.3),
        worked("days100_bound.n16_d10", 11.4),
        worked("rounds.n16_d20", 4.63),
        worked("swaps.n16_d20", 74.0),
        worked("swaps_bound.n16_d20", 80.0),
        worked("days90.n16_d20", 22.2),
        worked("days90_bound.n16_d20", 20.5),
        worked("days100.n16_d20", 24.7),
        worked("days100_bound.n16_d20", 22.8),
        worked("rounds.n32_d10", 9.66),
        worked("swaps.n32_d10", 309.0),
        worked("swaps_bound.n32_d10", 320.0),
        worked("days90.n32_d10", 5.3),
        worked("days90_bound.n32_d10", 5.1),
        worked("days100.n32_d10", 5.9),
        worked("days100_bound.n32_d10", 5.7),
        worked("rounds.n64_d10", 9.83),
        worked("swaps.n64_d10", 629.0),
        worked("swaps_bound.n64_d10", 640.0),
        worked("days90.n64_d10", 2.6),
        worked("days90_bound.n64_d10", 2.6),
        worked("days100.n64_d10", 2.9),
        worked("days100_bound.n64_d10", 2.9),
    ],
    needs: &[
        "budget_mib.3000x250",
        "budget_mib.10000x150",
        "rounds.n4_d10",
        "swaps.n4_d10",
        "swaps_bound.n4_d10",
        "days90.n4_d10",
        "days90_bound.n4_d10",
        "days100.n4_d10",
        "days100_bound.n4_d10",
        "rounds.n8_d10",
        "swaps.n8_d10",
        "swaps_bound.n8_d10",
        "days90.n8_d10",
        "days90_bound.n8_d10",
        "days100.n8_d10",
        "days100_bound.n8_d10",
        "rounds.n16_d5",
        "swaps.n16_d5",
        "swaps_bound.n16_d5",
        "days90.n16_d5",
        "days90_bound.n16_d5",
        "days100.n16_d5",
        "days100_bound.n16_d5",
        "rounds.n16_d10",
        "swaps.n16_d10",
        "swaps_bound.n16_d10",
        "days90.n16_d10",
        "days90_bound.n16_d10",
        "days100.n16_d10",
        "days100_bound.n16_d10",
        "rounds.n16_d20",
        "swaps.n16_d20",
        "swaps_bound.n16_d20",
        "days90.n16_d20",
        "days90_bound.n16_d20",
        "days100.n16_d20",
        "days100_bound.n16_d20",
        "rounds.n32_d10",
        "swaps.n32_d10",
        "swaps_bound.n32_d10",
        "days90.n32_d10",
        "days90_bound.n32_d10",
        "days100.n32_d10",
        "days100_bound.n32_d10",
        "rounds.n64_d10",
        "swaps.n64_d10",
        "swaps_bound.n64_d10",
        "days90.n64_d10",
        "days90_bound.n64_d10",
        "days100.n64_d10",
        "days100_bound.n64_d10",
        "turns_walked.n4_d10",
        "turns_walked.n8_d10",
        "turns_walked.n16_d5",
        "turns_walked.n16_d10",
        "turns_walked.n16_d20",
        "turns_walked.n32_d10",
        "turns_walked.n64_d10",
    ],
    measure,
    judge,
};

fn measure(_settings: &Settings, _seed: u64, _monitor: &Monitor) -> Result<Metrics, Error> {
    let wrong = |error: larder_ssd::Error| Error::run(format!("wear-analysis: {error}"));
    let mut metrics = Metrics::new();
    for (name, units, delta) in ROWS {
        let rotation = Rotation::new(units, delta).map_err(wrong)?;
        let values = [
            ("rounds", rotation.rounds()),
            ("swaps", rotation.swaps()),
            ("swaps_bound", rotation.swaps_bound()),
            ("days90", rotation.period(0.9, LIFE_DAYS).map_err(wrong)?),
            ("days90_bound", rotation.period_bound(0.9, LIFE_DAYS).map_err(wrong)?),
            ("days100", rotation.period(1.0, LIFE_DAYS).map_err(wrong)?),
            ("days100_bound", rotation.period_bound(1.0, LIFE_DAYS).map_err(wrong)?),
            ("turns_walked", f64::from(turns_walked(units, delta))),
        ];
        metrics.extend(values.map(|(what, value)| (format!("{what}.{name}"), value)));
    }
    for (cycles, weeks) in BUDGETS {
        let drive = Endurance::from_program_erase_cycles(FLASH_BYTES, cycles).map_err(wrong)?;
        let a_day = drive.media_bytes_per_day(weeks * 7.0).map_err(wrong)?;
        let mib = a_day / 86_400.0 / f64::from(1 << 20);
        metrics.insert(format!("budget_mib.{cycles}x{weeks}"), mib);
    }
    Ok(metrics)
}

/// Walks one writer from unit to unit. Returns the last turn after which the most worn unit was further from the mean
/// than allowed, plus one.
fn turns_walked(units: u32, delta: f64) -> u32 {
    let mut turns_of = vec![0_u32; units as usize];
    // The bound on the number of exchanges says that no more are needed.
    let turns_max = (1..).find(|&turns| f64::from(turns) > 2.0 * f64::from(units) / delta);
    let mut outside = 0;
    for turn in 1..=turns_max.unwrap_or(u32::MAX) {
        let unit = ((turn - 1) % units) as usize;
        turns_of[unit] += 1;
        let most = turns_of.iter().copied().max().unwrap_or(0);
        let mean = f64::from(turn) / f64::from(units);
        if f64::from(most) / mean > 1.0 + delta {
            outside = turn;
        }
    }
    outside + 1
}

fn judge(summary: &Summary) -> Judgement {
    let mut checks = Checks::default();
    let mut same = 0;
    for value in WEAR_ANALYSIS.references {
        let ours = summary.mean(value.metric);
        if same_to_two_digits(ours, value.value) {
            same += 1;
        } else {
            checks =
                checks.exact(false, format!("{}: {ours:.4}, not {}", value.metric, value.value));
        }
    }
    let walked = ROWS.iter().all(|(name, ..)| {
        let (walked, swaps) =
            (summary.mean(&format!("turns_walked.{name}")), summary.mean(&format!("swaps.{name}")));
        walked <= (swaps + 1.0).round() && walked >= swaps * 2.0 / 3.0
    });
    checks
        .exact(same > 0, format!("{same} numbers are the same to two digits"))
        .exact(walked, "walked turn by turn, one writer needs no more turns than NK + 1")
        .shape(
            summary.mean("swaps.n16_d10") > summary.mean("swaps.n16_d20"),
            "a narrower bound takes more exchanges",
        )
        .judge()
}

/// Whether `ours` equals the published value to its two digits: within half of its second digit.
fn same_to_two_digits(ours: f64, published: f64) -> bool {
    let second_digit = 10_f64.powf(published.log10().floor() - 1.0);
    (ours - published).abs() <= second_digit / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_digits_are_half_of_the_second() {
        for (ours, published, same) in
            [(12.26, 12.0, true), (11.49, 12.0, false), (149.0, 149.0, true), (154.5, 149.0, false)]
        {
            assert_eq!(same_to_two_digits(ours, published), same, "{ours} {published}");
        }
        assert!(!same_to_two_digits(f64::NAN, 12.0));
    }

    /// Sixteen units at 10 %: from the second turn of the tenth round on.
    #[test]
    fn a_walk_counts_turns() {
        assert_eq!(turns_walked(16, 0.1), 9 * 16 + 2);
        assert_eq!(
            turns_walked(2, 0.5),
            2,
            "after one turn the one is twice the mean, then as worn"
        );
    }
}
