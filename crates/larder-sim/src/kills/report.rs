//! The results of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use larder_workload::{Latencies, machine};
use serde::Serialize;

use super::options::{Ending, Options};
use super::oracle::Kind;

/// A number of items, and how many of them were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Share {
    /// Number of items.
    pub of: u64,
    /// Number found.
    pub found: u64,
}

impl Share {
    pub(super) fn count(&mut self, found: bool) {
        self.of += 1;
        self.found += u64::from(found);
    }

    fn add(&mut self, other: Self) {
        self.of += other.of;
        self.found += other.found;
    }

    #[allow(clippy::cast_precision_loss, reason = "for people")]
    fn text(self) -> String {
        if self.of == 0 {
            return "-".to_owned();
        }
        format!("{:.2} % of {}", self.found as f64 * 100.0 / self.of as f64, self.of)
    }
}

/// One victim and the results after it. The names are stable in JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Round {
    /// Number of the round, from 1.
    pub round: u32,
    /// The planned ending.
    pub planned: Ending,
    /// The actual ending: the victim may be faster or slower than planned.
    pub ending: Ending,
    /// Time to the kill, from the beginning of the phase in which the victim was to be killed.
    pub delay_ms: f64,
    /// Operations begun.
    pub operations: u64,
    /// Operations that the kill interrupted.
    pub cut_off: u64,
    /// Objects of the small-object engine from which a get was answered shortly before the end, unchanged since, and
    /// how many of them were found.
    pub small: Share,
    /// The same for the large-object engine.
    pub large: Share,
    /// All keys that must hold a value if it was not evicted or lost, and how many were found. This includes keys that
    /// were only in DRAM, and those that flash has evicted.
    pub alive: Share,
    /// Large objects on flash before the end, as last reported by the victim.
    pub large_objects_before: Option<u64>,
    /// The same right after the opening.
    pub large_objects_after: u64,
    /// Values found after a miss, without a change of the key in between. Allowed.
    pub reappeared: u64,
    /// The kind of recovery of the judge's opening.
    pub recovery: String,
    /// Details of the recovery.
    pub recovery_detail: String,
    /// Time until the kernel released the file of the killed process.
    pub released_ms: f64,
    /// Duration of `Larder::open`.
    pub open_ms: f64,
    /// From the opening of the file to the first answered get.
    pub first_answer_ms: f64,
    /// Duration of the whole judgement.
    pub judge_ms: f64,
    /// Whether the judge closed the cache; otherwise it dropped it as in a crash.
    pub judge_closed: bool,
    /// Wrong answers by kind.
    pub wrong: BTreeMap<Kind, u64>,
    /// Number of wrong answers to the judge; the others were to the victim.
    pub wrong_to_judge: u64,
}

impl Default for Round {
    fn default() -> Self {
        Self {
            round: 0,
            planned: Ending::Running,
            ending: Ending::Running,
            delay_ms: 0.0,
            operations: 0,
            cut_off: 0,
            small: Share::default(),
            large: Share::default(),
            alive: Share::default(),
            large_objects_before: None,
            large_objects_after: 0,
            reappeared: 0,
            recovery: String::new(),
            recovery_detail: String::new(),
            released_ms: 0.0,
            open_ms: 0.0,
            first_answer_ms: 0.0,
            judge_ms: 0.0,
            judge_closed: false,
            wrong: BTreeMap::new(),
            wrong_to_judge: 0,
        }
    }
}

/// A wrong answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Wrong {
    /// Round in which it was noticed.
    pub round: u32,
    /// How it is wrong.
    pub kind: Kind,
    /// Receiver of the answer: `victim` or `judge`.
    pub found_by: &'static str,
    /// The number of the key.
    pub key: u32,
    /// The allowed answers and the history of the key.
    pub text: String,
}

/// Sums over rounds with the same ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Totals {
    /// Rounds.
    pub rounds: u64,
    /// See [`Round::operations`].
    pub operations: u64,
    /// See [`Round::cut_off`].
    pub cut_off: u64,
    /// See [`Round::small`].
    pub small: Share,
    /// See [`Round::large`].
    pub large: Share,
    /// See [`Round::alive`].
    pub alive: Share,
    /// Large objects on flash before the end, and right after the opening, if both are known.
    pub large_objects: Share,
    /// See [`Round::reappeared`].
    pub reappeared: u64,
    /// Wrong answers.
    pub wrong: u64,
}

impl Totals {
    fn add(&mut self, round: &Round) {
        self.rounds += 1;
        self.operations += round.operations;
        self.cut_off += round.cut_off;
        self.small.add(round.small);
        self.large.add(round.large);
        self.alive.add(round.alive);
        if let Some(of) = round.large_objects_before {
            self.large_objects.add(Share { of, found: round.large_objects_after });
        }
        self.reappeared += round.reappeared;
        self.wrong += round.wrong.values().sum::<u64>();
    }
}

/// Progress of a run.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Completed rounds.
    pub done: u32,
    /// The results so far.
    pub report: &'a Report,
}

/// The results of a run. The names are stable in JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Vec<String>,
    /// The options.
    pub options: Options,
    /// Number of keys.
    pub keys: u32,
    /// All rounds.
    pub rounds: Vec<Round>,
    /// The first wrong answers of each round.
    pub wrong: Vec<Wrong>,
    /// A round that could not be judged, and why: a victim or the cache failed.
    pub failed: Option<(u32, String)>,
}

impl Report {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            machine: machine::describe(&options.dir),
            options: options.clone(),
            keys: options.keys(),
            rounds: Vec::new(),
            wrong: Vec::new(),
            failed: None,
        }
    }

    pub(super) fn add(&mut self, round: Round, wrong: Vec<Wrong>) {
        self.rounds.push(round);
        self.wrong.extend(wrong);
    }

    /// The first round with an error.
    pub fn failed_round(&self) -> Option<u32> {
        let wrong = self.rounds.iter().find(|round| !round.wrong.is_empty());
        wrong.map(|round| round.round).or(self.failed.as_ref().map(|(round, _)| *round))
    }

    /// Sums of the rounds with this ending.
    pub fn totals(&self, ending: Ending) -> Totals {
        let mut totals = Totals::default();
        let ended = self.rounds.iter().filter(|round| round.ending == ending);
        ended.for_each(|round| totals.add(round));
        totals
    }

    /// Wrong answers by kind.
    pub fn wrong_by_kind(&self) -> BTreeMap<Kind, u64> {
        let mut sums = BTreeMap::new();
        for (kind, count) in self.rounds.iter().flat_map(|round| &round.wrong) {
            *sums.entry(*kind).or_default() += count;
        }
        sums
    }

    /// Number of recoveries by kind.
    pub fn recoveries(&self) -> BTreeMap<&str, u64> {
        let mut sums = BTreeMap::new();
        for round in &self.rounds {
            *sums.entry(round.recovery.as_str()).or_default() += 1;
        }
        sums
    }

    /// All results as a table.
    pub fn table(&self) -> String {
        let endings = [Ending::Opening, Ending::Running, Ending::Closing, Ending::Closed];
        let totals = endings.map(|ending| self.totals(ending));
        let mut out = row("", &["opening", "running", "closing", "not killed"].map(str::to_owned));
        let rows: [Row<Totals, String>; 9] = [
            ("victims", |it| it.rounds.to_string()),
            ("operations", |it| it.operations.to_string()),
            ("cut off by the kill", |it| it.cut_off.to_string()),
            ("small on flash, found again", |it| it.small.text()),
            ("large on flash, found again", |it| it.large.text()),
            ("large objects, counted", |it| it.large_objects.text()),
            ("all keys, DRAM and evicted too", |it| it.alive.text()),
            ("reappeared after a miss", |it| it.reappeared.to_string()),
            ("wrong answers", |it| it.wrong.to_string()),
        ];
        for (label, text) in rows {
            out.push_str(&row(label, &totals.each_ref().map(text)));
        }
        let times: [Row<Round, f64>; 3] = [
            ("file released", |round| round.released_ms),
            ("Larder::open", |round| round.open_ms),
            ("first answer", |round| round.first_answer_ms),
        ];
        out.push('\n');
        for (label, value) in times {
            out.push_str(&format!("{label:14}  {}\n", spread(self.rounds.iter().map(value))));
        }
        let recoveries = self.recoveries().into_iter();
        let recoveries: Vec<_> =
            recoveries.map(|(name, count)| format!("{name} {count}")).collect();
        out.push_str(&format!("{:14}  {}\n", "recovery", recoveries.join(", ")));
        out
    }

    /// All results as JSON.
    pub fn page(&self) -> String {
        let totals: BTreeMap<_, _> =
            [Ending::Opening, Ending::Running, Ending::Closing, Ending::Closed]
                .into_iter()
                .map(|ending| (format!("{ending:?}").to_lowercase(), self.totals(ending)))
                .collect();
        let page = serde_json::json!({
            "report": self,
            "failed_round": self.failed_round(),
            "totals": totals,
            "wrong_by_kind": self.wrong_by_kind(),
            "recoveries": self.recoveries(),
        });
        format!("{page:#}\n")
    }
}

/// A label, and the function for its value.
type Row<Of, What> = (&'static str, fn(&Of) -> What);

fn row(label: &str, cells: &[String; 4]) -> String {
    let [a, b, c, d] = cells;
    format!("{label:30}  {a:>18}  {b:>18}  {c:>18}  {d:>18}\n")
}

/// Median, 95th percentile and maximum, of milliseconds.
fn spread(values: impl Iterator<Item = f64>) -> String {
    let mut times = Latencies::default();
    values.for_each(|ms| times.record(Duration::from_secs_f64(ms.max(0.0) / 1e3)));
    let (Some(median), Some(p95), Some(most)) =
        (times.quantile_us(0.5), times.quantile_us(0.95), times.max_us())
    else {
        return "-".to_owned();
    };
    format!("median {:.2} ms, 95 % {:.2} ms, most {:.2} ms", median / 1e3, p95 / 1e3, most / 1e3)
}
