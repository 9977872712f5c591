//! Tells at the start which data are kept apart, where they go, and why.

use indicatif::BinaryBytes;
use larder::plan::Class;
use larder::{Larder, PlacementPlan};
use larder_device::{PlacementMode, PlacementStatus};

use super::data::Data;
use super::settings::Settings;
use super::telling::{complain, say};

/// Memory that the index of large objects takes for an object, in bytes, at most.
const INDEX_BYTES: u64 = 12;
/// What docs/placement.md has of the write amplification of the log alone.
const EXPECTED_OF_LOG: &str = "Expect an ALWA of 1.1 to 1.2 and a DLWA of 1.0";
/// And of buckets beside it.
const EXPECTED_WITH_BUCKETS: &str =
    "Expect an ALWA of 5 to 11, and a DLWA of 1.0 with placement, up to 3.3 without";
/// What docs/vssds.md has of both on erase blocks: those of a virtual SSD, or zones.
const EXPECTED_OF_LOG_ON_BLOCKS: &str = "On erase blocks, expect an ALWA of 1.1 to 1.2 and a DLWA of 1.0, \
                                         up to 1.1 with many overwritten and deleted keys";
const EXPECTED_WITH_BUCKETS_ON_BLOCKS: &str = "On erase blocks, expect an ALWA of 5 to 11 \
     and a DLWA of about 2.5: buckets are mapped page by page there, and cleaning copies them; with pages by set \
     (soc.layout) or no small objects of their own (soc.percent = 0) it is 1.0";
/// What docs/decisions/0041 has of pages by set.
const EXPECTED_WITH_PAGES: &str = "Expect an ALWA of 1.1 to 1.7 and a DLWA of 1.0";
/// Memory of a page of a set that is being filled, in bytes, on average.
const PAGE_MEMORY_BYTES: u64 = 2560;
/// Lengths of objects for which the memory of an index is told.
const OBJECT_BYTES: [u64; 2] = [200, 800];

/// Prints the placement of each device, what the engines of each tenant's cache are, and `plan`, the handles of all
/// streams.
pub(super) fn tell(
    data: &Data,
    caches: &[(&str, &Larder)],
    plan: &PlacementPlan,
    settings: &Settings,
) {
    for status in data.placements() {
        say(format_args!("placement  {}", told(status)));
    }
    for (tenant, cache) in caches {
        let whose = if caches.len() > 1 { format!(" of {tenant}") } else { String::new() };
        for line in objects(cache, settings.cache_bytes(), data.is_on_blocks()) {
            say(format_args!("{:<10} {line}", format!("objects{whose}")));
        }
    }
    let places = data.placements().any(|status| status.placement.is_active());
    if places {
        for line in plan.to_string().lines() {
            say(format_args!("           {line}"));
        }
    }
    if let Some(warning) = warning(settings.placement(), places, plan) {
        complain(format_args!("warning: {warning}"));
    }
}

/// The placement of a device, for people.
fn told(status: &PlacementStatus) -> String {
    let text = status.to_string();
    text.strip_prefix("placement: ").map_or(text.clone(), str::to_owned)
}

/// What the engines of a cache are, and what that costs, on erase blocks or not.
fn objects(cache: &Larder, memory_bytes: u64, on_blocks: bool) -> Vec<String> {
    let (of_log, with_buckets) = match on_blocks {
        true => (EXPECTED_OF_LOG_ON_BLOCKS, EXPECTED_WITH_BUCKETS_ON_BLOCKS),
        false => (EXPECTED_OF_LOG, EXPECTED_WITH_BUCKETS),
    };
    let Some(layout) = cache.layout() else { return Vec::new() };
    let flash = layout.usable_bytes;
    let times = flash as f64 / memory_bytes.max(1) as f64;
    let share = |bytes: u64| 100.0 * bytes as f64 / flash.max(1) as f64;
    let mut lines = Vec::new();
    let soc_bytes = layout.soc_bytes();
    if layout.soc_page_regions > 0 {
        lines.push(format!(
            "small ones in pages by set on {:.1} % of the flash ({}): each is written once, in order, so nothing needs \
             to be kept apart. 20 to 28 bits of memory each, and {} for a page of each of {} sets. \
             {EXPECTED_WITH_PAGES}",
            share(soc_bytes),
            BinaryBytes(soc_bytes),
            BinaryBytes(u64::from(layout.soc_sets) * PAGE_MEMORY_BYTES),
            layout.soc_sets
        ));
    } else if soc_bytes > 0 {
        let log = u64::from(layout.soc_log_segments) * u64::from(layout.soc_log_segment_bytes);
        let cost = match log {
            0 => "a few bits of memory each, but a bucket is written for each of them".to_owned(),
            _ => format!(
                "{} more are a log before them, so that a bucket is written for several; a crash empties it",
                BinaryBytes(log)
            ),
        };
        lines.push(format!(
            "small ones in buckets of 4 KiB on {:.1} % of the flash ({}): {cost}; the others in a log. {with_buckets}",
            share(soc_bytes),
            BinaryBytes(soc_bytes)
        ));
    } else if layout.loc_regions > 0 {
        let index = OBJECT_BYTES.map(|bytes| {
            let most = flash / bytes * INDEX_BYTES;
            format!("{} at {bytes} bytes", BinaryBytes(most))
        });
        lines.push(format!(
            "all in one log (LOC): written once, in order, so nothing needs to be kept apart. Flash is {times:.1} x \
             memory, and up to 16 x memory its index pays: {INDEX_BYTES} bytes an object, {} when the flash is full. \
             {of_log}. `--soc PCT` gives small \
             objects buckets",
            index.join(", ")
        ));
    }
    lines
}

/// A warning, if placement is there or was asked for, and there is nothing to place.
fn warning(mode: PlacementMode, places: bool, plan: &PlacementPlan) -> Option<String> {
    if mode == PlacementMode::Off || !places {
        return None;
    }
    let streams = plan.streams().iter().filter(|stream| stream.class != Class::Metadata);
    (streams.count() <= 1).then(|| {
        "the drive can place, but all data are one stream, so there is nothing to keep apart; soc.percent, \
         loc.ttl_classes or tenants make more streams"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use larder::{Config, RealClock, SocConfig, block_on};
    use larder_device::ModelSpec;
    use larder_device::{ModelDevice, Payload};

    use super::*;

    fn on_a_model(percent: Option<f64>) -> Larder {
        let drive: ModelSpec = "64M,op=17,ru=256K".parse().unwrap();
        let device = ModelDevice::new(drive.config().unwrap(), Payload::Memory).unwrap();
        let soc = SocConfig { percent, ..SocConfig::default() };
        let config = Config { dram_bytes: 8 << 20, soc, ..Config::default() };
        block_on(Larder::open(config, Some(Arc::new(device)), Arc::new(RealClock))).unwrap()
    }

    #[test]
    fn the_default_is_explained_with_its_costs() {
        let lines = objects(&on_a_model(None), 8 << 20, false);
        assert_eq!(lines.len(), 1);
        for says in ["all in one log", "at 200 bytes", "ALWA of 1.1 to 1.2"] {
            assert!(lines[0].contains(says), "{lines:?}");
        }
        let lines = objects(&on_a_model(Some(10.0)), 8 << 20, false);
        assert!(lines[0].contains("buckets of 4 KiB on 10.0 %"), "{lines:?}");
        assert!(lines[0].contains("ALWA of 5 to 11"), "{lines:?}");
    }

    #[test]
    fn one_stream_on_a_drive_that_places_is_worth_a_warning() {
        let (one, several) = (on_a_model(Some(0.0)), on_a_model(Some(10.0)));
        let preferred = PlacementMode::Preferred;
        assert!(
            warning(preferred, true, one.placement()).is_some_and(|it| it.contains("one stream"))
        );
        assert_eq!(warning(preferred, true, several.placement()), None);
        assert_eq!(warning(preferred, false, one.placement()), None);
        assert_eq!(warning(PlacementMode::Off, true, one.placement()), None);
    }
}
