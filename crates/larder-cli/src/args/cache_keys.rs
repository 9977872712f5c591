//! Each setting of a cache: its name, how its text is read, its value as text, and what a change of it needs.

use std::time::Duration;

use indicatif::BinaryBytes;
use larder::Config;
use larder_device::PlacementMode;

use super::nearest;
use super::numbers::{percent, size};

/// A setting of a cache.
pub(crate) struct CacheKey {
    /// As in `larder.toml`, with its section.
    pub(crate) name: &'static str,
    pub(crate) change: Change,
    /// Reads a text into a configuration; the error says what is legal.
    pub(crate) set: fn(&mut Config, &str) -> Result<(), String>,
    /// The value, for people.
    pub(crate) get: fn(&Config) -> String,
}

/// What a changed setting needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing: SIGHUP applies it.
    Now,
    /// Another start.
    Start,
    /// Another start, which begins with an empty cache.
    Empties,
}

const fn key(
    name: &'static str,
    change: Change,
    set: fn(&mut Config, &str) -> Result<(), String>,
    get: fn(&Config) -> String,
) -> CacheKey {
    CacheKey { name, change, set, get }
}

/// All settings of a cache, in the order in which they are shown.
pub(crate) static KEYS: [CacheKey; 40] = [
    key(
        "crash_safety",
        Change::Empties,
        |to, text| put(&mut to.crash_safety, text.parse()),
        |of| of.crash_safety.to_string(),
    ),
    key(
        "utilization",
        Change::Empties,
        |to, text| put(&mut to.utilization_percent, percent(text)),
        |of| format!("{} %", of.utilization_percent),
    ),
    key(
        "tombstone_log",
        Change::Empties,
        |to, text| put(&mut to.tombstone_log_bytes, word(text).map(Some)),
        |of| of.tombstone_log_bytes.map_or_else(|| "1/256 of the flash".to_owned(), bytes),
    ),
    key(
        "flash_wait",
        Change::Start,
        |to, text| {
            put(&mut to.flash_wait, seconds(text).map(|time| (!time.is_zero()).then_some(time)))
        },
        |of| of.flash_wait.map_or_else(|| "for ever".to_owned(), time),
    ),
    key(
        "seed",
        Change::Start,
        |to, text| put(&mut to.seed, number(text)),
        |of| of.seed.to_string(),
    ),
    key(
        "hash_seed",
        Change::Start,
        |to, text| put(&mut to.hash_seed, number(text).map(Some)),
        |of| of.hash_seed.map_or_else(|| "drawn".to_owned(), |seed| seed.to_string()),
    ),
    key(
        "dram.policy",
        Change::Start,
        |to, text| put(&mut to.dram_policy, text.parse()),
        |of| of.dram_policy.to_string(),
    ),
    key(
        "admission.policy",
        Change::Now,
        |to, text| put(&mut to.admission, text.parse()),
        |of| of.admission.to_string(),
    ),
    key(
        "admission.memory",
        Change::Start,
        |to, text| put(&mut to.admission_memory_bytes, size(text)),
        |of| bytes(of.admission_memory_bytes),
    ),
    key(
        "placement.mode",
        Change::Start,
        |to, text| {
            put(
                &mut to.placement,
                text.parse().map(|mode: PlacementMode| mode != PlacementMode::Off),
            )
        },
        |of| (if of.placement { "preferred" } else { "off" }).to_owned(),
    ),
    key(
        "placement.dynamic",
        Change::Start,
        |to, text| put(&mut to.soc.dynamic_placement, flag(text)),
        |of| of.soc.dynamic_placement.to_string(),
    ),
    key(
        "soc.percent",
        Change::Empties,
        |to, text| put(&mut to.soc.percent, percent(text).map(Some)),
        |of| {
            of.soc
                .percent
                .map_or_else(|| "by flash and memory".to_owned(), |part| format!("{part} %"))
        },
    ),
    key(
        "soc.layout",
        Change::Empties,
        |to, text| put(&mut to.soc.layout, text.parse().map(Some)),
        |of| {
            let by_memory = || "by flash and memory".to_owned();
            of.soc.layout.map_or_else(by_memory, |layout| layout.to_string())
        },
    ),
    key(
        "soc.pages_per_set",
        Change::Empties,
        |to, text| put(&mut to.soc.pages_per_set, word(text).map(Some)),
        |of| {
            let by_memory = || "by flash and memory".to_owned();
            of.soc.pages_per_set.map_or_else(by_memory, |pages| format!("{pages} pages"))
        },
    ),
    key(
        "soc.max_object",
        Change::Start,
        |to, text| put(&mut to.soc.max_object_bytes, word(text)),
        |of| bytes(of.soc.max_object_bytes),
    ),
    key(
        "soc.log",
        Change::Empties,
        |to, text| put(&mut to.soc.log_percent, percent(text).map(Some)),
        |of| {
            let by_itself = || "none, or half of the buckets beyond 25 x memory".to_owned();
            of.soc.log_percent.map_or_else(by_itself, |percent| format!("{percent} %"))
        },
    ),
    key(
        "soc.log_threshold",
        Change::Start,
        |to, text| put(&mut to.soc.log_threshold, number(text)),
        |of| format!("{} objects", of.soc.log_threshold),
    ),
    key(
        "soc.eviction",
        Change::Start,
        |to, text| put(&mut to.soc.eviction, text.parse()),
        |of| of.soc.eviction.to_string(),
    ),
    key(
        "loc.region",
        Change::Empties,
        |to, text| put(&mut to.loc.region_bytes, word(text).map(Some)),
        |of| of.loc.region_bytes.map_or_else(|| "by the size of the flash".to_owned(), bytes),
    ),
    key(
        "loc.write",
        Change::Start,
        |to, text| put(&mut to.loc.write_bytes, word(text)),
        |of| bytes(of.loc.write_bytes),
    ),
    key(
        "loc.eviction",
        Change::Start,
        |to, text| put(&mut to.loc.eviction, text.parse()),
        |of| of.loc.eviction.to_string(),
    ),
    key(
        "loc.reinsertion",
        Change::Start,
        |to, text| put(&mut to.loc.reinsertion, text.parse()),
        |of| of.loc.reinsertion.to_string(),
    ),
    key(
        "loc.ttl_classes",
        Change::Start,
        |to, text| put(&mut to.loc.ttl_classes, list(text)),
        |of| match of.loc.ttl_classes.as_slice() {
            [] => "none".to_owned(),
            classes => classes.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
        },
    ),
    key(
        "loc.reclaim_units",
        Change::Empties,
        |to, text| put(&mut to.loc.ru_aware_eviction, flag(text)),
        |of| of.loc.ru_aware_eviction.to_string(),
    ),
    key(
        "loc.eager_index",
        Change::Start,
        |to, text| put(&mut to.loc.eager_index_objects, number(text)),
        |of| format!("{} objects", of.loc.eager_index_objects),
    ),
    key(
        "array.percent",
        Change::Empties,
        |to, text| put(&mut to.array.percent, percent(text)),
        |of| format!("{} %", of.array.percent),
    ),
    key(
        "array.min_object",
        Change::Start,
        |to, text| put(&mut to.array.min_object_bytes, word(text)),
        |of| bytes(of.array.min_object_bytes),
    ),
    key(
        "array.mean_object",
        Change::Empties,
        |to, text| put(&mut to.array.mean_object_bytes, word(text)),
        |of| bytes(of.array.mean_object_bytes),
    ),
    key(
        "array.index",
        Change::Start,
        |to, text| put(&mut to.array.index_bytes, size(text).map(Some)),
        |of| of.array.index_bytes.map_or_else(|| "2 bytes an object".to_owned(), bytes),
    ),
    key(
        "array.memory",
        Change::Start,
        |to, text| put(&mut to.array.memory_bytes, size(text).map(Some)),
        |of| of.array.memory_bytes.map_or_else(|| "what it takes".to_owned(), bytes),
    ),
    key(
        "array.region",
        Change::Empties,
        |to, text| put(&mut to.array.region_bytes, word(text).map(Some)),
        |of| of.array.region_bytes.map_or_else(|| "by the size of the flash".to_owned(), bytes),
    ),
    key(
        "array.write",
        Change::Start,
        |to, text| put(&mut to.array.write_bytes, word(text)),
        |of| bytes(of.array.write_bytes),
    ),
    key(
        "array.open",
        Change::Start,
        |to, text| put(&mut to.array.open_bytes, size(text).map(Some)),
        |of| of.array.open_bytes.map_or_else(|| "64 MiB, or a 16th of its flash".to_owned(), bytes),
    ),
    key(
        "array.reinsertion",
        Change::Start,
        |to, text| put(&mut to.array.reinsertion, flag(text)),
        |of| of.array.reinsertion.to_string(),
    ),
    key(
        "array.ttl_groups",
        Change::Empties,
        |to, text| put(&mut to.array.ttl_groups, flag(text)),
        |of| of.array.ttl_groups.to_string(),
    ),
    key(
        "demotion.by",
        Change::Start,
        |to, text| put(&mut to.demotions, text.parse()),
        |of| of.demotions.to_string(),
    ),
    key(
        "demotion.memory",
        Change::Start,
        |to, text| put(&mut to.demoting_bytes_max, size(text).map(Some)),
        |of| of.demoting_bytes_max.map_or_else(|| "a quarter of DRAM".to_owned(), bytes),
    ),
    key(
        "demotion.wait",
        Change::Start,
        |to, text| put(&mut to.demotion_wait, seconds(text)),
        |of| time(of.demotion_wait),
    ),
    key(
        "latencies",
        Change::Start,
        |to, text| put(&mut to.latency_histograms, flag(text)),
        |of| of.latency_histograms.to_string(),
    ),
    key(
        "access_times",
        Change::Start,
        |to, text| put(&mut to.access_times, flag(text)),
        |of| of.access_times.to_string(),
    ),
];

/// What a cache of a server has without any setting: memcached clients may ask when an item was used, and operators
/// want latencies.
pub(crate) fn default_config() -> Config {
    Config { access_times: true, latency_histograms: true, ..Config::default() }
}

/// The key with this name.
pub(crate) fn find(name: &str) -> Result<&'static CacheKey, String> {
    if let Some(key) = KEYS.iter().find(|key| key.name == name) {
        return Ok(key);
    }
    let (section, wrong) = name.split_once('.').unwrap_or(("", name));
    let known = KEYS.iter().filter_map(|key| key.name.split_once('.'));
    let known: Vec<&str> =
        known.filter(|(other, _)| *other == section).map(|(_, key)| key).collect();
    Err(match nearest(wrong, &known) {
        Some(key) => format!("unknown key {wrong:?} in [{section}]: did you mean {key:?}?"),
        None => {
            format!("unknown key {wrong:?} in [{section}]: the keys there are {}", known.join(", "))
        }
    })
}

/// Checks the text of a key; for options of the command line, which have the same values.
pub(super) fn checked(name: &'static str) -> impl Fn(&str) -> Result<String, String> + Clone {
    move |text| {
        let key = find(name)?;
        (key.set)(&mut default_config(), text)?;
        Ok(text.to_owned())
    }
}

fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

/// Bytes that fit 32 bits.
fn word(text: &str) -> Result<u32, String> {
    u32::try_from(size(text)?).map_err(|_| "must be less than 4G".to_owned())
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "must be a whole number".to_owned())
}

fn flag(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "must be true or false".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().map_err(|_| "must be seconds, such as 0.5".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "must be seconds, 0 or more".to_owned())
}

/// Whole numbers with commas between them; an empty text is an empty list.
fn list(text: &str) -> Result<Vec<u32>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let each = text.split(',').map(|one| one.trim().parse());
    each.collect::<Result<_, _>>().map_err(|_| "must be seconds, such as 60,3600".to_owned())
}

fn bytes(count: impl Into<u64>) -> String {
    BinaryBytes(count.into()).to_string()
}

fn time(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}
