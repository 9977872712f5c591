//! Pages of the table of lines whose write failed. Their content on the device is unknown, and nothing may rely on it.
//! Each case runs with the failed write carried out and with it not carried out.

use larder_block::accounting::{Accounting, Image, stamped, stamps};
use larder_block::layout::ocf::{Geometry, OcfLayout, OcfOptions, OcfRecovery, OcfVersion};
use larder_block::layout::{Ending, Layout, LayoutRequest, Span};

use super::rig::{IDENTITY, core, device};

/// Number of lines in a page of the table.
const PAGE_LINES: u64 = 96;
const LINES: u32 = 200;
/// Seeds of failures. For half of them a failed write is carried out.
const SEEDS: std::ops::Range<u64> = 0..8;

struct Lines {
    run: Accounting<OcfLayout>,
    geometry: Geometry,
}

/// All sectors of a line of the core.
fn line(number: u64) -> Span {
    Span { core: core(0), first: number * 128, sectors: 128 }
}

fn write(number: u64, version: u64) -> LayoutRequest {
    stamped(core(0), number * 128, 128, version)
}

impl Lines {
    fn new() -> Self {
        let options = OcfOptions { version: OcfVersion::V26, line_bytes: 65536 };
        let info = device(Geometry::device_bytes(0, LINES, &options), 512);
        let geometry = Geometry::new(&info, 0, &options).unwrap();
        assert_eq!(u64::from(geometry.lines_per_page()), PAGE_LINES);
        let layout = OcfLayout::new(geometry, IDENTITY.uuid);
        Self { run: Accounting::new(layout, Image::default()), geometry }
    }

    fn done(&mut self, request: LayoutRequest) {
        assert_eq!(self.run.run(request).0, Ending::Done);
    }

    /// Discards a dirty line whose page cannot be written.
    fn fail_to_discard(&mut self, number: u64, seed: u64) {
        self.run.fail_one_in(1, seed);
        let request = LayoutRequest::Discard { span: line(number) };
        assert_eq!(self.run.run(request).0, Ending::Failed);
        self.run.fail_one_in(0, 0);
    }

    /// The version of a line after a power loss that keeps all written data.
    fn version_after_crash(self, number: u64) -> u64 {
        let (cache, cores) = self.run.lose_power(|| true);
        let mut recovery = OcfRecovery::new(self.geometry, IDENTITY.uuid);
        while let Some(read) = recovery.next_read() {
            let mut bytes = vec![0; read.bytes];
            cache.read(read.offset, &mut bytes);
            recovery.completed(read, Some(&bytes));
        }
        let mut run = Accounting::new(recovery.finish().0, cache).with_cores(cores);
        let span = line(number);
        let (_, read) = run.run(LayoutRequest::Read { span });
        let version = u64::from_le_bytes(read[8..16].try_into().unwrap());
        let own = if version == 0 {
            vec![0; span.bytes()]
        } else {
            stamps(span, version).bytes().to_vec()
        };
        assert!(read == own, "line {number} has another's data, or parts of two versions");
        version
    }
}

#[test]
fn what_moved_to_another_page_is_found_there_alone() {
    for seed in SEEDS {
        let mut lines = Lines::new();
        (0..PAGE_LINES).for_each(|number| lines.done(write(number, 1)));
        lines.fail_to_discard(0, seed);
        // The page of this line may still say that it has version 1.
        lines.done(write(0, 2));
        assert_eq!(lines.version_after_crash(0), 2, "seed {seed}");
    }
}

#[test]
fn a_line_that_metadata_may_call_dirty_is_not_reused() {
    for seed in SEEDS {
        let mut lines = Lines::new();
        (0..u64::from(LINES)).for_each(|number| lines.done(write(number, 1)));
        lines.fail_to_discard(7, seed);
        // The line of the discarded data is the only free one.
        let id = lines.run.submit(write(1000, 2));
        lines.run.turn();
        lines.run.carry_out_all(|count| (0..count).collect());
        assert!(lines.version_after_crash(7) <= 1, "seed {seed}, request {}", id.0);
    }
    let mut lines = Lines::new();
    (0..u64::from(LINES)).for_each(|number| lines.done(write(number, 1)));
    lines.fail_to_discard(7, 0);
    lines.run.retry();
    lines.run.settle();
    let before = lines.run.counts();
    lines.done(write(1000, 2));
    assert_eq!(lines.run.counts().since(&before).core_writes, 0, "once the page is written it is");
}

#[test]
fn what_a_cleaning_could_not_finish_is_dirty_on_the_device_too() {
    for seed in SEEDS {
        let mut lines = Lines::new();
        lines.done(write(0, 1));
        let id = lines.run.submit(LayoutRequest::Destage { span: line(0) });
        // Reads, writes, flushes the core and writes the page; then the flush of the cache device fails.
        for step in 0..5 {
            assert!(lines.run.turn());
            lines.run.fail_one_in(u32::from(step == 4), seed);
            lines.run.carry_out_all(|count| (0..count).collect());
        }
        lines.run.fail_one_in(0, 0);
        lines.run.turn();
        assert_eq!(lines.run.take_ended(id).unwrap().0, Ending::Failed);
        assert_eq!(lines.run.layout().usage().dirty_sectors, 128);
        // For the user this overwrites dirty data, which costs no page.
        lines.done(write(0, 2));
        assert_eq!(lines.version_after_crash(0), 2, "seed {seed}");
    }
}
