//! Blocks of virtual SSDs: the guarantees of every store, bytes that migrate, and losses of power.

mod bytes;
mod crash;
mod image;
mod lending;
mod levelling;
mod rig;

use std::sync::Arc;

use larder_blocks::{BlockStore, IsolationLevel};
use larder_device::ErrorKind;
use larder_vssd::Isolation;

use super::promises::a_block_store_keeps_its_promises;
use rig::{Rig, request};

#[test]
fn a_vssd_of_each_kind_keeps_the_promises() {
    let kinds = [
        (Isolation::Channel, IsolationLevel::Channels),
        (Isolation::Die, IsolationLevel::Dies),
        (Isolation::Software { weight: 3 }, IsolationLevel::Software),
        (Isolation::None, IsolationLevel::Shared),
    ];
    for (isolation, level) in kinds {
        for seed in 0..20 {
            let array = Rig::new(1).array;
            let id = array.alloc(request(isolation, 1)).unwrap();
            let store = array.store(id).unwrap();
            assert_eq!(store.info().isolation, level);
            a_block_store_keeps_its_promises(seed, Arc::new(store), |store| {
                drop(store);
                array.power_cycle().unwrap();
                Arc::new(array.store(id).unwrap())
            });
            assert_eq!(array.verify().unwrap().wrong, Vec::<String>::new());
        }
    }
}

#[test]
fn a_vssd_has_one_store_at_a_time_and_outlives_it() {
    let array = Rig::new(1).array;
    let id = array.alloc(request(Isolation::Die, 1)).unwrap();
    let store = array.store(id).unwrap();
    for refused in [
        array.store(id).map(|_| ()).unwrap_err(),
        array.dealloc(id).unwrap_err(),
        array.destroy(id).unwrap_err(),
        array.power_cycle().map(|_| ()).unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::InUse, "{refused}");
    }
    drop(store);
    array.power_cycle().unwrap();
    array.dealloc(id).unwrap();
    assert_eq!(array.store(id).unwrap_err().kind(), ErrorKind::NotOpen);
}
