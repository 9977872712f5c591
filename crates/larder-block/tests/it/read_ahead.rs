//! Streams of reads with read-ahead, on each layout: what is fetched and when, which requests come first, and which
//! errors no request reports.

use fastrand::Rng;
use larder_block::accounting::{Accounting, stamps};
use larder_block::cache::{BypassReason, Cache, Health, Mode, ReadAheadCounts, Request};
use larder_block::layout::{DeviceIo, Ending, PieceState, RequestId, Span, Target};
use larder_block::policy::classes::IoClasses;
use larder_block::policy::{
    CutOffPolicy, NHit, PromotionPolicy, ReadAheadOptions, ReadAheadPolicy,
};

use super::classes::{by_chance, classes};
use super::rig::core;
use super::scenarios::{SectorVersions, each, span};

const KIB: u64 = 1024;
/// Sectors per KiB.
const S: u64 = 2;

fn on(threshold_bytes: u64, window_bytes: u64) -> ReadAheadPolicy {
    ReadAheadPolicy::On(ReadAheadOptions { threshold_bytes, window_bytes })
}

/// On each layout, in lines of 4 KiB, before two cores of 16 MiB.
fn each_on(mode: Mode, policy: ReadAheadPolicy, test: impl Fn(&str, &mut Accounting<Cache>)) {
    each(mode, 4096, |name, run| {
        let cache = run.layout_mut();
        (0..2).for_each(|number| cache.set_core_bytes(core(number), 16 << 20));
        cache.set_read_ahead(policy).unwrap();
        test(name, run);
    });
}

/// With the default options: threshold of 64 KiB, window of at most 256 KiB.
fn each_default(mode: Mode, test: impl Fn(&str, &mut Accounting<Cache>)) {
    each_on(mode, ReadAheadPolicy::On(ReadAheadOptions::default()), test);
}

/// `length` KiB from `kib` KiB on.
fn part(kib: u64, length: u64) -> Span {
    span(kib * S, u32::try_from(length * S).unwrap())
}

/// Reads in order, each settled before the next.
fn stream(run: &mut Accounting<Cache>, kib: std::ops::Range<u64>, each: u64) {
    let reads = kib.step_by(usize::try_from(each).unwrap());
    run.run_one_by_one(reads.map(|first| Request::Read { span: part(first, each) }));
}

fn ahead(run: &Accounting<Cache>) -> ReadAheadCounts {
    run.layout().statistics().read_ahead
}

/// KiB that were read ahead.
fn ahead_kib(run: &Accounting<Cache>) -> u64 {
    ahead(run).bytes / KIB
}

fn has(run: &mut Accounting<Cache>, span: Span, state: PieceState) -> bool {
    let mut pieces = Vec::new();
    run.layout_mut().lookup(span, &mut pieces);
    pieces.iter().all(|piece| piece.state == state)
}

fn is_ahead(io: &DeviceIo) -> bool {
    matches!(io, DeviceIo::Read { target: Target::Core(_), reader: None, .. })
}

/// The requests in flight, in two groups: those of read-ahead, and all others.
fn split(run: &Accounting<Cache>) -> [Vec<usize>; 2] {
    let all = run.under_way().map(is_ahead).enumerate();
    let (ahead, others): (Vec<_>, Vec<_>) = all.partition(|(_, is_ahead)| *is_ahead);
    [ahead, others].map(|of| of.into_iter().map(|(number, _)| number).collect())
}

/// A stream up to the threshold. Its last read has ended, while the read-ahead after it is in flight.
fn with_ahead_under_way(run: &mut Accounting<Cache>) {
    stream(run, 0..48, 16);
    let id = run.submit(Request::Read { span: part(48, 16) });
    while run.take_ended(id).is_none() {
        run.turn();
        let [_, others] = split(run);
        run.carry_out_all(|_| others);
    }
    run.turn();
    let [ahead, others] = split(run);
    run.carry_out_all(|_| others);
    assert_eq!(ahead.len(), 1, "{:?}", run.under_way().collect::<Vec<_>>());
}

#[test]
fn a_stream_is_read_ahead_from_its_threshold_on_and_hits_then() {
    each_default(Mode::WriteThrough, |name, run| {
        stream(run, 0..60, 4);
        assert_eq!(ahead(run).requests, 0, "{name}: a block too few");
        stream(run, 60..64, 4);
        assert_eq!(ahead_kib(run), 64, "{name}");
        assert!(has(run, part(64, 64), PieceState::Clean), "{name}");
        assert!(has(run, part(128, 64), PieceState::Absent), "{name}");
        stream(run, 64..1024, 16);
        let statistics = *run.layout().statistics();
        assert_eq!((statistics.reads.hits, statistics.reads.full_misses), (60, 16), "{name}");
        let end = 64 + ahead_kib(run);
        assert!((1024 + 128..=1024 + 256).contains(&end), "{name}: up to {end} KiB");
        assert_eq!(statistics.core_read_bytes, end * KIB, "{name}: nothing twice");
    });
}

#[test]
fn it_is_off_unless_it_is_said_and_the_core_is_known() {
    each(Mode::WriteThrough, 4096, |name, run| {
        run.layout_mut().set_core_bytes(core(0), 16 << 20);
        stream(run, 0..512, 16);
        run.layout_mut().set_read_ahead(on(4096, 65536)).unwrap();
        run.run_one_by_one((0..32).map(|number| {
            let span = Span { core: core(1), ..part(number * 16, 16) };
            Request::Read { span }
        }));
        assert_eq!(ahead(run).requests, 0, "{name}");
        stream(run, 512..528, 16);
        assert_eq!(ahead_kib(run), 64, "{name}: the stream was known before");
    });
}

#[test]
fn streams_side_by_side_are_and_what_is_in_no_order_is_not() {
    each_default(Mode::WriteBack, |name, run| {
        let mut rng = Rng::with_seed(3);
        for number in (0..200).rev() {
            let descending = part(8192 + number * 16, 16);
            let random = part(12_288 + rng.u64(..200) * 20, 16);
            run.run_one_by_one([descending, random].map(|span| Request::Read { span }));
        }
        let data = stamps(part(4096, 16), 1);
        for number in 0..40 {
            let span = part(4096 + number * 16, 16);
            run.run(Request::Write { span, data: data.clone(), durable: false });
        }
        assert_eq!(ahead(run).requests, 0, "{name}");
        for number in 0..16 {
            let of =
                |core, at: u64| Request::Read { span: Span { core, ..part(at + number * 16, 16) } };
            run.run_one_by_one([of(core(0), 0), of(core(0), 2048), of(core(1), 0)]);
        }
        for (of, at) in [(0, 0), (0, 2048), (1, 0)] {
            let next = Span { core: core(of), ..part(at + 256, 128) };
            assert!(has(run, next, PieceState::Clean), "{name}: core {of}, behind {at}");
        }
    });
}

#[test]
fn nothing_behind_the_end_of_a_core_is_asked_for() {
    each_default(Mode::WriteThrough, |name, run| {
        run.layout_mut().set_core_bytes(core(0), 300 * KIB);
        stream(run, 0..288, 16);
        stream(run, 288..300, 12);
        assert_eq!(run.layout().statistics().core_read_bytes, 300 * KIB, "{name}");
        assert!(has(run, part(300, 256), PieceState::Absent), "{name}");
    });
}

#[test]
fn what_is_cached_stays_as_it_is_dirty_or_not() {
    each_default(Mode::WriteBack, |name, run| {
        let mut known = SectorVersions(vec![0; 1024]);
        let clean = part(80, 8);
        known.check(run, clean, name);
        known.write(run, span(140, 3), 5);
        known.write(run, part(100, 20), 7);
        run.settle();
        let before = run.layout().statistics().core_read_bytes;
        stream(run, 0..64, 16);
        // Without the three sectors of a block, and without 28 blocks.
        let expected = 64 * KIB - 3 * 512 - 28 * KIB;
        assert_eq!(ahead(run).bytes, expected, "{name}");
        let read = run.layout().statistics().core_read_bytes - before;
        assert_eq!(read, 64 * KIB + expected, "{name}");
        assert!(has(run, part(100, 20), PieceState::Dirty), "{name}");
        known.check(run, part(0, 256), name);
    });
}

#[test]
fn a_write_while_something_is_read_ahead_wins() {
    for mode in Mode::all().filter(|mode| *mode != Mode::PassThrough && *mode != Mode::WriteOnly) {
        each_default(mode, |name, run| {
            for seed in 0..8 {
                let mut rng = Rng::with_seed(seed);
                let at = seed * 512;
                let place = |kib, length| part(at + kib, length);
                let old = place(0, 256);
                // Only on the core.
                run.layout_mut().set_mode(Mode::PassThrough);
                run.run(Request::Write { span: old, data: stamps(old, 1), durable: false });
                run.layout_mut().set_mode(mode);
                stream(run, at..at + 48, 16);
                run.submit(Request::Read { span: place(48, 16) });
                run.turn();
                assert_eq!(split(run)[0].len(), 1, "{name}, {mode}");
                // The core has been read, and its data has not been inserted yet.
                let [ahead, _] = split(run);
                run.carry_out_all(|_| ahead);
                let writes = [place(rng.u64(56..80), 12), place(rng.u64(90..110), 20)];
                if rng.bool() {
                    run.layout_mut().set_mode(Mode::PassThrough);
                }
                for span in writes {
                    run.submit(Request::Write { span, data: stamps(span, 2), durable: true });
                }
                while run.turn() {
                    run.carry_out_all(|count| {
                        let mut order: Vec<usize> = (0..count).collect();
                        rng.shuffle(&mut order);
                        order.truncate(rng.usize(..=count));
                        order
                    });
                }
                for span in writes {
                    let (_, read) = run.run(Request::Read { span });
                    assert!(
                        read == stamps(span, 2).bytes(),
                        "{name}, {mode}, seed {seed}: {span:?}"
                    );
                }
                run.settle();
            }
        });
    }
}

#[test]
fn a_read_of_what_is_read_ahead_waits_for_it_and_others_do_not() {
    for fails in [false, true] {
        each_default(Mode::WriteThrough, |name, run| {
            with_ahead_under_way(run);
            let before = run.layout().statistics().core_read_bytes;
            let id = run.submit(Request::Read { span: part(64, 16) });
            let other = run.submit(Request::Read { span: part(1024, 16) });
            run.turn();
            let [ahead, others] = split(run);
            run.carry_out_all(|_| others);
            assert_eq!(run.take_ended(other).unwrap().0, Ending::Done, "{name}");
            assert_eq!((ahead.len(), run.take_ended(id)), (1, None), "{name}");
            run.fail_one_in(u32::from(fails), 1);
            run.turn();
            let [ahead, _] = split(run);
            run.carry_out_all(|_| ahead);
            run.fail_one_in(0, 1);
            run.settle();
            let (ending, read) = run.take_ended(id).unwrap();
            assert_eq!((ending, read), (Ending::Done, vec![0; 16 << 10]), "{name}");
            let read = (run.layout().statistics().core_read_bytes - before) / KIB;
            assert_eq!(read, if fails { 32 } else { 16 }, "{name}: by itself where it has to");
        });
    }
}

#[test]
fn errors_of_read_ahead_are_counted_and_no_client_gets_them() {
    each_default(Mode::WriteThrough, |name, run| {
        with_ahead_under_way(run);
        run.fail_one_in(1, 1);
        run.carry_out_all(|count| (0..count).collect());
        run.fail_one_in(0, 1);
        run.settle();
        let statistics = *run.layout().statistics();
        assert_eq!((ahead(run).failed, statistics.errors.core_reads), (1, 1), "{name}");
        assert_eq!(statistics.errors.total(), 1, "{name}");
        assert!(has(run, part(64, 64), PieceState::Absent), "{name}");
        let mut known = SectorVersions(vec![0; 1024]);
        known.check(run, part(64, 16), name);
        // The core has answered, and the cache device refuses the write.
        with_ahead_at(run, 512);
        let [of_core, _] = split(run);
        run.carry_out_all(|_| of_core);
        run.turn();
        assert_eq!(split(run)[0].len(), 0, "{name}");
        run.fail_one_in(1, 1);
        run.carry_out_all(|count| (0..count).collect());
        run.fail_one_in(0, 1);
        run.settle();
        let errors = run.layout().statistics().errors;
        assert!(errors.cache_writes > 0 && errors.total() == 1 + errors.cache_writes, "{errors:?}");
        assert_eq!(ahead(run).failed, 1, "{name}: of cores");
        known.0.resize(2048, 0);
        known.check(run, part(512, 256), name);
    });
}

/// As [`with_ahead_under_way`], from `kib` KiB on.
fn with_ahead_at(run: &mut Accounting<Cache>, kib: u64) {
    stream(run, kib..kib + 48, 16);
    let id = run.submit(Request::Read { span: part(kib + 48, 16) });
    while run.take_ended(id).is_none() {
        run.turn();
        let [_, others] = split(run);
        run.carry_out_all(|_| others);
    }
    run.turn();
}

#[test]
fn only_modes_that_keep_reads_read_ahead() {
    for mode in Mode::all() {
        each_default(mode, |name, run| {
            stream(run, 0..256, 16);
            let keeps = mode != Mode::PassThrough && mode != Mode::WriteOnly;
            assert_eq!(ahead(run).requests > 0, keeps, "{name}, {mode}");
        });
    }
    // A change to such a mode while the core is being read.
    each_default(Mode::WriteThrough, |name, run| {
        with_ahead_under_way(run);
        run.layout_mut().set_mode(Mode::WriteOnly);
        run.settle();
        assert!(has(run, part(64, 64), PieceState::Absent), "{name}");
    });
}

#[test]
fn read_ahead_keeps_nothing_on_a_device_that_fails_during_the_read() {
    each_default(Mode::WriteThrough, |name, run| {
        with_ahead_under_way(run);
        while run.layout().health() == Health::Whole {
            let id = run.submit(Request::Read { span: part(0, 16) });
            // The cache device refuses the read, and the core does not.
            for fails in [1, 0] {
                run.turn();
                let [_, others] = split(run);
                run.fail_one_in(fails, 1);
                run.carry_out_all(|_| others);
            }
            assert_eq!(run.take_ended(id).unwrap().0, Ending::Done, "{name}");
        }
        let written = run.layout().statistics().cache_written_bytes;
        run.settle();
        assert_eq!(run.layout().statistics().cache_written_bytes, written, "{name}");
        stream(run, 64..256, 16);
        assert_eq!(ahead(run).requests, 1, "{name}: and no more");
    });
}

#[test]
fn a_class_has_no_more_than_its_share_and_promotion_is_not_asked() {
    each_default(Mode::WriteThrough, |name, run| {
        // Shares of 6 MiB.
        run.layout_mut().set_classes(classes("1,core_id:0,5,0.05\n2,core_id:1,5,0.00"));
        stream(run, 0..2048, 16);
        let class = |number| larder_block::layout::ClassId::new(number).unwrap();
        let has = run.layout().class_sectors(class(1)) / S;
        assert!((128..=308).contains(&has), "{name}: {has} KiB");
        // The class evicts its own data for more.
        assert!(ahead_kib(run) > 308, "{name}: {} KiB", ahead_kib(run));
        let before = ahead(run).requests;
        run.run_one_by_one((0..32).map(|number| {
            let span = Span { core: core(1), ..part(number * 16, 16) };
            Request::Read { span }
        }));
        assert_eq!(ahead(run).requests, before, "{name}: never cached");
    });
    each_default(Mode::WriteThrough, |name, run| {
        let never = NHit { insertion_threshold: 1000, trigger_percent: 0 };
        run.layout_mut().set_promotion(PromotionPolicy::NHit(never)).unwrap();
        stream(run, 0..64, 16);
        assert!(has(run, part(0, 64), PieceState::Absent), "{name}");
        assert!(has(run, part(64, 64), PieceState::Clean), "{name}");
    });
}

#[test]
fn what_will_pass_by_is_not_read_ahead() {
    each_default(Mode::WriteThrough, |name, run| {
        run.layout_mut().set_cut_off(CutOffPolicy::Always, 256 * KIB);
        stream(run, 0..1024, 16);
        let statistics = *run.layout().statistics();
        assert_eq!(statistics.bypasses(BypassReason::SequentialCutOff), 49, "{name}");
        assert_eq!(ahead_kib(run), 192, "{name}: up to where it passes by");
        assert!(has(run, part(256, 768), PieceState::Absent), "{name}");
    });
}

/// Carries out the I/Os in flight, except writes and flushes of cores, until no others are left.
fn settle_without_cores(run: &mut Accounting<Cache>) {
    loop {
        run.turn();
        let all = run.under_way().enumerate();
        let to_core = |io: &DeviceIo| !io.reads() && io.target() != Target::Cache;
        let rest: Vec<_> = all.filter(|(_, io)| !to_core(io)).map(|(number, _)| number).collect();
        if rest.is_empty() {
            return;
        }
        run.carry_out_all(|_| rest);
    }
}

#[test]
fn nothing_is_read_ahead_while_the_cache_is_full_of_dirty_data() {
    each_default(Mode::WriteBack, |name, run| {
        // More than the capacity.
        for number in 0..100 {
            let span = Span { core: core(1), ..part(number * 64, 64) };
            run.submit(Request::Write { span, data: stamps(span, 1), durable: false });
            settle_without_cores(run);
        }
        let usage = run.layout().usage();
        let dirty = usage.dirty_sectors * 100 * 512 / (6 << 20);
        assert!(dirty >= 50, "{name}: {dirty} percent are dirty");
        for number in 0..32 {
            run.submit(Request::Read { span: part(number * 16, 16) });
            settle_without_cores(run);
        }
        assert_eq!(ahead(run).requests, 0, "{name}: {usage:?}");
        run.run(Request::Clean { core: core(1) });
        run.settle();
        stream(run, 512..640, 16);
        assert!(ahead(run).requests > 0, "{name}: {:?}", run.layout().usage());
    });
}

#[test]
fn what_is_under_way_is_bounded() {
    each_on(Mode::WriteThrough, on(4096, 16 << 20), |name, run| {
        (0..4).for_each(|number| run.layout_mut().set_core_bytes(core(number), 1 << 30));
        let reads = (0..4).map(|of| Span { core: core(of), ..part(0, 6 << 10) });
        reads.for_each(|span| _ = run.submit(Request::Read { span }));
        run.turn();
        let bytes: usize = run
            .under_way()
            .filter(|io| is_ahead(io))
            .map(|io| if let DeviceIo::Read { bytes, .. } = io { *bytes } else { 0 })
            .sum();
        assert_eq!(bytes, 16 << 20, "{name}");
        run.settle();
        // The read-ahead has ended, so further ones may begin.
        let before = ahead(run).bytes;
        run.run(Request::Read { span: Span { core: core(3), ..part(6 << 10, 2 << 10) } });
        assert!(ahead(run).bytes > before, "{name}");
    });
}

/// The next request of one of three streams, or a request at a random place.
fn any(rng: &mut Rng, nexts: &mut [u64; 3]) -> Span {
    let sectors = rng.choice([8, 32, 64]).unwrap();
    let Some(next) = nexts.get_mut(rng.usize(..4)) else {
        return span(rng.u64(..480) * 8, sectors);
    };
    let first = if *next + 64 > 4000 { rng.u64(..400) * 8 } else { *next };
    *next = first + u64::from(sectors);
    span(first, sectors)
}

#[test]
fn streams_read_what_was_written_while_policies_change() {
    for mode in Mode::all() {
        each_default(mode, |name, run| {
            let mut rng = Rng::with_seed(11);
            let (mut known, mut nexts) = (SectorVersions(vec![0; 4096]), [0, 1000, 3000]);
            run.layout_mut().set_core_bytes(core(0), 4096 * 512);
            for version in 1..250 {
                let reads: Vec<RequestId> = (0..3)
                    .map(|_| run.submit(Request::Read { span: any(&mut rng, &mut nexts) }))
                    .collect();
                run.turn();
                let policies = [on(4096, 4096), on(4096, 1 << 20), ReadAheadPolicy::Off];
                run.layout_mut().set_read_ahead(rng.choice(policies).unwrap()).unwrap();
                if rng.u8(..8) == 0 {
                    run.layout_mut().set_mode(rng.choice(Mode::all()).unwrap());
                    let some = rng.bool();
                    let classes = if some { by_chance(&mut rng) } else { IoClasses::default() };
                    run.layout_mut().set_classes(classes);
                }
                known.write(run, any(&mut rng, &mut nexts), version);
                if rng.bool() {
                    run.settle();
                }
                for id in reads {
                    while run.layout().under_way() > 0 && run.turn() {
                        run.carry_out_all(|count| (0..count).rev().collect());
                    }
                    assert_eq!(run.take_ended(id).unwrap().0, Ending::Done, "{name}, {mode}");
                }
                known.check(run, any(&mut rng, &mut nexts), &format!("{name}, {mode}, {version}"));
            }
            assert!(ahead(run).requests > 20, "{name}, {mode}: {:?}", ahead(run));
        });
    }
}
