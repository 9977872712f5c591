//! Reclaim groups: data stays in the group of its placement, and a full group reports so.

use larder_ssd::ErrorKind;
use larder_ssd::managed::{
    Geometry, GroupDies, ManagedConfig, ManagedSsd, Placement, VictimPolicy,
};
use larder_ssd::nand::DieArray;

fn config(victim_policy: VictimPolicy) -> ManagedConfig {
    let geometry = Geometry { logical_pages: 640, pages_per_unit: 16, units: 64 };
    ManagedConfig { groups: 2, handles: 2, victim_policy, ..ManagedConfig::new(geometry) }
}

#[test]
fn a_full_group_refuses_and_the_other_goes_on() {
    for policy in [VictimPolicy::Greedy, VictimPolicy::Fifo, VictimPolicy::Random] {
        let mut ssd = ManagedSsd::new(config(policy)).unwrap();
        // A group of 32 units holds at most 512 pages. It needs some of them for itself.
        let error = ssd.write(0, 640, 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert!(error.to_string().starts_with("reclaim group 0 is full"), "{error}");
        ssd.audit().unwrap();
        let held = ssd.stats().host_pages;
        assert!((416..512).contains(&held), "{held} pages fit");
        let other = Placement { group: 1, handle: 1 };
        ssd.write_placed(other, held, 640 - held).unwrap();
        // Rewriting data in the other group makes room in the first.
        ssd.write_placed(other, 0, 100).unwrap();
        ssd.write(100, 50, 0).unwrap();
        ssd.audit().unwrap();
        let first_group = 0..32;
        let misplaced = first_group.flat_map(|unit| ssd.live_pages_of(unit)).any(|lpn| lpn < 100);
        assert!(!misplaced);
    }
}

#[test]
fn placements_that_the_drive_does_not_have_are_refused_by_name() {
    let mut ssd = ManagedSsd::new(config(VictimPolicy::Greedy)).unwrap();
    let error = ssd.write_placed(Placement { group: 2, handle: 1 }, 0, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfRange);
    assert!(error.to_string().contains("reclaim group 2"), "{error}");
    assert!(ssd.update_placed(Placement { group: 2, handle: 0 }).is_err());
}

/// The dies of a group's units affect only the layout of the drive; no counter depends on them.
#[test]
fn groups_own_dies_or_channels_and_count_the_same() {
    let array = Some(DieArray { channels: 4, dies_per_channel: 2 });
    let run = |group_dies| {
        let config = ManagedConfig { array, group_dies, ..config(VictimPolicy::Greedy) };
        let mut ssd = ManagedSsd::new(config).unwrap();
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let half = rng.u16(..2);
            let placement = Placement { group: half, handle: 1 };
            ssd.write_placed(placement, u64::from(half) * 320 + rng.u64(..320), 1).unwrap();
        }
        ssd.audit().unwrap();
        let dies = |group| ssd.dies_of_group(group).iter().map(|die| die.0).collect::<Vec<_>>();
        assert_eq!(dies(2), []);
        ([dies(0), dies(1)], ssd.stats().clone())
    };
    let (all, counted) = run(GroupDies::All);
    assert_eq!(all, [(0..8).collect::<Vec<_>>(), (0..8).collect()]);
    let (dies, counted_on_dies) = run(GroupDies::Dies);
    assert_eq!(dies, [vec![0, 1, 2, 3], vec![4, 5, 6, 7]]);
    let (channels, counted_on_channels) = run(GroupDies::Channels);
    assert_eq!(channels, [vec![0, 1, 4, 5], vec![2, 3, 6, 7]]);
    assert!(counted.copied_pages > 0);
    assert!(counted == counted_on_dies && counted == counted_on_channels);
}
