//! Options of the cache under `larder serve`: the main ones of those that `larder.toml` has.

use clap::Args;
use larder::OnChange;

use super::cache_keys::checked;

/// Options of the cache. The names in brackets are the keys in `larder.toml`, which has more of them.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Cache")]
pub(crate) struct CacheArgs {
    /// Share of the flash for small objects in buckets of 4 KiB (SOC), in percent; 0 is none: then all are in the log
    /// of large objects (LOC) [soc.percent; default: 0 with up to 16 bytes of flash for a byte of memory, else 4]
    #[arg(long, value_name = "PCT", value_parser = checked("soc.percent"))]
    soc: Option<String>,

    /// How the SOC stores objects: buckets are rewritten in place, with 8 bits of memory an object; pages are written
    /// once, with 20 to 28 bits [soc.layout; default: pages where flash for them is 64 MiB to 25 times memory]
    #[arg(long, value_name = "LAYOUT", value_parser = checked("soc.layout"))]
    soc_layout: Option<String>,

    /// Share of the flash for a log in front of the SOC's buckets, in percent; 5 is a good start [soc.log; default: 0]
    #[arg(long, value_name = "PCT", value_parser = checked("soc.log"))]
    soc_log: Option<String>,

    /// Longest object (key and value) that goes to the SOC, at most 4050 [soc.max_object; default: 640]
    #[arg(long, value_name = "BYTES", value_parser = checked("soc.max_object"))]
    soc_max_object: Option<String>,

    /// Which object of a full bucket of the SOC makes room: fifo, the oldest; rrip, the one whose next hit is predicted
    /// to be farthest away [soc.eviction; default: fifo]
    #[arg(long, value_name = "POLICY", value_parser = checked("soc.eviction"))]
    soc_eviction: Option<String>,

    /// Size of a region of large objects [loc.region; default: 1 to 32 MiB, by the size of the flash]
    #[arg(long, value_name = "SIZE", value_parser = checked("loc.region"))]
    loc_region: Option<String>,

    /// Which region is reclaimed first: fifo, lru, or, with reinsertion, segmented-fifo [loc.eviction; default: fifo]
    #[arg(long, value_name = "POLICY", value_parser = checked("loc.eviction"))]
    loc_eviction: Option<String>,

    /// Which objects are kept when their region is reclaimed: none; hits:N, those with at least N hits, 1 to 7;
    /// reuse-time, those whose next hit is still expected; percent:P of all [loc.reinsertion; default: none]
    #[arg(long, value_name = "POLICY", value_parser = checked("loc.reinsertion"))]
    reinsertion: Option<String>,

    /// Classes of large objects by time to live, each with regions and a placement handle of its own: the longest time
    /// of each in seconds, ascending, with commas [loc.ttl_classes; default: none]
    #[arg(long, value_name = "SECONDS", value_parser = checked("loc.ttl_classes"))]
    ttl_classes: Option<String>,

    /// Whether regions are reclaimed by whole reclaim units of the drive [loc.reclaim_units; default: false]
    #[arg(long, value_name = "BOOL", value_parser = checked("loc.reclaim_units"))]
    reclaim_units: Option<String>,

    /// Which of the items that DRAM evicts go to flash: all; reject-first, when they come for the second time;
    /// random:P; freq:N, those with at least N recent requests; budget:SIZE, as many as keep the writes of a day within
    /// SIZE [admission.policy; default: all]
    #[arg(long, value_name = "POLICY", value_parser = checked("admission.policy"))]
    admission: Option<String>,

    /// Placement of data by lifetime on the drive (FDP): required, the start fails without it; preferred, it says why
    /// there is none; off [placement.mode; default: preferred]
    #[arg(long, value_name = "required|preferred|off", value_parser = checked("placement.mode"))]
    placement: Option<String>,

    /// Whether buckets that are often rewritten get a placement handle of their own [placement.dynamic; default: false]
    #[arg(long, value_name = "BOOL", value_parser = checked("placement.dynamic"))]
    dynamic_placement: Option<String>,

    /// What flash keeps after a crash: off, nothing; process, all after kill -9; power, what was flushed also after a
    /// loss of power [crash_safety; default: process]
    #[arg(long, value_name = "off|process|power", value_parser = checked("crash_safety"))]
    crash_safety: Option<String>,

    /// Which item leaves DRAM first: s3-fifo or lru [dram.policy; default: s3-fifo]
    #[arg(long, value_name = "POLICY", value_parser = checked("dram.policy"))]
    dram_policy: Option<String>,

    /// Share of the flash that the cache uses, in percent [utilization; default: 100]
    #[arg(long, value_name = "PCT", value_parser = checked("utilization"))]
    utilization: Option<String>,

    /// What a start does when a setting has changed and the data on flash can therefore not be found: refuse, it fails
    /// and names the setting; discard, it begins empty [on_change; default: refuse]
    #[arg(long, value_name = "refuse|discard")]
    pub(crate) on_change: Option<OnChange>,
}

impl CacheArgs {
    /// The options by their keys.
    pub(crate) fn said(&self) -> [(&'static str, Option<&String>); 16] {
        [
            ("soc.percent", self.soc.as_ref()),
            ("soc.layout", self.soc_layout.as_ref()),
            ("soc.log", self.soc_log.as_ref()),
            ("soc.max_object", self.soc_max_object.as_ref()),
            ("soc.eviction", self.soc_eviction.as_ref()),
            ("loc.region", self.loc_region.as_ref()),
            ("loc.eviction", self.loc_eviction.as_ref()),
            ("loc.reinsertion", self.reinsertion.as_ref()),
            ("loc.ttl_classes", self.ttl_classes.as_ref()),
            ("loc.reclaim_units", self.reclaim_units.as_ref()),
            ("admission.policy", self.admission.as_ref()),
            ("placement.mode", self.placement.as_ref()),
            ("placement.dynamic", self.dynamic_placement.as_ref()),
            ("crash_safety", self.crash_safety.as_ref()),
            ("dram.policy", self.dram_policy.as_ref()),
            ("utilization", self.utilization.as_ref()),
        ]
    }
}
