//! Random histories: whatever the host does, no page is lost, none appears without a source, and isolation holds.

use std::collections::{BTreeSet, HashMap};

use larder_ssd::managed::{GcDestination, Geometry, ManagedConfig, ManagedSsd, Owner, UnitState};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Op {
    Write { lpn: u64, pages: u64, handle: u16 },
    Deallocate { lpn: u64, pages: u64 },
    UpdateHandle { handle: u16 },
}

const LOGICAL_PAGES: u64 = 640;
const HANDLES: u16 = 4;

fn op() -> impl Strategy<Value = Op> {
    let range =
        (0..LOGICAL_PAGES).prop_flat_map(|lpn| (Just(lpn), 1..=(LOGICAL_PAGES - lpn).min(40)));
    prop_oneof![
        8 => (range.clone(), 0..HANDLES)
            .prop_map(|((lpn, pages), handle)| Op::Write { lpn, pages, handle }),
        1 => range.prop_map(|(lpn, pages)| Op::Deallocate { lpn, pages }),
        1 => (0..HANDLES).prop_map(|handle| Op::UpdateHandle { handle }),
    ]
}

fn destination() -> impl Strategy<Value = GcDestination> {
    prop_oneof![
        Just(GcDestination::HostFrontier),
        Just(GcDestination::Shared),
        Just(GcDestination::PerHandle)
    ]
}

fn config(gc_destination: GcDestination, fdp: bool) -> ManagedConfig {
    let geometry = Geometry { logical_pages: LOGICAL_PAGES, pages_per_unit: 16, units: 54 };
    ManagedConfig { handles: HANDLES, fdp, gc_destination, ..ManagedConfig::new(geometry) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn histories_conserve_pages_and_isolation(
        ops in prop::collection::vec(op(), 1..400),
        gc_destination in destination(),
        fdp in any::<bool>(),
    ) {
        let mut ssd = ManagedSsd::new(config(gc_destination, fdp)).unwrap();
        // The shadow: the handle of the last write of each page.
        let mut shadow: HashMap<u64, u16> = HashMap::new();
        for op in &ops {
            match *op {
                Op::Write { lpn, pages, handle } => {
                    ssd.write(lpn, pages, handle).unwrap();
                    let stored = if fdp { handle } else { 0 };
                    shadow.extend((lpn..lpn + pages).map(|page| (page, stored)));
                }
                Op::Deallocate { lpn, pages } => {
                    ssd.deallocate(lpn, pages).unwrap();
                    shadow.retain(|page, _| !(lpn..lpn + pages).contains(page));
                }
                Op::UpdateHandle { handle } => {
                    // Without FDP there is only handle 0 to update.
                    if fdp || handle == 0 {
                        ssd.update_handle(handle).unwrap();
                    }
                }
            }
            ssd.audit().map_err(TestCaseError::fail)?;
            check_isolation(&ssd, &shadow)?;
        }
        for page in 0..LOGICAL_PAGES {
            prop_assert_eq!(ssd.is_mapped(page), shadow.contains_key(&page));
        }
    }
}

/// Units of one handle hold only pages of that handle; with persistent isolation every unit belongs to one handle.
fn check_isolation(ssd: &ManagedSsd, shadow: &HashMap<u64, u16>) -> Result<(), TestCaseError> {
    let destination = ssd.config().gc_destination;
    for (number, unit) in (0..).zip(ssd.units()) {
        let handles: BTreeSet<u16> = ssd.live_pages_of(number).map(|page| shadow[&page]).collect();
        match unit.owner {
            Owner::Unowned => prop_assert_eq!(unit.state, UnitState::Erased),
            Owner::Handle(handle) if destination != GcDestination::HostFrontier => {
                prop_assert!(handles.iter().all(|&h| h == handle), "unit {number}: {handles:?}");
            }
            Owner::Handle(_) | Owner::Sequential => {}
            Owner::Mixed => prop_assert_eq!(destination, GcDestination::Shared),
        }
    }
    Ok(())
}

#[test]
fn a_unit_that_was_deallocated_is_erased_without_copies() {
    let mut ssd = ManagedSsd::new(config(GcDestination::Shared, true)).unwrap();
    ssd.write(0, LOGICAL_PAGES, 1).unwrap();
    ssd.deallocate(0, 160).unwrap();
    ssd.write(0, 160, 2).unwrap();
    ssd.write(0, 160, 2).unwrap();
    assert_eq!(ssd.stats().copied_pages, 0);
    assert_eq!(ssd.stats().deallocated_pages, 160);
    assert!(ssd.stats().erased_units > 0);
}

#[test]
fn padding_is_counted_and_only_where_a_unit_was_begun() {
    let mut ssd = ManagedSsd::new(config(GcDestination::Shared, true)).unwrap();
    ssd.update_handle(1).unwrap();
    assert_eq!(ssd.stats().padded_pages, 0);
    ssd.write(0, 3, 1).unwrap();
    assert_eq!(ssd.available_pages(1), 13);
    ssd.update_handle(1).unwrap();
    assert_eq!((ssd.stats().padded_pages, ssd.stats().media_pages), (13, 16));
    assert_eq!(ssd.available_pages(1), 16);
    ssd.audit().unwrap();
}

#[test]
fn without_fdp_every_write_goes_to_the_default_handle() {
    let mut ssd = ManagedSsd::new(config(GcDestination::Shared, false)).unwrap();
    ssd.write(0, 20, 3).unwrap();
    assert_eq!(ssd.stats().host_pages_by_handle, [20, 0, 0, 0]);
    assert!(ssd.write(0, 1, HANDLES).is_err(), "an unknown handle is refused all the same");
    assert!(ssd.write(LOGICAL_PAGES, 1, 0).is_err());
    assert!(ssd.write(u64::MAX, 2, 0).is_err());
}
