//! A start that serves requests before it has loaded everything it has found.

use std::time::Duration;

use fastrand::Rng;
use larder_block::accounting::{Accounting, Image, stamped, stamps};
use larder_block::cache::{Cache, CacheOptions, CacheShape, Mode, Request};
use larder_block::layout::log::{LoadOptions, LogOptions};
use larder_block::layout::{self, Ending, PieceState, Span};
use larder_block::policy::CutOffPolicy;
use larder_block::policy::cleaning::{AlruOptions, CleaningOptions, CleaningPolicy};
use larder_device::DeviceInfo;

use super::rig::{Log, core, device, found};

const SEGMENT_BYTES: u32 = 64 << 10;
pub(crate) const LINES: u64 = 240;
const LOAD_TIME: Duration = Duration::from_secs(10);

/// Rewrites are not overwritten in place, but get another record.
fn info() -> DeviceInfo {
    let device = device(32 * u64::from(SEGMENT_BYTES), 512);
    DeviceInfo { atomic_write_bytes: None, ..device }
}

fn options() -> LogOptions {
    LogOptions {
        segment_bytes: SEGMENT_BYTES,
        write_buffer_bytes: 0,
        load: LoadOptions { at_start_max: 0, part_records: 8, range_lines: 4 },
        ..LogOptions::default()
    }
}

pub(crate) fn line(number: u64) -> Span {
    Span { core: core(0), first: number * 8, sectors: 8 }
}

/// The cache device after all lines were written once, in random order, some of them and parts of some once more, and
/// power was lost.
fn crashed() -> Image {
    let mut log = Log::new(info(), options());
    let mut rng = Rng::with_seed(7);
    let mut lines: Vec<u64> = (0..LINES).collect();
    rng.shuffle(&mut lines);
    for line in lines {
        log.run.run(stamped(core(0), line * 8, 8, 1));
    }
    for line in (0..LINES).step_by(3) {
        log.run.run(stamped(core(0), line * 8, if line.is_multiple_of(2) { 8 } else { 3 }, 2));
    }
    log.run.lose_power(|| true).0
}

/// The content of a line.
fn expected(number: u64) -> Vec<u8> {
    let whole = stamps(line(number), 1).bytes().to_vec();
    let newer = stamps(line(number), 2).bytes().to_vec();
    let sectors = match number {
        _ if !number.is_multiple_of(3) => 0,
        _ if number.is_multiple_of(2) => 8,
        _ => 3,
    };
    [&newer[..sectors * 512], &whole[sectors * 512..]].concat()
}

pub(crate) fn start(cleaning: CleaningOptions) -> Accounting<Cache> {
    let image = crashed();
    let layout = found(&info(), &options(), 2, &image);
    let shape = CacheShape { capacity_bytes: info().capacity_bytes, line_bytes: 4096 };
    let cache_options = CacheOptions {
        mode: Mode::WriteBack,
        cut_off: CutOffPolicy::Never,
        load_time: LOAD_TIME,
        cleaning,
        ..CacheOptions::default()
    };
    let mut cache = Cache::new(Box::new(layout), shape, cache_options).unwrap();
    cache.look_for_dirty([core(0)]);
    Accounting::new(cache, image)
}

pub(crate) fn nothing_is_cleaned() -> CleaningOptions {
    CleaningOptions { policy: CleaningPolicy::Nop, ..CleaningOptions::default() }
}

#[test]
fn a_request_loads_what_it_is_about_and_the_rest_follows_in_its_time() {
    let mut run = start(nothing_is_cleaned());
    let parts = run.layout().unloaded_parts();
    assert!(parts > 16, "{parts} parts");
    assert!(run.layout().usage().dirty_sectors > LINES * 8, "what was written twice counts twice");
    assert_eq!(run.run(Request::Read { span: line(9) }), (Ending::Done, expected(9)));
    assert_eq!(run.layout().unloaded_parts(), parts - 1);

    let left = |run: &mut Accounting<Cache>, at: Duration| {
        run.layout_mut().work(at);
        run.layout().unloaded_parts()
    };
    let begin = Duration::from_secs(100);
    assert!(left(&mut run, begin) >= parts - 2);
    let half = (1..=20).map(|tick| left(&mut run, begin + LOAD_TIME * tick / 40)).last().unwrap();
    assert!(half.abs_diff(parts / 2) <= 3, "{half} of {parts} after half of the time");
    // After a long time without a call, not everything is loaded at once.
    let before = run.layout().unloaded_parts();
    let loaded = before - left(&mut run, begin + LOAD_TIME * 9 / 10);
    assert!((2..=8).contains(&loaded), "{loaded} parts of {before}");
    for tick in 36..=44 {
        left(&mut run, begin + LOAD_TIME * tick / 40);
    }
    assert_eq!(run.layout().unloaded_parts(), 0);
    assert_eq!(run.layout().usage().dirty_sectors, LINES * 8);
    for number in 0..LINES {
        assert_eq!(run.run(Request::Read { span: line(number) }).1, expected(number), "{number}");
    }
}

#[test]
fn what_is_loaded_later_is_cleaned_too() {
    let stale = AlruOptions {
        wake_up: Duration::from_secs(1),
        staleness: Duration::from_secs(5),
        activity_threshold: Duration::ZERO,
        ..AlruOptions::default()
    };
    let policy = CleaningPolicy::Alru(stale);
    let mut run = start(CleaningOptions { policy, ..CleaningOptions::default() });
    let begin = Duration::from_secs(100);
    for second in 0..40 {
        run.layout_mut().work(begin + Duration::from_secs(second));
        run.settle();
    }
    assert_eq!((run.layout().unloaded_parts(), run.layout().usage().dirty_sectors), (0, 0));
    assert!(run.layout().is_on_cores());
}

/// Whether `work` is called or not.
#[test]
fn a_core_that_is_cleaned_has_what_was_not_loaded() {
    for is_told in [false, true] {
        let mut run = start(nothing_is_cleaned());
        assert!(!run.layout().is_on_cores());
        if is_told {
            run.layout_mut().work(Duration::from_secs(1));
        }
        let id = run.submit(Request::Clean { core: core(0) });
        let mut turns = 0;
        let ending = loop {
            if is_told {
                let next = run.layout_mut().work(Duration::from_secs(1));
                assert!(turns > 0 || next == Some(Duration::from_secs(1)), "it is in a hurry");
            }
            run.turn();
            run.carry_out_all(|count| (0..count).collect());
            if let Some((ending, _)) = run.take_ended(id) {
                break ending;
            }
            turns += 1;
            assert!(turns < 1000, "it does not end");
        };
        assert_eq!((ending, run.layout().is_on_cores()), (Ending::Done, true), "{is_told}");
        let span = line(0);
        let mut pieces = Vec::new();
        run.layout_mut().lookup(Span { sectors: 8 * 240, ..span }, &mut pieces);
        assert!(pieces.iter().all(|piece| piece.state == PieceState::Clean), "clean data stay");
    }
}

/// Writes at the end of the log drain old segments whose lines are not loaded.
#[test]
fn a_log_gives_way_whose_lines_are_not_loaded() {
    let image = crashed();
    let layout = found(&info(), &options(), 2, &image);
    let mut run = Accounting::new(layout, image);
    let far = |number: u64| stamped(core(1), number * 8, 8, 3);
    run.run_all(4, (0..1000).map(far));
    for number in 0..LINES {
        let span = line(number);
        let (_, read) = run.run(layout::LayoutRequest::Read { span });
        assert_eq!(read, expected(number), "line {number}, from the cache device or the core");
    }
}
