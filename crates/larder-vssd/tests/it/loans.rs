//! Blocks that are lent: they come from idle dies with a reserve for their owner, and go back without a copy.

use std::collections::BTreeMap;

use larder_ssd::ErrorKind;
use larder_ssd::nand::{ChannelIndex, DieIndex};
use larder_vssd::service::{AlwaysIdle, Idle};
use larder_vssd::{
    Isolation, LendingRules, LoanEnd, LogicalBlock, Pages, VssdId, Vssds, channel_pairs,
};

use crate::rig::{CAPACITY, GEOMETRY, PowerImages, STRIPE, array, reopened, request};

const SECOND: u64 = 1_000_000_000;

/// No die has been idle for 100 ms.
struct Busy;

impl Idle for Busy {
    fn idle_ns(&self, _: u32, _: DieIndex) -> u64 {
        99_000_000
    }
}

/// A borrower and a lender with two channels each.
fn pair() -> (Vssds<PowerImages>, VssdId, VssdId) {
    let mut array = array(1);
    let two = 2 * array.unit_bytes(Isolation::Channel);
    let [borrower, lender] =
        [(); 2].map(|()| array.alloc(request(Isolation::Channel, two)).unwrap());
    array.set_lends(lender, true).unwrap();
    (array, borrower, lender)
}

/// Fills `block` with words that begin at `seed`.
fn fill(array: &mut Vssds<PowerImages>, block: LogicalBlock, seed: u64) {
    let pages = array.info(block.vssd()).unwrap().block_pages;
    let words: Vec<u64> = (0..pages).map(|page| seed * 1000 + page + 1).collect();
    array.append(block.vssd(), block, 0, Pages::Words(&words)).unwrap();
}

fn check(array: &mut Vssds<PowerImages>, block: LogicalBlock, seed: u64) {
    let pages = array.info(block.vssd()).unwrap().block_pages;
    array.read(block.vssd(), block, 0, pages).unwrap();
    for page in 0..pages {
        let word = array.word(block.vssd(), block, page).unwrap();
        assert_eq!(word, Some(seed * 1000 + page + 1), "{block:?} {page}");
    }
}

fn migrated(array: &Vssds<PowerImages>) -> u64 {
    let channels = (0..4).map(ChannelIndex);
    channels.map(|at| array.drive(0).unwrap().channel_counters(at).migrated_pages).sum()
}

fn lent(array: &mut Vssds<PowerImages>, borrower: VssdId, now: u64) -> Option<LogicalBlock> {
    array.alloc_lent(borrower, 0, now, &AlwaysIdle).unwrap()
}

fn next_returned(array: &Vssds<PowerImages>) -> Option<(u32, DieIndex)> {
    array.returned_blocks().pop().map(|(drive, die, _)| (drive, die))
}

#[test]
fn a_lent_block_is_on_dies_of_its_lender_and_goes_back_without_a_copy() {
    let (mut array, borrower, lender) = pair();
    let block = lent(&mut array, borrower, 0).unwrap();
    fill(&mut array, block, 7);
    check(&mut array, block, 7);
    let of_lender = array.info(lender).unwrap().dies;
    let loan = array.loan(block).unwrap();
    assert_eq!((loan.lender, loan.written_pages), (lender, 4 * 3 * STRIPE));
    assert!(loan.dies.iter().all(|die| of_lender.contains(die)), "{loan:?}");
    assert!(array.read(lender, block, 0, 1).is_err(), "its lender cannot read it");
    array.audit().unwrap();
    let before = array.die_wear(0);
    array.free_block(borrower, block).unwrap();
    assert_eq!(array.read(borrower, block, 0, 1).unwrap_err().kind(), ErrorKind::NotOwned);
    array.audit().unwrap();
    assert_eq!(array.returned_blocks().len(), 4);
    for (drive, die, of) in array.returned_blocks() {
        assert_eq!(of, borrower);
        assert!(array.erase_returned(drive, die).unwrap());
    }
    let wear = array.die_wear(0);
    for (at, (then, now)) in before.iter().zip(&wear).enumerate() {
        let die = (0, DieIndex(u32::try_from(at).unwrap()));
        let erased = u64::from(of_lender.contains(&die));
        assert_eq!(now.erases - then.erases, erased, "the erase counts where the block is");
        assert_eq!(array.lent_erases(0)[at], erased);
    }
    let totals = array.loan_totals(borrower);
    assert_eq!((totals.begun, totals.returned, totals.erases), (1, 1, 4));
    assert_eq!((totals.written_pages, migrated(&array)), (4 * 3 * STRIPE, 0));
    assert!(array.take_ended_loans().is_empty(), "the borrower knows");
}

#[test]
fn only_an_idle_vssd_with_dies_of_its_own_lends_and_keeps_its_reserve() {
    let (mut array, borrower, lender) = pair();
    assert_eq!(array.alloc_lent(borrower, 0, 0, &Busy).unwrap(), None, "its dies are in use");
    assert_eq!(lent(&mut array, lender, 0), None, "no other lends");
    // A quarter of 10 free blocks of each die.
    let blocks: Vec<_> = (0..2).map(|_| lent(&mut array, borrower, 0).unwrap()).collect();
    assert_eq!(lent(&mut array, borrower, 0), None);
    assert!(
        array.may_write_lent(blocks[0], &AlwaysIdle) && !array.may_write_lent(blocks[0], &Busy)
    );
    array.set_lends(lender, false).unwrap();
    assert_eq!((array.loans().len(), array.take_ended_loans().len()), (0, 2));
    array.set_lends(lender, true).unwrap();
    // 4 of 10 are free. 1 is the reserve, and 6 were taken in the last two seconds.
    for seed in 0..6 {
        let own = array.alloc_block(lender, 0).unwrap();
        fill(&mut array, own, seed);
    }
    assert_eq!(lent(&mut array, borrower, 0), None);
    assert!(lent(&mut array, borrower, 2 * SECOND).is_some(), "a quarter of 4");
    assert_eq!(lent(&mut array, borrower, 2 * SECOND), None);
    array.audit().unwrap();
    let soft = array_of_soft();
    assert_eq!(soft, ErrorKind::Config);
    let rules = LendingRules { lent_percent: 0, ..LendingRules::default() };
    assert_eq!(array.set_lending_rules(rules).unwrap_err().kind(), ErrorKind::Config);
}

/// The refusal of a vSSD that shares its dies.
fn array_of_soft() -> ErrorKind {
    let mut array = array(1);
    let soft = array.alloc(request(Isolation::Software { weight: 1 }, 1)).unwrap();
    array.set_lends(soft, true).unwrap_err().kind()
}

/// A lender that wakes up in the middle of loans gets every block that is its own, at once.
#[test]
fn a_lender_that_fills_its_dies_calls_its_blocks_back() {
    for checked in [true, false] {
        let (mut array, borrower, lender) = pair();
        let rules = LendingRules { lent_percent: 100, reserve_percent: 10, ..Default::default() };
        array.set_lending_rules(rules).unwrap();
        let own = array.alloc_block(borrower, 0).unwrap();
        fill(&mut array, own, 99);
        let mut loans = Vec::new();
        while let Some(block) = lent(&mut array, borrower, 0) {
            fill(&mut array, block, loans.len() as u64);
            loans.push(block);
        }
        assert_eq!(loans.len() as u64, CAPACITY - 1, "all but the reserve");
        let mut filled = Vec::new();
        for seed in 100..100 + CAPACITY {
            let block = array.alloc_block(lender, 0).unwrap();
            fill(&mut array, block, seed);
            filled.push((block, seed));
            if checked {
                array.end_due_loans(SECOND / 2).unwrap();
            }
            array.audit().unwrap();
        }
        filled.into_iter().for_each(|(block, seed)| check(&mut array, block, seed));
        check(&mut array, own, 99);
        let ended = array.take_ended_loans();
        assert_eq!(ended.len(), loans.len());
        let order: Vec<_> = ended.iter().map(|loan| loan.block).collect();
        assert_eq!(order, loans, "the oldest go first");
        assert!(ended.iter().all(|loan| loan.end == LoanEnd::CalledBack && loan.lender == lender));
        assert_eq!(ended[3].words.first(), Some(&3001), "what it held can be released");
        for block in loans {
            assert_eq!(array.read(borrower, block, 0, 1).unwrap_err().kind(), ErrorKind::NotOwned);
        }
        assert_eq!(migrated(&array), 0, "nothing was copied");
    }
}

/// An owner that needs a block waits for the erases of two loans, and then for none.
#[test]
fn two_loans_that_have_ended_are_erased_at_once() {
    let (mut array, borrower, lender) = pair();
    let rules = LendingRules { lent_percent: 100, ..LendingRules::default() };
    array.set_lending_rules(rules).unwrap();
    while let Some(block) = lent(&mut array, borrower, 0) {
        fill(&mut array, block, 1);
    }
    array.set_lends(lender, false).unwrap();
    let mut erases = Vec::new();
    for seed in 0..6 {
        let block = array.alloc_block(lender, 0).unwrap();
        fill(&mut array, block, seed);
        erases.push(array.loan_totals(borrower).erases);
        array.audit().unwrap();
    }
    assert_eq!(erases, [0, 8, 8, 16, 16, 24], "the first block is the reserve");
}

#[test]
fn a_loan_ends_when_its_time_is_over() {
    let (mut array, borrower, _) = pair();
    array.set_lending_rules(LendingRules { expiry_ns: 5 * SECOND, ..Default::default() }).unwrap();
    let first = lent(&mut array, borrower, 0).unwrap();
    let second = lent(&mut array, borrower, SECOND).unwrap();
    assert_eq!(array.end_due_loans(5 * SECOND - 1).unwrap(), 0);
    assert_eq!(array.end_due_loans(5 * SECOND).unwrap(), 1);
    assert!(!array.is_lent(first) && array.is_lent(second));
    assert_eq!(array.take_ended_loans()[0].end, LoanEnd::Expired);
    assert_eq!(array.loan_totals(borrower).expired, 1);
}

#[test]
fn loans_end_before_their_dies_are_exchanged_and_with_their_vssds() {
    let (mut array, borrower, lender) = pair();
    let block = lent(&mut array, borrower, 0).unwrap();
    fill(&mut array, block, 1);
    let pairs = channel_pairs(GEOMETRY.array, ChannelIndex(0), ChannelIndex(2), None).unwrap();
    array.swap_begin(0, &pairs).unwrap();
    assert_eq!((array.loans().len(), array.take_ended_loans().len()), (0, 1));
    assert_eq!(lent(&mut array, borrower, 0), None, "its dies are exchanged");
    while array.swap_step().unwrap() != larder_vssd::Swap::Done {}
    let block = lent(&mut array, borrower, 0).unwrap();
    fill(&mut array, block, 2);
    array.audit().unwrap();
    array.destroy(lender).unwrap();
    array.audit().unwrap();
    assert!(array.loans().is_empty() && array.returned_blocks().is_empty());
    assert!(array.read(borrower, block, 0, 1).is_err());
    let two = 2 * array.unit_bytes(Isolation::Channel);
    let lender = array.alloc(request(Isolation::Channel, two)).unwrap();
    array.set_lends(lender, true).unwrap();
    let block = lent(&mut array, borrower, 0).unwrap();
    fill(&mut array, block, 3);
    array.destroy(borrower).unwrap();
    array.audit().unwrap();
    assert!(array.loans().is_empty());
}

/// Levelling within a die may move a lent block.
#[test]
fn a_lent_block_that_levelling_moves_keeps_its_data() {
    let (mut array, borrower, lender) = pair();
    let block = lent(&mut array, borrower, 0).unwrap();
    fill(&mut array, block, 5);
    for seed in 0..80 {
        let own = array.alloc_block(lender, 0).unwrap();
        fill(&mut array, own, seed);
        array.free_block(lender, own).unwrap();
    }
    let dies = array.info(lender).unwrap().dies;
    let moved: Vec<bool> =
        dies.iter().map(|&(drive, die)| array.level_step(drive, die).unwrap()).collect();
    assert!(moved.contains(&true), "the blocks of the loan are the least worn");
    check(&mut array, block, 5);
    array.audit().unwrap();
}

/// A power loss at every operation on the media, and at every write of an image: own data is there, loans are gone,
/// their numbers are never given again, and their blocks are erased.
#[test]
fn a_loan_ends_with_the_power() {
    let mut completed = false;
    for cut in 0.. {
        let (mut array, borrower, lender) = pair();
        let own = array.alloc_block(borrower, 0).unwrap();
        fill(&mut array, own, 1);
        if cut % 2 == 0 {
            array.cut_power_after(0, cut / 2);
        } else {
            array.images_mut().left = Some(cut / 2);
        }
        let mut numbers = Vec::new();
        let done = script(&mut array, borrower, lender, &mut numbers);
        completed = done.is_ok();
        array.images_mut().left = None;
        let mut array = reopened(array);
        check(&mut array, own, 1);
        assert!(array.loans().is_empty());
        let live: Vec<_> = array.blocks(borrower).unwrap();
        let there = live.iter().filter(|state| numbers.contains(&state.block));
        assert_eq!(there.count(), 0, "cut {cut}: {live:?}");
        let next = array.alloc_block(borrower, 0).unwrap();
        assert!(numbers.iter().all(|lent| *lent < next), "cut {cut}: {numbers:?} {next:?}");
        for _ in 0..CAPACITY {
            let block = array.alloc_block(lender, 0);
            let Ok(block) = block else { break };
            fill(&mut array, block, 3);
        }
        array.audit().unwrap();
        if completed && cut % 2 == 1 {
            break;
        }
    }
    assert!(completed);
}

fn script(
    array: &mut Vssds<PowerImages>,
    borrower: VssdId,
    lender: VssdId,
    numbers: &mut Vec<LogicalBlock>,
) -> Result<(), larder_ssd::Error> {
    let pages = array.info(borrower)?.block_pages;
    let pages = Pages::Count(u32::try_from(pages).unwrap());
    for round in 0..3 {
        if let Some(block) = array.alloc_lent(borrower, 0, 0, &AlwaysIdle)? {
            numbers.push(block);
            array.append(borrower, block, 0, pages)?;
        }
        let own = array.alloc_block(lender, 0)?;
        array.append(lender, own, 0, pages)?;
        if let (1, Some(&block)) = (round, numbers.first()) {
            array.free_block(borrower, block)?;
        }
        if let Some((drive, die)) = next_returned(array) {
            array.erase_returned(drive, die)?;
        }
    }
    Ok(())
}

/// Random operations of three vSSDs, of which two lend and all borrow, with checks of every word.
#[test]
fn whatever_is_lent_own_data_stays() {
    for seed in 0..12 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut array = array(1);
        let one = array.unit_bytes(Isolation::Channel);
        let vssds = [(); 3].map(|()| array.alloc(request(Isolation::Channel, one)).unwrap());
        vssds[..2].iter().for_each(|&id| array.set_lends(id, true).unwrap());
        let rules = LendingRules { lent_percent: 60, expiry_ns: 3 * SECOND, ..Default::default() };
        array.set_lending_rules(rules).unwrap();
        let (mut own, mut on_loan) = (BTreeMap::new(), BTreeMap::new());
        let mut begun = 0;
        for step in 0..1500 {
            let now = step * SECOND / 50;
            let id = vssds[rng.usize(..3)];
            match rng.u32(..10) {
                0..=1 => match array.alloc_block(id, 0) {
                    Ok(block) => {
                        fill(&mut array, block, step);
                        own.insert(block, step);
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NoSpace),
                },
                2..=4 => {
                    let Ok(lent) = array.alloc_lent(id, 0, now, &AlwaysIdle) else { continue };
                    if let Some(block) = lent {
                        begun += 1;
                        fill(&mut array, block, step);
                        on_loan.insert(block, step);
                    }
                }
                5 => {
                    array.end_due_loans(now).unwrap();
                }
                6 => {
                    if let Some((drive, die)) = next_returned(&array) {
                        array.erase_returned(drive, die).unwrap();
                    }
                }
                _ => {
                    let some = if rng.bool() { &mut own } else { &mut on_loan };
                    let Some(&block) = rng.choice(some.keys()) else { continue };
                    some.remove(&block);
                    // A loan may have ended before.
                    let freed = array.free_block(block.vssd(), block);
                    assert!(freed.is_ok() || !own.contains_key(&block), "{freed:?}");
                }
            }
            for ended in array.take_ended_loans() {
                on_loan.remove(&ended.block);
            }
        }
        assert!(begun > 20, "{begun}");
        array.audit().unwrap();
        own.iter().chain(&on_loan).for_each(|(&block, &seed)| check(&mut array, block, seed));
        let mut array = reopened(array);
        own.iter().for_each(|(&block, &seed)| check(&mut array, block, seed));
        let live: usize = vssds.iter().map(|&id| array.blocks(id).unwrap().len()).sum();
        assert_eq!(live, own.len());
    }
}
