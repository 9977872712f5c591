//! Runs the rounds one after the other, on the same file.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::choose::seeded;
use super::journal::{self, Answer, Record, Verb};
use super::judge::{self, Judged, Look};
use super::options::{Ending, InjectedBug, Options};
use super::oracle::{Kind, Oracle};
use super::report::{Progress, Report, Round, Wrong};
use super::round::{self, Ended, Plan};
use super::value;
use super::victim::Orders;
use crate::Error;

/// Purpose of the parent's random numbers; no thread has it.
const PARENT: u32 = 1 << 17;
/// Endings of a hundred victims.
const ENDINGS: [(Ending, u32); 4] =
    [(Ending::Opening, 15), (Ending::Running, 65), (Ending::Closing, 15), (Ending::Closed, 5)];
/// A victim that is to be killed closes by itself after this time, in case the parent is gone.
const ORPHAN_MS: u64 = 60_000;
/// Only observations this shortly before the end count, because the log of large objects is overwritten.
const SAMPLE_AGE_NS: u64 = 250_000_000;
/// Number of wrong answers per round that are reported in detail; all are counted.
const TOLD: usize = 8;
/// Number of records of a key that are reported.
const HISTORY: usize = 16;

/// Runs all rounds, or those up to the first wrong answer. `victim` makes the command for a process that calls
/// [`serve`](super::serve); its environment and pipes are set here. `progress` is called for each round.
///
/// # Errors
/// For invalid options and files that cannot be created. Errors of the cache or a victim are in the report.
pub fn run(
    options: &Options,
    victim: &dyn Fn() -> Command,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Report, Error> {
    options.check().map_err(Error::usage)?;
    let dir = fs::create_dir_all(&options.dir).and_then(|()| fs::canonicalize(&options.dir));
    let dir = dir.map_err(|cause| {
        Error::run(format!("cannot make the directory {}: {cause}", options.dir.display()))
    })?;
    let options = &Options { dir, ..options.clone() };
    remove(options, true).map_err(Error::run)?;
    let mut report = Report::new(options);
    let mut harness = Harness {
        options,
        oracle: Oracle::new(options.keys()),
        found: HashMap::new(),
        large_objects: None,
        opening: Duration::from_millis(50),
        closing: Duration::from_millis(100),
    };
    for number in 1..=options.times {
        match harness.round(number, victim) {
            Ok((round, wrong)) => report.add(round, wrong),
            Err(why) => report.failed = Some((number, why)),
        }
        progress(Progress { done: number, report: &report });
        if report.failed_round().is_some() {
            break;
        }
    }
    if report.failed_round().is_none() {
        remove(options, true).map_err(Error::run)?;
    }
    Ok(report)
}

struct Harness<'a> {
    options: &'a Options,
    oracle: Oracle,
    /// What the last judge found: version and length, by key.
    found: HashMap<u32, (u64, usize)>,
    /// Large objects on flash at the end of the last judge.
    large_objects: Option<u64>,
    /// Last observed duration of an opening and of a closing.
    opening: Duration,
    closing: Duration,
}

impl Harness<'_> {
    fn round(
        &mut self,
        number: u32,
        victim: &dyn Fn() -> Command,
    ) -> Result<(Round, Vec<Wrong>), String> {
        remove(self.options, false)?;
        let (plan, work_ms, closes) = self.plan(number);
        let orders = Orders { options: self.options.clone(), round: number, work_ms };
        let ended = round::run(&mut victim(), &orders, plan)?;
        self.opening = ended.opening.unwrap_or(self.opening);
        self.closing = ended.closing.unwrap_or(self.closing);
        let mut wrongs = Wrongs { round: number, list: Vec::new(), counts: BTreeMap::new() };
        let journals = (0..self.options.threads)
            .map(|thread| journal::read(&self.options.journal(thread)))
            .collect::<Result<Vec<_>, _>>()?;
        self.follow(&journals, &mut wrongs)?;
        let cut_off = self.oracle.cut_off(ended.gone_ns);
        let before = self.before(&journals)?;
        let reappeared = self.oracle.reappeared;
        if self.options.bug == InjectedBug::OldFile {
            self.turn_back(number)?;
        }
        let judged = judge::judge(self.options, closes)?;
        let mut round = new_round(number, plan, &ended, &judged);
        round.operations = journals.iter().map(|records| (records.len() as u64).div_ceil(2)).sum();
        round.cut_off = cut_off;
        round.large_objects_before = before.large_objects;
        self.compare(&judged.looks, &before, &journals, (&mut round, &mut wrongs));
        round.reappeared = self.oracle.reappeared - reappeared;
        round.judge_closed = closes;
        self.large_objects = Some(judged.large_objects_left);
        round.wrong = wrongs.counts;
        Ok((round, wrongs.list))
    }

    /// The injected bug that restores the old file.
    fn turn_back(&self, number: u32) -> Result<(), String> {
        let (file, old) = (self.options.file(0), self.options.old_file());
        let copied = match number {
            1 => fs::copy(&file, &old),
            2 => fs::copy(&old, &file),
            _ => return Ok(()),
        };
        copied.map(drop).map_err(|cause| format!("cannot copy {}: {cause}", file.display()))
    }

    /// When the victim ends, its maximum work time, and whether the judge closes the cache.
    fn plan(&self, number: u32) -> (Plan, u64, bool) {
        let mut rng = seeded(self.options.seed, number, PARENT);
        let mut draw = rng.u32(0..100);
        let drawn = ENDINGS.iter().find(|(_, share)| {
            let hit = draw < *share;
            draw = draw.saturating_sub(*share);
            hit
        });
        // The first victim must bring data to the file.
        let drawn = drawn.filter(|_| number > 1).map_or(Ending::Running, |(ending, _)| *ending);
        let ending = self.options.ending.unwrap_or(drawn);
        let load_ms = rng.u64(1..=self.options.load_ms);
        let share = rng.f64() * 1.2;
        let (delay, work_ms) = match ending {
            Ending::Opening => (self.opening.mul_f64(share), ORPHAN_MS),
            Ending::Running => (Duration::from_millis(load_ms), ORPHAN_MS),
            Ending::Closing => (self.closing.mul_f64(share), load_ms),
            Ending::Closed => (Duration::ZERO, load_ms),
        };
        (Plan { ending, delay }, work_ms, rng.bool())
    }

    /// Applies the journals of the victim, and judges the answers in them.
    fn follow(&mut self, journals: &[Vec<Record>], wrongs: &mut Wrongs) -> Result<(), String> {
        for records in journals {
            for (at, record) in records.iter().enumerate() {
                let allowed = wrongs.wants_text().then(|| self.oracle.allowed(record.key));
                if let Some(kind) = self.oracle.follow(record)? {
                    wrongs.add(kind, "victim", record.key, || {
                        let allowed = allowed.unwrap_or_default();
                        history(&records[..=at], record.key, record.seen, &allowed)
                    });
                }
            }
        }
        Ok(())
    }

    /// The content of flash before the end, as far as it is certain.
    fn before(&self, journals: &[Vec<Record>]) -> Result<Before, String> {
        if journals.iter().all(Vec::is_empty) {
            // Nothing has changed since the last judge.
            let (settled, large_objects) = (self.found.clone(), self.large_objects);
            return Ok(Before { settled, large_objects });
        }
        let notes = journal::read(&self.options.samples())?;
        let last_ns = notes.last().map_or(0, |note| note.time_ns);
        let recent = notes.iter().filter(|note| note.time_ns + SAMPLE_AGE_NS >= last_ns);
        let mut before = Before { settled: HashMap::new(), large_objects: None };
        for note in recent {
            if note.verb == Verb::Sample {
                before.settled.insert(note.key, (note.seen, note.number as usize));
            } else {
                before.large_objects = Some(note.version);
            }
        }
        Ok(before)
    }

    /// Judges what the judge read, and counts what was found again.
    fn compare(
        &mut self,
        looks: &[Look],
        before: &Before,
        journals: &[Vec<Record>],
        (round, wrongs): (&mut Round, &mut Wrongs),
    ) {
        self.found.clear();
        for look in looks {
            let Look { key, answer, seen, begin_ns, bytes } = *look;
            let certain = self.oracle.certain(key, begin_ns);
            let found = answer == Answer::Seen;
            if found {
                self.found.insert(key, (seen, bytes));
            }
            if let Some(version) = certain {
                round.alive.count(found);
                if let Some((settled, bytes)) = before.settled.get(&key)
                    && *settled == version
                {
                    let large = self.is_large(key, *bytes);
                    let share = if large { &mut round.large } else { &mut round.small };
                    share.count(found);
                }
            }
            let allowed = wrongs.wants_text().then(|| self.oracle.allowed(key));
            if let Some(kind) = self.oracle.look(key, answer, seen, begin_ns) {
                round.wrong_to_judge += 1;
                wrongs.add(kind, "judge", key, || {
                    let records = &journals[(key % self.options.threads) as usize];
                    history(records, key, seen, &allowed.unwrap_or_default())
                });
            }
        }
    }

    fn is_large(&self, key: u32, bytes: usize) -> bool {
        let small_max = self.options.config().map_or(0, |config| config.soc.max_object_bytes);
        value::name_of(key).len() + bytes > small_max as usize
    }
}

/// The content of flash before a victim's end: version and length, by key.
struct Before {
    settled: HashMap<u32, (u64, usize)>,
    large_objects: Option<u64>,
}

/// The wrong answers of a round.
struct Wrongs {
    round: u32,
    list: Vec<Wrong>,
    counts: BTreeMap<Kind, u64>,
}

impl Wrongs {
    fn wants_text(&self) -> bool {
        self.list.len() < TOLD
    }

    fn add(&mut self, kind: Kind, by: &'static str, key: u32, text: impl FnOnce() -> String) {
        *self.counts.entry(kind).or_default() += 1;
        if self.wants_text() {
            self.list.push(Wrong { round: self.round, kind, found_by: by, key, text: text() });
        }
    }
}

fn new_round(number: u32, plan: Plan, ended: &Ended, judged: &Judged) -> Round {
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    Round {
        round: number,
        planned: plan.ending,
        ending: ended.ending,
        delay_ms: ms(plan.delay),
        recovery: judged.recovery.clone(),
        recovery_detail: judged.recovery_detail.clone(),
        large_objects_after: judged.large_objects,
        released_ms: ms(judged.released_after),
        open_ms: ms(judged.open),
        first_answer_ms: ms(judged.first_answer),
        judge_ms: ms(judged.all),
        ..Round::default()
    }
}

/// The operations on a key in this round, as text.
fn history(records: &[Record], key: u32, seen: u64, allowed: &str) -> String {
    let own: Vec<_> = records.iter().filter(|record| record.key == key).collect();
    let mut out = format!("allowed was {allowed}, seen was {seen:x}; the round so far:\n");
    if own.len() > HISTORY {
        out.push_str("    …\n");
    }
    for record in &own[own.len().saturating_sub(HISTORY)..] {
        let Record { moment, verb, answer, version, seen, time_ns, number, .. } = record;
        out.push_str(&format!(
            "    {time_ns} {moment:?} {verb:?} version {version:x} seen {seen:x} for {number} s: \
             {answer:?}\n"
        ));
    }
    out
}

/// Removes the files of a round, or all files of a run.
fn remove(options: &Options, all: bool) -> Result<(), String> {
    let mut paths: Vec<PathBuf> = (0..options.threads).map(|it| options.journal(it)).collect();
    paths.push(options.samples());
    if all {
        paths.extend((0..options.files).map(|number| options.file(number)));
        paths.push(options.old_file());
    }
    for path in paths {
        match fs::remove_file(&path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                return Err(format!("cannot remove {}: {cause}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}
