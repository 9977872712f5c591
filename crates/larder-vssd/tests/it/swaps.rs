//! Channels and dies that swap their data.

use larder_ssd::ErrorKind;
use larder_ssd::nand::{BlockIndex, ChannelIndex, DieIndex, PhysicalOp};
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_vssd::{
    Isolation, LogicalBlock, Pages, Swap, VssdId, Vssds, WearSinceSwap, channel_pairs,
};

use super::rig::{self, CAPACITY, GEOMETRY, IDENTITY, PowerImages, RATES, request};

type Array = Vssds<PowerImages>;

/// A tenant with `blocks` full blocks on the next free channel; all words differ.
fn tenant(array: &mut Array, blocks: u64) -> (VssdId, Vec<LogicalBlock>) {
    let id = array.alloc(request(Isolation::Channel, 1)).unwrap();
    let fill = |tag| {
        let block = array.alloc_block(id, tag).unwrap();
        array.append(id, block, 0, Pages::Words(&words(id, tag))).unwrap();
        block
    };
    let blocks = (0..blocks).map(fill).collect();
    (id, blocks)
}

fn words(id: VssdId, tag: u64) -> Vec<u64> {
    (0..12).map(|page| 1 + u64::from(id.0) * 10_000 + tag * 100 + page).collect()
}

fn check_words(array: &Array, id: VssdId) {
    for state in array.blocks(id).unwrap() {
        let found: Vec<u64> = (0..state.written_pages)
            .map(|page| array.word(id, state.block, page).unwrap().unwrap())
            .collect();
        assert_eq!(found, words(id, state.tag)[..found.len()], "{state:?}");
    }
    array.audit().unwrap();
}

fn pairs(a: u32, b: u32) -> Vec<(DieIndex, DieIndex)> {
    channel_pairs(GEOMETRY.array, ChannelIndex(a), ChannelIndex(b), None).unwrap()
}

fn dies(array: &Array, id: VssdId) -> Vec<u32> {
    array.info(id).unwrap().dies.iter().map(|(_, die)| die.0).collect()
}

/// Steps to the end of the swap. Returns the number of moved parts and pages.
fn finish(array: &mut Array) -> (u64, u64) {
    let mut moved = (0, 0);
    loop {
        match array.swap_step().unwrap() {
            Swap::Moved { pages, .. } => moved = (moved.0 + 1, moved.1 + u64::from(pages)),
            Swap::Done => return moved,
            Swap::Waiting => panic!("there is a spare"),
        }
    }
}

/// Two full channels: tenants that overwrite all that they have move it so, and nothing is left to copy.
#[test]
fn what_is_overwritten_during_a_swap_has_moved() {
    let mut array = rig::array(1);
    let tenants = [(); 2].map(|()| tenant(&mut array, CAPACITY));
    array.swap_begin(0, &pairs(0, 1)).unwrap();
    for tag in 0..CAPACITY {
        for (id, blocks) in &tenants {
            array.free_block(*id, blocks[tag as usize]).unwrap();
            let block = array.alloc_block(*id, tag).unwrap();
            array.append(*id, block, 0, Pages::Words(&words(*id, tag))).unwrap();
            array.audit().unwrap();
        }
    }
    let (left, all) = array.swap_pages();
    assert_eq!((left, all), (0, 2 * 12 * CAPACITY));
    assert_eq!(finish(&mut array), (0, 0));
    tenants.iter().for_each(|(id, _)| check_words(&array, *id));
}

#[test]
fn two_channels_exchange_all_they_hold() {
    let mut array = rig::array(1);
    let (one, _) = tenant(&mut array, 10);
    let (two, _) = tenant(&mut array, 4);
    assert_eq!((dies(&array, one), dies(&array, two)), (vec![0, 4], vec![1, 5]));
    array.record_ops(0, true);
    array.swap_begin(0, &pairs(0, 1)).unwrap();
    assert_eq!(array.swap_under_way().unwrap().pairs, pairs(0, 1));
    let moved = finish(&mut array);
    assert_eq!(moved, (2 * 14, 12 * 14), "each part once");
    assert_eq!((dies(&array, one), dies(&array, two)), (vec![1, 5], vec![0, 4]));
    assert!(array.swap_under_way().is_none());
    let mut ops = Vec::new();
    array.take_ops(0, &mut ops);
    let count = |want: fn(&PhysicalOp) -> bool| ops.iter().filter(|op| want(op)).count();
    assert_eq!(count(|op| matches!(op, PhysicalOp::FirmwareRead { .. })), 28 * 3);
    assert_eq!(count(|op| matches!(op, PhysicalOp::Program { .. })), 28 * 3);
    assert_eq!(count(|op| matches!(op, PhysicalOp::Erase { .. })), 28);
    let raw = array.drive(0).unwrap();
    let migrated = (0..2).map(|at| raw.channel_counters(ChannelIndex(at)).migrated_pages);
    assert_eq!(migrated.collect::<Vec<_>>(), [12 * 4, 12 * 10]);
    let wear = array.channel_wear(0);
    assert_eq!(wear[0], WearSinceSwap { erases: 20, erased_bytes: 0 }, "counted from here on");
    array = rig::reopened(array);
    assert_eq!((dies(&array, one), dies(&array, two)), (vec![1, 5], vec![0, 4]));
    assert_eq!(array.channel_wear(0), wear);
    check_words(&array, one);
    check_words(&array, two);
}

#[test]
fn the_most_worn_die_is_carried_to_the_least_written() {
    let carried = Some((0, 1));
    let pairs = channel_pairs(GEOMETRY.array, ChannelIndex(2), ChannelIndex(0), carried).unwrap();
    assert_eq!(pairs, [(DieIndex(2), DieIndex(4)), (DieIndex(6), DieIndex(0))]);
    for (a, b, carried) in [(0, 4, None), (1, 1, None), (0, 1, Some((2, 0)))] {
        let refused = channel_pairs(GEOMETRY.array, ChannelIndex(a), ChannelIndex(b), carried);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::OutOfRange);
    }
    let mut array = rig::array(1);
    let (id, _) = tenant(&mut array, 3);
    array.swap_begin(0, &[(DieIndex(0), DieIndex(4))]).unwrap();
    finish(&mut array);
    assert_eq!(dies(&array, id), [4, 0], "dies of one channel exchange too");
    check_words(&array, id);
}

#[test]
fn open_blocks_move_with_their_write_pointer_and_new_ones_are_where_they_belong() {
    let mut array = rig::array(1);
    let (id, _) = tenant(&mut array, 3);
    let open = array.alloc_block(id, 50).unwrap();
    array.append(id, open, 0, Pages::Words(&words(id, 50)[..4])).unwrap();
    array.swap_begin(0, &pairs(0, 2)).unwrap();
    assert!(matches!(array.swap_step().unwrap(), Swap::Moved { .. }));
    let late = array.alloc_block(id, 60).unwrap();
    array.append(id, late, 0, Pages::Words(&words(id, 60))).unwrap();
    array.append(id, open, 4, Pages::Words(&words(id, 50)[4..8])).unwrap();
    let moved = finish(&mut array);
    assert_eq!(moved.0, 2 * 4 - 1, "the new block was on its new dies from the start");
    array.append(id, open, 8, Pages::Words(&words(id, 50)[8..])).unwrap();
    check_words(&array, id);
    assert_eq!(dies(&array, id), [2, 6]);
}

#[test]
fn a_swap_goes_on_after_a_loss_of_power() {
    for cut in 0..200 {
        let mut array = rig::array(1);
        let (one, _) = tenant(&mut array, 5);
        let (two, _) = tenant(&mut array, 7);
        array.swap_begin(0, &pairs(0, 1)).unwrap();
        array.cut_power_after(0, cut);
        let failed = loop {
            match array.swap_step() {
                Ok(Swap::Done) => break false,
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::PowerLoss);
                    break true;
                }
            }
        };
        array = rig::reopened(array);
        assert_eq!(array.swap_under_way().is_some(), failed);
        check_words(&array, one);
        // Three programs and an erase per part. A part has moved with its last program.
        let done = (cut + 1) / 4;
        let moved = finish(&mut array).0;
        assert_eq!(moved, if failed { 24 - done } else { 0 }, "nothing moves twice: {cut}");
        assert_eq!((dies(&array, one), dies(&array, two)), (vec![1, 5], vec![0, 4]));
        check_words(&array, one);
        check_words(&array, two);
    }
}

#[test]
fn a_swap_that_is_given_up_brings_back_what_moved() {
    let mut array = rig::array(1);
    let (one, _) = tenant(&mut array, 5);
    let (two, _) = tenant(&mut array, 5);
    array.swap_begin(0, &pairs(0, 1)).unwrap();
    (0..7).for_each(|_| assert!(matches!(array.swap_step().unwrap(), Swap::Moved { .. })));
    array.swap_abandon().unwrap();
    array = rig::reopened(array);
    assert!(array.swap_under_way().unwrap().back);
    array.swap_abandon().unwrap();
    assert_eq!(finish(&mut array).0, 7);
    assert_eq!((dies(&array, one), dies(&array, two)), (vec![0, 4], vec![1, 5]));
    check_words(&array, one);
    check_words(&array, two);
}

#[test]
fn full_dies_exchange_by_their_spare_and_wait_without_one() {
    // Dies 0 and 1 lose their spare of two blocks: the first blocks that are programmed there fail.
    let failures = [0, 1, 12, 13].map(|block| (BlockIndex(block), 0)).to_vec();
    let drive = RawSsd::new(RawConfig { program_failures: failures, ..rig::config() }).unwrap();
    let mut array = Vssds::create(vec![drive], PowerImages::default(), IDENTITY, RATES).unwrap();
    let (one, blocks) = tenant(&mut array, 10);
    let (two, _) = tenant(&mut array, 10);
    let (three, _) = tenant(&mut array, 10);
    array.swap_begin(0, &pairs(0, 1)).unwrap();
    assert_eq!(array.swap_step().unwrap(), Swap::Waiting);
    assert_eq!(array.swap_step().unwrap(), Swap::Waiting);
    array.free_block(one, blocks[3]).unwrap();
    finish(&mut array);
    check_words(&array, one);
    check_words(&array, two);
    // Dies with their spare do not have to wait.
    let (four, _) = tenant(&mut array, 10);
    array.swap_begin(0, &pairs(2, 3)).unwrap();
    assert_eq!(finish(&mut array).0, 40);
    check_words(&array, three);
    check_words(&array, four);
}

#[test]
fn swaps_that_would_break_isolation_or_cannot_be_are_refused() {
    let mut array = rig::array(2);
    tenant(&mut array, 1);
    let mut refused = |drive, pairs: &[(u32, u32)]| {
        let pairs: Vec<_> = pairs.iter().map(|&(a, b)| (DieIndex(a), DieIndex(b))).collect();
        array.swap_begin(drive, &pairs).unwrap_err().kind()
    };
    assert_eq!(refused(0, &[(0, 1)]), ErrorKind::NotOwned, "half of its channel");
    assert_eq!(refused(0, &[(0, 1), (4, 6)]), ErrorKind::NotOwned, "two halves");
    assert_eq!(refused(0, &[]), ErrorKind::OutOfRange);
    assert_eq!(refused(0, &[(0, 8)]), ErrorKind::OutOfRange);
    assert_eq!(refused(0, &[(0, 1), (4, 0)]), ErrorKind::OutOfRange);
    assert_eq!(refused(0, &[(3, 3)]), ErrorKind::OutOfRange);
    assert_eq!(refused(2, &[(0, 1)]), ErrorKind::OutOfRange);
    array.swap_begin(0, &pairs(0, 1)).unwrap();
    assert_eq!(array.swap_begin(1, &pairs(0, 1)).unwrap_err().kind(), ErrorKind::InUse);
    // Channels that are being swapped are not allocated.
    assert_eq!(array.free_units(Isolation::Channel), 2 + 4);
    finish(&mut array);
    assert_eq!(array.free_units(Isolation::Channel), 3 + 4);
    assert_eq!(array.swap_step().unwrap(), Swap::Done);
}

#[test]
fn tenants_of_parts_of_dies_move_with_the_die() {
    let mut array = rig::array(1);
    let ids: Vec<VssdId> = (0..3)
        .map(|_| array.alloc(request(Isolation::None, array.unit_bytes(Isolation::None) * 8)))
        .map(Result::unwrap)
        .collect();
    for &id in &ids {
        for tag in 0..2 {
            let block = array.alloc_block(id, tag).unwrap();
            let words: Vec<u64> = words(id, tag).into_iter().cycle().take(48).collect();
            array.append(id, block, 0, Pages::Words(&words)).unwrap();
        }
    }
    array.swap_begin(0, &[(DieIndex(0), DieIndex(3))]).unwrap();
    assert_eq!(finish(&mut array), (2 * 3 * 2, 2 * 3 * 2 * 6));
    for &id in &ids {
        assert_eq!(dies(&array, id), [3, 1, 2, 0, 4, 5, 6, 7]);
    }
    array = rig::reopened(array);
    for id in ids {
        for state in array.blocks(id).unwrap() {
            let word = |page| array.word(id, state.block, page).unwrap().unwrap();
            let found: Vec<u64> = (0..12).map(word).collect();
            assert_eq!(found, words(id, state.tag));
        }
    }
}
