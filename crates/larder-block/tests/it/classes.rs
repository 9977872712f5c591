//! IO classes of a cache on each layout: shares, priorities, pinned data, and changes of these.

use std::cell::Cell;

use fastrand::Rng;
use larder_block::accounting::{Accounting, Image, stamps};
use larder_block::cache::{BypassReason, Cache, CacheOptions, CacheShape, Mode, Request};
use larder_block::layout::log::{Geometry, LogLayout, LogOptions};
use larder_block::layout::ocf::{self, OcfLayout, OcfOptions, OcfVersion};
use larder_block::layout::{ClassId, Ending, Layout, PieceState, Span};
use larder_block::policy::CutOffPolicy;
use larder_block::policy::classes::IoClasses;

use super::rig::{IDENTITY, core, device};
use super::subject::{Log, Ocf, Subject};

pub(crate) const LINES: u64 = 4096;
const BYTES: u64 = LINES * 4096;

pub(crate) fn classes(lines: &str) -> IoClasses {
    format!("IO class id,IO class name,Eviction priority,Allocation\n{lines}").parse().unwrap()
}

/// Classes with rules for some requests of random loads: none, shares, priorities, pinned ones.
pub(crate) fn by_chance(rng: &mut Rng) -> IoClasses {
    let lines = [
        "",
        "1,core_id:1,5,0.20\n2,lba:lt:512,9,0.30",
        "0,unclassified,7,1.00\n1,core_id:0,,1.00\n3,request_size:le:4096,200,0.50",
        "0,unclassified,7,0.10\n1,core_id:0,0,1.00\n4,io_direction:read,,0.40",
        "0,unclassified,,1.00",
        "1,core_id:0,5,0.06\n2,core_id:1,,0.10",
        "0,unclassified,7,0.05\n1,io_direction:read,9,0.12",
    ];
    classes(rng.choice(lines).unwrap())
}

pub(crate) fn class(number: u8) -> ClassId {
    ClassId::new(number).unwrap()
}

/// Tests a cache of [`LINES`] lines of 4 KiB on each layout, in this mode.
pub(crate) fn each_layout(mode: Mode, lines: &str, test: impl Fn(&str, &mut Accounting<Cache>)) {
    let log = || -> Box<dyn Layout> {
        let info = device(BYTES, 512);
        let options =
            LogOptions { segment_bytes: 256 << 10, write_buffer_bytes: 0, ..LogOptions::default() };
        let geometry = Geometry::new(&info, 0, &options).unwrap();
        Box::new(LogLayout::new(geometry, IDENTITY, &info, &options))
    };
    let table = |version| -> Box<dyn Layout> {
        let options = OcfOptions { version, line_bytes: 4096 };
        let bytes = ocf::Geometry::device_bytes(0, u32::try_from(LINES).unwrap(), &options);
        let geometry = ocf::Geometry::new(&device(bytes, 512), 0, &options).unwrap();
        Box::new(OcfLayout::new(geometry, IDENTITY.uuid))
    };
    let layouts = [
        ("log", log()),
        ("ocf22", table(OcfVersion::V22)),
        ("ocf26", table(OcfVersion::V26)),
        ("wal", table(OcfVersion::Wal)),
    ];
    for (name, layout) in layouts {
        let options = CacheOptions {
            mode,
            cut_off: CutOffPolicy::Never,
            classes: classes(lines),
            ..CacheOptions::default()
        };
        let shape = CacheShape { capacity_bytes: BYTES, line_bytes: 4096 };
        let cache = Cache::new(layout, shape, options).unwrap();
        test(name, &mut Accounting::new(cache, Image::default()).without_bytes());
    }
}

pub(crate) fn line(of: u16, number: u64) -> Span {
    Span { core: core(of), first: number * 8, sectors: 8 }
}

fn read(of: u16, number: u64) -> Request {
    Request::Read { span: line(of, number) }
}

pub(crate) fn write(of: u16, number: u64) -> Request {
    let span = line(of, number);
    Request::Write { span, data: stamps(span, 1), durable: false }
}

/// The shares of the cache that classes 1 and 2 occupy.
fn parts(run: &Accounting<Cache>) -> [f64; 2] {
    [1, 2].map(|number| run.layout().class_sectors(class(number)) as f64 / (LINES * 8) as f64)
}

pub(crate) fn bypasses(run: &Accounting<Cache>, reason: BypassReason) -> u64 {
    run.layout().statistics().bypasses(reason)
}

/// Reads and writes of both cores, at random lines of four times the number of the cache's lines.
fn at_random(rng: &mut Rng) -> Request {
    let (of, number) = (rng.u16(..2), rng.u64(..4 * LINES));
    if rng.bool() { read(of, number) } else { write(of, number) }
}

#[test]
fn two_classes_that_compete_have_their_shares() {
    for mode in [Mode::WriteThrough, Mode::WriteBack] {
        let lines = "1,core_id:0,5,0.25\n2,core_id:1,5,0.60";
        each_layout(mode, lines, |name, run| {
            let mut rng = Rng::with_seed(1);
            run.run_all(16, std::iter::repeat_with(|| at_random(&mut rng)).take(40_000));
            let mut lowest: [f64; 2] = [1.0; 2];
            for _ in 0..20 {
                run.run_all(16, std::iter::repeat_with(|| at_random(&mut rng)).take(1000));
                let now = parts(run);
                assert!(now[0] <= 0.26 && now[1] <= 0.61, "{name}, {mode}: {now:?}");
                (0..2).for_each(|at| lowest[at] = lowest[at].min(now[at]));
            }
            assert!(lowest[0] >= 0.22 && lowest[1] >= 0.55, "{name}, {mode}: {lowest:?}");
            if name == "log" {
                assert!(bypasses(run, BypassReason::ClassFull) > 0);
            }
        });
    }
}

#[test]
fn a_class_that_has_its_share_leaves_others_alone() {
    each_layout(Mode::WriteThrough, "1,core_id:0,5,0.25\n2,core_id:1,5,0.60", |name, run| {
        run.run_all(16, (0..LINES / 2).map(|number| read(1, number)));
        let [_, before] = parts(run);
        run.run_all(16, (0..4 * LINES).map(|number| read(0, number)));
        let [own, other] = parts(run);
        assert!(own > 0.23 && own <= 0.26, "{name}: {own}");
        assert!(other >= before, "{name}: {other} of {before}");
        // Open CAS evicts lines of the class itself; a log does so only where this costs the other class nothing.
        let full = bypasses(run, BypassReason::ClassFull);
        assert_eq!(full > 0, name == "log", "{name}: {full}");
        let had = are_cached(run, 0..LINES / 4);
        assert!(name != "log" || !had, "it went on until the log had turned");
    });
}

/// Whether these lines of core 0 are fully cached.
fn are_cached(run: &mut Accounting<Cache>, mut numbers: std::ops::Range<u64>) -> bool {
    numbers.all(|number| {
        let mut pieces = Vec::new();
        run.layout_mut().lookup(line(0, number), &mut pieces);
        pieces.iter().all(|piece| piece.state != PieceState::Absent)
    })
}

#[test]
fn a_class_alone_never_has_more_than_its_share_and_that_is_the_newest() {
    let share = LINES / 4;
    for mode in [Mode::WriteThrough, Mode::WriteAround] {
        each_layout(mode, "1,core_id:0,5,0.25", |name, run| {
            for from in (0..4 * LINES).step_by(64) {
                let ask = |number| if number % 3 == 0 { write(0, number) } else { read(0, number) };
                run.run_all(16, (from..from + 64).map(ask));
                let has = run.layout().class_sectors(class(1));
                assert!(has <= share * 8, "{name}, {mode}: {has} sectors of {share} lines");
            }
            assert_eq!(bypasses(run, BypassReason::ClassFull), 0, "{name}, {mode}");
            run.settle();
            // Requests that were in flight together may have been written in any order.
            let newest = 4 * LINES - share * 9 / 10;
            let has = run.layout().class_sectors(class(1)) / 8;
            assert!(has > share - 32, "{name}, {mode}: {has} lines of {share}");
            // In a table, the lists determine which line is evicted.
            if mode == Mode::WriteThrough && name == "log" {
                assert!(are_cached(run, newest..4 * LINES), "{name}");
            }
        });
    }
}

#[test]
fn what_is_dirty_is_given_up_when_it_is_clean() {
    let share = LINES / 4;
    each_layout(Mode::WriteBack, "1,core_id:0,5,0.25", |name, run| {
        run.run_all(16, (0..share + 64).map(|number| write(0, number)));
        let full = bypasses(run, BypassReason::ClassFull);
        assert_eq!(full > 0, name == "log", "{name}: {full}");
        run.run(Request::Clean { core: core(0) });
        run.run_all(16, (share + 64..share + 128).map(|number| write(0, number)));
        assert_eq!(bypasses(run, BypassReason::ClassFull), full, "{name}");
        run.settle();
        assert!(are_cached(run, share + 64..share + 128), "{name}");
        assert!(run.layout().class_sectors(class(1)) <= share * 8, "{name}");
    });
}

#[test]
fn a_class_that_gives_up_its_own_writes_no_byte_more() {
    let written = |allocation| {
        let counts = Cell::new(0);
        each_layout(Mode::WriteThrough, &format!("1,core_id:0,5,{allocation}"), |name, run| {
            if name == "log" {
                run.run_all(16, (0..6 * LINES).map(|number| write(0, number)));
                counts.set(run.counts().cache_written_bytes);
            }
        });
        counts.get()
    };
    let all = written("1.00");
    assert!(all > 6 * BYTES, "{all}");
    assert_eq!(written("0.10"), all);
}

#[test]
fn a_class_whose_share_is_lowered_shrinks_to_it() {
    // Without a priority it is pinned.
    for priority in ["5", ""] {
        let lines = |part| format!("1,core_id:0,{priority},{part}\n2,core_id:1,5,1.00");
        each_layout(Mode::WriteThrough, &lines("0.60"), |name, run| {
            run.run_all(16, (0..LINES / 2).map(|number| read(0, number)));
            run.settle();
            let before = run.counts();
            run.layout_mut().set_classes(classes(&lines("0.20")));
            if name == "log" {
                // Any request triggers it, even for cached data.
                run.run_all(16, (LINES / 2 - 64..LINES / 2).map(|number| read(0, number)));
                assert_eq!(run.counts().since(&before).cache_written_bytes, 0);
                let [own, _] = parts(run);
                assert!(own > 0.15 && own <= 0.20, "priority {priority:?}: {own}");
                assert!(are_cached(run, LINES / 2 - LINES / 6..LINES / 2));
            }
        });
    }
}

#[test]
fn what_is_of_a_higher_priority_stays() {
    for mode in [Mode::WriteThrough, Mode::WriteBack] {
        each_layout(mode, "1,core_id:0,1,1.00\n2,core_id:1,200,1.00", |name, run| {
            let hot = LINES / 4;
            run.run_all(16, (0..hot).map(|number| write(0, number)));
            let [before, _] = parts(run);
            run.run_all(16, (0..6 * LINES).map(|number| write(1, number)));
            let [high, low] = parts(run);
            assert!(high >= 0.99 * before, "{name}, {mode}: {high} of {before}");
            assert!(low > 0.5, "{name}, {mode}: {low}");
            // The other way round, the lower class is evicted.
            run.run_all(16, (0..6 * LINES).map(|number| write(0, number)));
            let [high, low] = parts(run);
            assert!(high > 0.7 && low < 0.2, "{name}, {mode}: {high}, {low}");
            if name != "log" {
                // The lower class keeps what is left to it.
                run.run_all(16, (0..LINES).map(|number| write(1, number)));
                assert!(parts(run)[0] >= high, "{name}, {mode}: {high}, {:?}", parts(run));
            }
        });
    }
}

#[test]
fn what_is_pinned_stays_and_does_not_stop_the_cache_when_there_is_too_much_of_it() {
    for mode in [Mode::WriteThrough, Mode::WriteBack] {
        each_layout(mode, "1,core_id:0,,1.00", |name, run| {
            run.run_all(16, (0..2 * LINES).map(|number| write(0, number)));
            let [before, _] = parts(run);
            let most = if name == "log" { 0.76 } else { 1.0 };
            assert!(before > most - 0.03 && before <= most, "{name}, {mode}: {before}");
            let pinned = bypasses(run, BypassReason::Pinned);
            assert!(pinned > LINES / 2, "{name}, {mode}: {pinned}");
            // Other classes continue, within the remaining room.
            run.run_all(16, (0..4 * LINES).map(|number| write(1, number)));
            run.run_all(16, (0..2 * LINES).map(|number| read(1, number)));
            let [after, _] = parts(run);
            assert!(after >= 0.99 * before, "{name}, {mode}: {after} of {before}");
            assert_eq!(run.run(Request::Flush).0, Ending::Done);
            // A class that is no longer pinned is evicted again.
            run.run(Request::Clean { core: core(0) });
            let unpinned = "0,unclassified,200,1.00\n1,core_id:0,255,1.00";
            run.layout_mut().set_classes(classes(unpinned));
            run.run_all(16, (4 * LINES..8 * LINES).map(|number| read(1, number)));
            let [after, _] = parts(run);
            assert!(after < 0.1, "{name}, {mode}: {after}");
        });
    }
}

#[test]
fn a_class_that_may_have_less_than_it_has_gives_way_first() {
    each_layout(Mode::WriteThrough, "1,core_id:0,1,1.00\n2,core_id:1,200,1.00", |name, run| {
        run.run_all(16, (0..LINES / 2).map(|number| read(0, number)));
        run.layout_mut().set_classes(classes("1,core_id:0,1,0.10\n2,core_id:1,200,1.00"));
        run.run_all(16, (0..2 * LINES).map(|number| read(1, number)));
        let [own, other] = parts(run);
        assert!(own <= 0.11, "{name}: {own}");
        assert!(other > 0.7, "{name}: {other}");
    });
}

#[test]
fn what_is_hit_is_of_the_class_that_hits_it_as_far_as_that_has_room() {
    each_layout(Mode::WriteBack, "", |name, run| {
        run.run_all(1, (0..LINES / 2).map(|number| write(0, number)));
        let all = LINES / 2 * 8;
        assert_eq!(run.layout().class_sectors(class(0)), all, "{name}");
        run.layout_mut().set_classes(classes("1,io_direction:read,5,0.12\n2,request_size:512,5,1"));
        run.run_all(1, (0..LINES / 2).map(|number| read(0, number)));
        assert_eq!(run.layout().class_sectors(class(1)), LINES * 12 / 100 * 8, "{name}");
        let counts = run.layout().class_counts(class(1));
        assert_eq!((counts.reads.hits, counts.bypasses), (LINES / 2, 0), "{name}");
        let span = Span { sectors: 1, ..line(0, LINES / 2 - 1) };
        run.run(Request::Write { span, data: stamps(span, 2), durable: false });
        let sectors = |number| run.layout().class_sectors(class(number));
        assert_eq!(sectors(0) + sectors(1) + sectors(2), all, "{name}");
        assert!(sectors(2) == 8 || name == "log" && sectors(2) == 1, "{name}: {}", sectors(2));
        assert_eq!(run.layout().core_counts(core(0)).writes.total(), LINES / 2 + 1);
    });
}

fn starts_in_class_0<S: Subject>() {
    let mut rng = Rng::with_seed(3);
    let mut subject = S::draw(&mut rng);
    let mut run = Accounting::new(subject.create(), Image::default());
    let span = line(0, 3);
    let request = larder_block::layout::LayoutRequest::Write { span, data: stamps(span, 1) };
    run.layout_mut().submit_of(class(7), larder_block::layout::RequestId(1 << 32), request);
    run.settle();
    assert_eq!(run.layout().occupied_sectors(class(7)).min(8), 8);
    let (cache, _) = run.lose_power(|| true);
    let found = subject.recover(&mut rng, &cache);
    let sectors = |number| found.occupied_sectors(class(number));
    assert!((sectors(7), sectors(0).min(8)) == (0, 8), "{}, {}", sectors(7), sectors(0));
}

#[test]
fn what_a_start_finds_is_of_class_0() {
    starts_in_class_0::<Log>();
    starts_in_class_0::<Ocf<0>>();
    starts_in_class_0::<Ocf<1>>();
    starts_in_class_0::<Ocf<2>>();
}
