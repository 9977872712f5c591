//! Every policy with every destination, scope and number of groups: no page is lost, none appears without a source, no
//! command loops, and the same seed gives the same run.

use std::collections::HashMap;

use larder_ssd::ErrorKind;
use larder_ssd::managed::{
    Endurance, GcDestination, Geometry, LazyCollection, ManagedConfig, ManagedSsd, Owner,
    Placement, UnitState, VictimPolicy, VictimScope,
};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Op {
    Write { lpn: u64, pages: u64, placement: Placement },
    Deallocate { lpn: u64, pages: u64 },
    Update { placement: Placement },
    PowerCycle,
}

const LOGICAL_PAGES: u64 = 320;
const HANDLES: u16 = 3;

fn placement(groups: u16) -> impl Strategy<Value = Placement> {
    (0..groups, 0..HANDLES).prop_map(|(group, handle)| Placement { group, handle })
}

fn op(groups: u16) -> impl Strategy<Value = Op> {
    let range =
        (0..LOGICAL_PAGES).prop_flat_map(|lpn| (Just(lpn), 1..=(LOGICAL_PAGES - lpn).min(40)));
    prop_oneof![
        12 => (range.clone(), placement(groups))
            .prop_map(|((lpn, pages), placement)| Op::Write { lpn, pages, placement }),
        2 => range.prop_map(|(lpn, pages)| Op::Deallocate { lpn, pages }),
        2 => placement(groups).prop_map(|placement| Op::Update { placement }),
        1 => Just(Op::PowerCycle),
    ]
}

fn policy() -> impl Strategy<Value = VictimPolicy> {
    prop_oneof![
        Just(VictimPolicy::Greedy),
        Just(VictimPolicy::Fifo),
        Just(VictimPolicy::CostBenefit),
        (1..5u32).prop_map(VictimPolicy::DChoices),
        Just(VictimPolicy::Random),
        (1..20u32).prop_map(VictimPolicy::Windowed),
    ]
}

fn destination() -> impl Strategy<Value = GcDestination> {
    prop_oneof![
        Just(GcDestination::HostFrontier),
        Just(GcDestination::Shared),
        Just(GcDestination::PerHandle),
        (0..HANDLES).prop_map(GcDestination::Handle),
    ]
}

fn endurance() -> impl Strategy<Value = Endurance> {
    prop_oneof![
        2 => Just(Endurance::Unlimited),
        1 => worn_after(10),
    ]
}

/// Units whose erases may fail after fewer than `erases` erases, and fail for certain after at most `erases` more.
fn worn_after(erases: u32) -> impl Strategy<Value = Endurance> {
    (1..erases, 1..erases)
        .prop_map(|(rated, more)| Endurance::Rated { rated, certain: rated + more })
}

/// Lazy collection, wear levelling gap and endurance.
fn habits() -> impl Strategy<Value = (Option<LazyCollection>, Option<u32>, Endurance)> {
    let lazy = (0..90u8)
        .prop_map(|live_percent_max| LazyCollection { below_erased_units: 7, live_percent_max });
    (prop::option::of(lazy), prop::option::of(1..6u32), endurance())
}

fn config() -> impl Strategy<Value = ManagedConfig> {
    let scope = prop_oneof![Just(VictimScope::Global), Just(VictimScope::PerHandle)];
    let chance = (any::<bool>(), any::<u64>());
    (policy(), destination(), scope, habits(), 1..=3u16, chance).prop_map(
        |(victim_policy, gc_destination, victim_scope, habits, groups, (out_of_band, seed))| {
            let geometry = Geometry { logical_pages: LOGICAL_PAGES, pages_per_unit: 8, units: 84 };
            let (lazy_collection, wear_levelling_gap, endurance) = habits;
            ManagedConfig {
                groups,
                handles: HANDLES,
                gc_destination,
                victim_policy,
                victim_scope,
                lazy_collection,
                wear_levelling_gap,
                endurance,
                out_of_band,
                seed,
                ..ManagedConfig::new(geometry)
            }
        },
    )
}

fn history() -> impl Strategy<Value = (ManagedConfig, Vec<Op>)> {
    config().prop_flat_map(|config| {
        let ops = prop::collection::vec(op(config.groups), 1..250);
        (Just(config), ops)
    })
}

/// Histories of drives with lazy collection whose erases fail from the first collections on, until the drives are
/// read-only.
fn history_to_the_end_of_life() -> impl Strategy<Value = (ManagedConfig, Vec<Op>)> {
    (config(), worn_after(3), 60..90u8).prop_flat_map(|(config, endurance, live_percent_max)| {
        let ops = prop::collection::vec(op(config.groups), 150..250);
        let lazy_collection = Some(LazyCollection { below_erased_units: 7, live_percent_max });
        (Just(ManagedConfig { endurance, lazy_collection, ..config }), ops)
    })
}

/// Applies one operation. Writes to a full group may fail after a first part; the shadow drops the pages of such a
/// write, whose state is uncertain.
fn apply(
    ssd: &mut ManagedSsd,
    op: &Op,
    shadow: &mut HashMap<u64, Option<Placement>>,
) -> Result<(), TestCaseError> {
    match *op {
        Op::Write { lpn, pages, placement } => match ssd.write_placed(placement, lpn, pages) {
            Ok(()) => shadow.extend((lpn..lpn + pages).map(|page| (page, Some(placement)))),
            Err(error) => {
                match error.kind() {
                    ErrorKind::NoSpace => {
                        prop_assert!(ssd.config().groups > 1, "one group cannot fill up");
                    }
                    ErrorKind::ReadOnly => prop_assert!(ssd.wear().read_only),
                    kind => prop_assert!(false, "{kind:?}: {error}"),
                }
                (lpn..lpn + pages).filter(|&page| ssd.is_mapped(page)).for_each(|page| {
                    shadow.insert(page, None);
                });
            }
        },
        Op::Deallocate { .. } | Op::Update { .. } if ssd.wear().read_only => {}
        Op::Deallocate { lpn, pages } => {
            ssd.deallocate(lpn, pages).unwrap();
            ssd.checkpoint();
            shadow.retain(|page, _| !(lpn..lpn + pages).contains(page));
        }
        Op::Update { placement } => {
            let room = ssd.available_pages_placed(placement);
            ssd.update_placed(placement).unwrap();
            prop_assert!(ssd.available_pages_placed(placement) >= room);
        }
        Op::PowerCycle if ssd.config().out_of_band => {
            let recovery = ssd.power_on().unwrap();
            prop_assert_eq!(recovery.mapped_pages, shadow.len() as u64);
        }
        Op::PowerCycle => {}
    }
    Ok(())
}

/// A unit of one handle holds only pages of that handle and group; with a destination that mixes handles, at least the
/// group is right.
fn check_isolation(
    ssd: &ManagedSsd,
    shadow: &HashMap<u64, Option<Placement>>,
) -> Result<(), TestCaseError> {
    let config = ssd.config();
    let isolated =
        matches!(config.gc_destination, GcDestination::Shared | GcDestination::PerHandle);
    let units_per_group = config.geometry.units / u32::from(config.groups);
    for (number, unit) in (0..).zip(ssd.units()) {
        for page in ssd.live_pages_of(number) {
            let Some(placement) = shadow[&page] else { continue };
            prop_assert_eq!(u32::from(placement.group), number / units_per_group);
            if let (Owner::Handle(handle), true) = (unit.owner, isolated) {
                prop_assert_eq!(placement.handle, handle, "unit {}", number);
            }
        }
        if config.gc_destination == GcDestination::PerHandle {
            prop_assert_ne!(unit.owner, Owner::Mixed);
        }
    }
    Ok(())
}

/// Applies `ops` to two drives with the same seed: pages are conserved after each operation, handles and groups stay
/// separate, and both drives end in the same state.
fn check_history(config: ManagedConfig, ops: &[Op]) -> Result<(), TestCaseError> {
    let mut ssd = ManagedSsd::new(config.clone()).unwrap();
    let mut twin = ManagedSsd::new(config).unwrap();
    let (mut shadow, mut twin_shadow) = (HashMap::new(), HashMap::new());
    for op in ops {
        apply(&mut ssd, op, &mut shadow)?;
        ssd.audit().map_err(TestCaseError::fail)?;
        let retired: u64 = ssd.units().map(|u| u64::from(u.state == UnitState::Retired)).sum();
        prop_assert_eq!(ssd.wear().retired_units, retired);
        apply(&mut twin, op, &mut twin_shadow)?;
    }
    for page in 0..LOGICAL_PAGES {
        prop_assert_eq!(ssd.is_mapped(page), shadow.contains_key(&page), "page {}", page);
    }
    check_isolation(&ssd, &shadow)?;
    prop_assert_eq!(ssd.stats(), twin.stats());
    prop_assert!(ssd.units().eq(twin.units()), "the same seed gives the same drive");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn all_combinations_conserve_pages_and_isolation((config, ops) in history()) {
        check_history(config, &ops)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn pages_are_conserved_to_the_end_of_a_drive_s_life(
        (config, ops) in history_to_the_end_of_life()
    ) {
        check_history(config, &ops)?;
    }
}
