//! The event log tells what the drive did with units and handles.

use larder_ssd::managed::{
    Event, EventCounts, Geometry, InvalidPid, ManagedConfig, ManagedSsd, Placement,
};

fn config() -> ManagedConfig {
    let geometry = Geometry { logical_pages: 640, pages_per_unit: 16, units: 56 };
    ManagedConfig { handles: 2, ..ManagedConfig::new(geometry) }
}

#[test]
fn handles_that_move_on_and_units_closed_early_are_logged() {
    let mut ssd = ManagedSsd::new(config()).unwrap();
    let placement = Placement { group: 0, handle: 1 };
    ssd.write(0, 20, 1).unwrap();
    ssd.update_handle(1).unwrap();
    ssd.update_handle(1).unwrap();
    ssd.write(0, 16, 1).unwrap();
    let events: Vec<_> = ssd.events().copied().collect();
    let expected = [
        Event::ImplicitlyModified { placement, unit: 1 },
        Event::NotFullyWritten { placement, unit: 1, pages: 12 },
    ];
    assert_eq!(events, expected, "neither a first unit nor an empty one is worth an event");
}

#[test]
fn moved_pages_add_up_to_the_copies() {
    let mut ssd = ManagedSsd::new(ManagedConfig { event_capacity: 1 << 20, ..config() }).unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..20_000 {
        ssd.write(rng.u64(..640), 1, rng.u16(..2)).unwrap();
    }
    let moved = |event: &Event| match *event {
        Event::MediaReallocated { pages, .. } => Some(u64::from(pages)),
        _ => None,
    };
    assert_eq!(ssd.events().filter_map(moved).sum::<u64>(), ssd.stats().copied_pages);
    let counts = ssd.event_counts();
    assert_eq!(counts.media_reallocated, ssd.stats().units_collected_with_copies);
    assert!(counts.media_reallocated > 100);
}

#[test]
fn unknown_placements_are_refused_or_go_to_the_default_as_configured() {
    let mut ssd = ManagedSsd::new(config()).unwrap();
    assert!(ssd.write(0, 1, 2).is_err());
    assert_eq!(ssd.event_counts(), EventCounts::default());
    let invalid_pid = InvalidPid::UseDefault;
    let mut ssd = ManagedSsd::new(ManagedConfig { invalid_pid, ..config() }).unwrap();
    let placement = Placement { group: 3, handle: 9 };
    ssd.write_placed(placement, 0, 4).unwrap();
    assert_eq!(ssd.stats().host_pages_by_handle, [4, 0]);
    assert_eq!(ssd.events().copied().collect::<Vec<_>>(), [Event::InvalidPlacement { placement }]);
}
