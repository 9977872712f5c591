//! The event log reports what the drive did to units and handles.

use larder_ssd::managed::{
    Event, EventCounts, GcDestination, Geometry, InvalidPid, ManagedConfig, ManagedSsd, Placement,
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
        Event::MovedOn { placement, unit: 1 },
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

#[test]
fn the_record_has_every_event_and_every_page_that_was_moved() {
    let mut ssd = ManagedSsd::new(config()).unwrap();
    ssd.keep_event_record(true);
    let mut rng = fastrand::Rng::with_seed(2);
    let (mut moved, mut seen) = (0, 0);
    for _ in 0..2_000 {
        // Long writes cause many events at once, more than the ring holds.
        ssd.write(rng.u64(..600), rng.u64(1..40), rng.u16(..2)).unwrap();
        let record = ssd.take_event_record();
        let mut pages = record.moved_pages.iter();
        for event in &record.events {
            if let Event::MediaReallocated { pages: count, .. } = event {
                let of_this: Vec<u64> = pages.by_ref().take(*count as usize).copied().collect();
                assert_eq!(of_this.len(), *count as usize);
                assert!(of_this.iter().all(|page| *page < 640));
            }
        }
        assert_eq!(pages.next(), None);
        moved += record.moved_pages.len() as u64;
        seen += record.events.len() as u64;
    }
    let counts = ssd.event_counts();
    assert_eq!(moved, ssd.stats().copied_pages);
    assert_eq!(seen, counts.media_reallocated + counts.moved_on);
    assert!(counts.media_reallocated > 100 && counts.moved_on > 100);
}

#[test]
fn moved_data_that_fills_a_handles_unit_modifies_the_handle() {
    for (gc_destination, expected) in [
        (GcDestination::Handle(1), true),
        (GcDestination::HostFrontier, true),
        (GcDestination::Shared, false),
    ] {
        let mut ssd = ManagedSsd::new(ManagedConfig { gc_destination, ..config() }).unwrap();
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..10_000 {
            ssd.write(rng.u64(..640), 1, rng.u16(..2)).unwrap();
        }
        let counts = ssd.event_counts();
        assert_eq!(counts.implicitly_modified > 0, expected, "{gc_destination:?}: {counts:?}");
        assert!(counts.moved_on > 0);
    }
}

#[test]
fn a_reset_closes_the_units_of_all_handles() {
    let geometry = Geometry { units: 60, ..config().geometry };
    let mut ssd = ManagedSsd::new(ManagedConfig { geometry, groups: 2, ..config() }).unwrap();
    let placements = [(0, 1), (1, 0)].map(|(group, handle)| Placement { group, handle });
    for (pages, placement) in (3..).zip(placements) {
        ssd.write_placed(placement, 0, pages).unwrap();
    }
    ssd.reset_handles().unwrap();
    let expected = [(0, 13), (30, 12)].into_iter().zip(placements);
    let expected: Vec<_> = expected
        .map(|((unit, pages), placement)| Event::ResetModified { placement, unit, pages })
        .collect();
    assert_eq!(ssd.events().copied().collect::<Vec<_>>(), expected);
    assert_eq!((ssd.event_counts().reset_modified, ssd.stats().padded_pages), (2, 25));
    ssd.reset_handles().unwrap();
    assert_eq!(ssd.event_counts().reset_modified, 2, "nothing was open any more");
    ssd.audit().unwrap();
}
