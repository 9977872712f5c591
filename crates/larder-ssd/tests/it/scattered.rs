//! Many pages in one call: the resulting drive must equal that of single-page writes.

use larder_ssd::managed::{
    Endurance, GcDestination, Geometry, ManagedConfig, ManagedSsd, Placement, SaveSequential,
    VictimPolicy,
};
use proptest::prelude::*;

const LOGICAL_PAGES: u32 = 640;
/// More pages than one batch, and more than a unit.
const PAGES_MAX: usize = 150;
/// One more than the drive has.
const HANDLES: u16 = 4;

#[derive(Debug, Clone)]
enum Op {
    Scattered { lpns: Vec<u32>, placement: Placement },
    Write { lpn: u64, pages: u64, placement: Placement },
    Deallocate { lpn: u64, pages: u64 },
    PowerCycle,
}

fn op() -> impl Strategy<Value = Op> {
    let placement = (0..2u16, 0..HANDLES)
        .prop_map(|(group, handle)| Placement { group: group * (handle % 2), handle });
    let range = (0..u64::from(LOGICAL_PAGES))
        .prop_flat_map(|lpn| (Just(lpn), 1..=(u64::from(LOGICAL_PAGES) - lpn).min(40)));
    // Some batches draw from few pages, so that pages occur twice.
    let lpns = prop_oneof![
        prop::collection::vec(0..LOGICAL_PAGES, 0..PAGES_MAX),
        prop::collection::vec(0..8u32, 0..PAGES_MAX),
        prop::collection::vec(0..LOGICAL_PAGES + 1, 0..4),
    ];
    prop_oneof![
        8 => (lpns, placement.clone())
            .prop_map(|(lpns, placement)| Op::Scattered { lpns, placement }),
        4 => (range.clone(), placement)
            .prop_map(|((lpn, pages), placement)| Op::Write { lpn, pages, placement }),
        1 => range.prop_map(|(lpn, pages)| Op::Deallocate { lpn, pages }),
        1 => Just(Op::PowerCycle),
    ]
}

/// Units of 8 pages, which greedy keeps in lists, or of 64, which it scans.
fn geometry() -> impl Strategy<Value = Geometry> {
    let logical_pages = u64::from(LOGICAL_PAGES);
    prop_oneof![
        Just(Geometry { logical_pages, pages_per_unit: 8, units: 120 }),
        Just(Geometry { logical_pages, pages_per_unit: 64, units: 24 }),
    ]
}

fn config() -> impl Strategy<Value = ManagedConfig> {
    let policy = prop_oneof![
        3 => Just(VictimPolicy::Greedy),
        1 => Just(VictimPolicy::CostBenefit),
        1 => Just(VictimPolicy::Fifo),
    ];
    let destination = prop_oneof![
        Just(GcDestination::HostFrontier),
        Just(GcDestination::Shared),
        Just(GcDestination::PerHandle),
    ];
    let endurance = prop_oneof![
        3 => Just(Endurance::Unlimited),
        1 => Just(Endurance::Rated { rated: 3, certain: 12 }),
    ];
    let sequential = prop::option::weighted(0.2, Just(SaveSequential { streams: 4, pages_min: 8 }));
    let habits = (any::<bool>(), prop::bool::weighted(0.2), sequential);
    (geometry(), policy, destination, endurance, habits).prop_map(
        |(geometry, victim_policy, gc_destination, endurance, (fdp, out_of_band, sequential))| {
            ManagedConfig {
                handles: HANDLES - 1,
                fdp,
                victim_policy,
                gc_destination,
                endurance,
                out_of_band,
                save_sequential: sequential.filter(|_| !fdp),
                ..ManagedConfig::new(geometry)
            }
        },
    )
}

/// The result of `op` with one write per page. A page out of range refuses all of them.
fn one_at_a_time(ssd: &mut ManagedSsd, lpns: &[u32], placement: Placement) -> Result<(), String> {
    if let Some(&lpn) = lpns.iter().find(|&&lpn| lpn >= LOGICAL_PAGES) {
        return ssd.write(u64::from(lpn), 1, 0).map_err(|error| error.to_string());
    }
    let mut written = lpns.iter().map(|&lpn| ssd.write_placed(placement, u64::from(lpn), 1));
    written.try_for_each(|result| result).map_err(|error| error.to_string())
}

fn apply(ssd: &mut ManagedSsd, op: &Op, together: bool) -> Result<(), String> {
    let result = match op {
        Op::Scattered { lpns, placement } if together => {
            ssd.write_scattered_placed(*placement, lpns)
        }
        Op::Scattered { lpns, placement } => return one_at_a_time(ssd, lpns, *placement),
        Op::Write { lpn, pages, placement } => ssd.write_placed(*placement, *lpn, *pages),
        Op::Deallocate { lpn, pages } => ssd.deallocate(*lpn, *pages),
        Op::PowerCycle if ssd.config().out_of_band => ssd.power_on().map(|_| ()),
        Op::PowerCycle => Ok(()),
    };
    result.map_err(|error| error.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_batch_does_what_single_writes_do(
        config in config(),
        record in any::<bool>(),
        ops in prop::collection::vec(op(), 1..80),
    ) {
        let mut together = ManagedSsd::new(config.clone()).unwrap();
        let mut alone = ManagedSsd::new(config).unwrap();
        together.record_media_ops(record);
        alone.record_media_ops(record);
        for op in &ops {
            prop_assert_eq!(apply(&mut together, op, true), apply(&mut alone, op, false));
            together.audit().map_err(TestCaseError::fail)?;
            prop_assert_eq!(together.stats(), alone.stats());
        }
        prop_assert!(together.units().eq(alone.units()));
        prop_assert!(together.events().eq(alone.events()));
        for lpn in 0..u64::from(LOGICAL_PAGES) {
            prop_assert_eq!(together.physical_page(lpn), alone.physical_page(lpn));
        }
        let (mut ops, mut ops_alone) = (Vec::new(), Vec::new());
        together.take_media_ops(&mut ops);
        alone.take_media_ops(&mut ops_alone);
        prop_assert_eq!(ops, ops_alone);
    }
}
