//! IO classes that have used up their share with dirty data: some of it is destaged for them.

use std::time::Duration;

use fastrand::Rng;
use larder_block::accounting::{Accounting, stamps};
use larder_block::cache::{BypassReason, Cache, Mode, Request};
use larder_block::layout::{Ending, PieceState, Span};
use larder_block::policy::cleaning::{CleaningOptions, CleaningPolicy};

use super::classes::{LINES, bypasses, class, classes, each_layout, line, write};
use super::rig::core;

/// Lines of the class that is full: a tenth of the cache.
const SHARE: u64 = LINES / 10;
const CLASSES: &str = "1,core_id:0,5,0.10\n2,core_id:1,5,1.00";

/// The time advances by 10 ms at each call.
fn work(run: &mut Accounting<Cache>) {
    let now = run.layout().now() + Duration::from_millis(10);
    run.layout_mut().work(now);
}

fn set_cleaning(run: &mut Accounting<Cache>, policy: CleaningPolicy) {
    let options = CleaningOptions { policy, ..CleaningOptions::default() };
    run.layout_mut().set_cleaning(options).unwrap();
}

/// Random writes of class 1 to three times its share. Returns how many of them were cached.
fn fill(run: &mut Accounting<Cache>, seed: u64, writes: u64) -> u64 {
    let mut rng = Rng::with_seed(seed);
    let full = bypasses(run, BypassReason::ClassFull);
    for _ in 0..writes / 32 {
        run.run_all(16, std::iter::repeat_with(|| write(0, rng.u64(..3 * SHARE))).take(32));
        let has = run.layout().class_sectors(class(1));
        assert!(has <= SHARE * 8, "{has} sectors of {SHARE} lines");
        work(run);
    }
    writes - (bypasses(run, BypassReason::ClassFull) - full)
}

fn are_dirty(run: &mut Accounting<Cache>, of: u16, mut numbers: std::ops::Range<u64>) -> bool {
    numbers.all(|number| {
        let mut pieces = Vec::new();
        run.layout_mut().lookup(line(of, number), &mut pieces);
        pieces.iter().all(|piece| piece.state == PieceState::Dirty)
    })
}

#[test]
fn a_class_full_of_dirty_data_goes_on_taking_in_and_no_other_is_destaged_for_it() {
    let writes = 3 * SHARE;
    each_layout(Mode::WriteBack, CLASSES, |name, run| {
        // Dirty data of another class, written earlier.
        run.run_all(16, (0..SHARE).map(|number| write(1, number)));
        let taken = fill(run, 1, writes);
        run.settle();
        assert!(are_dirty(run, 1, 0..SHARE), "{name}: another class was destaged");
        let destaged = run.layout().statistics().destaged_for_classes_bytes;
        if name == "log" {
            assert!(taken > writes * 3 / 4, "{taken} of {writes}");
            let written = run.counts().core_written_bytes - bypassed(run);
            // Data that is overwritten before its destage began is not destaged.
            assert!(
                written > 0 && (written..written + written / 20).contains(&destaged),
                "{written}, {destaged}"
            );
        } else {
            assert_eq!((destaged, taken), (0, writes), "{name} does it by itself");
        }
    });
}

/// Bytes that have bypassed the cache, in lines of 4 KiB.
fn bypassed(run: &Accounting<Cache>) -> u64 {
    bypasses(run, BypassReason::ClassFull) * 4096
}

#[test]
fn with_nop_a_class_full_of_dirty_data_has_nothing_destaged() {
    each_layout(Mode::WriteBack, CLASSES, |name, run| {
        if name != "log" {
            return;
        }
        set_cleaning(run, CleaningPolicy::Nop);
        let writes = 6 * SHARE;
        let taken = fill(run, 1, writes);
        run.settle();
        // Writes beyond the share are cached where some of its data is overwritten.
        assert!(taken < writes * 7 / 10, "{taken} of {writes}");
        assert_eq!(run.counts().core_written_bytes, bypassed(run));
        assert_eq!(run.layout().class_sectors(class(1)), SHARE * 8);
        // Once the policy allows it, data is destaged.
        set_cleaning(run, CleaningPolicy::default());
        let then = fill(run, 2, writes);
        assert!(then > writes * 3 / 4, "{then} of {writes}, {taken} before");
    });
}

#[test]
fn a_class_that_is_not_refused_has_nothing_destaged_and_one_that_was_no_more_than_a_part() {
    each_layout(Mode::WriteBack, CLASSES, |name, run| {
        if name != "log" {
            return;
        }
        run.run_all(16, (0..SHARE).map(|number| write(0, number)));
        (0..10).for_each(|_| work(run));
        run.settle();
        let destaged =
            |run: &Accounting<Cache>| run.layout().statistics().destaged_for_classes_bytes;
        assert_eq!(destaged(run), 0);
        run.run(write(0, SHARE));
        (0..10).for_each(|_| {
            work(run);
            run.settle();
        });
        assert_eq!(destaged(run) / 4096, SHARE / 16 + 1, "a line at least: up to whole ones");
        // The first lines that were written are clean, and are evicted first.
        run.run_all(16, (SHARE..SHARE + 20).map(|number| write(0, number)));
        assert!(are_dirty(run, 0, 40..SHARE + 20));
        assert_eq!(bypasses(run, BypassReason::ClassFull), 1);
    });
}

#[test]
fn a_core_that_fails_is_left_alone_for_a_while_and_nothing_of_its_is_lost() {
    each_layout(Mode::WriteBack, CLASSES, |name, run| {
        if name != "log" {
            return;
        }
        run.run_all(16, (0..SHARE + 1).map(|number| write(0, number)));
        run.fail_one_in(1, 1);
        work(run);
        run.settle();
        run.fail_one_in(0, 1);
        assert!(are_dirty(run, 0, 0..SHARE));
        let before = run.counts();
        work(run);
        run.settle();
        assert_eq!(run.counts().since(&before).core_writes, 0, "it rests");
        let later = run.layout().now() + Duration::from_secs(6);
        run.layout_mut().work(later);
        run.settle();
        assert!(run.counts().since(&before).core_writes > 0);
        assert_eq!(run.run(Request::Clean { core: core(0) }).0, Ending::Done);
    });
}

/// Whether each of these lines of core 0 is dirty, except for its first sector.
fn are_rests_dirty(run: &mut Accounting<Cache>, mut numbers: std::ops::Range<u64>) -> bool {
    numbers.all(|number| {
        let (whole, mut pieces) = (line(0, number), Vec::new());
        let rest = Span { first: whole.first + 1, sectors: 7, ..whole };
        run.layout_mut().lookup(rest, &mut pieces);
        pieces.iter().all(|piece| piece.state == PieceState::Dirty)
    })
}

#[test]
fn of_a_line_of_two_classes_only_what_is_of_the_full_one_goes() {
    let lines = "1,request_size:512,5,0.02\n2,request_size:4096,5,1.00";
    each_layout(Mode::WriteBack, lines, |name, run| {
        if name != "log" {
            return;
        }
        let share = LINES * 8 * 2 / 100;
        for number in 0..share {
            run.run(write(0, number));
            run.run(write_first(number));
        }
        assert_eq!(run.layout().class_sectors(class(1)), share);
        run.run(write_first(share));
        work(run);
        run.settle();
        let destaged = run.counts().core_written_bytes - 512;
        assert_eq!((destaged, bypasses(run, BypassReason::ClassFull)), (share / 16 * 512, 1));
        assert!(are_rests_dirty(run, 0..share));
    });
}

/// Writes the first sector of a line.
fn write_first(number: u64) -> Request {
    let span = Span { sectors: 1, ..line(0, number) };
    Request::Write { span, data: stamps(span, 2), durable: false }
}

#[test]
fn nothing_is_destaged_for_a_class_that_would_get_no_room_by_that() {
    each_layout(Mode::WriteThrough, CLASSES, |name, run| {
        if name != "log" {
            return;
        }
        // The segment that the log fills next has data of another class.
        run.run_all(16, (0..2 * LINES).map(|number| write(1, number)));
        run.layout_mut().set_mode(Mode::WriteBack);
        run.run_all(16, (0..2 * SHARE).map(|number| write(0, number)));
        assert!(bypasses(run, BypassReason::ClassFull) >= SHARE);
        work(run);
        run.settle();
        assert_eq!(run.layout().statistics().destaged_for_classes_bytes, 0);
    });
}

#[test]
fn a_class_that_gets_more_has_nothing_destaged_for_what_it_was_refused() {
    each_layout(Mode::WriteBack, CLASSES, |name, run| {
        if name != "log" {
            return;
        }
        run.run_all(16, (0..SHARE + 1).map(|number| write(0, number)));
        run.layout_mut().set_classes(classes("1,core_id:0,5,0.20\n2,core_id:1,5,1.00"));
        work(run);
        run.settle();
        assert_eq!(run.layout().statistics().destaged_for_classes_bytes, 0);
        // A batch has 100 lines: the remaining wish of the class is also forgotten.
        run.layout_mut().set_classes(classes("1,core_id:0,5,0.60"));
        run.run_all(16, (SHARE + 1..LINES * 7 / 10).map(|number| write(0, number)));
        work(run);
        run.turn();
        run.layout_mut().set_classes(classes("1,core_id:0,5,0.65"));
        run.settle();
        work(run);
        run.settle();
        assert_eq!(run.layout().statistics().destaged_for_classes_bytes, 100 * 4096);
    });
}
