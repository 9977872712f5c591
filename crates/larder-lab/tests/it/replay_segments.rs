//! The gain of placement for large objects that are kept in segments.

use larder::{RegionEviction, Reinsertion};
use larder_lab::replay::{self, Monitor, PlacementRuns, ReplayOptions, Run};

/// Documents on a full drive whose reclaim units hold the writes of many regions, as on real drives.
fn documents(region_eviction: RegionEviction) -> Run {
    let options = ReplayOptions {
        requests: Some(1_000_000),
        flash_bytes: 16 << 20,
        dram_bytes: 256 << 10,
        unit_bytes: Some(200 << 10),
        region_eviction,
        reinsertion: Reinsertion::Hits(1),
        placement: PlacementRuns::On,
        ..ReplayOptions::of_preset("document", 1)
    };
    replay::replay(&options, &Monitor::default()).unwrap().runs.remove(0)
}

/// Segments fill at different speeds. The drive must not copy a reclaimed region that waits to be filled again, and
/// data that dies at different times must not share units.
#[test]
#[ignore = "a long replay: `cargo xtask all`"]
fn segments_cost_the_drive_next_to_nothing() {
    let [fifo, segmented] = [RegionEviction::Fifo, RegionEviction::SegmentedFifo].map(documents);
    let [alone, beside] = [&fifo, &segmented].map(|run| run.dlwa.unwrap());
    assert!(segmented.drive_writes_before > 20.0, "{segmented:?}");
    assert!((segmented.hit_ratio - fifo.hit_ratio).abs() < 0.01, "{fifo:?} {segmented:?}");
    assert!((1.0..1.05).contains(&alone), "{alone}");
    assert!((1.0..1.05).contains(&beside), "{beside}, with one segment {alone}");
}
