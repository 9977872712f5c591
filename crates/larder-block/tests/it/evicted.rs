//! Data that a class of a log has evicted in memory is still on the device. Once a write went past it, no crash brings
//! it back.

use std::collections::HashMap;

use fastrand::Rng;
use larder_block::accounting::{Accounting, Image, stamps};
use larder_block::cache::{Cache, CacheOptions, CacheShape, Mode, Request};
use larder_block::layout::{
    self, ClassId, Ending, Layout, PieceState, RequestId, Share, Shares, Span,
};
use larder_block::policy::CutOffPolicy;

use super::classes::{class, classes};
use super::rig::core;
use super::subject::{Log, Subject};

const CAPACITY: u64 = 768 << 10;
/// The share of a class with a fifth of it.
const SHARE_LINES: u64 = CAPACITY / 5 / 4096;

fn cache(layout: impl Layout + 'static, mode: Mode) -> Cache {
    let options = CacheOptions {
        mode,
        cut_off: CutOffPolicy::Never,
        classes: classes("1,core_id:0,5,0.20"),
        ..CacheOptions::default()
    };
    let shape = CacheShape { capacity_bytes: CAPACITY, line_bytes: 4096 };
    Cache::new(Box::new(layout), shape, options).unwrap()
}

fn line(number: u64) -> Span {
    Span { core: core(0), first: number * 8, sectors: 8 }
}

fn write(run: &mut Accounting<Cache>, number: u64, version: u64) {
    let span = line(number);
    let request = Request::Write { span, data: stamps(span, version), durable: false };
    assert_eq!(run.run(request).0, Ending::Done);
}

fn is_cached(run: &mut Accounting<Cache>, number: u64) -> bool {
    let mut pieces = Vec::new();
    run.layout_mut().lookup(line(number), &mut pieces);
    pieces.iter().any(|piece| piece.state != PieceState::Absent)
}

/// A log in which a class has evicted the first lines that it wrote, while they are still on the device.
fn given_up(subject: &Log, written_in: Mode) -> Accounting<Cache> {
    let mut run = Accounting::new(cache(subject.create(), written_in), Image::default())
        .tearing_between(subject.whole_bytes());
    for number in 0..SHARE_LINES + 8 {
        write(&mut run, number, 1);
        if written_in == Mode::WriteBack {
            // Dirty data is not evicted.
            run.run(Request::Clean { core: core(0) });
        }
    }
    let has = run.layout().class_sectors(class(1));
    assert!(has <= SHARE_LINES * 8 && !is_cached(&mut run, 0) && is_cached(&mut run, SHARE_LINES));
    run
}

/// What is read of line 0 after a crash.
fn after_a_crash(mut run: Accounting<Cache>, subject: &mut Log, rng: &mut Rng) -> Vec<u8> {
    assert_eq!(run.run(Request::Flush).0, Ending::Done);
    let (image, cores) = run.lose_power(|| true);
    let found = subject.recover(rng, &image);
    let mut run = Accounting::new(cache(found, Mode::WriteThrough), image).with_cores(cores);
    run.run(Request::Read { span: line(0) }).1
}

#[test]
fn what_is_written_past_it_is_what_a_crash_leaves() {
    for seed in 0..12 {
        for written_in in [Mode::WriteThrough, Mode::WriteBack] {
            for past_in in [Mode::PassThrough, Mode::WriteAround, Mode::WriteThrough] {
                let mut rng = Rng::with_seed(seed);
                let mut subject = Log::draw(&mut rng);
                let mut run = given_up(&subject, written_in);
                run.layout_mut().set_mode(past_in);
                write(&mut run, 0, 2);
                let read = after_a_crash(run, &mut subject, &mut rng);
                let is_new = read == stamps(line(0), 2).bytes();
                assert!(is_new, "seed {seed}: {written_in}, then {past_in}");
            }
        }
    }
}

#[test]
fn what_is_discarded_is_gone_after_a_crash() {
    for seed in 0..12 {
        let mut rng = Rng::with_seed(seed);
        let mut subject = Log::draw(&mut rng);
        let mut run = given_up(&subject, Mode::WriteBack);
        run.run(Request::Trim { span: line(0) });
        let read = after_a_crash(run, &mut subject, &mut rng);
        assert!(read != stamps(line(0), 1).bytes(), "seed {seed}");
    }
}

/// Evicted data that was not overwritten may come back, because the core has the same data.
#[test]
fn what_is_left_alone_is_right_after_a_crash() {
    let mut rng = Rng::with_seed(1);
    let mut subject = Log::draw(&mut rng);
    let run = given_up(&subject, Mode::WriteBack);
    assert_eq!(after_a_crash(run, &mut subject, &mut rng), stamps(line(0), 1).bytes());
}

/// A log after lines were written and read until segments were drained, while its class evicted data at random
/// moments. Nothing is in flight.
fn turned(subject: &Log, rng: &mut Rng) -> Accounting<layout::log::LogLayout> {
    let mut log = subject.create();
    log.set_shares(Shares::from_fn(|_| Share { percent: 30, ..Share::DEFAULT }));
    let mut run = Accounting::new(log, Image::default()).tearing_between(subject.whole_bytes());
    let mut under_way: HashMap<u64, RequestId> = HashMap::new();
    for _ in 0..3000 {
        let number = if rng.bool() { rng.u64(..LINES) } else { rng.u64(..LINES / 8) };
        if let std::collections::hash_map::Entry::Vacant(free) = under_way.entry(number) {
            let span = line(number);
            free.insert(run.submit(match rng.u8(..8) {
                0..4 => layout::LayoutRequest::Read { span },
                // Data of it that is kept is clean.
                4..6 => layout::LayoutRequest::Destage { span },
                _ => layout::LayoutRequest::Write { span, data: stamps(span, 1) },
            }));
        }
        run.turn();
        if rng.u8(..4) == 0 {
            run.layout_mut().make_room(ClassId::UNCLASSIFIED, 64);
        }
        run.carry_out_all(|count| (0..count).filter(|_| rng.bool()).collect());
        under_way.retain(|_, id| run.take_ended(*id).is_none());
    }
    run.settle();
    run
}

/// More lines than a log has.
const LINES: u64 = CAPACITY / 4096 * 2;

#[test]
fn a_copy_of_it_that_was_on_its_way_does_not_come_back_either() {
    for seed in 0..150 {
        let mut rng = Rng::with_seed(seed);
        let mut subject = Log::draw(&mut rng);
        let mut run = turned(&subject, &mut rng);
        for number in 0..LINES {
            let (span, durable) = (line(number), true);
            let request = layout::LayoutRequest::Bypass { span, data: stamps(span, 2), durable };
            assert_eq!(run.run(request).0, Ending::Done);
        }
        let (image, cores) = run.lose_power(|| true);
        let found = subject.recover(&mut rng, &image);
        let mut run = Accounting::new(found, image).with_cores(cores);
        for number in 0..LINES {
            let (_, read) = run.run(layout::LayoutRequest::Read { span: line(number) });
            assert!(read == stamps(line(number), 2).bytes(), "seed {seed}: line {number}");
        }
    }
}
