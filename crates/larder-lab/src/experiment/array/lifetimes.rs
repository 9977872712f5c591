//! How much of the flash is alive, and the hit ratio, when objects expire. Compares a log with groups of similar
//! lifetime, a log that frees expired objects only when their region is the oldest, and the engine itself.

use std::collections::HashMap;

use larder_workload::generate::{GeneratorOptions, preset};
use larder_workload::{Op, Request};

use super::engine::EngineCache;
use super::expiry::{Answer, ExpiringCache, Flash, GROUP_BOUNDS_S, RegionLog};
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::replay::Monitor;

const REGIONS: Parameter =
    Parameter { name: "regions", default: "512", help: "regions of the flash, 128 to 65536" };
const REGION_OBJECTS: Parameter = Parameter {
    name: "region_objects",
    default: "64",
    help: "objects of a region, 1 to 65536: 64 of 32 KiB are 2 MiB",
};
const RECORDS: Parameter = Parameter {
    name: "records",
    default: "10000000",
    help: "different objects that are asked for, 1000 to 1000000000",
};
const RATE: Parameter =
    Parameter { name: "rate", default: "4", help: "requests a second, 1 to 1000000" };
const DAYS: Parameter = Parameter {
    name: "days",
    default: "7",
    help: "days that are measured, 1 to 1000, behind as many that are not",
};

/// How many times the flash is inspected.
const LOOKS: u64 = 50;
const DAY_S: u64 = 86_400;

const SIMULATED: &str = "another simulation: TTLs of 5 minutes to 7 days on a full cache";

const fn simulated(metric: &'static str, value: f64) -> Reference {
    Reference::ours(metric, value, SIMULATED)
}

pub(in crate::experiment) static ARRAY_TTL: Experiment = Experiment {
    name: "array-ttl",
    title: "share of the flash that is alive, and hit ratio, when objects expire: regions by lifetime, freed whole",
    reproduces: "BigKV (EuroSys'23): 32 groups by time to live, whose regions are freed unread; beside lazy expiry",
    criterion: "the engine, and groups as its model: at least 1.3 times the live share of the lazy log, no lower \
                hit ratio, nothing expired returned; of the engine no read for expiry",
    parameters: &[REGIONS, REGION_OBJECTS, RECORDS, RATE, DAYS],
    metrics: &[
        (
            "live_share.*",
            "objects that can still be returned by room for objects, by rule (engine: the array engine itself, of \
             whose keys some thousands are asked for; engine_one: with one group for all; models: groups, lazy)",
        ),
        (
            "taken_share.*",
            "objects that are on flash by room for objects; of the engine, regions that are not free",
        ),
        ("hit.*", "GETs that found a value that had not expired"),
        ("expired_reads.*", "reads a GET that found an expired value, which is not returned"),
        (
            "freed_whole.*",
            "share of the regions freed whose bound had passed; the others were the oldest",
        ),
        ("expired_returned.*", "expired values that were returned"),
        (
            "expiry_reads.*",
            "reads of the engine's device that are neither of look-ups, nor of tables, nor of the ends of regions that \
             gave way",
        ),
    ],
    references: &[
        simulated("live_share.groups", 0.99),
        simulated("live_share.lazy", 0.48),
        simulated("hit.groups", 0.525),
        simulated("hit.lazy", 0.466),
    ],
    needs: &[
        "live_share.engine",
        "live_share.engine_one",
        "hit.engine",
        "live_share.groups",
        "live_share.lazy",
        "hit.groups",
        "hit.lazy",
    ],
    measure,
    judge,
};

/// The measurements of a policy.
#[derive(Debug, Clone, Copy)]
struct PolicyResult {
    gets: u64,
    hits: u64,
    expired_returned: u64,
    /// Sum over all inspections.
    looked: Flash,
    /// The counters before the measurement, and at the last inspection.
    before: Flash,
    last: Flash,
}

impl PolicyResult {
    fn from(before: Flash) -> Self {
        let looked = Flash::default();
        Self { gets: 0, hits: 0, expired_returned: 0, looked, before, last: before }
    }

    fn look(&mut self, flash: Flash) {
        self.looked.slots += flash.slots;
        self.looked.taken += flash.taken;
        self.looked.live += flash.live;
        self.last = flash;
    }

    #[allow(clippy::cast_precision_loss)]
    fn note(&self, metrics: &mut Metrics, rule: &str) {
        let Self { looked, before, last, .. } = self;
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let freed_whole = last.freed_whole - before.freed_whole;
        let reclaimed = last.reclaimed - before.reclaimed;
        let expired_reads = last.reads_of_expired - before.reads_of_expired;
        let values = [
            ("live_share", share(looked.live, looked.slots)),
            ("taken_share", share(looked.taken, looked.slots)),
            ("hit", share(self.hits, self.gets)),
            ("expired_reads", share(expired_reads, self.gets)),
            ("freed_whole", share(freed_whole, freed_whole + reclaimed)),
            ("expired_returned", self.expired_returned as f64),
        ];
        metrics.extend(values.map(|(name, value)| (format!("{name}.{rule}"), value)));
    }
}

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let regions: usize = settings.within(REGIONS.name, 128..=65_536)?;
    let objects: usize = settings.within(REGION_OBJECTS.name, 1..=65_536)?;
    let records: u64 = settings.within(RECORDS.name, 1000..=1_000_000_000)?;
    let rate: u64 = settings.within(RATE.name, 1..=1_000_000)?;
    let days: u64 = settings.within(DAYS.name, 1..=1000)?;
    let name = format!("twitter-ttl:records={records},rate={rate},sets=0");
    let options = GeneratorOptions { requests: 2 * days * DAY_S * rate, span_requests: None, seed };
    let mut metrics = Metrics::new();
    let mut groups = RegionLog::new(&GROUP_BOUNDS_S, regions, objects);
    let seen = play(&mut groups, &name, options, monitor)?;
    seen.note(&mut metrics, "groups");
    drop(groups);
    let seen = play(&mut RegionLog::lazy(regions, objects), &name, options, monitor)?;
    seen.note(&mut metrics, "lazy");
    for (rule, ttl_groups) in [("engine", true), ("engine_one", false)] {
        let mut engine = EngineCache::new(regions, objects, ttl_groups, seed)?;
        let seen = play(&mut engine, &name, options, monitor)?;
        seen.note(&mut metrics, rule);
        #[allow(clippy::cast_precision_loss)]
        metrics.insert(format!("expiry_reads.{rule}"), engine.reads_for_expiry() as f64);
    }
    Ok(metrics)
}

/// A client that stores each value that it does not find. Only the second half is measured.
fn play(
    cache: &mut dyn ExpiringCache,
    workload: &str,
    options: GeneratorOptions,
    monitor: &Monitor,
) -> Result<PolicyResult, Error> {
    let mut source = preset(workload, options)?;
    let half = options.requests / 2;
    let every = (half / LOOKS).max(1);
    let mut expires_s = HashMap::<u64, u64>::new();
    let mut seen = None;
    let mut number = 0;
    while let Some(Request { key, op, ttl_s, time_s, .. }) = source.next_request()? {
        let now_s = u64::from(time_s);
        if number == half {
            seen = Some(PolicyResult::from(cache.flash(now_s)));
        }
        let answer = match op {
            Op::Get => cache.get(key, now_s),
            Op::Set | Op::Delete => Answer::Absent,
        };
        if answer != Answer::Found {
            cache.set(key, ttl_s, now_s);
            expires_s.insert(key, now_s + u64::from(ttl_s));
        }
        if let Some(seen) = &mut seen {
            let expired = expires_s.get(&key).is_some_and(|&at| ttl_s > 0 && at <= now_s);
            seen.gets += 1;
            seen.hits += u64::from(answer == Answer::Found);
            seen.expired_returned += u64::from(answer == Answer::Found && expired);
        }
        number += 1;
        if number % every == 0 {
            if monitor.is_stopped() {
                return Err(Error::run("interrupted"));
            }
            if let Some(seen) = &mut seen {
                seen.look(cache.flash(now_s));
            }
        }
    }
    seen.ok_or_else(|| Error::run("no requests"))
}

fn judge(summary: &Summary) -> Judgement {
    let of = |metric: &str, rule: &str| summary.mean(&format!("{metric}.{rule}"));
    let (live_lazy, hit_lazy) = (of("live_share", "lazy"), of("hit", "lazy"));
    let returned = ["engine", "engine_one", "groups", "lazy"];
    let returned = returned.map(|rule| summary.max(&format!("expired_returned.{rule}")));
    let read = ["engine", "engine_one"].map(|rule| summary.max(&format!("expiry_reads.{rule}")));
    let mut checks = Checks::default()
        .exact(returned == [0.0; 4], "no value was returned that had expired")
        .exact(read == [0.0; 2], "nothing is read for expiry");
    for (rule, name) in [("engine", "the engine"), ("groups", "its model")] {
        let (live, hit) = (of("live_share", rule), of("hit", rule));
        checks = checks
            .exact(
                live >= 1.3 * live_lazy,
                format!("{name}: alive {live:.3} of the flash, {live_lazy:.3} of the lazy log's"),
            )
            .exact(
                [live, live_lazy, hit, hit_lazy].iter().all(|share| (0.0..=1.0).contains(share)),
                "shares are shares",
            )
            .shape(
                hit >= hit_lazy,
                format!("{name}: hit ratio {hit:.3}, {hit_lazy:.3} of the lazy log"),
            );
    }
    let (one, hit_one) = (of("live_share", "engine_one"), of("hit", "engine_one"));
    checks
        .note(format!("the engine with one group for all: alive {one:.3}, hit ratio {hit_one:.3}"))
        .judge()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Verdict;

    #[test]
    fn groups_keep_alive_what_a_lazy_log_buries() {
        let small = ["regions=128", "region_objects=16", "records=1000000", "rate=1", "days=1"];
        let small = small.map(str::to_owned);
        let settings = Settings::new(ARRAY_TTL.name, ARRAY_TTL.parameters, &small).unwrap();
        let metrics = measure(&settings, 1, &Monitor::default()).unwrap();
        let judgement = judge(&Summary::of(std::slice::from_ref(&metrics)));
        assert_eq!(judgement.verdict, Verdict::Reproduced, "{}", judgement.reason);
        assert!(metrics["freed_whole.groups"] > 0.5 && metrics["freed_whole.lazy"] == 0.0);
        assert!(metrics["expired_reads.groups"] < metrics["expired_reads.lazy"] / 3.0);
        assert!(metrics["live_share.engine"] > 1.3 * metrics["live_share.engine_one"]);
        assert!(metrics["freed_whole.engine"] > 0.5);
    }
}
