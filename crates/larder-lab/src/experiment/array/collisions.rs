//! The cost of a hash that is too short. Two keys with the same hash share one entry, and the value that was stored
//! first is not found any more. A wrong value is never returned, because the key stored with the value is compared.

use std::collections::HashMap;

use larder_workload::generate::record_key;

use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Settings, Summary};
use crate::replay::Monitor;

const OBJECTS: Parameter = Parameter {
    name: "objects",
    default: "1000000",
    help: "values that are stored, each of a key of its own, 1000 to 100000000",
};
const BITS: Parameter = Parameter {
    name: "bits",
    default: "22,24,26",
    help: "bits of the hash that tell keys apart, each 8 to 64: 24 are 16 of a fingerprint in one of 256 tables",
};

/// Objects in a whole array: 1 PiB of values of 32 KiB.
const PIB_OBJECTS: f64 = (1_u64 << 35) as f64;

pub(in crate::experiment) static ARRAY_COLLISIONS: Experiment = Experiment {
    name: "array-collisions",
    title: "values that are lost because the hash of their key is another's, by its length",
    reproduces: "BigKV (EuroSys'23): an index of hashes, which compares the key itself when a value is read",
    criterion: "never a value of another key; as many lost as the birthday bound says, within 20 %",
    parameters: &[OBJECTS, BITS],
    metrics: &[
        ("lost.*", "share of the values that are not found, by the bits of the hash"),
        ("bound.*", "share that the birthday bound says"),
        ("wrong.*", "values that were returned for another key"),
        (
            "pairs.*",
            "pairs that are expected in an array of 1 PiB in values of 32 KiB, by the bits of the hash",
        ),
    ],
    references: &[],
    needs: &["lost.24", "bound.24"],
    measure,
    judge,
};

/// An index of shortened hashes, over a log of records that contain the full key.
struct Index {
    bits: u32,
    /// Maps the shortened hash to the position of the record.
    entries: HashMap<u64, usize>,
    records: Vec<u64>,
}

impl Index {
    fn set(&mut self, key: u64) {
        self.records.push(key);
        self.entries.insert(key >> (64 - self.bits), self.records.len() - 1);
    }

    /// Returns the value of a key, which is the key itself.
    fn get(&self, key: u64) -> Option<u64> {
        let place = self.entries.get(&(key >> (64 - self.bits)))?;
        self.records.get(*place).copied().filter(|stored| *stored == key)
    }
}

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let objects: u64 = settings.within(OBJECTS.name, 1000..=100_000_000)?;
    let mut metrics = Metrics::new();
    for bits in settings.list::<u32>(BITS.name)? {
        if !(8..=64).contains(&bits) {
            return Err(settings.refuse(BITS.name, &bits.to_string(), "must be 8 to 64"));
        }
        if monitor.is_stopped() {
            return Err(Error::run("interrupted"));
        }
        let mut index = Index { bits, entries: HashMap::new(), records: Vec::new() };
        (0..objects).for_each(|record| index.set(record_key(seed, record)));
        let answers = (0..objects).map(|record| {
            let key = record_key(seed, record);
            (key, index.get(key))
        });
        let (mut found, mut wrong) = (0, 0);
        for (key, answer) in answers {
            found += u64::from(answer == Some(key));
            wrong += u64::from(answer.is_some_and(|value| value != key));
        }
        #[allow(clippy::cast_precision_loss)]
        let values = [
            ("lost", (objects - found) as f64 / objects as f64),
            ("bound", bound(objects as f64, bits)),
            ("wrong", wrong as f64),
            ("pairs", PIB_OBJECTS * (PIB_OBJECTS / 2.0) / 2_f64.powf(bits.into())),
        ];
        metrics.extend(values.map(|(name, value)| (format!("{name}.{bits}"), value)));
    }
    Ok(metrics)
}

/// Share of `objects` keys that lose their entry when each new key takes over the entry of its hash. With `n` keys and
/// `m` hashes this is `1 - m/n (1 - e^(-n/m))`, or about n / 2m where collisions are rare.
fn bound(objects: f64, bits: u32) -> f64 {
    let ratio = objects / 2_f64.powf(bits.into());
    // For a very small ratio the formula leaves nothing but its rounding error.
    if ratio < 1e-6 { ratio / 2.0 } else { 1.0 + (-ratio).exp_m1() / ratio }
}

fn judge(summary: &Summary) -> Judgement {
    let mut checks = Checks::default();
    for (bits, lost) in summary.series("lost.") {
        let of = |metric: &str| summary.mean(&format!("{metric}.{bits}"));
        let (bound, wrong) = (of("bound"), of("wrong"));
        let off = lost.mean / bound - 1.0;
        checks =
            checks.shape(wrong == 0.0, format!("{bits} bits: {wrong} values of other keys")).exact(
                off.abs() <= 0.2,
                format!("{:.4} % lost, by the bound {:.4} %", lost.mean * 100.0, bound * 100.0),
            );
    }
    checks.judge()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_the_birthday_bound() {
        let few = 1000.0 / 2.0 / 2_f64.powf(30.0);
        assert!((bound(1000.0, 30) / few - 1.0).abs() < 1e-3, "{}", bound(1000.0, 30));
        // As many keys as hashes: 1/e of the hashes stay unused, so the same number of keys have no entry.
        assert!((bound(1024.0, 10) - (-1_f64).exp()).abs() < 1e-9);
        assert!((bound(1e6, 20) - 0.353).abs() < 0.01, "{}", bound(1e6, 20));
    }
}
