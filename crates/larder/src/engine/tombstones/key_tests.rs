//! Tests of keys of buckets and of tables in one log, and of keys that die again before their table is written.

use larder_device::{Fault, FaultPlan, FaultRule};

use super::KeysIn::{Buckets, Tables};
use super::tests::rig;

/// The second tombstones of the keys wait behind more entries than the ring holds, so that the ring reaches the first
/// ones.
#[test]
fn a_key_that_died_stays_dead_while_it_dies_again() {
    let keys: Vec<u64> = (0..300).collect();
    for writes in 0..34 {
        let rig = rig();
        for &hash in &keys {
            let _ = rig.log.invalidate_key(Tables, hash);
        }
        rig.commit(rig.log.all_so_far()).unwrap();
        rig.go_round();
        let first_of_second = rig.log.clock() + 6000;
        let gone = FaultRule::new(Fault::Gone).on_writes().at_match(writes);
        rig.device.set_plan(&FaultPlan::new(1).volatile_writes(0).with(gone));
        let fillers: Vec<u64> = (0..6000).map(|n| 1 << 50 | n).collect();
        for &filler in &fillers {
            let _ = rig.log.invalidate_key(Buckets, filler);
        }
        rig.log.resolve(Buckets, &fillers, rig.log.clock());
        rig.log.resolved(Buckets, &fillers, true);
        let again: Vec<_> =
            keys.iter().map(|&hash| (hash, rig.log.invalidate_key_again(Tables, hash))).collect();
        let told: Vec<u64> = again
            .iter()
            .filter(|(_, receipt)| rig.commit(*receipt).is_ok() && rig.log.is_trusted())
            .map(|(hash, _)| *hash)
            .collect();
        let left = rig.left();
        let of = |hash: &u64| left.table_keys().get(hash).copied().unwrap_or(0);
        let lost = keys.iter().filter(|hash| of(hash) == 0).count();
        assert_eq!(lost, 0, "of 300 that had died once, after {writes} writes");
        let old = told.iter().filter(|hash| of(hash) < first_of_second).count();
        assert_eq!(old, 0, "of {} that were told to have died again, {writes} writes", told.len());
    }
}

#[test]
fn the_first_tombstone_is_not_copied_for_ever() {
    let rig = rig();
    rig.commit(rig.log.invalidate_key(Tables, 5)).unwrap();
    let first = rig.left().table_keys()[&5];
    rig.commit(rig.log.invalidate_key_again(Tables, 5)).unwrap();
    rig.go_round();
    assert!(rig.left().table_keys()[&5] > first);
    rig.log.resolve(Tables, &[5], rig.log.clock());
    rig.log.resolved(Tables, &[5], true);
    rig.go_round();
    rig.go_round();
    assert!(rig.left().table_keys().is_empty(), "neither is needed any more");
}

#[test]
fn a_key_dies_in_tables_or_in_buckets() {
    let rig = rig();
    rig.commit(rig.log.invalidate_key(Buckets, 5)).unwrap();
    let stamp = rig.log.clock();
    rig.commit(rig.log.invalidate_key(Tables, 6)).unwrap();
    assert!(rig.log.is_dead(Buckets, 5) && !rig.log.is_dead(Tables, 5));
    assert!(rig.log.is_dead(Tables, 6) && !rig.log.is_dead(Buckets, 6));
    assert_eq!((rig.log.dead(Buckets), rig.log.dead(Tables)), (vec![5], vec![6]));
    assert_eq!(rig.left().table_keys().clone().into_iter().collect::<Vec<_>>(), [(6, stamp)]);
    // The next opening.
    let next = super::tests::rig();
    next.log.inherit(&mut rig.left());
    assert_eq!((next.log.inherited(Buckets), next.log.inherited(Tables)), (vec![5], vec![]));
    assert_eq!(next.log.deaths_within(Tables, 0..10), [(6, stamp)]);
    let again = next.log.clock();
    rig.commit(next.log.invalidate_key_again(Tables, 6)).unwrap();
    next.log.deaths_known(Tables, &[(6, stamp)]);
    assert_eq!(next.log.index_of(Tables, 6), Some(again), "it died again");
    next.log.deaths_known(Tables, &[(6, again)]);
    assert_eq!(next.log.index_of(Tables, 6), None);
}

/// The array's regions are numbered after those of the large-object engine.
#[test]
fn regions_of_both_engines_have_tombstones() {
    let rig = rig();
    let (loc, array) = (3, 4 + 2);
    for region in [loc, array] {
        rig.commit(rig.log.invalidate_region(region, 20)).unwrap();
        rig.log.filling_began(region, 20);
    }
    rig.go_round();
    rig.go_round();
    let left = rig.left();
    assert_eq!([loc, array].map(|region| left.first_filling(region)), [20, 20]);
    rig.log.filling_sealed(array, 20);
    rig.go_round();
    rig.go_round();
    let left = rig.left();
    assert_eq!([loc, array].map(|region| left.first_filling(region)), [20, 0]);
}

#[test]
fn tables_have_room_for_dead_keys_as_well_as_buckets() {
    let rig = rig();
    let most = rig.log.keys_max(Tables);
    for hash in 0..most / 2 {
        let _waited_for_by_nobody = rig.log.invalidate_key(Tables, hash);
    }
    assert_eq!(rig.log.key_to_work_off(Tables, 0), None);
    let _one_too_many = rig.log.invalidate_key(Tables, 1 << 40);
    assert_eq!(rig.log.key_to_work_off(Tables, 1 << 39), Some(1 << 40));
    assert_eq!(rig.log.key_to_work_off(Buckets, 0), None);
}
