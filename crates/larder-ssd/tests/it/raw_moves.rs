//! Moves of blocks on the open-channel drive: static levelling within a die, copies to other dies, and their counters.

use larder_ssd::ErrorKind;
use larder_ssd::nand::{
    BlockIndex, ChannelIndex, DieArray, DieIndex, Endurance, Health, NandGeometry, PhysicalOp,
};
use larder_ssd::raw::{Levelled, RawConfig, RawSsd};

const GEOMETRY: NandGeometry = NandGeometry {
    array: DieArray { channels: 2, dies_per_channel: 2 },
    planes: 1,
    bits: 1,
    blocks_per_die: 8,
    pages_per_block: 4,
    page_bytes: 8192,
    mapping_bytes: 4096,
};
const STRIPE: u32 = 2;
const BLOCK_PAGES: u32 = 8;
const DIE: DieIndex = DieIndex(1);

fn config() -> RawConfig {
    RawConfig { page_words: true, level_threshold: 5, ..RawConfig::new(GEOMETRY) }
}

/// A full block of `die`, with words from `first` on.
fn full(ssd: &mut RawSsd, die: DieIndex, tag: u8, first: u64) -> BlockIndex {
    let block = ssd.allocate(die, [tag; 16]).unwrap();
    let words: Vec<u64> = (first..first + u64::from(BLOCK_PAGES)).collect();
    ssd.program_words(block, 0, &words).unwrap();
    block
}

fn words(ssd: &RawSsd, block: BlockIndex) -> Vec<Option<u64>> {
    (0..BLOCK_PAGES).map(|page| ssd.word(block, page)).collect()
}

fn erases(ssd: &RawSsd, die: DieIndex) -> Vec<u32> {
    ssd.blocks().filter(|block| block.die == die).map(|block| block.erases).collect()
}

/// A host that keeps two blocks permanently and rewrites the others. Returns the maximum minus the minimum of erases.
fn spread_of_hot_and_cold(levelling: bool) -> u32 {
    let mut ssd = RawSsd::new(config()).unwrap();
    let mut cold = [full(&mut ssd, DIE, 1, 100), full(&mut ssd, DIE, 2, 200)];
    for _ in 0..400 {
        let block = full(&mut ssd, DIE, 3, 300);
        ssd.erase(block).unwrap();
        if levelling && let Some(Levelled { from, to }) = ssd.level_step(DIE, |tag, _| tag).unwrap()
        {
            let moved = cold.iter_mut().find(|block| **block == from).unwrap();
            *moved = to;
            ssd.erase(from).unwrap();
        }
    }
    assert_eq!(words(&ssd, cold[0]), (100..108).map(Some).collect::<Vec<_>>());
    assert_eq!(words(&ssd, cold[1]), (200..208).map(Some).collect::<Vec<_>>());
    let erases = erases(&ssd, DIE);
    erases.iter().max().unwrap() - erases.iter().min().unwrap()
}

#[test]
fn levelling_holds_the_blocks_of_a_die_together() {
    let without = spread_of_hot_and_cold(false);
    assert!(without > 60, "{without}: without it, blocks that are kept are never erased");
    let with = spread_of_hot_and_cold(true);
    assert!(with <= 5 + 2, "{with}: two blocks beyond the threshold of 5 at most");
}

#[test]
fn a_level_die_moves_nothing() {
    let mut ssd = RawSsd::new(config()).unwrap();
    full(&mut ssd, DIE, 1, 1);
    for erased in 0..48 {
        assert_eq!(ssd.level_step(DIE, |tag, _| tag).unwrap(), None, "{erased}");
        let hottest = erases(&ssd, DIE).into_iter().max().unwrap();
        if hottest == 5 && erased >= 35 {
            break;
        }
        let block = full(&mut ssd, DIE, 3, 1);
        ssd.erase(block).unwrap();
    }
    assert_eq!(erases(&ssd, DIE), [0, 5, 5, 5, 5, 5, 5, 5]);
    let block = full(&mut ssd, DIE, 3, 1);
    ssd.erase(block).unwrap();
    let moved = ssd.level_step(DIE, |_, erases| [erases as u8; 16]).unwrap().unwrap();
    assert_eq!(moved, Levelled { from: BlockIndex(8), to: BlockIndex(9) });
    ssd.erase(moved.from).unwrap();
    ssd.power_loss();
    let found = ssd.power_on();
    assert_eq!((found[0].block, found[0].tag), (BlockIndex(9), Some([6; 16])));
    let refused = ssd.level_step(DieIndex(4), |tag, _| tag).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutOfRange);
}

#[test]
fn thresholds_follow_the_rated_erases() {
    let rated = Endurance::Rated { rated: 10_000, certain: 12_000 };
    assert_eq!(RawConfig::new(GEOMETRY).with_endurance(rated).level_threshold, 500);
    assert_eq!(RawConfig::new(GEOMETRY).level_threshold, 150);
    let config = |blocks, spare_per_mille| {
        let geometry = NandGeometry { blocks_per_die: blocks, ..GEOMETRY };
        RawConfig { spare_per_mille, ..RawConfig::new(geometry) }.spare_blocks()
    };
    assert_eq!([config(8, 10), config(100, 10), config(101, 10), config(8, 0)], [1, 1, 2, 1]);
}

#[test]
fn what_the_medium_is_written_is_appended_or_migrated() {
    let mut ssd = RawSsd::new(config()).unwrap();
    ssd.record_ops(true);
    let block = ssd.allocate(DIE, [7; 16]).unwrap();
    ssd.program_words(block, 0, &[1, 2, 3, 4]).unwrap();
    let copy = ssd.copy_to(block, 2, DieIndex(2), |erases| [erases as u8 + 9; 16]).unwrap();
    assert_eq!(ssd.geometry().die_of(copy), DieIndex(2));
    assert_eq!((ssd.word(copy, 1), ssd.word(copy, 2)), (Some(2), None));
    ssd.erase(block).unwrap();
    let counters = |die| ssd.die(die).unwrap().counters;
    let (from, to) = (counters(DIE), counters(DieIndex(2)));
    assert_eq!((from.appended_pages, from.migrated_pages, from.erases), (4, 0, 1));
    assert_eq!((to.appended_pages, to.migrated_pages, to.erases), (0, 2, 0));
    assert_eq!(ssd.channel_counters(ChannelIndex(1)), from, "dies 1 and 3 are on channel 1");
    let mut ops = Vec::new();
    ssd.take_ops(&mut ops);
    let programmed = |op: &PhysicalOp| match op {
        PhysicalOp::Program { bytes, .. } => *bytes,
        _ => 0,
    };
    let pages = ops.iter().map(programmed).sum::<u64>() / 4096;
    assert_eq!(pages, from.appended_pages + to.migrated_pages);
    assert_eq!(pages, ssd.programmed_pages());
    let read = PhysicalOp::FirmwareRead { die: DIE, bytes: 8192 };
    assert_eq!(ops.iter().filter(|op| **op == read).count(), 1, "one row was sensed");
}

#[test]
fn a_block_beyond_the_capacity_is_of_the_spare() {
    let mut ssd = RawSsd::new(config()).unwrap();
    let to = DieIndex(2);
    for _ in 0..7 {
        ssd.allocate(to, [1; 16]).unwrap();
    }
    assert_eq!(ssd.allocate(to, [1; 16]).unwrap_err().kind(), ErrorKind::NoSpace);
    let tag = |erases| [u8::try_from(erases).unwrap() + 2; 16];
    let block = ssd.allocate_beyond(to, tag).unwrap();
    assert_eq!((ssd.block(block).unwrap().die, ssd.room_to_move(to)), (to, 0));
    assert_eq!(ssd.allocate_beyond(to, tag).unwrap_err().kind(), ErrorKind::NoSpace);
    let nowhere = ssd.allocate_beyond(DieIndex(99), tag).unwrap_err();
    assert_eq!(nowhere.kind(), ErrorKind::OutOfRange);
}

#[test]
fn copies_are_of_what_is_there_and_may_use_the_spare() {
    let config = RawConfig { program_failures: vec![(BlockIndex(23), 2)], ..config() };
    let mut ssd = RawSsd::new(config).unwrap();
    let block = ssd.allocate(DIE, [7; 16]).unwrap();
    ssd.program(block, 0, 4).unwrap();
    let to = DieIndex(2);
    let mut refused = |pages| ssd.copy_to(block, pages, to, |_| [0; 16]).unwrap_err().kind();
    assert_eq!([refused(6), refused(3), refused(0)], [ErrorKind::NotWritten; 3]);
    for _ in 0..7 {
        ssd.allocate(to, [1; 16]).unwrap();
    }
    assert_eq!(ssd.allocate(to, [1; 16]).unwrap_err().kind(), ErrorKind::NoSpace);
    assert_eq!(ssd.room_to_move(to), 1, "the spare is there for moves");
    // The program fails half-way: the source is unchanged, and the spare is used up.
    let failed = ssd.copy_to(block, 4, to, |_| [0; 16]).unwrap_err();
    assert_eq!((failed.kind(), ssd.room_to_move(to)), (ErrorKind::BadBlock, 0));
    assert_eq!(ssd.block(BlockIndex(23)).unwrap().health, Health::ReadOnly);
    ssd.read(block, 0, 4).unwrap();
    ssd.program(block, 4, STRIPE).unwrap();
    assert_eq!(ssd.copy_to(block, 4, to, |_| [0; 16]).unwrap_err().kind(), ErrorKind::NoSpace);
}
