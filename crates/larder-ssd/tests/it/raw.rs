//! The open-channel drive compared with a shadow array: for any host and any time of power loss, acknowledged
//! operations are present, others are torn or absent, and forbidden operations on a block are refused.

use std::collections::BTreeMap;

use larder_ssd::nand::{BlockIndex, DieArray, DieIndex, Endurance, Health, NandGeometry, Tag};
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_ssd::{Error, ErrorKind};
use proptest::prelude::*;

const GEOMETRY: NandGeometry = NandGeometry {
    array: DieArray { channels: 2, dies_per_channel: 2 },
    planes: 1,
    bits: 1,
    blocks_per_die: 4,
    pages_per_block: 6,
    page_bytes: 8192,
    mapping_bytes: 4096,
};
const STRIPE: u32 = 2;
const BLOCK_PAGES: u32 = 12;
/// Spare blocks of a die.
const SPARE: usize = 1;

#[derive(Debug, Clone)]
enum Op {
    Allocate {
        die: u32,
    },
    /// At the next stripe or at any other.
    Program {
        block: u32,
        skew: i32,
        stripes: u32,
    },
    Read {
        block: u32,
        at: u32,
        pages: u32,
    },
    Erase {
        block: u32,
    },
    Cut {
        operations: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let skew = prop_oneof![8 => Just(0), 1 => Just(-1), 1 => Just(1)];
    prop_oneof![
        4 => (0..5u32).prop_map(|die| Op::Allocate { die }),
        10 => (0..17u32, skew, 1..4u32)
            .prop_map(|(block, skew, stripes)| Op::Program { block, skew, stripes }),
        5 => (0..17u32, 0..14u32, 0..6u32)
            .prop_map(|(block, at, pages)| Op::Read { block, at, pages }),
        4 => (0..17u32).prop_map(|block| Op::Erase { block }),
        1 => (0..12u64).prop_map(|operations| Op::Cut { operations }),
    ]
}

/// The expected state of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Shadow {
    allocated: Option<Tag>,
    /// The tag on flash.
    tag: Option<Tag>,
    written: u32,
    erases: u32,
    health: Health,
}

struct Array {
    ssd: RawSsd,
    blocks: Vec<Shadow>,
    plan: Vec<(BlockIndex, u32)>,
    endurance: BTreeMap<u32, u32>,
    tags: u8,
    /// Operations until the power fails.
    left: Option<u64>,
}

type Outcome = Result<(), ErrorKind>;

impl Array {
    fn new(plan: Vec<(BlockIndex, u32)>, erases: BTreeMap<u32, u32>, bad: Option<u32>) -> Self {
        let config = RawConfig {
            endurance: Endurance::Planned(erases.clone().into_iter().collect()),
            bad_blocks: bad.into_iter().map(BlockIndex).collect(),
            program_failures: plan.clone(),
            ..RawConfig::new(GEOMETRY)
        };
        let fresh =
            Shadow { allocated: None, tag: None, written: 0, erases: 0, health: Health::Good };
        let mut blocks = vec![fresh; 16];
        if let Some(bad) = bad {
            blocks[bad as usize].health = Health::Bad;
        }
        let ssd = RawSsd::new(config).unwrap();
        Self { ssd, blocks, plan, endurance: erases, tags: 0, left: None }
    }

    /// Whether the power lasts for one more operation.
    fn admits(&mut self) -> bool {
        match &mut self.left {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }

    fn allocate(&mut self, die: u32) -> Outcome {
        self.tags = self.tags.wrapping_add(1);
        let tag = [self.tags; 16];
        let free = |entry: &Shadow| {
            entry.allocated.is_none() && entry.written == 0 && entry.health == Health::Good
        };
        let of_die = (0..16).filter(|block| block / 4 == die);
        let least_worn = of_die
            .filter(|&block| free(&self.blocks[block as usize]))
            .min_by_key(|&block| (self.blocks[block as usize].erases, block));
        let outcome = self.ssd.allocate(DieIndex(die), tag);
        match least_worn.filter(|_| self.free(die) > 0) {
            _ if die == 4 => assert_eq!(outcome.unwrap_err().kind(), ErrorKind::OutOfRange),
            None if self.failed(die) > SPARE => {
                assert_eq!(outcome.unwrap_err().kind(), ErrorKind::ReadOnly);
            }
            None => assert_eq!(outcome.unwrap_err().kind(), ErrorKind::NoSpace),
            Some(block) => {
                assert_eq!(outcome.unwrap(), BlockIndex(block), "the least worn of the die");
                self.blocks[block as usize].allocated = Some(tag);
            }
        }
        Ok(())
    }

    fn of_die(&self, die: u32) -> &[Shadow] {
        self.blocks.chunks(4).nth(die as usize).unwrap_or(&[])
    }

    /// Failed blocks of `die`.
    fn failed(&self, die: u32) -> usize {
        let failed = |entry: &&Shadow| matches!(entry.health, Health::Bad | Health::ReadOnly);
        self.of_die(die).iter().filter(failed).count()
    }

    /// Blocks of `die` that can be allocated: the erased ones minus the remaining spare.
    fn free(&self, die: u32) -> usize {
        let erased = self.of_die(die).iter().filter(|entry| {
            entry.allocated.is_none() && entry.written == 0 && entry.health == Health::Good
        });
        let failed = self.failed(die);
        if failed > SPARE { 0 } else { erased.count().saturating_sub(SPARE - failed) }
    }

    /// The expected result of a program, stripe by stripe.
    fn program(&mut self, block: u32, at: u32, pages: u32) -> Outcome {
        if block == 16 || at + pages > BLOCK_PAGES {
            return Err(ErrorKind::OutOfRange);
        }
        let entry = self.blocks[block as usize];
        match entry.health {
            Health::Bad | Health::ReadOnly => return Err(ErrorKind::BadBlock),
            _ if entry.allocated.is_none() => return Err(ErrorKind::NotWritten),
            Health::Torn => return Err(ErrorKind::NotErased),
            Health::Good if at < entry.written => return Err(ErrorKind::NotErased),
            Health::Good if at > entry.written => return Err(ErrorKind::OutOfOrder),
            Health::Good => {}
        }
        for at in (at..at + pages).step_by(STRIPE as usize) {
            if !self.admits() {
                self.blocks[block as usize].health = Health::Torn;
                return Err(ErrorKind::PowerLoss);
            }
            let hit =
                |&(b, page): &(BlockIndex, u32)| b.0 == block && (at..at + STRIPE).contains(&page);
            if let Some(hit) = self.plan.iter().position(hit) {
                let hit = self.plan.swap_remove(hit);
                // A page that is twice in the plan fails once.
                self.plan.retain(|other| *other != hit);
                self.blocks[block as usize].health = Health::ReadOnly;
                return Err(ErrorKind::BadBlock);
            }
            let entry = &mut self.blocks[block as usize];
            entry.tag = entry.tag.or(entry.allocated);
            entry.written += STRIPE;
        }
        Ok(())
    }

    fn read(&self, block: u32, at: u32, pages: u32) -> Outcome {
        if block == 16 || at + pages > BLOCK_PAGES {
            return Err(ErrorKind::OutOfRange);
        }
        let entry = self.blocks[block as usize];
        match entry.health {
            Health::Bad => Err(ErrorKind::BadBlock),
            _ if at + pages > entry.written => Err(ErrorKind::NotWritten),
            _ => Ok(()),
        }
    }

    fn erase(&mut self, block: u32) -> Outcome {
        if block == 16 {
            return Err(ErrorKind::OutOfRange);
        }
        let entry = self.blocks[block as usize];
        match entry.health {
            Health::Bad | Health::ReadOnly => return Err(ErrorKind::BadBlock),
            _ if entry.allocated.is_none() => return Err(ErrorKind::NotWritten),
            _ => {}
        }
        let wears = entry.written > 0 || entry.health == Health::Torn;
        let admitted = !wears || self.admits();
        let entry = &mut self.blocks[block as usize];
        if !admitted {
            (entry.written, entry.tag, entry.health) = (0, None, Health::Torn);
            return Err(ErrorKind::PowerLoss);
        }
        entry.allocated = None;
        if wears {
            if self.endurance.get(&block) == Some(&(entry.erases + 1)) {
                entry.health = Health::Bad;
                return Err(ErrorKind::BadBlock);
            }
            (entry.written, entry.tag, entry.health) = (0, None, Health::Good);
            entry.erases += 1;
        }
        Ok(())
    }

    fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        let kind = |error: Error| error.kind();
        let (found, expected) = match *op {
            Op::Allocate { die } => (self.allocate(die), Ok(())),
            Op::Program { block, skew, stripes } => {
                let written = self.blocks.get(block as usize).map_or(0, |entry| entry.written);
                let at = (written / STRIPE).saturating_add_signed(skew) * STRIPE;
                let pages = stripes * STRIPE;
                let found = self.ssd.program(BlockIndex(block), at, pages).map_err(kind);
                (found, self.program(block, at, pages))
            }
            Op::Read { block, at, pages } => {
                let found = self.ssd.read(BlockIndex(block), at, pages).map_err(kind);
                (found, self.read(block, at, pages))
            }
            Op::Erase { block } => {
                (self.ssd.erase(BlockIndex(block)).map_err(kind), self.erase(block))
            }
            Op::Cut { operations } => {
                self.ssd.cut_power_after(operations);
                self.left = Some(operations);
                (Ok(()), Ok(()))
            }
        };
        prop_assert_eq!(found, expected, "{:?}", op);
        if found == Err(ErrorKind::PowerLoss) {
            self.power_cycle()?;
        }
        self.compare()
    }

    /// Operations are refused until the power is back; then the scan must match the shadow.
    fn power_cycle(&mut self) -> Result<(), TestCaseError> {
        let refused = self.ssd.allocate(DieIndex(0), [0; 16]).unwrap_err();
        prop_assert_eq!(refused.kind(), ErrorKind::PowerLoss);
        prop_assert_eq!(
            self.ssd.read(BlockIndex(0), 0, 0).unwrap_err().kind(),
            ErrorKind::PowerLoss
        );
        let found = self.ssd.power_on();
        self.left = None;
        let mut expected = Vec::new();
        for (block, entry) in (0..).zip(&mut self.blocks) {
            let holds = entry.written > 0 || entry.health == Health::Torn;
            entry.allocated = None;
            if holds && entry.health != Health::Bad {
                // Only a tag that is on flash survives.
                entry.allocated = Some(entry.tag.unwrap_or_default());
                expected.push((BlockIndex(block), entry.tag, entry.written, entry.health));
            }
        }
        let found: Vec<_> =
            found.iter().map(|b| (b.block, b.tag, b.written_pages, b.health)).collect();
        prop_assert_eq!(found, expected);
        Ok(())
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        for (block, (view, entry)) in self.ssd.blocks().zip(&self.blocks).enumerate() {
            let readable = if entry.health == Health::Bad { 0 } else { entry.written };
            prop_assert_eq!(view.written_pages, readable, "block {}", block);
            prop_assert_eq!((view.health, view.erases), (entry.health, entry.erases));
            prop_assert_eq!(view.allocated, entry.allocated.is_some(), "block {}", block);
        }
        for die in 0..4 {
            prop_assert_eq!(self.ssd.free_blocks(DieIndex(die)), self.free(die));
            prop_assert_eq!(
                self.ssd.die(DieIndex(die)).unwrap().read_only,
                self.failed(die) > SPARE
            );
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn whatever_the_host_does_the_drive_is_as_its_shadow(
        ops in prop::collection::vec(op(), 1..300),
        plan in prop::collection::vec((0..16u32, 0..BLOCK_PAGES), 0..4),
        erases in prop::collection::btree_map(0..16u32, 1..4u32, 0..4),
        bad in prop::option::of(0..16u32),
    ) {
        let plan = plan.into_iter().map(|(block, page)| (BlockIndex(block), page)).collect();
        let mut array = Array::new(plan, erases, bad);
        for op in &ops {
            array.apply(op)?;
        }
        array.ssd.power_loss();
        array.power_cycle()?;
        array.compare()?;
    }
}

#[test]
fn refusals_say_what_would_do() {
    let mut ssd = RawSsd::new(RawConfig::new(GEOMETRY)).unwrap();
    let block = ssd.allocate(DieIndex(2), [1; 16]).unwrap();
    assert_eq!(block, BlockIndex(8));
    ssd.program(block, 0, 4).unwrap();
    let refused = |outcome: Result<(), Error>| outcome.unwrap_err().to_string();
    assert!(refused(ssd.program(block, 2, 2)).contains("not erased since"));
    assert!(refused(ssd.program(block, 6, 2)).contains("page 4 is the next to program"));
    assert!(refused(ssd.program(block, 4, 1)).contains("programs 2 pages at once"));
    assert!(refused(ssd.program(BlockIndex(9), 0, 2)).contains("block 9 is not allocated"));
    assert!(refused(ssd.read(block, 3, 2)).contains("4 are programmed"));
    for _ in 0..2 {
        ssd.allocate(DieIndex(2), [1; 16]).unwrap();
    }
    let error = ssd.allocate(DieIndex(2), [1; 16]).unwrap_err().to_string();
    assert!(error.contains("die 2 has no free block"), "{error}");
}

#[test]
fn drives_that_cannot_be_are_refused_by_name() {
    let refused = |change: fn(&mut RawConfig)| {
        let mut config = RawConfig::new(GEOMETRY);
        change(&mut config);
        RawSsd::new(config).unwrap_err().to_string()
    };
    assert!(refused(|c| c.geometry.planes = 0).contains("planes of 0"));
    assert!(refused(|c| c.bad_blocks = vec![BlockIndex(16)]).contains("bad_blocks names block 16"));
    assert!(refused(|c| c.bad_blocks = vec![BlockIndex(1); 2]).contains("block 1 twice"));
    assert!(
        refused(|c| c.program_failures = vec![(BlockIndex(99), 0)]).contains("program_failures")
    );
    assert!(
        refused(|c| c.endurance = Endurance::Rated { rated: 5, certain: 5 }).contains("over at 5")
    );
    assert!(refused(|c| c.endurance = Endurance::Planned(vec![(16, 1)])).contains("block 16"));
    assert!(refused(|c| c.spare_per_mille = 751).contains("keeps 4 blocks of each die"));
    assert!(refused(|c| c.level_threshold = 0).contains("level_threshold of 0"));
    let two_of_die_1 = vec![BlockIndex(5), BlockIndex(6)];
    let refused = RawConfig { bad_blocks: two_of_die_1, ..RawConfig::new(GEOMETRY) };
    let error = RawSsd::new(refused).unwrap_err().to_string();
    assert!(error.contains("2 of die 1, whose spare is 1"), "{error}");
}

#[test]
fn a_die_is_read_only_when_failures_used_up_its_spare() {
    let config = RawConfig {
        program_failures: vec![(BlockIndex(4), 2), (BlockIndex(5), 0)],
        ..RawConfig::new(GEOMETRY)
    };
    let mut ssd = RawSsd::new(config).unwrap();
    let die = DieIndex(1);
    assert_eq!((ssd.capacity_blocks(), ssd.free_blocks(die), ssd.room_to_move(die)), (3, 3, 4));
    let block = ssd.allocate(die, [1; 16]).unwrap();
    assert_eq!(ssd.program(block, 0, 4).unwrap_err().kind(), ErrorKind::BadBlock);
    // The spare replaces the failed block: as many blocks as before can be allocated.
    let view = ssd.die(die).unwrap();
    assert_eq!((view.free_blocks, view.spare_blocks, view.failed_blocks), (3, 0, 1));
    let block = ssd.allocate(die, [2; 16]).unwrap();
    assert_eq!(ssd.program(block, 0, 2).unwrap_err().kind(), ErrorKind::BadBlock);
    let view = ssd.die(die).unwrap();
    assert_eq!((view.read_only, view.free_blocks, ssd.room_to_move(die)), (true, 0, 0));
    let error = ssd.allocate(die, [3; 16]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    assert!(error.to_string().contains("2 of its blocks failed and its spare was 1"), "{error}");
    ssd.read(BlockIndex(4), 0, 2).unwrap();
    ssd.power_loss();
    ssd.power_on();
    assert!(ssd.die(die).unwrap().read_only);
    ssd.read(BlockIndex(4), 0, 2).unwrap();
    assert_eq!(ssd.free_blocks(DieIndex(0)), 3, "other dies go on");
}
