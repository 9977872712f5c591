//! Bytes that the layouts of Open CAS write and read, compared with measurements of Open CAS. cw, cr and kw are bytes
//! written to the cache device, read from it and written to the core, per byte that users wrote; md is the part of cw
//! that is metadata. One thread, one request at a time, no sequential cut-off. "2nd" is a second pass over the same
//! file. CC is the capacity, FS the size of the file.

use larder_block::accounting::{Accounting, Counts, Image};
use larder_block::layout::ocf::{Geometry, OcfLayout, OcfOptions, OcfVersion};
use larder_block::layout::{Data, LayoutRequest, Span};

use super::rig::{IDENTITY, core, device, zipf};

use OcfVersion::{V22, V26};

/// Measured configurations: line size of 4, 16 and 64 KiB, and number of lines.
const LINES_26: [(u32, u32); 3] = [(4096, 120_832), (16384, 30_424), (65536, 7618)];
const LINES_22: [(u32, u32); 3] = [(4096, 120_736), (16384, 30_424), (65536, 7618)];

struct Ocf {
    run: Accounting<OcfLayout>,
    zeros: Data,
    lines: u64,
    line_bytes: u64,
}

impl Ocf {
    fn new(version: OcfVersion, (line_bytes, lines): (u32, u32)) -> Self {
        let options = OcfOptions { version, line_bytes };
        let info = device(Geometry::device_bytes(0, lines, &options), 512);
        let geometry = Geometry::new(&info, 0, &options).unwrap();
        assert_eq!(geometry.lines, lines);
        let layout = OcfLayout::new(geometry, IDENTITY.uuid);
        Self {
            run: Accounting::new(layout, Image::default()).without_bytes(),
            zeros: Data::copy_of(&[0; 512 << 10]),
            lines: lines.into(),
            line_bytes: line_bytes.into(),
        }
    }

    /// Writes `bytes` at each of these numbers, and returns the cost.
    fn write(&mut self, bytes: u64, at: impl IntoIterator<Item = u64>) -> Counts {
        let before = self.run.counts();
        let sectors = u32::try_from(bytes / 512).unwrap();
        let data = self.zeros.slice(0..usize::try_from(bytes).unwrap());
        self.run.run_one_by_one(at.into_iter().map(|number| {
            let first = number * u64::from(sectors);
            LayoutRequest::Write {
                span: Span { core: core(0), first, sectors },
                data: data.clone(),
            }
        }));
        self.run.counts().since(&before)
    }

    /// Number of writes of `bytes` in `halves` halves of the capacity.
    fn count(&self, halves: u64, bytes: u64) -> u64 {
        self.lines * self.line_bytes * halves / 2 / bytes
    }

    fn sequential(&mut self, halves: u64, bytes: u64) -> Counts {
        self.write(bytes, 0..self.count(halves, bytes))
    }

    fn random(&mut self, halves: u64, bytes: u64, seed: u64) -> Counts {
        let count = self.count(halves, bytes);
        let mut rng = fastrand::Rng::with_seed(seed);
        self.write(bytes, (0..count).map(|_| rng.u64(..count)))
    }
}

/// The allowed deviation.
#[derive(Clone, Copy)]
enum Within {
    Percent(f64),
    /// Of cw, cr and kw, in percentage points.
    Points(f64),
}

/// The measured values: cw, then md, cr and kw if they are known.
type MeasuredBytes = (f64, Option<f64>, Option<(f64, f64)>);

/// Prints a row, and fails if it deviates too much from the measurement.
fn judge(name: &str, counts: Counts, (cw, md, rest): MeasuredBytes, within: Within) {
    let mut pairs = vec![("cw", counts.cw(), cw)];
    pairs.extend(md.map(|md| ("md", counts.metadata(), md)));
    pairs.extend(rest.map(|(cr, _)| ("cr", counts.cr(), cr)));
    pairs.extend(rest.map(|(_, kw)| ("kw", counts.kw(), kw)));
    let shown: Vec<String> =
        pairs.iter().map(|(what, own, known)| format!("{what} {own:.4} of {known:.3}")).collect();
    println!("{name}: {}", shown.join(", "));
    for (what, own, known) in pairs {
        let room = match within {
            // Three digits are known. A value much smaller than cw has the same room as a value of 0.1.
            Within::Percent(percent) => (percent / 100.0 * known).max(percent / 100.0 * 0.1),
            Within::Points(points) => points / 100.0,
        };
        assert!((own - known).abs() <= room, "{name}: {what} {own:.4} of {known:.3}");
    }
}

fn evicting(version: OcfVersion) -> Within {
    Within::Percent(if version == V26 { 2.0 } else { 5.0 })
}

#[test]
fn first_touches_cost_a_page_each_and_rewrites_none() {
    for version in [V26, V22] {
        let exact = Within::Percent(0.01);
        for (line_bytes, cw) in [(4096, 2.0), (16384, 1.25), (65536, 1.0625)] {
            let mut ocf = Ocf::new(version, (line_bytes, 1024));
            let bytes = u64::from(line_bytes);
            let (first, again) = (ocf.sequential(1, bytes), ocf.sequential(1, bytes));
            judge(&format!("{version:?}, {bytes}, 1st"), first, (cw, Some(cw - 1.0), None), exact);
            judge(&format!("{version:?}, {bytes}, 2nd"), again, (1.0, Some(0.0), None), exact);
            assert_eq!((again.cache_writes, again.cache_read_bytes), (again.requests, 0));
            assert_eq!(first.flushes, [0, 0]);
        }
        for line_bytes in [16384, 65536] {
            let mut ocf = Ocf::new(version, (line_bytes, 1024));
            let (first, again) = (ocf.sequential(1, 4096), ocf.sequential(1, 4096));
            let name = format!("{version:?}, 4 KiB into {line_bytes}");
            judge(&name, first, (2.0, Some(1.0), None), exact);
            judge(&name, again, (1.0, Some(0.0), None), exact);
        }
        for line_bytes in [4096, 65536] {
            let first = Ocf::new(version, (line_bytes, 256)).sequential(1, 512);
            judge(&format!("{version:?}, 512 into {line_bytes}"), first, (9.0, None, None), exact);
        }
    }
}

#[test]
fn what_was_read_is_kept_without_metadata() {
    for version in [V26, V22] {
        let mut ocf = Ocf::new(version, (4096, 1024));
        let span = Span { core: core(0), first: 0, sectors: 8 };
        ocf.run.run(LayoutRequest::InsertClean { span, data: ocf.zeros.slice(0..4096) });
        ocf.run.settle();
        let counts = ocf.run.counts();
        assert_eq!((counts.cache_written_bytes, counts.cache_written_metadata_bytes), (4096, 0));
        ocf.run.run(LayoutRequest::Read { span });
        assert_eq!(ocf.run.counts().since(&counts).cache_read_bytes, 4096);
    }
}

/// Passes over 1.5 CC in writes of one line: cw, md, cr and kw of the first and second pass.
fn passes(version: OcfVersion, lines: (u32, u32), measured: [MeasuredBytes; 2]) {
    let mut ocf = Ocf::new(version, lines);
    for (pass, measured) in (1..).zip(measured) {
        let counts = ocf.sequential(3, lines.0.into());
        let name = format!("{version:?}, {} lines of {}, 1.5 CC, pass {pass}", lines.1, lines.0);
        judge(&name, counts, measured, evicting(version));
        assert_eq!(counts.flushes[0], counts.flushes[1]);
        // One flush of each device per 32 cleaned lines.
        let cleaned = counts.cache_read_bytes / u64::from(lines.0);
        assert_eq!(counts.flushes[0], cleaned / 32);
    }
}

const SEQUENTIAL_26: [[MeasuredBytes; 2]; 3] = [
    [(1.991, Some(1.001), Some((0.323, 0.333))), (1.972, Some(1.002), Some((0.970, 1.000)))],
    [(1.240, None, None), (1.220, Some(0.250), None)],
    [(1.053, None, None), (1.033, Some(0.063), None)],
];
const SEQUENTIAL_22: [[MeasuredBytes; 2]; 3] = [
    [(2.061, None, Some((0.323, 0.334))), (2.185, None, Some((0.970, 1.000)))],
    [(1.265, None, None), (1.320, None, None)],
    [(1.063, None, None), (1.065, None, None)],
];

#[test]
fn a_stream_beyond_the_capacity_evicts() {
    passes(V26, (4096, 16_384), SEQUENTIAL_26[0]);
    passes(V26, LINES_26[2], SEQUENTIAL_26[2]);
    passes(V22, LINES_22[2], SEQUENTIAL_22[2]);
}

/// At the measured capacities: `cargo test -p larder-block --test it -- --ignored --nocapture ocf_bytes`.
#[test]
#[ignore = "a minute; the same in small is above"]
fn a_stream_beyond_the_capacity_evicts_as_much_as_measured() {
    for number in 0..3 {
        passes(V26, LINES_26[number], SEQUENTIAL_26[number]);
        passes(V22, LINES_22[number], SEQUENTIAL_22[number]);
    }
}

/// Writes of 128 lines: most of those that find no room bypass the cache.
#[test]
fn writes_of_many_lines() {
    let rows = [
        (V26, LINES_26[0], [(1.0102, 0.0, 0.0), (0.741, 0.067, 0.334), (0.680, 0.088, 0.414)], 2.0),
        (
            V22,
            LINES_22[0],
            [(1.155, 0.0, 0.0), (0.808, 0.067, 0.333), (0.700, 0.083, 0.416)],
            133.8,
        ),
    ];
    for (version, lines, measured, ios) in rows {
        let mut small = Ocf::new(version, lines);
        let mut large = Ocf::new(version, lines);
        let bytes = 512 << 10;
        let counts =
            [small.sequential(1, bytes), large.sequential(3, bytes), large.sequential(3, bytes)];
        let ios_a_write = counts[0].cache_writes as f64 / counts[0].requests as f64;
        println!("{version:?}, 512 KiB: {ios_a_write:.1} I/Os of {ios}");
        assert!((ios_a_write / ios - 1.0).abs() <= 0.05, "{ios_a_write} of {ios}");
        for (case, (counts, (cw, cr, kw))) in
            ["0.5 CC", "1.5 CC, 1st", "1.5 CC, 2nd"].iter().zip(counts.into_iter().zip(measured))
        {
            let name = format!("{version:?}, 512 KiB, {case}");
            judge(&name, counts, (cw, None, Some((cr, kw))), Within::Points(3.0));
        }
    }
}

/// The cache is filled, its lines are reused at random, and then random writes go to 3 CC. Also blocks of 4 KiB in
/// lines of 64 KiB.
///
/// `cargo test -p larder-block --test it -- --ignored --nocapture ocf_bytes`.
#[test]
#[ignore = "a minute of CPU"]
fn random_writes_evict_as_much_as_measured() {
    let rows = [
        (
            V26,
            LINES_26,
            [(1.890, Some(0.911), Some((0.645, 0.666))), (1.160, None, None), (1.024, None, None)],
        ),
        (
            V22,
            LINES_22,
            [(2.245, Some(1.265), Some((0.646, 0.667))), (1.286, None, None), (1.054, None, None)],
        ),
    ];
    for (version, lines, measured) in rows {
        for (lines, measured) in lines.into_iter().zip(measured) {
            let mut ocf = Ocf::new(version, lines);
            let bytes = lines.0.into();
            ocf.sequential(2, bytes);
            ocf.random(2, bytes, 1);
            ocf.random(6, bytes, 2);
            let name = format!("{version:?}, lines of {bytes}, random over 3 CC, 2nd round");
            judge(&name, ocf.random(6, bytes, 3), measured, evicting(version));
        }
    }
    for (version, cw, cr, kw) in [(V26, 1.901, 5.19, 0.888), (V22, 2.139, 5.19, 0.891)] {
        let mut ocf = Ocf::new(version, LINES_26[2]);
        ocf.random(3, 4096, 1);
        let name = format!("{version:?}, 4 KiB into lines of 64 KiB, random over 1.5 CC, 2nd");
        judge(&name, ocf.random(3, 4096, 2), (cw, None, Some((cr, kw))), evicting(version));
    }
}

/// Zipf 0.99 in writes of 4 KiB, six CC after a warm-up of six CC.
///
/// `cargo test -p larder-block --test it -- --ignored --nocapture ocf_bytes`.
#[test]
#[ignore = "ten seconds of CPU"]
fn skewed_writes_cost_as_much_as_measured() {
    let rows = [
        (V26, 3, (1.058, Some(0.059), Some((0.038, 0.039)))),
        (V26, 6, (1.150, Some(0.155), Some((0.139, 0.143)))),
        (V22, 3, (1.085, None, Some((0.038, 0.039)))),
        (V22, 6, (1.247, None, Some((0.138, 0.142)))),
    ];
    for (version, halves, measured) in rows {
        let mut ocf = Ocf::new(version, (4096, 25_536));
        let mut draws = zipf(ocf.count(halves, 4096), 1);
        let rounds = usize::try_from(6 * ocf.lines).unwrap();
        ocf.write(4096, draws.by_ref().take(rounds));
        let counts = ocf.write(4096, draws.by_ref().take(rounds));
        let name = format!("{version:?}, Zipf, FS {} CC", halves as f64 / 2.0);
        judge(&name, counts, measured, evicting(version));
    }
}

/// With a log in front of the table. Each write by itself costs a block of 512 bytes, which has room for 34 entries.
/// When half of the log is freed, the pages of the table that this half concerns are written.
#[test]
fn a_log_before_the_table_costs_a_block_a_write_and_pages_now_and_then() {
    const LINES: u32 = 16_384;
    const PAGE_BYTES: u32 = 4096;
    for (line_bytes, block_share) in [(4096, 0.125), (16384, 0.03125), (65536, 0.007_812_5)] {
        let mut ocf = Ocf::new(OcfVersion::Wal, (line_bytes, LINES));
        let first = ocf.sequential(1, u64::from(line_bytes));
        println!("first touch of lines of {line_bytes}: cw {:.4}", first.cw());
        // Lines come from 32 lists in turn, and half of the log concerns almost all pages.
        let pages = f64::from(PAGE_BYTES) / f64::from(line_bytes) * 0.085;
        assert!((0.0..=pages).contains(&(first.cw() - 1.0 - block_share)));
        let again = ocf.sequential(1, u64::from(line_bytes));
        assert_eq!((again.cw(), again.metadata()), (1.0, 0.0), "what is dirty is overwritten");
    }
    let mut ocf = Ocf::new(OcfVersion::Wal, (4096, LINES));
    let data = ocf.zeros.slice(0..4096);
    let before = ocf.run.counts();
    ocf.run.run_all(
        32,
        (0..u64::from(LINES) / 2).map(|line| {
            let span = Span { core: core(0), first: line * 8, sectors: 8 };
            LayoutRequest::Write { span, data: data.clone() }
        }),
    );
    let counts = ocf.run.counts().since(&before);
    println!("32 at a time: cw {:.4}", counts.cw());
    assert!(counts.cw() <= 1.02, "{:.4}", counts.cw());
}
