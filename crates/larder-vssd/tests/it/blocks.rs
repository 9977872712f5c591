//! Logical blocks: permitted operations, failing physical blocks, and counters.

use larder_ssd::nand::{BlockIndex, Health, PhysicalOp};
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_ssd::{Error, ErrorKind};
use larder_vssd::{Isolation, LogicalBlock, Pages, VssdId, Vssds};

use super::rig::{self, IDENTITY, PowerImages, RATES, request};

/// A tenant with two dies on two channels: blocks of 6 stripes of 2 pages.
fn tenant(array: &mut Vssds<PowerImages>) -> VssdId {
    let bytes = array.unit_bytes(Isolation::Die) * 2;
    array.alloc(request(Isolation::Die, bytes)).unwrap()
}

fn with_failures(program_failures: Vec<(BlockIndex, u32)>) -> Vssds<PowerImages> {
    let drive = RawSsd::new(RawConfig { program_failures, ..rig::config() }).unwrap();
    Vssds::create(vec![drive], PowerImages::default(), IDENTITY, RATES).unwrap()
}

/// A block with `pages` pages, whose words count up from `first`.
fn written(array: &mut Vssds<PowerImages>, id: VssdId, first: u64, pages: u64) -> LogicalBlock {
    let block = array.alloc_block(id, first).unwrap();
    let words: Vec<u64> = (first..first + pages).collect();
    array.append(id, block, 0, Pages::Words(&words)).unwrap();
    block
}

fn words(array: &Vssds<PowerImages>, id: VssdId, block: LogicalBlock) -> Vec<u64> {
    let written = array.written_pages(id, block).unwrap();
    (0..written).map(|page| array.word(id, block, page).unwrap().unwrap()).collect()
}

fn kind(outcome: Result<(), Error>) -> ErrorKind {
    outcome.unwrap_err().kind()
}

#[test]
fn appends_go_in_order_and_to_the_end() {
    let mut array = rig::array(1);
    let id = tenant(&mut array);
    let block = written(&mut array, id, 1, 4);
    let append = |array: &mut Vssds<_>, at, pages| array.append(id, block, at, Pages::Count(pages));
    assert_eq!(kind(append(&mut array, 2, 2)), ErrorKind::OutOfOrder);
    assert_eq!(kind(append(&mut array, 6, 2)), ErrorKind::OutOfOrder);
    assert_eq!(kind(append(&mut array, 4, 3)), ErrorKind::OutOfRange);
    assert_eq!(kind(append(&mut array, 4, 10)), ErrorKind::BlockFull);
    let error = append(&mut array, 0, 2).unwrap_err().to_string();
    assert!(error.contains("page 4 is the next of this block"), "{error}");
    append(&mut array, 4, 8).unwrap();
    assert_eq!(kind(append(&mut array, 12, 2)), ErrorKind::BlockFull);
    append(&mut array, 12, 0).unwrap();
    array.read(id, block, 3, 9).unwrap();
    assert_eq!(kind(array.read(id, block, 3, 10)), ErrorKind::NotWritten);
    assert_eq!(kind(array.read(id, block, u64::MAX, 2)), ErrorKind::NotWritten);
    assert_eq!(array.word(id, block, 12).unwrap(), None);
    array.audit().unwrap();
}

#[test]
fn stripes_go_round_the_dies() {
    let mut array = rig::array(1);
    let id = tenant(&mut array);
    array.record_ops(0, true);
    written(&mut array, id, 1, 10);
    let mut ops = Vec::new();
    array.take_ops(0, &mut ops);
    let dies: Vec<u32> = ops.iter().map(|op| op.die().0).collect();
    assert_eq!(dies, [0, 1, 0, 1, 0]);
    assert!(ops.iter().all(|op| matches!(op, PhysicalOp::Program { bytes: 8192, .. })));
}

#[test]
fn blocks_are_their_owners_and_numbers_come_once() {
    let mut array = rig::array(1);
    let (id, other) = (tenant(&mut array), tenant(&mut array));
    let block = written(&mut array, id, 1, 4);
    let forged = LogicalBlock::from_number(u64::from(other.0) << 40 | block.number() & 0xff);
    for (who, block) in [(other, block), (other, forged), (id, forged)] {
        assert_eq!(kind(array.read(who, block, 0, 1)), ErrorKind::NotOwned);
        assert_eq!(kind(array.append(who, block, 4, Pages::Count(2))), ErrorKind::NotOwned);
        assert_eq!(kind(array.free_block(who, block)), ErrorKind::NotOwned);
        assert_eq!(array.word(who, block, 0).unwrap_err().kind(), ErrorKind::NotOwned);
    }
    array.free_block(id, block).unwrap();
    assert_eq!(kind(array.read(id, block, 0, 1)), ErrorKind::NotOwned);
    let mut seen = vec![block];
    for round in 0..50 {
        let block = array.alloc_block(id, round).unwrap();
        assert!(seen.last() < Some(&block), "numbers grow");
        seen.push(block);
        array.free_block(id, block).unwrap();
        if round % 10 == 9 {
            array = rig::reopened(array);
        }
    }
    let all: Vec<_> = (0..10).map(|tag| array.alloc_block(id, tag).unwrap()).collect();
    let error = array.alloc_block(id, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(error.to_string().contains("has 10 blocks, all it can have"), "{error}");
    let tags: Vec<u64> = array.blocks(id).unwrap().iter().map(|state| state.tag).collect();
    assert_eq!((all.len(), tags), (10, (0..10).collect()));
}

#[test]
fn a_freed_block_stays_freed_and_an_allocated_one_allocated() {
    let mut array = rig::array(1);
    let id = tenant(&mut array);
    let (gone, kept) = (written(&mut array, id, 1, 12), written(&mut array, id, 100, 6));
    let empty = array.alloc_block(id, 77).unwrap();
    // The power fails at the first erase: the record of the free is already in both images.
    array.cut_power_after(0, 0);
    assert_eq!(kind(array.free_block(id, gone)), ErrorKind::PowerLoss);
    array = rig::reopened(array);
    assert_eq!(kind(array.read(id, gone, 0, 1)), ErrorKind::NotOwned);
    assert_eq!(words(&array, id, kept), (100..106).collect::<Vec<_>>());
    assert_eq!(array.written_pages(id, empty).unwrap(), 0);
    array.append(id, kept, 6, Pages::Words(&[6, 7])).unwrap();
    array.append(id, empty, 0, Pages::Words(&[8, 9])).unwrap();
    array.audit().unwrap();
}

#[test]
fn a_torn_stripe_drops_and_the_next_append_takes_its_place() {
    let mut array = rig::array(1);
    let id = tenant(&mut array);
    let block = written(&mut array, id, 1, 4);
    array.cut_power_after(0, 1);
    let more = Pages::Words(&[5, 6, 7, 8, 9, 10]);
    assert_eq!(kind(array.append(id, block, 4, more)), ErrorKind::PowerLoss);
    array = rig::reopened(array);
    assert_eq!(words(&array, id, block), [1, 2, 3, 4, 5, 6]);
    let counters = |array: &Vssds<_>| array.drive(0).unwrap().channel_counters(channel(1));
    assert_eq!(counters(&array).migrated_pages, 0);
    array.append(id, block, 6, Pages::Words(&[70, 80, 90, 100])).unwrap();
    assert_eq!(words(&array, id, block), [1, 2, 3, 4, 5, 6, 70, 80, 90, 100]);
    assert_eq!(counters(&array).migrated_pages, 2, "what the torn block held");
    assert_eq!(counters(&array).erases, 1, "and it is erased");
    array.audit().unwrap();
}

fn channel(channel: u32) -> larder_ssd::nand::ChannelIndex {
    larder_ssd::nand::ChannelIndex(channel)
}

#[test]
fn a_failed_block_is_replaced_and_its_neighbours_are_not_touched() {
    // The first block of die 1 fails at its second stripe.
    let mut array = with_failures(vec![(BlockIndex(12), 2)]);
    let id = tenant(&mut array);
    let block = written(&mut array, id, 1, 12);
    assert_eq!(words(&array, id, block), (1..13).collect::<Vec<_>>());
    let raw = array.drive(0).unwrap();
    assert_eq!(raw.block(BlockIndex(12)).unwrap().health, Health::ReadOnly);
    let (die_0, die_1) = (raw.channel_counters(channel(0)), raw.channel_counters(channel(1)));
    assert_eq!((die_0.appended_pages, die_0.migrated_pages), (6, 0));
    assert_eq!((die_1.appended_pages, die_1.migrated_pages), (6, 2));
    assert_eq!(array.info(id).unwrap().blocks, 10, "the spare makes up for it");
    array = rig::reopened(array);
    assert_eq!(words(&array, id, block), (1..13).collect::<Vec<_>>());
    // The old block is out of use, and remains so after its owner has freed the logical block.
    array.free_block(id, block).unwrap();
    array = rig::reopened(array);
    assert_eq!(array.drive(0).unwrap().block(BlockIndex(12)).unwrap().written_pages, 2);
    for tag in 0..10 {
        written(&mut array, id, tag + 1, 12);
    }
    array.audit().unwrap();
}

/// A failed block and its copy are equally long: the copy must be used, because the other accepts no more.
#[test]
fn of_equally_long_copies_the_newer_counts() {
    let mut array = with_failures(vec![(BlockIndex(12), 2)]);
    let id = tenant(&mut array);
    let block = written(&mut array, id, 1, 4);
    // A stripe on die 0, one on die 1 that fails, its copy; the power fails at the next.
    array.cut_power_after(0, 3);
    let more = Pages::Words(&[5, 6, 7, 8]);
    assert_eq!(kind(array.append(id, block, 4, more)), ErrorKind::PowerLoss);
    let (drives, images) = array.into_parts();
    let (mut array, found) = Vssds::open(drives, images).unwrap();
    assert_eq!((found.parts, found.erased), (2, 0), "the copy is not what is thrown away");
    assert_eq!(words(&array, id, block), [1, 2, 3, 4, 5, 6]);
    array.append(id, block, 6, Pages::Words(&[70, 80])).unwrap();
    assert_eq!(words(&array, id, block), [1, 2, 3, 4, 5, 6, 70, 80]);
    array.audit().unwrap();
}

#[test]
fn a_die_at_its_end_keeps_its_data_and_says_so() {
    let failures = (12..15).map(|block| (BlockIndex(block), 0)).collect();
    let mut array = with_failures(failures);
    let (id, other) = (tenant(&mut array), tenant(&mut array));
    let block = array.alloc_block(id, 1).unwrap();
    let error = array.append(id, block, 0, Pages::Words(&[1, 2, 3, 4])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    assert!(error.to_string().contains("die 1 is read-only"), "{error}");
    assert_eq!(words(&array, id, block), [1, 2]);
    let error = array.alloc_block(id, 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    assert!(error.to_string().contains("move what it holds to a new vSSD"), "{error}");
    assert!(array.info(id).unwrap().read_only && !array.info(other).unwrap().read_only);
    written(&mut array, other, 1, 12);
    array = rig::reopened(array);
    assert_eq!(words(&array, id, block), [1, 2]);
    array.destroy(id).unwrap();
    assert_eq!(array.free_units(Isolation::Die), 8 - 2 - 1, "no tenant gets that die");
}

#[test]
fn what_is_written_is_appended_or_migrated() {
    let mut array = with_failures(vec![(BlockIndex(3), 4), (BlockIndex(14), 2)]);
    let id = tenant(&mut array);
    array.record_ops(0, true);
    let mut appended = 0;
    for round in 0..200 {
        let block = written(&mut array, id, round + 1, 12);
        appended += 12;
        // Three blocks stay, and the others are rewritten again and again.
        if round >= 3 {
            array.free_block(id, block).unwrap();
        }
        array.level_step(0, larder_ssd::nand::DieIndex((round % 2) as u32)).unwrap();
    }
    let kept = array.blocks(id).unwrap();
    assert_eq!(kept.len(), 3);
    for state in kept {
        assert_eq!(words(&array, id, state.block), (state.tag..state.tag + 12).collect::<Vec<_>>());
    }
    let mut ops = Vec::new();
    array.take_ops(0, &mut ops);
    let bytes = |op: &PhysicalOp| match op {
        PhysicalOp::Program { bytes, .. } => *bytes,
        _ => 0,
    };
    // Two programs failed, and their pages do not count.
    let programmed = ops.iter().map(bytes).sum::<u64>() / 4096 - 2 * 2;
    let counters = (0..4).map(|at| array.drive(0).unwrap().channel_counters(channel(at)));
    let sum = counters.reduce(|sum, of| sum.plus(of)).unwrap();
    assert_eq!(sum.appended_pages, appended);
    assert!(sum.migrated_pages > 4 + 2, "levelling moved something");
    assert_eq!(programmed, sum.appended_pages + sum.migrated_pages);
    let erased = ops.iter().filter(|op| matches!(op, PhysicalOp::Erase { .. })).count() as u64;
    assert_eq!(erased, sum.erases);
    array.audit().unwrap();
}

#[test]
fn what_lies_behind_a_gap_is_cut_off() {
    let mut array = rig::array(1);
    let id = tenant(&mut array);
    let block = written(&mut array, id, 1, 12);
    let (mut drives, images) = array.into_parts();
    // The medium loses a block: the second half of each row is gone.
    drives[0].erase(BlockIndex(12)).unwrap();
    let (mut array, found) = Vssds::open(drives, images).unwrap();
    assert_eq!(found.cut_off, 1);
    array.audit().unwrap();
    assert_eq!(words(&array, id, block), [1, 2]);
    array.append(id, block, 2, Pages::Words(&[30, 40, 50, 60])).unwrap();
    assert_eq!(words(&array, id, block), [1, 2, 30, 40, 50, 60]);
    array = rig::reopened(array);
    assert_eq!(words(&array, id, block), [1, 2, 30, 40, 50, 60]);
}

#[test]
fn an_image_that_cannot_be_written_stops_all_changes() {
    let mut array = rig::array(1);
    let id = tenant(&mut array);
    let block = written(&mut array, id, 1, 4);
    array.images_mut().left = Some(1);
    assert_eq!(array.alloc_block(id, 9).unwrap_err().kind(), ErrorKind::PowerLoss);
    array.images_mut().left = None;
    for refused in [
        array.alloc_block(id, 9).map(|_| ()),
        array.append(id, block, 4, Pages::Count(2)),
        array.free_block(id, block),
        array.destroy(id),
        array.swap_abandon(),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PowerLoss);
        assert!(error.to_string().contains("open the array anew"), "{error}");
    }
    array.read(id, block, 0, 4).unwrap();
    array = rig::reopened(array);
    assert!(!array.blocks(id).unwrap().is_empty());
    assert_eq!(words(&array, id, block), [1, 2, 3, 4]);
}

/// The journal of a busy array is replaced by a new catalogue from time to time, and stays short.
#[test]
fn images_stay_short() {
    let mut array = rig::array(1);
    let id = tenant(&mut array);
    for tag in 0..5_000 {
        let block = array.alloc_block(id, tag).unwrap();
        array.free_block(id, block).unwrap();
    }
    let kept = array.alloc_block(id, 17).unwrap();
    let bytes = array.images_mut().bytes[0].len();
    assert!(bytes < 70 << 10, "{bytes}");
    array = rig::reopened(array);
    let blocks = array.blocks(id).unwrap();
    assert_eq!((blocks.len(), blocks[0].block, blocks[0].tag), (1, kept, 17));
}
