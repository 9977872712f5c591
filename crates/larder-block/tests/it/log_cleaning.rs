//! Destaging on demand: the core alone has what was dirty, whatever goes on beside.

use larder_block::accounting::stamps;
use larder_block::layout::log::LogLayout;
use larder_block::layout::{Ending, Layout, Request, Span};

use super::rig::{Log, core};

const MIB: u64 = 1 << 20;
const SECTORS: u32 = 4096;

/// Writes all of two MiB in random pieces, some more than once.
fn dirty(seed: u64) -> (Log, Vec<u64>) {
    let mut log = Log::of(16 * MIB, 512, 4096);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut versions = vec![0; SECTORS as usize];
    for version in 1..600 {
        let sectors = rng.u32(1..40);
        let first = rng.u32(..SECTORS - sectors);
        let span = Span { core: core(3), first: first.into(), sectors };
        versions[first as usize..][..sectors as usize].fill(version);
        let (ending, _) = log.run.run(Request::Write { span, data: stamps(span, version) });
        assert_eq!(ending, Ending::Done);
    }
    (log, versions)
}

fn dirty_spans(layout: &LogLayout) -> Vec<Span> {
    let next = |span: &Span| layout.dirty_after(core(3), span.end());
    std::iter::successors(layout.dirty_after(core(3), 0), next).collect()
}

#[test]
fn dirty_data_are_named_in_order() {
    let (log, versions) = dirty(1);
    let spans = dirty_spans(log.run.layout());
    assert!(spans.is_sorted() && spans.windows(2).all(|two| !two[0].overlaps(two[1])));
    let named: u64 = spans.iter().map(|span| u64::from(span.sectors)).sum();
    let written = versions.iter().filter(|version| **version > 0).count() as u64;
    assert_eq!((named, log.run.layout().usage().dirty_sectors), (written, written));
    assert!(log.run.layout().dirty_after(core(2), 0).is_none());
}

#[test]
fn what_is_destaged_is_on_the_core_durably_in_sorted_runs() {
    for seed in 1..5 {
        let (mut log, versions) = dirty(seed);
        let before = log.run.counts();
        let span = Span { core: core(3), first: 0, sectors: SECTORS };
        assert_eq!(log.run.run(Request::Destage { span }).0, Ending::Done);
        assert_eq!(log.run.layout().usage().dirty_sectors, 0);
        assert!(dirty_spans(log.run.layout()).is_empty());
        let counts = log.run.counts().since(&before);
        let written = versions.iter().filter(|version| **version > 0).count() as u64;
        assert_eq!(counts.core_written_bytes, written * 512, "dirty sectors only");
        let runs = versions.chunk_by(|a, b| (*a > 0) == (*b > 0)).filter(|run| run[0] > 0).count();
        // A run is cut at a MiB.
        assert!(counts.core_writes <= runs as u64 + 2, "{} of {runs} runs", counts.core_writes);
        assert_eq!((counts.cache_written_bytes, counts.flushes), (0, [0, 1]));
        // Nothing that is not durable survives.
        let (_, cores) = log.run.lose_power(|| false);
        let mut sector = [0; 512];
        for (number, version) in (0..).zip(versions).filter(|(_, version)| *version > 0) {
            cores[&core(3)].read(number * 512, &mut sector);
            let own = stamps(Span { core: core(3), first: number, sectors: 1 }, version);
            assert_eq!(sector, own.bytes(), "sector {number}");
        }
    }
}

#[test]
fn a_clean_range_costs_nothing_and_a_pass_through_read_spares_the_cache_device() {
    let (mut log, _) = dirty(1);
    let span = Span { core: core(3), first: 0, sectors: SECTORS };
    log.run.run(Request::Destage { span });
    let before = log.run.counts();
    assert_eq!(log.run.run(Request::Destage { span }).0, Ending::Done);
    let counts = log.run.counts().since(&before);
    assert_eq!((counts.core_writes, counts.cache_read_bytes, counts.flushes), (0, 0, [0, 0]));
    let span = Span { sectors: 64, ..span };
    let (_, hit) = log.run.run(Request::Read { span });
    assert!(log.run.counts().since(&before).cache_read_bytes > 0);
    let before = log.run.counts();
    let (_, passed) = log.run.run(Request::PassThroughRead { span });
    assert_eq!(hit, passed);
    let counts = log.run.counts().since(&before);
    assert_eq!((counts.core_read_bytes, counts.cache_read_bytes), (64 * 512, 0));
}

#[test]
fn a_core_that_fails_leaves_dirty_what_it_did_not_take() {
    let (mut log, versions) = dirty(1);
    let span = Span { core: core(3), first: 0, sectors: SECTORS };
    log.run.fail_one_in(2, 1);
    assert_eq!(log.run.run(Request::Destage { span }).0, Ending::Failed);
    assert!(log.run.layout().usage().dirty_sectors > 0);
    log.run.fail_one_in(0, 1);
    assert_eq!(log.run.run(Request::Destage { span }).0, Ending::Done);
    assert_eq!(log.run.layout().usage().dirty_sectors, 0);
    let (_, read) = log.run.run(Request::Read { span });
    let version =
        |number: usize| u64::from_le_bytes(read[number * 512 + 8..][..8].try_into().unwrap());
    assert!(versions.iter().enumerate().all(|(number, wanted)| version(number) == *wanted));
}
