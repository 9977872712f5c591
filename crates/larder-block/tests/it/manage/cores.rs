//! Cores that are added to a cache, and removed from it.

use larder_block::manage::{CacheLabel, add_core, look};

use super::*;

/// A core of 16 MiB.
fn another(number: u16) -> Core {
    Core { id: core(number), name: format!("core-{number}"), device: memory(16 * MIB) }
}

fn add(rig: &mut Rig, number: u16) {
    let new = another(number);
    block_on(add_core(&rig.device, &rig.cores, &new)).unwrap();
    rig.cores.push(new);
}

fn remove(rig: &mut Rig, number: u16) {
    let mut opened = rig.open();
    block_on(opened.remove_core(core(number))).unwrap();
    block_on(opened.stop(true)).unwrap();
    rig.cores.retain(|known| known.id != core(number));
}

#[test]
fn a_core_goes_with_all_that_is_its_and_the_others_keep_what_is_cached_of_them() {
    for create in layouts() {
        let mut rig = Rig::new();
        let uuid = rig.create(&create);
        let opened = rig.open();
        write_to(&opened, 0, 0, 1, 65536);
        write_to(&opened, 5, 8192, 2, 65536);
        block_on(opened.stop(false)).unwrap();
        let gone = Arc::clone(&rig.cores[0].device);
        remove(&mut rig, 0);
        assert!(read(&*gone, 0, 65536) == [1; 65536], "{create:?}");
        let CacheLabel { stored, .. } = block_on(look(&rig.device)).unwrap();
        assert_eq!((stored.cores.len(), stored.next_core, stored.was_stopped), (1, 1, true));
        assert_eq!(stored.free_cores().next(), Some(core(1)));

        let opened = rig.open();
        assert_eq!((opened.uuid, opened.started.dirty_sectors), (uuid, 0));
        let before = rig.cores[0].device.stats().host_read_bytes;
        assert!(read_from(&opened, 5, 8192, 65536) == [2; 65536], "{create:?}");
        assert_eq!(rig.cores[0].device.stats().host_read_bytes, before, "from the cache");
        // The remaining data of the removed core is evicted.
        for round in 0..4 {
            write_to(&opened, 5, (1 + 3 * round) * MIB as u64, 7, 3 * MIB);
        }
        assert!(read_from(&opened, 5, MIB as u64, 12 * MIB) == vec![7; 12 * MIB], "{create:?}");
        block_on(opened.stop(true)).unwrap();
        assert!(read(&*gone, 0, 65536) == [1; 65536] && read(&*gone, 65536, 4096) == [0; 4096]);
    }
}

#[test]
fn a_core_that_comes_is_cached_too_and_never_has_what_was_anothers() {
    for create in layouts() {
        let mut rig = Rig::new();
        rig.create(&create);
        let opened = rig.open();
        write_to(&opened, 5, 0, 1, 65536);
        block_on(opened.stop(false)).unwrap();
        remove(&mut rig, 5);
        let taken = block_on(add_core(&rig.device, &rig.cores, &another(5))).unwrap_err();
        assert!(taken.to_string().contains("give 6 or more"), "{taken}");
        let there = block_on(add_core(&rig.device, &rig.cores, &another(0))).unwrap_err();
        assert!(there.to_string().contains("one of that number"), "{there}");
        add(&mut rig, 6);
        let opened = rig.open();
        assert!(read_from(&opened, 6, 0, 65536) == [0; 65536], "{create:?}");
        write_to(&opened, 6, 4096, 3, 4096);
        // As by a crash.
        drop(opened);
        let opened = rig.open();
        assert_eq!(opened.started.dirty_sectors, 8, "{create:?}");
        assert!(read_from(&opened, 6, 0, 8192) == [[0; 4096], [3; 4096]].concat());
        block_on(opened.stop(true)).unwrap();
        let new = &rig.cores[1].device;
        assert!(read(&**new, 0, 8192) == [[0; 4096], [3; 4096]].concat(), "{create:?}");
    }
}

#[test]
fn what_cannot_be_added_or_taken_away_is_refused_and_nothing_is_written() {
    let mut rig = Rig::new();
    rig.create(&log());
    let before = rig.written();
    let refused = |known: &[Core], new: &Core| {
        block_on(add_core(&rig.device, known, new)).unwrap_err().to_string()
    };
    let own = Core { device: Arc::clone(&rig.device), ..another(6) };
    assert!(refused(&rig.cores, &own).contains("the cache or one core, once"));
    let twice = Core { device: Arc::clone(&rig.cores[0].device), ..another(6) };
    assert!(refused(&rig.cores, &twice).contains("the cache or one core, once"));
    let long = Core { name: "x".repeat(1 << 16), ..another(6) };
    assert!(refused(&rig.cores, &long).contains("shorter names"));
    assert_eq!(rig.written(), before);
    let unknown = block_on(rig.open().remove_core(core(7))).unwrap_err();
    assert!(unknown.to_string().contains("core 7: the cache has 0, 5"), "{unknown}");
    remove(&mut rig, 0);
    let only = block_on(rig.open().remove_core(core(5))).unwrap_err();
    assert!(only.to_string().contains("add another first"), "{only}");
    assert_eq!(block_on(look(&rig.device)).unwrap().stored.cores.len(), 1);
}
