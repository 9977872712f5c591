//! Placement moves bytes on the drive and changes nothing else.

use std::sync::Arc;

use larder::{Config, Stats};
use larder_device::{Device, ModelDevice};

use crate::rig::{Rig, config, drive_of};

fn run(placement: bool) -> (Stats, Arc<ModelDevice>) {
    let drive = drive_of(8 << 20, placement);
    let rig = Rig::open(Config { placement, ..config() }, &drive);
    let mut rng = fastrand::Rng::with_seed(5);
    for version in 0..60_000 {
        let key = rng.u32(..5000);
        let bytes = if key.is_multiple_of(20) { 3000 } else { 200 };
        if rig.get(key).is_none() {
            rig.set(key, version, bytes);
        }
    }
    (rig.cache.stats(), drive)
}

#[test]
fn the_cache_behaves_the_same_with_and_without() {
    let (mut on, _) = run(true);
    let (off, _) = run(false);
    assert_eq!((on.compromised_streams, off.compromised_streams), (0, 2));
    assert_eq!((on.placement_active, on.placement_path), (1, "model"));
    assert_eq!((off.placement_active, off.placement_path), (0, "none"));
    on.compromised_streams = 2;
    (on.placement_active, on.placement_path) = (0, "none");
    assert_eq!(on, off);
}

#[test]
fn soc_loc_and_metadata_have_handles_of_their_own() {
    let (stats, drive) = run(true);
    let by_handle = drive.stats().host_written_bytes_by_handle;
    assert_eq!(by_handle[0], stats.metadata_written_bytes + stats.tombstone_log_written_bytes);
    assert_eq!(by_handle[1], stats.soc_written_bytes);
    assert_eq!(by_handle[2], stats.loc_written_bytes);
    assert!(by_handle[..3].iter().all(|&bytes| bytes > 0));
    assert_eq!(by_handle[3..].iter().sum::<u64>(), 0);
}

#[test]
fn without_placement_the_default_handle_serves_all() {
    let (stats, drive) = run(false);
    assert_eq!(drive.stats().host_written_bytes, stats.flash_written_bytes());
    assert_eq!(drive.stats().host_written_bytes_by_handle[0], stats.flash_written_bytes());
    let rig = Rig::open(config(), &drive_of(8 << 20, false));
    let streams = rig.cache.placement().streams();
    assert_eq!(streams.iter().filter(|stream| stream.fell_back()).count(), 2);
    assert!(streams.iter().all(|stream| stream.handle.index() == 0));
}
