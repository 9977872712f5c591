//! Measures several targets in turns, so that disturbances of the machine affect all of them.

use std::fmt::{self, Write};

use larder_workload::Spread;
use serde::Serialize;

use crate::Error;
use crate::run::{Load, Measurement, Progress, fill, measure};
use crate::target::Target;

/// The measurements of one target, round by round.
#[derive(Debug, Clone, Serialize)]
pub struct TargetRounds {
    /// The target's name.
    pub name: String,
    /// In order.
    pub rounds: Vec<Measurement>,
}

/// What `compare` does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage<'a> {
    /// Stores all keys in this target.
    Fill(&'a str),
    /// Measures this target in this round, counted from 0.
    Round(&'a str, usize),
}

/// Measures each target once a round, reversing the order each time. If `filled_first`, stores all drawn keys before
/// that. Ends early, with the results so far, when `progress` is told to stop.
///
/// # Errors
/// As [`measure`].
pub fn compare(
    targets: &[Target],
    load: &Load,
    (rounds, filled_first): (usize, bool),
    progress: &Progress,
    mut tell: impl FnMut(Stage<'_>),
) -> Result<Vec<TargetRounds>, Error> {
    let is_stopped = || progress.stop.load(std::sync::atomic::Ordering::Relaxed);
    for target in targets.iter().filter(|_| filled_first) {
        tell(Stage::Fill(&target.name));
        fill(target, load, progress)?;
    }
    let empty = |target: &Target| TargetRounds { name: target.name.clone(), rounds: Vec::new() };
    let mut all: Vec<TargetRounds> = targets.iter().map(empty).collect();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..targets.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for target in order {
            if is_stopped() {
                return Ok(all);
            }
            tell(Stage::Round(&targets[target].name, round));
            let measured = measure(&targets[target], load, progress)?;
            if !is_stopped() {
                all[target].rounds.push(measured);
            }
        }
    }
    Ok(all)
}

impl TargetRounds {
    /// The spread of one number over the rounds. `None` if no round has it.
    pub fn spread(&self, of: impl Fn(&Measurement) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.rounds.iter().filter_map(of))
    }

    fn sum(&self, of: impl Fn(&Measurement) -> u64) -> u64 {
        self.rounds.iter().map(of).sum()
    }
}

/// A table for people: a line for each target with medians, minima and maxima, and each number relative to the first
/// target.
pub struct Table<'a>(pub &'a [TargetRounds]);

type Number = fn(&Measurement) -> Option<f64>;

const COLUMNS: [(&str, usize, Number); 5] = [
    ("requests/s", 0, |m| Some(m.requests_per_second)),
    ("p50 us", 0, |m| m.p50_us),
    ("p99 us", 0, |m| m.p99_us),
    ("p999 us", 0, |m| m.p999_us),
    ("server's CPU us/request", 2, |m| m.server_cpu_us),
];

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|target| target.name.len()).max().unwrap_or(0).max(6);
        let mut lines = vec![format!("{:names$}", "target")];
        lines.extend(self.0.iter().map(|target| format!("{:names$}", target.name)));
        for (title, digits, number) in COLUMNS {
            let first = self.0.first().and_then(|target| target.spread(number));
            let mut cells = vec![title.to_owned()];
            for (at, target) in self.0.iter().enumerate() {
                let spread = target.spread(number);
                let mut cell = match spread {
                    None => "-".to_owned(),
                    Some(spread) if target.rounds.len() == 1 => {
                        format!("{:.digits$}", spread.median)
                    }
                    Some(spread) => format!("{spread:.digits$}"),
                };
                if let (Some(first), Some(spread)) = (first, spread)
                    && at > 0
                    && first.median > 0.0
                {
                    write!(cell, " {:.2} x", spread.median / first.median)?;
                }
                cells.push(cell);
            }
            let width = cells.iter().map(String::len).max().unwrap_or(0);
            lines
                .iter_mut()
                .zip(cells)
                .for_each(|(line, cell)| *line += &format!("  {cell:>width$}"));
        }
        for line in lines {
            writeln!(f, "{}", line.trim_end())?;
        }
        for target in self.0 {
            let keys = target.sum(|m| m.keys);
            let ratio = target.sum(|m| m.hits) as f64 / keys.max(1) as f64 * 100.0;
            let trouble = [
                ("refused", target.sum(|m| m.refused)),
                ("wrong", target.sum(|m| m.wrong)),
                ("unanswered at the end", target.sum(|m| m.unanswered)),
            ];
            let trouble: String = trouble
                .iter()
                .filter(|(_, count)| *count > 0)
                .map(|(what, count)| format!(", {count} {what}"))
                .collect();
            writeln!(
                f,
                "{}: hits {ratio:.2} % of {keys} keys, {} sets{trouble}",
                target.name,
                target.sum(|m| m.sets)
            )?;
        }
        Ok(())
    }
}
