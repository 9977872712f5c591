//! A cache with a missing core.

use larder_block::ErrorKind;
use larder_block::manage::{Core, add_core, give_up, open};
use larder_device::block_on;

use super::super::rig::core;
use super::{MIB, Rig, layouts, memory, options, put, read, read_from, write_to};

/// Both cores have some dirty data.
fn dirty(create: &larder_block::manage::CreateOptions) -> Rig {
    let rig = Rig::new();
    for (fill, core) in (1..).zip(&rig.cores) {
        put(&core.device, 0, &vec![fill; 16 * MIB]);
        super::write(&*core.device, 0, fill + 10, 4096);
    }
    rig.create(create);
    let opened = rig.open();
    write_to(&opened, 0, 65536, 0xaa, 65536);
    write_to(&opened, 5, 65536, 0xbb, 65536);
    block_on(opened.stop(false)).unwrap();
    rig
}

fn without(rig: &Rig, at: usize) -> Rig {
    let mut cores = rig.cores.clone();
    cores.remove(at);
    Rig { device: rig.device.clone(), cores }
}

#[test]
fn the_others_are_served_and_what_is_dirty_stays_until_it_returns() {
    for create in layouts() {
        let rig = dirty(&create);
        let part = without(&rig, 1);
        // Once with a stop, and once as after a kill -9.
        for stops in [true, false] {
            let opened = part.open();
            let missing = opened.missing();
            assert_eq!((missing.len(), missing[0].id), (1, core(5)), "{create:?}");
            assert_eq!(missing[0].dirty_bytes, 65536);
            assert!(opened.cache.core(core(5)).is_none());
            assert!(read_from(&opened, 0, 65536, 65536) == [0xaa; 65536]);
            write_to(&opened, 0, 0, 0xcc, 65536);
            block_on(opened.cache.destage_all()).unwrap();
            assert!(read(&*rig.cores[0].device, 0, 65536) == [0xcc; 65536]);
            assert_eq!(opened.missing()[0].dirty_bytes, 65536, "{create:?}");
            if stops {
                block_on(opened.stop(true)).unwrap();
            }
        }
        let opened = rig.open();
        assert!(opened.missing().is_empty());
        assert!(read_from(&opened, 5, 65536, 65536) == [0xbb; 65536]);
        block_on(opened.stop(true)).unwrap();
        assert!(read(&*rig.cores[1].device, 65536, 65536) == [0xbb; 65536], "{create:?}");
    }
}

#[test]
fn it_is_attached_while_the_others_are_served() {
    for create in layouts() {
        let rig = dirty(&create);
        let part = without(&rig, 1);
        let mut opened = part.open();
        let other = Core { device: memory(16 * MIB), ..rig.cores[1].clone() };
        let refused = block_on(opened.attach_core(&other)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Changed, "{refused}");
        let short = Core { device: memory(MIB), ..rig.cores[1].clone() };
        let refused = block_on(opened.attach_core(&short)).unwrap_err();
        assert!(refused.to_string().contains("had 16777216"), "{refused}");
        let there = block_on(opened.attach_core(&rig.cores[0])).unwrap_err();
        assert!(there.to_string().contains("core 0: it is there"), "{there}");
        let moved = Core { name: "moved".to_owned(), ..rig.cores[1].clone() };
        block_on(opened.attach_core(&moved)).unwrap();
        assert!(opened.missing().is_empty() && opened.stored().cores[1].name == "moved");
        assert!(read_from(&opened, 5, 65536, 65536) == [0xbb; 65536]);
        write_to(&opened, 5, 0, 0xdd, 4096);
        block_on(opened.cache.destage_all()).unwrap();
        assert!(read(&*rig.cores[1].device, 65536, 65536) == [0xbb; 65536]);
        assert!(read(&*rig.cores[1].device, 0, 4096) == [0xdd; 4096], "{create:?}");
        drop(opened);
        assert_eq!(rig.open().checked()[1].compared.differing, 0);
    }
}

#[test]
fn it_is_given_up_by_its_number_alone() {
    for create in layouts() {
        let rig = dirty(&create);
        let part = without(&rig, 1);
        let mut opened = part.open();
        for refused in [
            block_on(opened.remove_core(core(5))).unwrap_err(),
            block_on(opened.detach()).unwrap_err(),
        ] {
            let text = refused.to_string();
            assert!(text.contains("core 5 (core-5) with 65536 dirty bytes"), "{text}");
        }
        assert!(block_on(opened.give_up(core(0))).unwrap_err().to_string().contains("is there"));
        assert_eq!(block_on(opened.give_up(core(5))), Ok(65536));
        assert!(opened.missing().is_empty() && opened.stored().cores.len() == 1);
        assert!(read_from(&opened, 0, 65536, 65536) == [0xaa; 65536]);
        block_on(opened.detach()).unwrap();
        drop(opened);
        assert!(read(&*rig.cores[0].device, 65536, 65536) == [0xaa; 65536]);
        assert!(read(&*rig.cores[1].device, 65536, 4096) == [2; 4096], "{create:?}");
    }
}

#[test]
fn it_is_given_up_of_a_cache_that_does_not_run() {
    for create in layouts() {
        let rig = dirty(&create);
        block_on(give_up(&rig.device, core(5))).unwrap();
        let only = block_on(give_up(&rig.device, core(0))).unwrap_err();
        assert!(only.to_string().contains("is the only one"), "{only}");
        let opened = without(&rig, 1).open();
        assert_eq!(opened.started.dirty_sectors, 128, "{create:?}");
        block_on(opened.stop(true)).unwrap();
        assert!(read(&*rig.cores[1].device, 65536, 4096) == [2; 4096]);
    }
}

/// The remaining cores can be started with force only if nothing of the missing core is discarded.
#[test]
fn a_core_that_has_changed_does_not_cost_a_missing_one_its_data() {
    for create in layouts() {
        let rig = dirty(&create);
        let part = without(&rig, 1);
        put(&rig.cores[0].device, 0, &vec![9; 16 * MIB]);
        let forced = larder_block::manage::OpenOptions { force: vec![core(0)], ..options() };
        let (kind, message) = part.refusal(&forced);
        assert!(kind == ErrorKind::Setup && message.contains("core 5 is missing"), "{message}");
        drop(block_on(open(&rig.device, &rig.cores, &forced)).unwrap());
        assert!(read(&*rig.cores[1].device, 65536, 65536) == [0xbb; 65536], "{create:?}");
    }
}

#[test]
fn cores_come_and_go_while_one_is_missing() {
    for create in layouts() {
        let rig = dirty(&create);
        let mut part = without(&rig, 1);
        let new = Core { id: core(6), name: "new".to_owned(), device: memory(MIB) };
        block_on(add_core(&part.device, &part.cores, &new)).unwrap();
        part.cores.push(new);
        let mut opened = part.open();
        block_on(opened.remove_core(core(0))).unwrap();
        assert!(read(&*rig.cores[0].device, 65536, 65536) == [0xaa; 65536]);
        assert_eq!(opened.missing()[0].dirty_bytes, 65536);
    }
}
