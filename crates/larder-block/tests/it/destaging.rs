//! Destaging on request: afterwards the core has all dirty data, whatever other requests run.

use larder_block::accounting::{Accounting, Image, stamps};
use larder_block::layout::ocf::{Geometry, OcfLayout, OcfOptions, OcfVersion};
use larder_block::layout::{Ending, Layout, LayoutRequest, Span};

use super::rig::{IDENTITY, Log, core, device};

const MIB: u64 = 1 << 20;
const SECTORS: u32 = 4096;

fn log() -> Accounting<larder_block::layout::log::LogLayout> {
    Log::of(16 * MIB, 512, 4096).run
}

fn lines(version: OcfVersion) -> Accounting<OcfLayout> {
    let options = OcfOptions { version, line_bytes: 16384 };
    let geometry = Geometry::new(&device(16 * MIB, 512), 0, &options).unwrap();
    Accounting::new(OcfLayout::new(geometry, IDENTITY.uuid), Image::default())
}

/// Writes two MiB in random pieces, some more than once. Returns the resulting version of each sector.
fn dirty<L: Layout>(mut run: Accounting<L>, seed: u64) -> (Accounting<L>, Vec<u64>) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut versions = vec![0; SECTORS as usize];
    for version in 1..600 {
        let sectors = rng.u32(1..40);
        let first = rng.u32(..SECTORS - sectors);
        let span = Span { core: core(3), first: first.into(), sectors };
        versions[first as usize..][..sectors as usize].fill(version);
        let (ending, _) = run.run(LayoutRequest::Write { span, data: stamps(span, version) });
        assert_eq!(ending, Ending::Done);
    }
    (run, versions)
}

fn dirty_spans(layout: &impl Layout) -> Vec<Span> {
    let next = |span: &Span| layout.dirty_after(core(3), span.end());
    std::iter::successors(layout.dirty_after(core(3), 0), next).collect()
}

fn names_dirty_data_in_order(run: Accounting<impl Layout>) {
    let (run, versions) = dirty(run, 1);
    let spans = dirty_spans(run.layout());
    assert!(spans.is_sorted() && spans.windows(2).all(|two| !two[0].overlaps(two[1])));
    let named: u64 = spans.iter().map(|span| u64::from(span.sectors)).sum();
    let written = versions.iter().filter(|version| **version > 0).count() as u64;
    assert_eq!((named, run.layout().usage().dirty_sectors), (written, written));
    assert!(run.layout().dirty_after(core(2), 0).is_none());
    // Also from within a run.
    for sector in 0..u64::from(SECTORS) {
        let next = spans.iter().find(|span| span.end() > sector);
        let first = run.layout().dirty_after(core(3), sector).map(|span| (span.first, span.end()));
        assert_eq!(first, next.map(|span| (span.first.max(sector), span.end())));
    }
}

#[test]
fn dirty_data_are_named_in_order() {
    names_dirty_data_in_order(log());
    names_dirty_data_in_order(lines(OcfVersion::V22));
    names_dirty_data_in_order(lines(OcfVersion::V26));
}

/// Destages everything. Returns the bytes written to the cache device, and its flushes. Runs may be cut in `cuts`
/// places.
fn destages_durably_in_sorted_runs(
    run: Accounting<impl Layout>,
    seed: u64,
    cuts: u64,
) -> (u64, u64) {
    let (mut run, versions) = dirty(run, seed);
    let before = run.counts();
    let span = Span { core: core(3), first: 0, sectors: SECTORS };
    assert_eq!(run.run(LayoutRequest::Destage { span }).0, Ending::Done);
    assert_eq!(run.layout().usage().dirty_sectors, 0);
    assert!(dirty_spans(run.layout()).is_empty());
    let counts = run.counts().since(&before);
    let written = versions.iter().filter(|version| **version > 0).count() as u64;
    assert_eq!(counts.core_written_bytes, written * 512, "dirty sectors only");
    let runs = versions.chunk_by(|a, b| (*a > 0) == (*b > 0)).filter(|run| run[0] > 0).count();
    assert!(counts.core_writes <= runs as u64 + cuts, "{} of {runs} runs", counts.core_writes);
    // Non-durable data does not survive.
    let (_, cores) = run.lose_power(|| false);
    let mut sector = [0; 512];
    for (number, version) in (0..).zip(versions).filter(|(_, version)| *version > 0) {
        cores[&core(3)].read(number * 512, &mut sector);
        let own = stamps(Span { core: core(3), first: number, sectors: 1 }, version);
        assert_eq!(sector, own.bytes(), "sector {number}");
    }
    (counts.cache_written_bytes, counts.flushes[1])
}

#[test]
fn what_is_destaged_is_on_the_core_durably_in_sorted_runs() {
    for seed in 1..5 {
        // A run is cut at a MiB.
        assert_eq!(destages_durably_in_sorted_runs(log(), seed, 2), (0, 1));
        for version in OcfVersion::ALL {
            // The same, and after 128 full lines. Writes a page of the table, or a block of its log.
            let (written, flushes) = destages_durably_in_sorted_runs(lines(version), seed, 3);
            let least = if version == OcfVersion::Wal { 512 } else { 4096 };
            assert!(written >= least && flushes >= 1);
        }
    }
}

fn spares_devices_what_is_clean(run: Accounting<impl Layout>) {
    let (mut run, _) = dirty(run, 1);
    let span = Span { core: core(3), first: 0, sectors: SECTORS };
    run.run(LayoutRequest::Destage { span });
    let before = run.counts();
    assert_eq!(run.run(LayoutRequest::Destage { span }).0, Ending::Done);
    let counts = run.counts().since(&before);
    assert_eq!((counts.core_writes, counts.cache_read_bytes, counts.flushes), (0, 0, [0, 0]));
    let span = Span { sectors: 64, ..span };
    let (_, hit) = run.run(LayoutRequest::Read { span });
    assert!(run.counts().since(&before).cache_read_bytes > 0);
    let before = run.counts();
    let (_, passed) = run.run(LayoutRequest::PassThroughRead { span });
    assert_eq!(hit, passed);
    let counts = run.counts().since(&before);
    assert_eq!((counts.core_read_bytes, counts.cache_read_bytes), (64 * 512, 0));
}

fn outlives_a_core_that_fails(run: Accounting<impl Layout>) {
    let (mut run, versions) = dirty(run, 1);
    let span = Span { core: core(3), first: 0, sectors: SECTORS };
    run.fail_one_in(2, 1);
    assert_eq!(run.run(LayoutRequest::Destage { span }).0, Ending::Failed);
    assert!(run.layout().usage().dirty_sectors > 0);
    run.fail_one_in(0, 1);
    assert_eq!(run.run(LayoutRequest::Destage { span }).0, Ending::Done);
    assert_eq!(run.layout().usage().dirty_sectors, 0);
    let (_, read) = run.run(LayoutRequest::Read { span });
    let version =
        |number: usize| u64::from_le_bytes(read[number * 512 + 8..][..8].try_into().unwrap());
    assert!(versions.iter().enumerate().all(|(number, wanted)| version(number) == *wanted));
}

#[test]
fn a_clean_range_costs_nothing_and_a_pass_through_read_spares_the_cache_device() {
    spares_devices_what_is_clean(log());
    spares_devices_what_is_clean(lines(OcfVersion::V22));
    spares_devices_what_is_clean(lines(OcfVersion::V26));
}

#[test]
fn a_core_that_fails_leaves_dirty_what_it_did_not_take() {
    outlives_a_core_that_fails(log());
    outlives_a_core_that_fails(lines(OcfVersion::V22));
    outlives_a_core_that_fails(lines(OcfVersion::V26));
}
