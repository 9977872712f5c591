//! The results of `larder bench`, round by round, and comparisons of two servers' rounds.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::settings::Bench;

/// One number for each round.
pub(super) type Series = Vec<f64>;

/// A line of a table: its name, and the two targets that are compared.
pub(super) type Pair = (&'static str, usize, usize);

/// The results of a load.
pub(super) struct LoadResults {
    json: Value,
}

impl LoadResults {
    /// Loads these targets in turn; `words` are options for the shape of the load.
    pub(super) fn measure(bench: &Bench, targets: &[&str], words: &[&str]) -> Result<Self, String> {
        Self::of_rounds(bench, targets, words, bench.settings.rounds)
    }

    /// Loads a target once, for a caller that changes something between rounds.
    pub(super) fn of_one_round(
        bench: &Bench,
        target: &str,
        words: &[&str],
    ) -> Result<Self, String> {
        Self::of_rounds(bench, &[target], words, 1)
    }

    fn of_rounds(
        bench: &Bench,
        targets: &[&str],
        words: &[&str],
        rounds: u16,
    ) -> Result<Self, String> {
        let settings = &bench.settings;
        let mut command = Command::new("taskset");
        command.args(["-c", &settings.client_cores]).arg(&bench.larder).arg("bench").args(targets);
        command.args(["--json", "-", "--cores", &settings.client_cores]);
        command.args(["--rounds", &rounds.to_string()]);
        command.args(["--seconds", &settings.seconds.to_string()]).args(words);
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.map_err(|cause| format!("larder bench: {cause}"))?;
        if !output.status.success() {
            return Err(format!("larder bench: {}", output.status));
        }
        let json = serde_json::from_slice(&output.stdout);
        Ok(Self { json: json.map_err(|cause| format!("larder bench: {cause}"))? })
    }

    /// A description of the machine and of the load.
    pub(super) fn about(&self) -> String {
        let lines = self.json["machine"].as_array().into_iter().flatten();
        let machine: Vec<&str> = lines.filter_map(Value::as_str).collect();
        format!("{}\n{}", machine.join("\n"), self.json["load"].as_str().unwrap_or_default())
    }

    /// One number of a target in each round. `target` is an index into the targets of the load.
    pub(super) fn series(&self, target: usize, number: &str) -> Series {
        let rounds = self.json["targets"][target]["rounds"].as_array().into_iter().flatten();
        rounds.filter_map(|round| round[number].as_f64()).collect()
    }

    /// Prints the cost of a request of each target, and the ratios of the given pairs.
    pub(super) fn print(&self, shape: &str, targets: &[&str], pairs: &[Pair]) {
        println!("\n{shape}");
        println!("{:42} {:>26} {:>26} {:>22}", "", "CPU us a request", "requests/s", "p99 us");
        for (at, target) in targets.iter().enumerate() {
            let number = |name, digits| spread(&self.series(at, name), digits);
            let trouble = self.sum(at, "refused") + self.sum(at, "wrong");
            println!(
                "{target:42} {:>26} {:>26} {:>22}{}",
                number("server_cpu_us", 2),
                number("requests_per_second", 0),
                number("p99_us", 0),
                if trouble > 0.0 { "  REFUSED OR WRONG" } else { "" }
            );
        }
        for &(name, ours, theirs) in pairs {
            let of = |number| {
                spread(&ratios(&self.series(ours, number), &self.series(theirs, number)), 2)
            };
            println!(
                "{name:42} {:>26} {:>26} {:>22}",
                of("server_cpu_us"),
                of("requests_per_second"),
                of("p99_us")
            );
        }
    }

    /// The sum over all rounds.
    pub(super) fn sum(&self, target: usize, number: &str) -> f64 {
        self.series(target, number).iter().sum()
    }
}

/// Median, minimum and maximum: "1.23 (1.00 to 1.50)".
pub(super) fn spread(series: &[f64], digits: usize) -> String {
    match median(series) {
        None => "-".to_owned(),
        Some(median) => {
            let (least, most) = bounds(series);
            format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
        }
    }
}

/// The ratio of our number to the other one, in each round.
pub(super) fn ratios(ours: &[f64], theirs: &[f64]) -> Series {
    ours.iter().zip(theirs).filter(|(_, theirs)| **theirs > 0.0).map(|(o, t)| o / t).collect()
}

fn median(series: &[f64]) -> Option<f64> {
    let mut sorted = series.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len().checked_sub(1)?;
    Some(f64::midpoint(*sorted.get(middle / 2)?, *sorted.get(middle.div_ceil(2))?))
}

fn bounds(series: &[f64]) -> (f64, f64) {
    series.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &number| {
        (least.min(number), most.max(number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_compared_one_by_one() {
        assert_eq!(spread(&[3.0, 1.0, 2.0, 4.0], 1), "2.5 (1.0 to 4.0)");
        assert_eq!(spread(&[], 1), "-");
        assert_eq!(ratios(&[2.0, 3.0, 5.0], &[1.0, 2.0, 0.0]), [2.0, 1.5]);
    }
}
