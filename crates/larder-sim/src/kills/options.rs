//! Options of a run, and the configuration of its cache.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use larder::{AdmissionPolicy, Config};
use larder_device::{FileDevice, FileOptions};
use serde::{Deserialize, Serialize};

/// Bytes of the file per key: with this ratio all newest values together are about as large as the file.
const FILE_BYTES_PER_KEY: u64 = 5500;
const FILES_MAX: u32 = 16;
/// Minimum size of a file in which the engines have room.
const SIZE_BYTES_MIN: u64 = 16 << 20;

/// When a victim ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Killed while it opens the cache.
    Opening,
    /// Killed under load.
    Running,
    /// Killed while it closes the cache.
    Closing,
    /// Not killed: it closes the cache and exits.
    Closed,
}

/// A deliberate defect of victim or file, to test whether the judge notices it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InjectedBug {
    /// None.
    #[default]
    None,
    /// Some sets are missing in the journal.
    OmittedSet,
    /// The journal has some sets that never happened.
    ForgedSet,
    /// The journal has some deletes that never happened.
    ForgedDelete,
    /// Some values are stored with one bit changed.
    Torn,
    /// Sometimes the value of another key is stored.
    Foreign,
    /// Times to live are ignored.
    Immortal,
    /// After the second victim, the file is restored to its state after the first.
    OldFile,
}

impl InjectedBug {
    /// All defects; each must be noticed.
    pub const ALL: [Self; 7] = [
        Self::OmittedSet,
        Self::ForgedSet,
        Self::ForgedDelete,
        Self::Torn,
        Self::Foreign,
        Self::Immortal,
        Self::OldFile,
    ];
}

/// Options of a run. They are passed to victims as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Number of victims.
    pub times: u32,
    /// Seed of everything except timing.
    pub seed: u64,
    /// Directory of file and journals. They are overwritten.
    pub dir: PathBuf,
    /// Bytes of the cache file; of all files together, if there are several.
    pub size_bytes: u64,
    /// Number of files: if there are several, up to 16, each is a shard.
    pub files: u32,
    /// Budget of the DRAM tier in bytes.
    pub dram_bytes: u64,
    /// Threads of a victim, 1 to 255.
    pub threads: u32,
    /// Number of keys; `None` is about as many as the file can hold.
    pub keys: Option<u32>,
    /// Maximum time that a victim is under load, in milliseconds.
    pub load_ms: u64,
    /// Configuration of the cache, as `name=value`: see [`SETTINGS`].
    pub settings: Vec<String>,
    /// One ending for all victims; `None` draws them.
    pub ending: Option<Ending>,
    /// A deliberate defect.
    pub bug: InjectedBug,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            times: 1,
            seed: 0,
            dir: PathBuf::from("."),
            size_bytes: 256 << 20,
            files: 1,
            dram_bytes: 8 << 20,
            threads: 8,
            keys: None,
            load_ms: 1500,
            settings: Vec::new(),
            ending: None,
            bug: InjectedBug::None,
        }
    }
}

/// Names that [`Options::settings`] may set, and the values of each.
pub const SETTINGS: [(&str, &str); 23] = [
    ("admission", "all, reject-first, or the probability 0 to 1"),
    ("array.index_bytes", "bytes of memory"),
    ("array.mean_object_bytes", "bytes"),
    ("array.min_object_bytes", "bytes"),
    (
        "array.percent",
        "0 to 100; soc.percent, soc.log_percent and it make 100 where min_object_bytes is 0",
    ),
    ("array.region_bytes", "bytes, a multiple of 4096"),
    ("array.reinsertion", "true or false"),
    ("array.ttl_groups", "true or false"),
    ("crash_safety", "off, process or power"),
    ("dram_policy", "s3-fifo or lru"),
    ("soc.dynamic_placement", "true or false"),
    ("loc.region_bytes", "bytes, a multiple of 4096"),
    ("loc.eviction", "fifo, lru or segmented-fifo"),
    ("loc.write_bytes", "bytes, a multiple of 4096"),
    ("loc.reinsertion", "none, hits:1 to hits:7, reuse-time, or percent:1 to percent:100"),
    ("soc.eviction", "fifo or rrip"),
    ("soc.layout", "buckets or pages"),
    ("soc.log_percent", "0 to 100"),
    ("soc.max_object_bytes", "bytes"),
    ("soc.pages_per_set", "2 or more"),
    ("soc.percent", "0 to 100"),
    ("loc.ttl_classes", "seconds, ascending, with commas"),
    ("utilization_percent", "more than 0, at most 100"),
];

impl Options {
    /// Refuses invalid options.
    ///
    /// # Errors
    /// The message names the option, and the valid values.
    pub fn check(&self) -> Result<(), String> {
        if self.times == 0 {
            return Err("times = 0: at least one victim is needed".to_owned());
        }
        if !(1..=255).contains(&self.threads) {
            return Err(format!("threads = {}: must be 1 to 255", self.threads));
        }
        if self.size_bytes < SIZE_BYTES_MIN || !self.size_bytes.is_multiple_of(4096) {
            return Err(format!(
                "size = {}: must be a multiple of 4096 of at least {SIZE_BYTES_MIN}",
                self.size_bytes
            ));
        }
        if !(1..=FILES_MAX).contains(&self.files) {
            return Err(format!("files = {}: must be 1 to {FILES_MAX}", self.files));
        }
        if self.file_bytes() < SIZE_BYTES_MIN {
            return Err(format!(
                "size = {}: {} files need {} at least",
                self.size_bytes,
                self.files,
                u64::from(self.files) * SIZE_BYTES_MIN
            ));
        }
        if self.load_ms == 0 || self.load_ms > 10_000 {
            return Err(format!("load-ms = {}: must be 1 to 10000", self.load_ms));
        }
        // There must be keys of each class, and each thread must own one.
        if self.keys() < 256 {
            return Err(format!("keys = {}: must be at least 256", self.keys()));
        }
        self.config().map(|_| ())
    }

    /// Number of keys.
    pub(super) fn keys(&self) -> u32 {
        let fitting = u32::try_from(self.size_bytes / FILE_BYTES_PER_KEY).unwrap_or(u32::MAX);
        self.keys.unwrap_or(fitting)
    }

    /// The configuration of the cache.
    pub(super) fn config(&self) -> Result<Config, String> {
        let mut config =
            Config { dram_bytes: self.dram_bytes, seed: self.seed, ..Config::default() };
        for setting in &self.settings {
            let pair = setting.split_once('=');
            let (name, value) = pair.ok_or_else(|| format!("{setting}: name=value is needed"))?;
            set(&mut config, name, value)?;
        }
        Ok(config)
    }

    /// Path of a file; file 0 is the only one, unless there are several.
    pub(super) fn file(&self, number: u32) -> PathBuf {
        match number {
            0 => self.dir.join("cache"),
            _ => self.dir.join(format!("cache-{number}")),
        }
    }

    fn file_bytes(&self) -> u64 {
        self.size_bytes / u64::from(self.files) / 4096 * 4096
    }

    /// Path of the saved old file.
    pub(super) fn old_file(&self) -> PathBuf {
        self.dir.join("cache-of-before")
    }

    /// Path of the journal of worker `thread`.
    pub(super) fn journal(&self, thread: u32) -> PathBuf {
        self.dir.join(format!("journal-{thread}"))
    }

    /// Path of the samples of the victim's observer.
    pub(super) fn samples(&self) -> PathBuf {
        self.dir.join("samples")
    }

    /// Opens a file. The error tells whether an ending process has not released it yet.
    pub(super) fn device(&self, number: u32) -> Result<FileDevice, larder_device::Error> {
        let options = FileOptions {
            capacity_bytes: Some(self.file_bytes()),
            create: true,
            // The caller waits itself, and measures the time.
            lock_wait: Duration::ZERO,
            ..FileOptions::default()
        };
        FileDevice::open(self.file(number), &options)
    }
}

fn set(config: &mut Config, name: &str, value: &str) -> Result<(), String> {
    match name {
        "admission" => config.admission = admission(value)?,
        "array.index_bytes" => config.array.index_bytes = Some(parsed(name, value)?),
        "array.mean_object_bytes" => config.array.mean_object_bytes = parsed(name, value)?,
        "array.min_object_bytes" => config.array.min_object_bytes = parsed(name, value)?,
        "array.percent" => config.array.percent = parsed(name, value)?,
        "array.region_bytes" => config.array.region_bytes = Some(parsed(name, value)?),
        "array.reinsertion" => config.array.reinsertion = parsed(name, value)?,
        "array.ttl_groups" => config.array.ttl_groups = parsed(name, value)?,
        "crash_safety" => config.crash_safety = parsed(name, value)?,
        "dram_policy" => config.dram_policy = parsed(name, value)?,
        "soc.dynamic_placement" => config.soc.dynamic_placement = parsed(name, value)?,
        "loc.region_bytes" => config.loc.region_bytes = Some(parsed(name, value)?),
        "loc.eviction" => config.loc.eviction = parsed(name, value)?,
        "loc.write_bytes" => config.loc.write_bytes = parsed(name, value)?,
        "loc.reinsertion" => config.loc.reinsertion = parsed(name, value)?,
        "soc.eviction" => config.soc.eviction = parsed(name, value)?,
        "soc.layout" => config.soc.layout = Some(parsed(name, value)?),
        "soc.log_percent" => config.soc.log_percent = Some(parsed(name, value)?),
        "soc.max_object_bytes" => config.soc.max_object_bytes = parsed(name, value)?,
        "soc.pages_per_set" => config.soc.pages_per_set = Some(parsed(name, value)?),
        "soc.percent" => config.soc.percent = Some(parsed(name, value)?),
        "loc.ttl_classes" => {
            let bounds = value.split(',').filter(|bound| !bound.is_empty());
            config.loc.ttl_classes =
                bounds.map(|bound| parsed(name, bound)).collect::<Result<_, _>>()?;
        }
        "utilization_percent" => config.utilization_percent = parsed(name, value)?,
        _ => {
            let names: Vec<_> = SETTINGS.iter().map(|(name, _)| *name).collect();
            return Err(format!("{name} cannot be set; one of {} can", names.join(", ")));
        }
    }
    Ok(())
}

fn admission(value: &str) -> Result<AdmissionPolicy, String> {
    Ok(match value {
        "all" => AdmissionPolicy::All,
        "reject-first" => AdmissionPolicy::RejectFirst,
        _ => AdmissionPolicy::Random(parsed("admission", value)?),
    })
}

fn parsed<T: FromStr>(name: &str, value: &str) -> Result<T, String>
where
    T::Err: std::fmt::Display,
{
    value.parse().map_err(|why| format!("{name}={value}: {why}"))
}
