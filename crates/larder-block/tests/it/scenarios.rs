//! Scenarios of Open CAS's functional suite that no other test covers; docs/block.md says where each scenario is
//! tested.

use fastrand::Rng;
use larder_block::accounting::{Accounting, Image, stamps};
use larder_block::cache::{BypassReason, Cache, CacheOptions, CacheShape, Mode, Request};
use larder_block::layout::log::{Geometry, LogLayout, LogOptions};
use larder_block::layout::ocf::{self, OcfLayout, OcfOptions, OcfVersion};
use larder_block::layout::{DeviceIo, Ending, Layout, Span, Target};
use larder_block::policy::{CutOffPolicy, NHit, PromotionPolicy};

use super::rig::{IDENTITY, core, device};

const BYTES: u64 = 6 << 20;

/// A small cache on each layout, in this mode.
pub(crate) fn each(mode: Mode, line_bytes: u32, test: impl Fn(&str, &mut Accounting<Cache>)) {
    let info = device(BYTES, 512);
    let log = LogOptions {
        segment_bytes: 256 << 10,
        line_bytes,
        write_buffer_bytes: 64 << 10,
        ..LogOptions::default()
    };
    let geometry = Geometry::new(&info, 0, &log).unwrap();
    let mut layouts: Vec<(&str, Box<dyn Layout>)> =
        vec![("log", Box::new(LogLayout::new(geometry, IDENTITY, &info, &log)))];
    for (name, version) in
        [("ocf22", OcfVersion::V22), ("ocf26", OcfVersion::V26), ("wal", OcfVersion::Wal)]
    {
        let geometry = ocf::Geometry::new(&info, 0, &OcfOptions { version, line_bytes }).unwrap();
        layouts.push((name, Box::new(OcfLayout::new(geometry, IDENTITY.uuid))));
    }
    for (name, layout) in layouts {
        let cut_off = CutOffPolicy::Never;
        let options = CacheOptions { mode, cut_off, ..CacheOptions::default() };
        let shape = CacheShape { capacity_bytes: BYTES, line_bytes };
        let cache = Cache::new(layout, shape, options).unwrap();
        test(name, &mut Accounting::new(cache, Image::default()));
    }
}

pub(crate) fn span(first: u64, sectors: u32) -> Span {
    Span { core: core(0), first, sectors }
}

/// Versions of the sectors of a core. A sector of version 0 was never written.
pub(crate) struct SectorVersions(pub(crate) Vec<u64>);

impl SectorVersions {
    pub(crate) fn write(&mut self, run: &mut Accounting<Cache>, span: Span, version: u64) {
        let from = usize::try_from(span.first).unwrap();
        self.0[from..][..span.sectors as usize].fill(version);
        let data = stamps(span, version);
        let durable = version.is_multiple_of(2);
        assert_eq!(run.run(Request::Write { span, data, durable }).0, Ending::Done);
    }

    pub(crate) fn check(&self, run: &mut Accounting<Cache>, span: Span, context: &str) {
        let (ending, read) = run.run(Request::Read { span });
        assert_eq!(ending, Ending::Done, "{context}");
        for (sector, bytes) in (span.first..span.end()).zip(read.chunks(512)) {
            let expected = match self.0[usize::try_from(sector).unwrap()] {
                0 => vec![0; 512],
                version => {
                    stamps(Span { first: sector, sectors: 1, ..span }, version).bytes().to_vec()
                }
            };
            assert!(bytes == expected, "{context}: sector {sector} of {span:?}");
        }
    }
}

#[test]
fn partial_hits_in_every_mode_line_size_and_layout() {
    for mode in Mode::all() {
        for line_bytes in [4096, 8192, 16384, 32768, 65536] {
            each(mode, line_bytes, |name, run| {
                let context = format!("{name}, {mode}, lines of {line_bytes}");
                let mut rng = Rng::with_seed(u64::from(line_bytes));
                let mut known = SectorVersions(vec![0; 2048]);
                let any = |rng: &mut Rng| {
                    let sectors = rng.u32(1..200);
                    span(rng.u64(..2048 - u64::from(sectors)), sectors)
                };
                // Absent, clean and dirty sectors next to each other.
                for version in 1..60 {
                    let preset = [Mode::WriteThrough, Mode::WriteBack, Mode::WriteInvalidate];
                    run.layout_mut().set_mode(rng.choice(preset).unwrap());
                    known.write(run, any(&mut rng), version);
                }
                run.layout_mut().set_mode(mode);
                for version in 60..160 {
                    let one = any(&mut rng);
                    if rng.bool() {
                        known.write(run, one, version);
                    }
                    known.check(run, any(&mut rng), &context);
                }
                let reads = run.layout().statistics().reads;
                let partial = reads.partial_misses;
                assert!(partial > 0 || mode == Mode::PassThrough, "{context}: {reads:?}");
                assert_eq!(run.run(Request::Clean { core: core(0) }).0, Ending::Done);
                assert_eq!(run.layout().usage().dirty_sectors, 0, "{context}");
                run.layout_mut().set_mode(Mode::PassThrough);
                known.check(run, span(0, 2048), &context);
            });
        }
    }
}

#[test]
fn a_write_larger_than_the_cache_ends_and_is_read() {
    for mode in Mode::all() {
        each(mode, 4096, |name, run| {
            let sectors = u32::try_from(BYTES / 512 * 3 / 2).unwrap();
            let mut known = SectorVersions(vec![0; sectors as usize]);
            known.write(run, span(0, 64), 1);
            known.write(run, span(0, sectors), 2);
            for first in (0..u64::from(sectors)).step_by(256) {
                known.check(run, span(first, 256), &format!("{name}, {mode}"));
            }
            assert_eq!(run.run(Request::Clean { core: core(0) }).0, Ending::Done);
        });
    }
}

#[test]
fn what_finds_no_line_passes_by_and_is_counted() {
    each(Mode::WriteBack, 4096, |name, run| {
        let all = 4 * BYTES / 512;
        let mut known = SectorVersions(vec![0; usize::try_from(all).unwrap()]);
        // Most sectors are dirty and stay dirty, because nothing starts destaging.
        (0..all / 256).for_each(|n| known.write(run, span(n * 256, 256), n + 1));
        let statistics = *run.layout().statistics();
        let passed_by = statistics.bypasses(BypassReason::NoRoom);
        assert_eq!(passed_by > 0, name != "log", "{name}: {passed_by}");
        (0..all / 256).for_each(|n| known.check(run, span(n * 256, 256), name));
    });
}

#[test]
fn a_trim_voids_what_is_cached_and_goes_to_the_core() {
    for (first, sectors) in [(0, 8), (3, 1), (5, 17), (8, 64), (1, 200)] {
        each(Mode::WriteBack, 16384, |name, run| {
            let all = span(0, 256);
            run.run(Request::Write { span: all, data: stamps(all, 1), durable: false });
            let id = run.submit(Request::Trim { span: span(first, sectors) });
            let mut trimmed = Vec::new();
            let ending = loop {
                run.turn();
                trimmed.extend(run.under_way().filter_map(|io| match io {
                    DeviceIo::Deallocate { target: Target::Core(_), offset, bytes } => {
                        Some((*offset, *bytes))
                    }
                    _ => None,
                }));
                run.carry_out_all(|count| (0..count).collect());
                if let Some((ending, _)) = run.take_ended(id) {
                    break ending;
                }
            };
            assert_eq!(ending, Ending::Done);
            assert_eq!(trimmed, [(first * 512, u64::from(sectors) * 512)], "{name}");
            let dirty = run.layout().usage().dirty_sectors;
            assert_eq!(dirty, u64::from(256 - sectors), "{name}: neighbours stay");
            let mut pieces = Vec::new();
            run.layout_mut().lookup(span(first, sectors), &mut pieces);
            let absent = larder_block::layout::PieceState::Absent;
            assert!(pieces.iter().all(|piece| piece.state == absent), "{name}: {pieces:?}");
        });
    }
}

/// Counts of the I/Os that a request causes: durable writes and flushes, each of cores and of the cache device.
fn asked(run: &mut Accounting<Cache>, request: Request) -> [u32; 4] {
    let id = run.submit(request);
    let mut counts = [0; 4];
    loop {
        run.turn();
        for io in run.under_way() {
            let at = usize::from(io.target() == Target::Cache);
            match io {
                DeviceIo::Write { durable: true, .. } => counts[at] += 1,
                DeviceIo::Flush { .. } => counts[2 + at] += 1,
                _ => {}
            }
        }
        run.carry_out_all(|count| (0..count).collect());
        if run.take_ended(id).is_some() {
            return counts;
        }
    }
}

#[test]
fn flushes_and_durable_writes_reach_the_devices_that_need_them() {
    for mode in Mode::all() {
        each(mode, 4096, |name, run| {
            let write = |first, durable| {
                let span = span(first, 8);
                Request::Write { span, data: stamps(span, 1), durable }
            };
            let [core_durable, cache_durable, ..] = asked(run, write(0, true));
            let context = format!("{name}, {mode}");
            if mode.may_be_dirty() {
                assert!(core_durable == 0 && cache_durable > 0, "{context}: on the cache device");
            } else {
                assert_eq!(core_durable, 1, "{context}: on the core");
            }
            let [core_durable, ..] = asked(run, write(64, false));
            assert_eq!(core_durable, 0, "{context}");
            run.settle();
            let [.., core_flushes, _] = asked(run, Request::Flush);
            assert_eq!(
                core_flushes,
                u32::from(!mode.may_be_dirty()),
                "{context}: where it was written"
            );
        });
    }
}

#[test]
fn promotion_and_cut_off_change_while_requests_are_under_way() {
    for mode in [Mode::WriteThrough, Mode::WriteBack] {
        each(mode, 4096, |name, run| {
            let mut rng = Rng::with_seed(5);
            let mut known = SectorVersions(vec![0; 4096]);
            for version in 1..300 {
                let n_hit = NHit { insertion_threshold: 2, trigger_percent: 0 };
                let policy = [PromotionPolicy::Always, PromotionPolicy::NHit(n_hit)];
                let reads: Vec<_> = (0..4)
                    .map(|number| {
                        let first = rng.u64(..120) * 8 + number * 1024;
                        (first, run.submit(Request::Read { span: span(first, 8) }))
                    })
                    .collect();
                run.turn();
                // The reads have begun and have not ended.
                run.layout_mut().set_promotion(rng.choice(policy).unwrap()).unwrap();
                let always = rng.choice([CutOffPolicy::Always, CutOffPolicy::Never]).unwrap();
                run.layout_mut().set_cut_off(always, rng.choice([0, 8192]).unwrap());
                known.write(run, span(rng.u64(..500) * 8, 8), version);
                run.settle();
                for (_, id) in reads {
                    assert_eq!(run.take_ended(id).unwrap().0, Ending::Done);
                }
                known.check(run, span(rng.u64(..500) * 8, 64), &format!("{name}, {mode}"));
            }
        });
    }
}
