//! Which class has its turn, and how much is destaged at a time.

use super::super::{AlruOptions, CleaningFacts, CleaningOptions};
use super::*;
use crate::layout::{CoreId, Span};
use crate::policy::cleaning::cleaner::BACK_OFF;
use crate::policy::cleaning::{Cleaning, CleaningPolicy};

const SECOND: Duration = Duration::from_secs(1);
/// The share of a class that wants 2000 sectors destaged.
const SHARE: u64 = 2000 * SHARE_PART;
/// 100 lines of 4 KiB.
const BATCH: u64 = 800;

fn cleaning(options: CleaningOptions) -> Cleaning {
    Cleaning::new(options, 4096).unwrap()
}

fn class(number: u8) -> ClassId {
    ClassId::new(number).unwrap()
}

/// Takes the turn at `now`. At most `found` sectors are found.
fn begin(cleaning: &mut Cleaning, found: u64, now: Duration) -> Option<(u8, u64)> {
    let ClassTurn::Now(class, sectors) = cleaning.class_turn(now) else { return None };
    cleaning.class_began(class, sectors.min(found), now);
    Some((class.get(), sectors))
}

#[test]
fn a_class_has_a_part_of_its_share_destaged_in_batches_one_at_a_time() {
    let mut cleaning = cleaning(CleaningOptions::default());
    assert_eq!(cleaning.class_turn(SECOND), ClassTurn::NoClass);
    for _ in 0..2 {
        cleaning.class_is_full(class(3), SHARE);
        for wanted in [BATCH, BATCH, 2000 - 2 * BATCH] {
            assert_eq!(begin(&mut cleaning, u64::MAX, SECOND), Some((3, wanted)));
            assert_eq!(cleaning.class_turn(SECOND), ClassTurn::NoClass, "one is under way");
            // The class asks for no more before it has this.
            cleaning.class_is_full(class(3), SHARE);
            if wanted < BATCH {
                cleaning.full_classes.wishes.clear();
            }
            cleaning.class_destaged(class(3), true, SECOND);
        }
        assert_eq!(cleaning.class_turn(SECOND), ClassTurn::NoClass, "it has what it wanted");
    }
    [3, 4].into_iter().for_each(|number| cleaning.class_is_full(class(number), 1));
    assert_eq!(begin(&mut cleaning, u64::MAX, SECOND), Some((4, 1)), "of a small share");
    assert_eq!(cleaning.class_turn(SECOND), ClassTurn::NoClass, "however little is under way");
}

#[test]
fn classes_take_turns_and_one_that_fails_or_has_nothing_rests() {
    let mut cleaning = cleaning(CleaningOptions::default());
    [1, 2, 7].into_iter().for_each(|number| cleaning.class_is_full(class(number), SHARE));
    for number in [1, 2, 7] {
        assert_eq!(begin(&mut cleaning, u64::MAX, SECOND), Some((number, BATCH)));
        cleaning.class_destaged(class(number), number != 1, SECOND);
    }
    // Class 1 has failed, and for class 2 nothing is found.
    assert_eq!(begin(&mut cleaning, 0, SECOND), Some((2, BATCH)));
    cleaning.class_is_full(class(2), SHARE);
    for wanted in [BATCH, 2000 - 2 * BATCH] {
        assert_eq!(begin(&mut cleaning, u64::MAX, SECOND), Some((7, wanted)));
        cleaning.class_destaged(class(7), true, SECOND);
    }
    assert_eq!(cleaning.class_turn(SECOND), ClassTurn::At(SECOND + FOUND_NONE), "2 rests");
    for wanted in [BATCH, BATCH, 2000 - 2 * BATCH] {
        assert_eq!(begin(&mut cleaning, u64::MAX, SECOND + FOUND_NONE), Some((2, wanted)));
        cleaning.class_destaged(class(2), true, SECOND + FOUND_NONE);
    }
    assert_eq!(cleaning.class_turn(SECOND + FOUND_NONE), ClassTurn::At(SECOND + BACK_OFF));
    // It wants the failed batch again.
    for wanted in [BATCH, BATCH, 2000 - 2 * BATCH] {
        assert_eq!(begin(&mut cleaning, u64::MAX, SECOND + BACK_OFF), Some((1, wanted)));
        cleaning.class_destaged(class(1), true, SECOND + BACK_OFF);
    }
}

#[test]
fn with_nop_nothing_is_destaged_for_a_class() {
    let nop = CleaningOptions { policy: CleaningPolicy::Nop, ..CleaningOptions::default() };
    let mut cleaning = cleaning(nop);
    cleaning.class_is_full(class(1), SHARE);
    assert_eq!(cleaning.class_turn(SECOND), ClassTurn::NoClass);
    // Neither earlier wishes nor wishes of a batch in flight count afterwards.
    cleaning.set(CleaningOptions::default()).unwrap();
    assert_eq!(cleaning.class_turn(SECOND), ClassTurn::NoClass);
    cleaning.class_is_full(class(1), SHARE);
    cleaning.set(nop).unwrap();
    assert_eq!(cleaning.class_turn(SECOND), ClassTurn::NoClass);
    cleaning.set(CleaningOptions::default()).unwrap();
    assert_eq!(cleaning.class_turn(SECOND), ClassTurn::NoClass);
}

#[test]
fn the_rate_holds_of_classes_too() {
    let limited = CleaningOptions { bytes_per_second: 1 << 20, ..CleaningOptions::default() };
    let mut cleaning = cleaning(limited);
    let (mut now, mut bytes) = (SECOND, 0);
    while now < SECOND * 11 {
        cleaning.class_is_full(class(1), SHARE * 100);
        match cleaning.class_turn(now) {
            ClassTurn::Now(class, sectors) => {
                cleaning.class_began(class, sectors, now);
                cleaning.class_destaged(class, true, now);
                bytes += sectors * SECTOR_BYTES as u64;
                assert!(bytes < 1 << 30, "it never waits");
            }
            ClassTurn::At(due) => now = due,
            ClassTurn::NoClass => unreachable!("none is under way"),
        }
    }
    let tenth = (1 << 20) / 10;
    assert!((10 << 20..=(10 << 20) + 2 * tenth).contains(&bytes), "{bytes}");
}

#[test]
fn classes_and_the_policy_share_what_may_be_under_way() {
    let alru = AlruOptions { staleness: SECOND, ..AlruOptions::default() };
    let policy = CleaningPolicy::Alru(alru);
    let mut cleaning = cleaning(CleaningOptions { policy, ..CleaningOptions::default() });
    let core = CoreId::new(0).unwrap();
    cleaning.written(Span { core, first: 0, sectors: 8192 }, SECOND);
    let (dirty_sectors, capacity_sectors) = (8192, 1 << 20);
    let facts = CleaningFacts { dirty_sectors, capacity_sectors, idle: SECOND * 60 };
    let mut pieces = Vec::new();
    cleaning.class_is_full(class(1), SHARE);
    assert_eq!(begin(&mut cleaning, u64::MAX, SECOND * 60), Some((1, BATCH)));
    cleaning.work(SECOND * 60, &facts, &mut pieces);
    assert_eq!(pieces, [], "all that may be is under way");
    cleaning.class_destaged(class(1), true, SECOND * 60);
    cleaning.work(SECOND * 60, &facts, &mut pieces);
    assert!(!pieces.is_empty());
    assert_eq!(cleaning.class_turn(SECOND * 60), ClassTurn::NoClass, "the policy has it now");
    pieces.into_iter().for_each(|piece| cleaning.destaged(piece, true, SECOND * 60));
    assert_eq!(begin(&mut cleaning, u64::MAX, SECOND * 60), Some((1, BATCH)));
}
