//! The host's view of the unit that its handle fills.

use larder_ssd::managed::{Geometry, ManagedConfig, ManagedSsd};

#[test]
fn room_shrinks_by_what_is_written_and_only_a_new_unit_restores_it() {
    let geometry = Geometry { logical_pages: 2_048, pages_per_unit: 32, units: 90 };
    let mut ssd = ManagedSsd::new(ManagedConfig::new(geometry)).unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..20_000 {
        let (handle, pages) = (rng.u16(..8), rng.u64(1..=8));
        let before = u64::from(ssd.available_pages(handle));
        let events = ssd.event_counts().moved_on;
        ssd.write(rng.u64(..2_040), pages, handle).unwrap();
        let after = u64::from(ssd.available_pages(handle));
        if pages < before {
            assert_eq!(after, before - pages);
            // A handle that reports a whole unit may still have the full one, which the write then replaces.
            assert!(before == 32 || ssd.event_counts().moved_on == events);
        } else {
            // A handle with a full unit reports a whole new one before it opens it.
            assert_eq!(after, before + 32 - pages);
        }
    }
}
