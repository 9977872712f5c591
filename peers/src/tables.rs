//! Popularity and sizes of a published workload: `pop.json` and `sizes.json` of CacheLib's cachebench.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::item::mix;

/// Groups of keys of equal popularity, and sizes of values.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Tables {
    /// For each group: the first key after it, and the cumulative share of requests.
    groups: Vec<(u64, f64)>,
    /// For each size: the cumulative share of keys.
    sizes: Vec<(usize, f64)>,
    /// Share of requests for keys that are requested only once.
    pub(crate) once: f64,
}

impl Tables {
    /// Reads both files in `dir`. Each group keeps its share of requests, and gets its share of `keys`, but at least
    /// one.
    pub(crate) fn read(dir: &Path, keys: u64) -> Result<Self, String> {
        let popularity = json(&dir.join("pop.json"))?;
        let sizes = json(&dir.join("sizes.json"))?;
        Self::parse(&popularity, &sizes, keys).map_err(|what| format!("{}: {what}", dir.display()))
    }

    fn parse(popularity: &Value, sizes: &Value, keys: u64) -> Result<Self, String> {
        let counts = numbers(popularity, "popularityBuckets")?;
        let shares = cumulated(&numbers(popularity, "popularityWeights")?)?;
        let bytes = numbers(sizes, "valSizeRange")?;
        let size_shares = cumulated(&numbers(sizes, "valSizeRangeProbability")?)?;
        if counts.len() != shares.len() || bytes.len() != size_shares.len() {
            return Err("lists of different lengths".to_owned());
        }
        let key_shares = cumulated(&counts)?;
        let mut end = 0;
        let ends = key_shares.iter().map(|share| {
            end = ((share * keys as f64).round() as u64).max(end + 1);
            end
        });
        Ok(Self {
            groups: ends.zip(shares).collect(),
            sizes: bytes.iter().map(|bytes| *bytes as usize).zip(size_shares).collect(),
            once: popularity.get("oneHits").and_then(Value::as_f64).unwrap_or(0.0).clamp(0.0, 1.0),
        })
    }

    /// Number of keys.
    pub(crate) fn keys(&self) -> u64 {
        self.groups.last().map_or(0, |(end, _)| *end)
    }

    /// Draws a key by popularity, counted from 0.
    pub(crate) fn draw(&self, rng: &mut fastrand::Rng) -> u64 {
        let at = place(&self.groups, rng.f64());
        let begin = at.checked_sub(1).map_or(0, |before| self.groups[before].0);
        rng.u64(begin..self.groups[at].0)
    }

    /// Size of the value of a key, which never changes.
    pub(crate) fn value_bytes(&self, number: u64) -> usize {
        let share = (mix(!number) >> 11) as f64 / (1_u64 << 53) as f64;
        self.sizes[place(&self.sizes, share)].0
    }
}

/// The first entry whose cumulative share is above `share`.
fn place<T>(entries: &[(T, f64)], share: f64) -> usize {
    entries.partition_point(|(_, up_to)| *up_to <= share).min(entries.len() - 1)
}

fn cumulated(weights: &[f64]) -> Result<Vec<f64>, String> {
    let total: f64 = weights.iter().sum();
    if total.is_nan() || total <= 0.0 {
        return Err("weights that do not sum up to more than 0".to_owned());
    }
    let mut sum = 0.0;
    Ok(weights
        .iter()
        .map(|weight| {
            sum += weight;
            sum / total
        })
        .collect())
}

fn json(path: &Path) -> Result<Value, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}

/// A list of nonnegative numbers.
fn numbers(value: &Value, field: &str) -> Result<Vec<f64>, String> {
    let list = value.get(field).and_then(Value::as_array);
    let list = list.ok_or_else(|| format!("{field}: a list is needed"))?;
    let parsed: Option<Vec<f64>> =
        list.iter().map(|number| number.as_f64().filter(|n| (0.0..1e15).contains(n))).collect();
    parsed
        .filter(|numbers| !numbers.is_empty())
        .ok_or_else(|| format!("{field}: needs numbers from 0, at least one"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn groups_and_sizes_follow_their_weights() {
        let popularity = json!({"oneHits": 0.25, "popularityWeights": [300, 100],
            "popularityBuckets": [1, 6400]});
        let sizes = json!({"valSizeRange": [31, 63], "valSizeRangeProbability": [1, 3]});
        let tables = Tables::parse(&popularity, &sizes, 100).unwrap();
        assert_eq!((tables.keys(), tables.once), (100, 0.25));
        let mut rng = fastrand::Rng::with_seed(1);
        let head = (0..10_000).filter(|_| tables.draw(&mut rng) == 0).count();
        assert!((7300..7700).contains(&head), "{head}");
        let long = (0..10_000).filter(|key| tables.value_bytes(*key) == 63).count();
        assert!((7300..7700).contains(&long), "{long}");
    }

    #[test]
    fn damaged_files_are_named() {
        let good = json!({"popularityWeights": [1], "popularityBuckets": [1],
            "valSizeRange": [1], "valSizeRangeProbability": [1]});
        for (field, wrong) in [
            ("popularityWeights", json!([0])),
            ("popularityBuckets", json!([])),
            ("popularityBuckets", json!([0])),
            ("valSizeRange", json!("x")),
            ("valSizeRangeProbability", json!([-1])),
        ] {
            let mut damaged = good.clone();
            damaged[field] = wrong;
            assert!(Tables::parse(&damaged, &damaged, 1).is_err(), "{field}");
        }
        assert!(Tables::parse(&good, &good, 0).is_ok());
    }
}
