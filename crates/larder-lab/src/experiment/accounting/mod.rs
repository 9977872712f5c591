//! The cost of a cache on blocks of a virtual SSD: programmed pages, and memory and time of the block map.
//!
//! | module | what it is |
//! |---|---|
//! | `moves` | pages that are appended, moved and programmed |
//! | `map` | memory and time of the block map |

mod map;
mod moves;

use std::ops::RangeInclusive;
use std::sync::Arc;

use larder::SocLayout;
use larder_vssd::Isolation;

use super::judge::{Checks, NEXT_TO_NONE};
use super::rig::{self, DRIFT, DRIVE_WRITES, LOC_WRAPS};
use super::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::Error;
use crate::replay::shared::{self, SharedRun, Tenant};
use crate::replay::vssd::VssdDrive;
use crate::replay::{EngineOptions, Monitor, ReplayOptions};

const FLASH: Parameter = Parameter {
    name: "flash_mib",
    default: "64",
    help: "capacity of the managed drive in MiB, 8 to 65536; the vSSD has as much flash, over-provisioning included",
};
const APPENDS: Parameter = Parameter {
    name: "appends",
    default: "100000",
    help: "appends of the tenants whose pages are counted, 1000 to 100000000",
};
const MAP_GIB: Parameter = Parameter {
    name: "map_gib",
    default: "16",
    help: "GiB that are appended to see what the map takes of a core, 1 to 4096",
};
const SCALE: Parameter = Parameter {
    name: "scale",
    default: "1",
    help: "part of a terabyte whose map is measured, as its divisor, 1 to 400",
};

const VSSD: Parameter = Parameter {
    name: "vssd",
    default: "channel",
    help: "what the vSSD of the cache shares: channel, die, software or none",
};

pub(super) static VSSD_ACCOUNTING: Experiment = Experiment {
    name: "vssd-accounting",
    title: "what is programmed for a cache on blocks of a virtual SSD, and what their map takes",
    reproduces: "FlashBlox (FAST'17), sections 3 and 4: write amplification, processor time and memory of a vSSD",
    criterion: "pages programmed are those appended and those moved, exactly; on blocks, random area included, \
                a cache of large objects has DLWA 1 to 1.05, with its tombstone log 1 to 1.1, with 4 % for small \
                objects in pages by set 1 to 1.1 (1 to 1.4 on 3 %, too few blocks for their regions), and with \
                4 % of buckets for them 1.4 to 3, more than a drive with placement; the map takes at most 8 MB \
                for each TB of 2 MiB blocks",
    parameters: &[rig::REQUESTS_OF_WRITERS, FLASH, VSSD, APPENDS, MAP_GIB, SCALE],
    metrics: &[
        (
            "dlwa.*",
            "DLWA of a cache on a managed drive without (off) and with placement (on) and on blocks (raw): of large \
             objects alone (loc), the same with the tombstone log (loc_safe), with 4 % of buckets (both), \
             with the log and 4 % in pages by set (pages), whose regions are blocks, or 3 % (pages_mapped), which are \
             too few blocks and in the random area",
        ),
        (
            "capacity_mib.*",
            "what the cache has of the same flash, by drive, of large objects alone",
        ),
        (
            "random_share.*",
            "share of the cache's bytes that go to the random area of its blocks, by cache",
        ),
        (
            "header_share.*",
            "pages for headers of the random area by those that the cache wrote, by cache",
        ),
        (
            "cleaned_share.*",
            "pages that cleaning of the random area copied by those that the cache wrote",
        ),
        (
            "pages.*",
            "pages of tenants beside swaps and levelling: asked for, appended, moved, programmed",
        ),
        ("swaps", "swaps of channels during the run"),
        (
            "unaccounted",
            "pages that were programmed and neither appended nor moved, or the other way round",
        ),
        (
            "map_mb_per_tb",
            "MB of map for each TB of blocks of 2 MiB, whose tenants have a die each",
        ),
        ("map_ns.*", "nanoseconds of this machine's core for 4 KiB: map of blocks, map of pages"),
        ("core_share", "share of a core that the map of blocks takes at 1 GB/s"),
        DRIVE_WRITES,
        LOC_WRAPS,
        DRIFT,
    ],
    references: &[
        Reference::published("map_mb_per_tb", 8.0, "section 3: 8 MB of map for each TB"),
        Reference::published(
            "core_share",
            0.06,
            "section 4: at most 6 % more processor time than the driver as it was, which is not the same",
        ),
    ],
    needs: &[
        "unaccounted",
        "dlwa.raw.loc",
        "dlwa.raw.loc_safe",
        "dlwa.raw.both",
        "dlwa.raw.pages",
        "dlwa.raw.pages_mapped",
        "random_share.loc_safe",
        "random_share.both",
        "pages.moved",
    ],
    measure,
    judge,
};

/// How far DLWA can be below 1: the end of a block that does not fill a stripe is not on flash yet.
const TAILS: f64 = 0.001;
/// A cache whose random area gets less than this part of its bytes does not show what the area costs.
const RANDOM_SHARE_MIN: f64 = 0.05;

/// What is judged of a cache on blocks.
struct OnBlocks {
    cache: &'static str,
    what: &'static str,
    dlwa: RangeInclusive<f64>,
}

const ON_BLOCKS: [OnBlocks; 5] = [
    // Buckets are written at random, a page and a header at a time, and cleaning copies them.
    OnBlocks { cache: "both", what: "small objects in buckets and large objects", dlwa: 1.4..=3.0 },
    // Regions leave in the order in which they came, and are blocks.
    OnBlocks {
        cache: "pages",
        what: "small objects in pages by set and large objects",
        dlwa: 1.0 - TAILS..=1.1,
    },
    // The same regions, a few pages at a time with a header, beside tombstones.
    OnBlocks {
        cache: "pages_mapped",
        what: "small objects in mapped pages by set and large objects",
        dlwa: 1.0 - TAILS..=1.4,
    },
    // A block of the log is written again for each tombstone, and all of these share a header.
    OnBlocks {
        cache: "loc_safe",
        what: "large objects with the tombstone log",
        dlwa: 1.0 - TAILS..=1.1,
    },
    // Regions are blocks, which are erased without a copy.
    OnBlocks { cache: "loc", what: "large objects alone", dlwa: 1.0 - TAILS..=*NEXT_TO_NONE.end() },
];

/// Converts an error of the vSSD array.
#[allow(clippy::needless_pass_by_value)] // for map_err
fn failed(error: larder_ssd::Error) -> Error {
    Error::run(error.to_string())
}

/// Caches: name in metrics, percent of the flash for small objects, how they are stored, and whether tombstones are
/// logged.
const CACHES: [(&str, f64, SocLayout, bool); 5] = [
    ("loc", 0.0, SocLayout::Buckets, false),
    ("loc_safe", 0.0, SocLayout::Buckets, true),
    ("both", 4.0, SocLayout::Buckets, false),
    ("pages", 4.0, SocLayout::Pages, true),
    ("pages_mapped", 3.0, SocLayout::Pages, true),
];

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let mut metrics = Metrics::new();
    let isolation = match settings.text(VSSD.name) {
        "channel" => Isolation::Channel,
        "die" => Isolation::Die,
        "software" => Isolation::Software { weight: 1 },
        "none" => Isolation::None,
        other => {
            let complaint = "must be channel, die, software or none";
            return Err(settings.refuse(VSSD.name, other, complaint));
        }
    };
    note_pages(&mut metrics, settings, seed)?;
    let whole = rig::options("meta-kv-write-only", settings, seed)?;
    for (cache, soc_percent, soc_layout, tombstones) in CACHES {
        let options = ReplayOptions { soc_percent, soc_layout, ..whole.clone() };
        let engines = EngineOptions { tombstones, ..EngineOptions::default() };
        for (drive, placement) in [("off", false), ("on", true)] {
            let run = rig::alone_with(&options, engines, placement, monitor)?;
            note_run(&mut metrics, drive, cache, &run);
        }
        on_blocks(&mut metrics, cache, &options, engines, (isolation, monitor))?;
    }
    #[allow(clippy::cast_precision_loss)]
    let managed_mib = whole.flash_bytes as f64 / f64::from(1 << 20);
    metrics.insert("capacity_mib.managed".to_owned(), managed_mib);
    Ok(metrics)
}

fn note_run(metrics: &mut Metrics, drive: &str, cache: &str, run: &SharedRun) {
    let point = format!("{drive}.{cache}");
    metrics.insert(format!("dlwa.{point}"), run.drive.dlwa);
    rig::note_steadiness(metrics, &point, run);
    metrics.remove(&format!("soc_share.{point}"));
}

#[allow(clippy::cast_precision_loss)]
fn on_blocks(
    metrics: &mut Metrics,
    cache: &str,
    options: &ReplayOptions,
    engines: EngineOptions,
    (isolation, monitor): (Isolation, &Monitor),
) -> Result<(), Error> {
    let drive = VssdDrive::in_memory(options, engines, isolation)?;
    let engines = drive.engines(engines);
    let tenant = Tenant { engines, ..Tenant::new(options.clone(), drive.device()) };
    let run = shared::play(&drive, &[tenant], false, &mut |_| Ok(()), monitor)?;
    note_run(metrics, "raw", cache, &run);
    let (counts, written) = (drive.counts(), drive.device().stats().host_written_bytes as f64);
    metrics.insert(format!("random_share.{cache}"), counts.page_bytes as f64 / written);
    metrics.insert(format!("header_share.{cache}"), counts.header_bytes as f64 / written);
    metrics.insert(format!("cleaned_share.{cache}"), counts.moved_bytes as f64 / written);
    if cache == CACHES[0].0 {
        let capacity_bytes = Arc::clone(&drive.device()).info().capacity_bytes;
        metrics.insert("capacity_mib.raw".to_owned(), capacity_bytes as f64 / f64::from(1 << 20));
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss)]
fn note_pages(metrics: &mut Metrics, settings: &Settings, seed: u64) -> Result<(), Error> {
    let appends = settings.within(APPENDS.name, 1000..=100_000_000)?;
    let pages = moves::count(appends, seed)?;
    let (appended, moved) = (pages.counted.appended_pages, pages.counted.migrated_pages);
    let rows = [
        ("pages.asked", pages.asked),
        ("pages.appended", appended),
        ("pages.moved", moved),
        ("pages.programmed", pages.programmed),
        ("swaps", pages.swaps),
        (
            "unaccounted",
            pages.programmed.abs_diff(appended + moved) + pages.asked.abs_diff(appended),
        ),
    ];
    metrics.extend(rows.map(|(name, pages)| (name.to_owned(), pages as f64)));
    let map_mb = map::mb_per_tb(settings.within(SCALE.name, 1..=400)?)?;
    let time = map::time(settings.within(MAP_GIB.name, 1..=4096)?)?;
    metrics.insert("map_mb_per_tb".to_owned(), map_mb);
    metrics.insert("map_ns.blocks".to_owned(), time.blocks_ns);
    metrics.insert("map_ns.pages".to_owned(), time.pages_ns);
    metrics.insert("core_share".to_owned(), time.blocks_ns / 4096.0);
    Ok(())
}

fn judge(summary: &Summary) -> Judgement {
    let dlwa = |name: &str| summary.get(&format!("dlwa.{name}"));
    let (map_mb, lost) = (summary.max("map_mb_per_tb"), summary.max("unaccounted"));
    let mean = |name: &str| summary.mean(name);
    let mut checks = Checks::default()
        .exact(
            lost == 0.0,
            format!(
                "{:.0} pages programmed and {lost:.0} not accounted for",
                mean("pages.programmed")
            ),
        )
        .exact(mean("pages.moved") > 0.0, format!("{:.0} were moved", mean("pages.moved")))
        .exact(map_mb <= 8.0, format!("the map takes {map_mb:.2} MB for each TB"));
    for OnBlocks { cache, what, dlwa: bounds } in ON_BLOCKS {
        let found = dlwa(&format!("raw.{cache}"));
        checks = checks.exact(
            bounds.contains(&found.min) && bounds.contains(&found.max),
            format!("DLWA of {what} on blocks is {:.3}", found.mean),
        );
    }
    for cache in ["loc_safe", "both"] {
        let share = mean(&format!("random_share.{cache}"));
        let written =
            format!("{:.0} % of the bytes of {cache} go to the random area", 100.0 * share);
        checks = checks.exact(share >= RANDOM_SHARE_MIN, written);
    }
    checks
        .shape(
            dlwa("raw.loc").mean < dlwa("off.both").mean,
            "large objects on blocks have less than a drive that mixes",
        )
        .shape(
            dlwa("raw.both").mean > dlwa("on.both").mean,
            "buckets on blocks have more than a drive with placement",
        )
        .note(format!(
            "the managed drive has {:.2} without and {:.2} with placement for small and large objects: buckets belong \
             on that",
            dlwa("off.both").mean,
            dlwa("on.both").mean
        ))
        .note("the map's time is that of this machine; the paper's 6 % is of its driver")
        .judge()
}
