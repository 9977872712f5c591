//! `larder replay`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use larder::{AdmissionPolicy, DramPolicy, RegionEviction, Reinsertion, SocEviction, SocLayout};
use larder_device::{PlacementMode, Target};

use super::array_engine::ArrayEngineArgs;
use super::isolation::KindArg;
use super::numbers::{overprovisioning, percent, size};
use super::workload::FormatArgs;

/// Replay a trace or a built-in workload through the cache, with and without placement.
///
/// Requests go through a DRAM tier, a small-object engine (SOC) and a large-object engine (LOC). The engines write to a
/// simulated NVMe drive, each under a placement handle of its own ("on") or all under the default handle ("off").
/// Device-level write amplification (DLWA) is what the drive writes to its media divided by what the cache wrote.
///
/// A look-aside client is assumed: a GET that misses is followed by a SET of the traced size.
///
/// Sizes take K, M, G, T (powers of 1024).
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
#[command(after_help = "EXAMPLES:
  larder replay                                       meta-kv on a full drive, on beside off
  larder replay --workload twitter-c12 --utilization 50
  larder replay trace.csv.zst --dram 8M --flash 256M --soc 90 --soc-max-object 2K
  larder replay --workload twitter-c12 --flash 1G --array 96    large objects under an index on flash
  larder replay --workload twitter-c12 --flash 1G --array 96 --shards 8    the same on eight drives
  larder replay --admission budget:50G                at most 50 GiB of media bytes per day
  larder replay --admission freq:2                    only what was asked for twice
  larder replay --json out.json --report out/         for machines, and to look at")]
pub(crate) struct ReplayArgs {
    /// Trace to replay; plain or compressed with zstd, xz or gzip. The format is recognised by content, see --format
    #[arg(conflicts_with = "workload")]
    pub(crate) trace: Option<PathBuf>,

    /// Built-in workload to replay when there is no trace; `larder workload list` describes them
    #[arg(long, value_name = "NAME", default_value = "meta-kv")]
    pub(crate) workload: String,

    /// Stop each pass after N requests [default: the workload's own number, or the whole trace]
    #[arg(long, value_name = "N")]
    pub(crate) requests: Option<u64>,

    /// Passes over the workload
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) repeat: u32,

    /// Memory budget of the DRAM tier
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = size)]
    pub(crate) dram: u64,

    /// Eviction policy of DRAM: s3-fifo or lru
    #[arg(long, value_name = "POLICY", default_value = "s3-fifo")]
    pub(crate) dram_policy: DramPolicy,

    /// Logical capacity of the drive; 0 for a cache in DRAM only
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = size)]
    pub(crate) flash: u64,

    /// Divide --flash among N simulated drives, 1 to 128. Each is a shard with its part of the keys, as `larder serve`
    /// with several files. --dram is of all shards together; options of engines and admission apply to each
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) shards: usize,

    /// Share of the drive that the cache uses, in percent
    #[arg(long, value_name = "PCT", default_value_t = 100.0, value_parser = percent)]
    pub(crate) utilization: f64,

    /// Share of the cache's flash that the SOC gets, in percent; 0 or 100 switch an engine off
    #[arg(long, value_name = "PCT", default_value_t = 4.0, value_parser = percent)]
    pub(crate) soc: f64,

    /// Share of the cache's flash that a log in front of the SOC's buckets gets, in percent. Objects wait in it until
    /// several can be written to their bucket together; 0 is no log, 5 is a good start
    #[arg(long, value_name = "PCT", default_value_t = 0.0, value_parser = percent)]
    pub(crate) soc_log: f64,

    /// How the SOC stores objects: buckets, which are rewritten in place; or pages, which are written once
    #[arg(long, value_name = "LAYOUT", default_value = "buckets")]
    pub(crate) soc_layout: SocLayout,

    /// Which object of a full bucket of the SOC makes room for a new one: fifo, the oldest; or rrip, the one whose next
    /// hit is predicted to be farthest away
    #[arg(long, value_name = "POLICY", default_value = "fifo")]
    pub(crate) soc_eviction: SocEviction,

    /// Objects (key and value) of at most this size go to the SOC, larger ones to the LOC; at most 4050
    #[arg(long, value_name = "BYTES", default_value = "640", value_parser = size)]
    pub(crate) soc_max_object: u64,

    #[command(flatten)]
    pub(crate) large: ArrayEngineArgs,

    /// Over-provisioning of the drive: media beyond the logical capacity, in percent of it
    #[arg(long, value_name = "PCT", default_value_t = 17.0, value_parser = overprovisioning)]
    pub(crate) op: f64,

    /// Size of a reclaim unit, which the drive erases as a whole [default: a 340th of the media]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) ru: Option<u64>,

    /// Which data the drive may mix when it moves them
    #[arg(long, value_enum, default_value = "initially")]
    pub(crate) isolation: IsolationArg,

    /// Which items that DRAM evicts are written to flash: all; reject-first, an item only when it comes for the second
    /// time; random:P, each with the probability P, 0 to 1; freq:N, items with at least N recent requests, 1 to 15; or
    /// budget:SIZE, as many as keep the bytes that the drive writes to its media (for a file: the bytes sent to it)
    /// within SIZE per day of the workload's time
    #[arg(long, value_name = "POLICY", default_value = "all")]
    pub(crate) admission: AdmissionPolicy,

    /// Which region of the LOC is reclaimed first: fifo, lru, or, with a reinsertion policy, segmented-fifo
    #[arg(long, value_name = "POLICY", default_value = "fifo")]
    pub(crate) loc_eviction: RegionEviction,

    /// Which objects are kept when their region is reclaimed: none; N or hits:N, objects with at least N hits, 0 to 7;
    /// reuse-time, objects whose next hit is still expected; or percent:P of all objects
    #[arg(long, value_name = "POLICY", default_value = "none", value_parser = reinsertion)]
    pub(crate) reinsertion: Reinsertion,

    /// Write large objects with a time to live to separate regions, in classes. Give the longest time to live of each
    /// class in seconds, ascending, with commas; each class asks for a placement handle
    #[arg(long, value_name = "SECONDS", value_delimiter = ',')]
    pub(crate) ttl_classes: Vec<u32>,

    /// Runs to make [default: both on the model; off on a file, which has no placement]
    #[arg(long, value_enum)]
    pub(crate) placement: Option<PlacementArg>,

    /// Show which stream of the cache has which placement handle, and why
    #[arg(long)]
    pub(crate) show_handles: bool,

    /// Flash tier: model, a simulated drive in memory; file:PATH; or a real device, whose content is lost: block:PATH,
    /// nvme:PATH (past the block layer) or just its path
    #[arg(long, value_name = "model|file:PATH|TARGET", default_value = "model", value_parser = device)]
    pub(crate) device: DeviceArg,

    /// Put the cache on the blocks of a virtual SSD: either a new one in memory, with as much flash as the drive would
    /// have, named by what it shares; or the number of a vSSD in --image that has no blocks
    #[arg(long, value_name = "channel|die|software|none|NUMBER", value_parser = vssd_place, conflicts_with = "device")]
    pub(crate) vssd: Option<VssdArg>,

    /// Model image for --vssd NUMBER; `larder vssd format` makes one. What the replay wrote is freed at its end; the
    /// wear of the dies stays
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Option<PathBuf>,

    /// Placement on a real device: required fails without it, preferred reports that it is missing and goes on
    /// [default: preferred]
    #[arg(long, value_name = "required|preferred|off")]
    pub(crate) placement_mode: Option<PlacementMode>,

    /// Share of the requests after which device numbers are measured, in percent. Hit ratios count from the start
    #[arg(long, value_name = "PCT", default_value_t = 50.0, value_parser = percent)]
    pub(crate) warmup: f64,

    /// Seed of everything random: the same seed gives the same numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) format: FormatArgs,

    /// Write the result as JSON to FILE, or to standard output for "-"
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write a page with the results to DIR/index.html
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IsolationArg {
    /// Garbage collection may mix data of different handles (most drives in the field)
    Initially,
    /// Moved data stay with data of their own handle
    Persistently,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlacementArg {
    /// Each stream under its own handle
    On,
    /// Everything under the default handle
    Off,
    /// One run of each, side by side
    Both,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeviceArg {
    Model,
    File(PathBuf),
    Device(Target),
}

/// A virtual SSD: a new one of a kind, or a number in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VssdArg {
    Kind(KindArg),
    Number(u32),
}

fn vssd_place(text: &str) -> Result<VssdArg, String> {
    if let Ok(number) = text.parse() {
        return Ok(VssdArg::Number(number));
    }
    let kind = KindArg::from_str(text, false);
    kind.map(VssdArg::Kind).map_err(|_| {
        "use channel, die, software or none, or the number of a vSSD in --image".to_owned()
    })
}

/// Parses a policy, or a number of hits.
fn reinsertion(text: &str) -> Result<Reinsertion, String> {
    let policy = match text.parse() {
        Ok(0) => Reinsertion::None,
        Ok(hits) => Reinsertion::Hits(hits),
        Err(_) => text.parse()?,
    };
    match policy {
        Reinsertion::Hits(hits) if !(1..=7).contains(&hits) => {
            Err(format!("{hits} hits: must be 0 to 7"))
        }
        Reinsertion::Percent(percent) if !(1..=100).contains(&percent) => {
            Err(format!("{percent} percent: must be 1 to 100"))
        }
        policy => Ok(policy),
    }
}

fn device(text: &str) -> Result<DeviceArg, String> {
    match text.strip_prefix("file:") {
        Some("") => Err("file: needs a path, such as file:/mnt/cache".to_owned()),
        Some(path) => Ok(DeviceArg::File(path.into())),
        None if text == "model" => Ok(DeviceArg::Model),
        None => {
            let target: Target = text.parse()?;
            if target.kind.is_none() && !target.path.has_root() {
                return Err("use model or file:PATH, or a device: block:PATH, nvme:PATH or /dev/…"
                    .to_owned());
            }
            Ok(DeviceArg::Device(target))
        }
    }
}
