//! The parameters of a replay, checked before anything runs.

use std::path::PathBuf;
use std::sync::Arc;

use larder::{
    AdmissionPolicy, ArrayConfig, DramPolicy, RegionEviction, Reinsertion, SocEviction, SocLayout,
};
use larder_device::{Isolation, PlacementMode, Target};
use larder_vssd::Isolation as VssdIsolation;
use larder_workload::generate::{self, GeneratorOptions};
use larder_workload::trace::{self, TraceOptions};
use larder_workload::{RecordedRequests, Request, RequestSource};
use serde_json::{Map, Value, json};

use crate::Error;

/// Number of units if `--ru` is not given: the ratio of a 1.88 TB drive to its 6 GB units.
const UNITS_AUTO: f64 = 340.0;
/// Range of the automatically chosen reclaim unit size, in bytes.
const UNIT_BYTES_AUTO: std::ops::RangeInclusive<u64> = 64 << 10..=16 << 30;
const PAGE_BYTES: u64 = 4096;
const REGION_WRITE_BYTES_MAX: u64 = 256 << 10;
/// The maximum number of shards in a set.
const SHARDS_MAX: usize = 128;

/// Source of the requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workload {
    /// A built-in generator.
    Preset(String),
    /// A recorded trace.
    Trace(PathBuf, TraceOptions),
    /// Requests in memory.
    Requests(Arc<[Request]>),
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Preset(name) => write!(f, "workload {name}"),
            Self::Trace(path, _) => write!(f, "trace {}", path.display()),
            Self::Requests(requests) => write!(f, "{} recorded requests", requests.len()),
        }
    }
}

/// Which runs to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlacementRuns {
    /// One run in which each stream has its handle.
    On,
    /// One run in which every write goes to the default handle.
    Off,
    /// Both, concurrently.
    Both,
}

/// The kind of the flash tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// The SSD model, in memory. It counts the bytes that the drive writes to its media.
    Model,
    /// A plain file. It has no placement, and the media writes of the drive below are unknown.
    File(PathBuf),
    /// A real device, whose content is lost, and how to use its placement.
    Device(Target, PlacementMode),
    /// Blocks of a virtual SSD of the model, which counts the programmed bytes.
    Vssd(VssdPlace),
}

/// Which virtual SSD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VssdPlace {
    /// A new one in memory, with as much flash as the managed drive would have.
    Memory(VssdIsolation),
    /// One of a model image, by its number. It must have no blocks, and has none afterwards.
    Image(PathBuf, u32),
}

impl std::fmt::Display for VssdPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory(VssdIsolation::Channel) => f.write_str("vssd:channel"),
            Self::Memory(VssdIsolation::Die) => f.write_str("vssd:die"),
            Self::Memory(VssdIsolation::Software { .. }) => f.write_str("vssd:software"),
            Self::Memory(VssdIsolation::None) => f.write_str("vssd:none"),
            Self::Image(path, number) => write!(f, "vssd:{number} of {}", path.display()),
        }
    }
}

/// Parameters of a replay. Sizes are in bytes, shares in percent.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayOptions {
    /// Source of the requests.
    pub workload: Workload,
    /// Stop after this number of requests; `None` is the preset's default, or the whole trace.
    pub requests: Option<u64>,
    /// Requests of the workload as a whole, if a preset is to have a different number of keys than
    /// [`requests`](Self::requests) would give; see [`GeneratorOptions::span_requests`].
    pub span_requests: Option<u64>,
    /// Passes over the workload.
    pub repeat: u32,
    /// Budget of the DRAM tier.
    pub dram_bytes: u64,
    /// Which item is evicted from DRAM first.
    pub dram_policy: DramPolicy,
    /// Logical capacity of the drive; 0 for a cache in DRAM only.
    pub flash_bytes: u64,
    /// Drives that share [`flash_bytes`](Self::flash_bytes) evenly, each a shard of a set; 1 is a cache on one drive.
    pub shards: usize,
    /// Share of the drive that the cache uses.
    pub utilization_percent: f64,
    /// Share of the cache's flash that the small-object engine gets.
    pub soc_percent: f64,
    /// Share of the cache's flash that the log in front of the small-object engine gets; 0 means no log.
    pub soc_log_percent: f64,
    /// How small objects are stored.
    pub soc_layout: SocLayout,
    /// Which object of a full bucket makes room.
    pub soc_eviction: SocEviction,
    /// Objects of at most this size are small.
    pub soc_max_object_bytes: u32,
    /// The array engine. Its writes have the same size as the large-object engine's.
    pub array: ArrayConfig,
    /// Over-provisioning of the drive, in percent of its logical capacity.
    pub op_percent: f64,
    /// Size of a reclaim unit; `None` divides the drive into about 340.
    pub unit_bytes: Option<u64>,
    /// What garbage collection may mix.
    pub isolation: Isolation,
    /// Which items are written to flash.
    pub admission: AdmissionPolicy,
    /// Which region is reclaimed first.
    pub region_eviction: RegionEviction,
    /// Which objects are kept when their region is reclaimed.
    pub reinsertion: Reinsertion,
    /// TTL classes of large objects: upper bounds in seconds, ascending.
    pub ttl_classes: Vec<u32>,
    /// Which runs to make.
    pub placement: PlacementRuns,
    /// The kind of the flash tier.
    pub storage: Storage,
    /// Share of the requests that are warm-up; device counters are measured after it.
    pub warmup_percent: f64,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Engine options that experiments set and a replay does not. The default is that of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineOptions {
    /// Size of a region of the large-object engine; `None` lets the cache choose.
    pub region_bytes: Option<u32>,
    /// Whether the large-object engine evicts by whole reclaim units.
    pub ru_aware_eviction: bool,
    /// Whether frequently rewritten buckets have their own handle.
    pub dynamic_placement: bool,
    /// Whether tombstones are logged, so that a killed process leaves no stale objects.
    pub tombstones: bool,
}

impl ReplayOptions {
    /// A built-in workload with the defaults of `larder replay`.
    pub fn of_preset(name: &str, seed: u64) -> Self {
        Self {
            workload: Workload::Preset(name.to_owned()),
            requests: None,
            span_requests: None,
            repeat: 1,
            dram_bytes: 4 << 20,
            dram_policy: DramPolicy::default(),
            flash_bytes: 128 << 20,
            shards: 1,
            utilization_percent: 100.0,
            soc_percent: 4.0,
            soc_log_percent: 0.0,
            soc_layout: SocLayout::Buckets,
            soc_eviction: SocEviction::default(),
            soc_max_object_bytes: 640,
            array: ArrayConfig::default(),
            op_percent: 17.0,
            unit_bytes: None,
            isolation: Isolation::InitiallyIsolated,
            admission: AdmissionPolicy::All,
            region_eviction: RegionEviction::default(),
            reinsertion: Reinsertion::default(),
            ttl_classes: Vec::new(),
            placement: PlacementRuns::Both,
            storage: Storage::Model,
            warmup_percent: 50.0,
            seed,
        }
    }

    /// Refuses invalid options. The error names the option and a way out.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn check(&self) -> Result<(), Error> {
        let percent = |name: &str, value: f64, most: f64| {
            if (0.0..=most).contains(&value) {
                Ok(())
            } else {
                Err(Error::usage(format!("{name} {value}: must be 0 to {most}")))
            }
        };
        percent("--utilization", self.utilization_percent, 100.0)?;
        percent("--soc", self.soc_percent, 100.0)?;
        percent("--soc-log", self.soc_log_percent, 100.0)?;
        percent("--array", self.array.percent, 100.0)?;
        percent("--op", self.op_percent, 1000.0)?;
        percent("--warmup", self.warmup_percent, 99.0)?;
        if let Workload::Preset(name) = &self.workload {
            default_requests(name)?;
        }
        if self.repeat == 0 || self.requests == Some(0) {
            return Err(Error::usage("--repeat and --requests: must be at least 1"));
        }
        if !self.flash_bytes.is_multiple_of(PAGE_BYTES) {
            return Err(Error::usage(format!(
                "--flash {}: must be a multiple of {PAGE_BYTES} bytes",
                self.flash_bytes
            )));
        }
        self.check_shards()?;
        if let Storage::Device(_, mode) = &self.storage {
            self.check_device(*mode)?;
        }
        if let Storage::Vssd(place) = &self.storage {
            self.check_vssd(place)?;
        }
        if matches!(self.storage, Storage::File(_)) && self.placement != PlacementRuns::Off {
            return Err(Error::usage(
                "--device file: a file has no placement handles; use --placement off, or --device model",
            ));
        }
        Ok(())
    }

    fn check_shards(&self) -> Result<(), Error> {
        let complaint = if !(1..=SHARDS_MAX).contains(&self.shards) {
            format!("must be 1 to {SHARDS_MAX}")
        } else if self.shards == 1 {
            return Ok(());
        } else if self.storage != Storage::Model {
            "each has a simulated drive of its own; leave --device and --vssd out".to_owned()
        } else if self.flash_bytes == 0 {
            "--flash 0 leaves nothing to divide".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::usage(format!("--shards {}: {complaint}", self.shards)))
    }

    fn check_vssd(&self, place: &VssdPlace) -> Result<(), Error> {
        let complaint = if self.placement != PlacementRuns::Off {
            "each block is one stream's already, and there are no handles; leave --placement out"
        } else if self.flash_bytes == 0 {
            "--flash 0 leaves nothing to put on it"
        } else if self.soc_percent >= 100.0 {
            "--soc 100 leaves no large objects, which alone are written in order"
        } else {
            return Ok(());
        };
        Err(Error::usage(format!("--vssd, {place}: {complaint}")))
    }

    fn check_device(&self, mode: PlacementMode) -> Result<(), Error> {
        let complaint = match (self.placement, mode) {
            _ if self.flash_bytes == 0 => "--flash 0: a device needs flash to be used for",
            (PlacementRuns::Both, _) => {
                "--placement both: a device serves one run at a time; make two replays"
            }
            (PlacementRuns::On, PlacementMode::Off) => {
                "--placement on and --placement-mode off contradict each other"
            }
            _ => return Ok(()),
        };
        Err(Error::usage(complaint))
    }

    /// Logical capacity of each drive.
    pub fn drive_bytes(&self) -> u64 {
        self.flash_bytes / self.shards.max(1) as u64 / PAGE_BYTES * PAGE_BYTES
    }

    /// Bytes of a reclaim unit: the requested or the automatic size.
    pub fn resolved_unit_bytes(&self) -> u64 {
        self.unit_bytes.unwrap_or_else(|| automatic_unit_bytes(self.drive_bytes(), self.op_percent))
    }

    /// Bytes of a LOC region written at a time: 256 KiB, but at most a 64th of a reclaim unit.
    ///
    /// A scaled-down drive needs scaled-down writes. On a real drive a unit holds thousands of transfers of all
    /// streams. If one transfer filled a whole unit, streams would never share a unit, with or without placement.
    pub fn region_write_bytes(&self) -> u32 {
        let scaled = self.resolved_unit_bytes() / 64 / PAGE_BYTES * PAGE_BYTES;
        let bytes = scaled.clamp(PAGE_BYTES, REGION_WRITE_BYTES_MAX);
        u32::try_from(bytes).expect("at most 256 KiB")
    }

    /// Opens the workload for one pass.
    ///
    /// # Errors
    /// The errors of the trace reader or the generator.
    pub fn open_workload(&self) -> Result<Box<dyn RequestSource>, Error> {
        match &self.workload {
            Workload::Preset(name) => {
                let requests = match self.requests {
                    Some(requests) => requests,
                    None => default_requests(name)?,
                };
                let span_requests = self.span_requests;
                let options = GeneratorOptions { requests, span_requests, seed: self.seed };
                Ok(generate::preset(name, options)?)
            }
            Workload::Trace(path, options) => Ok(trace::open(path, options)?),
            Workload::Requests(requests) => {
                Ok(Box::new(RecordedRequests::new(Arc::clone(requests))))
            }
        }
    }

    /// Requests of the whole replay, if known beforehand. A trace may have fewer than its limit.
    pub fn total_requests(&self) -> Option<u64> {
        let one_pass = match &self.workload {
            Workload::Preset(name) => self.requests.or_else(|| default_requests(name).ok()),
            Workload::Trace(..) => self.requests,
            Workload::Requests(requests) => {
                let all = requests.len() as u64;
                Some(self.requests.map_or(all, |limit| limit.min(all)))
            }
        };
        one_pass.map(|requests| requests * u64::from(self.repeat))
    }

    /// The parameters under the names of the command line's options, including defaults.
    pub fn to_json(&self) -> Map<String, Value> {
        let (kind, name) = match &self.workload {
            Workload::Preset(name) => ("workload", name.clone()),
            Workload::Trace(path, _) => ("trace", path.display().to_string()),
            Workload::Requests(_) => ("workload", self.workload.to_string()),
        };
        let requests = match &self.workload {
            Workload::Preset(name) => self.requests.or_else(|| default_requests(name).ok()),
            Workload::Trace(..) | Workload::Requests(_) => self.requests,
        };
        let (format, object_size) = match &self.workload {
            Workload::Preset(_) | Workload::Requests(_) => (None, None),
            Workload::Trace(_, options) => {
                (options.format.map(|format| format.to_string()), Some(options.object_bytes))
            }
        };
        let parameters = json!({
            kind: name,
            "format": format,
            "object_size": object_size,
            "requests": requests,
            "repeat": self.repeat,
            "dram": self.dram_bytes,
            "dram_policy": self.dram_policy.to_string(),
            "flash": self.flash_bytes,
            "shards": self.shards,
            "utilization": self.utilization_percent,
            "soc": self.soc_percent,
            "soc_log": self.soc_log_percent,
            "soc_layout": self.soc_layout.to_string(),
            "soc_eviction": self.soc_eviction.to_string(),
            "soc_max_object": self.soc_max_object_bytes,
            "array": self.array.percent,
            "array_min_object": self.array.min_object_bytes,
            "array_mean_object": self.array.mean_object_bytes,
            "array_index": self.array.index_bytes,
            "array_memory": self.array.memory_bytes,
            "op": self.op_percent,
            "ru": self.resolved_unit_bytes(),
            "isolation": match self.isolation {
                Isolation::InitiallyIsolated => "initially",
                Isolation::PersistentlyIsolated => "persistently",
            },
            "admission": self.admission.to_string(),
            "loc_eviction": self.region_eviction.to_string(),
            "reinsertion": self.reinsertion.to_string(),
            "ttl_classes": self.ttl_classes,
            "placement": match self.placement {
                PlacementRuns::On => "on",
                PlacementRuns::Off => "off",
                PlacementRuns::Both => "both",
            },
            "device": match &self.storage {
                Storage::Model => "model".to_owned(),
                Storage::File(path) => format!("file:{}", path.display()),
                Storage::Device(target, _) => target.to_string(),
                Storage::Vssd(place) => place.to_string(),
            },
            "placement_mode": match &self.storage {
                Storage::Device(_, mode) => Some(mode.to_string()),
                Storage::Model | Storage::File(_) | Storage::Vssd(_) => None,
            },
            "warmup": self.warmup_percent,
        });
        match parameters {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }
}

fn default_requests(preset: &str) -> Result<u64, Error> {
    let known = generate::find(preset);
    let known = known.ok_or_else(|| {
        let names: Vec<_> = generate::presets().iter().map(|known| known.name).collect();
        Error::usage(format!("--workload {preset}: unknown; known are {}", names.join(", ")))
    })?;
    Ok(known.requests)
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn automatic_unit_bytes(flash_bytes: u64, op_percent: f64) -> u64 {
    // Positive and far below 2^64: a drive's size divided by 340.
    let wanted = flash_bytes as f64 * (1.0 + op_percent / 100.0) / UNITS_AUTO;
    let pages = (wanted / PAGE_BYTES as f64).round() as u64;
    (pages * PAGE_BYTES).clamp(*UNIT_BYTES_AUTO.start(), *UNIT_BYTES_AUTO.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_automatic_unit_makes_about_340_of_them() {
        for flash in [64 << 20, 1_u64 << 30, 300 << 30] {
            let unit = automatic_unit_bytes(flash, 17.0);
            #[allow(clippy::cast_precision_loss)]
            let units = flash as f64 * 1.17 / unit as f64;
            assert!((330.0..350.0).contains(&units), "{flash}: {units}");
        }
    }
}
