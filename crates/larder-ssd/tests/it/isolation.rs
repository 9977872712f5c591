//! What a reader sees of a writer beside it, by how dies serve and by what the two share: in order,
//! reads wait for queues of programs; with reads first, for one; on dies or channels of their own,
//! for none.
//!
//! The drive is the one of the interference tables for FlashBlox (FAST'17): 8 channels of 4 dies, tR
//! 60 us, 16 KiB through a channel in 40 us, tP 700 us, tE 5 ms. A reader of 64 KiB with 4 requests
//! under way stands beside a writer of 64 KiB with 16.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use larder_ssd::managed::{Geometry, GroupDies, ManagedConfig, Placement};
use larder_ssd::timed::{DieService, DriveTiming, NandTiming, TimedSsd, enterprise_tlc};

const PIECE: u64 = 16;
const READS: usize = 8_000;

fn timing(service: DieService) -> DriveTiming {
    let page_bytes = 16 << 10;
    let nand = NandTiming {
        page_bytes,
        planes: 1,
        bits: 1,
        read_ns: 60_000,
        program_ns: 700_000,
        erase_ns: 5_000_000,
        suspend_ns: Some(50_000),
        block_stripes: 64,
    };
    DriveTiming {
        name: "8 channels of 4 dies",
        channels: 8,
        dies_per_channel: 4,
        nand,
        service,
        channel_bytes_per_s: page_bytes * 1_000_000 / 40,
        write_buffer_bytes: 2 * 32 * page_bytes,
        ..enterprise_tlc()
    }
}

/// A drive with two tenants: one reads, the other writes.
trait Tenants {
    /// When the reader has 64 KiB from anywhere in its part.
    fn read(&mut self, now: u64, random: u64) -> u64;
    /// When the next 64 KiB of the writer are acknowledged.
    fn write(&mut self, now: u64) -> u64;
    /// When all that was done to prepare is over.
    fn idle_at(&self) -> u64;
}

/// The 99th percentile of the reader's latency in microseconds.
fn p99_us(tenants: &mut impl Tenants, with_writer: bool) -> f64 {
    let start = tenants.idle_at() + 10_000_000;
    // When each request that is under way ends, and whose it is.
    let mut ends: BinaryHeap<Reverse<(u64, bool)>> =
        (0..4).map(|_| Reverse((start, false))).collect();
    if with_writer {
        ends.extend((0..16).map(|_| Reverse((start, true))));
    }
    let mut rng = fastrand::Rng::with_seed(1);
    let mut took = Vec::new();
    while took.len() < READS {
        let Reverse((now, writer)) = ends.pop().unwrap();
        let end = if writer { tenants.write(now) } else { tenants.read(now, rng.u64(..)) };
        if !writer {
            took.push(end - now);
        }
        ends.push(Reverse((end, writer)));
    }
    took.sort_unstable();
    took[took.len() * 99 / 100] as f64 / 1e3
}

/// Two reclaim groups of one drive, half of the pages in each.
struct Groups {
    ssd: TimedSsd,
    half: u64,
    next: u64,
}

impl Groups {
    fn new(group_dies: GroupDies, service: DieService) -> Self {
        let timing = timing(service);
        let pages_per_unit = timing.stripe_pages() * timing.dies();
        let logical_pages = u64::from(pages_per_unit) * 400;
        let geometry = Geometry { logical_pages, pages_per_unit, units: 560 };
        let config =
            ManagedConfig { groups: 2, group_dies, handles: 1, ..ManagedConfig::new(geometry) };
        let mut ssd = TimedSsd::new(config, timing).unwrap();
        let half = logical_pages / 2;
        for group in [0, 1] {
            let placement = Placement { group, handle: 0 };
            ssd.write_placed(0, placement, u64::from(group) * half, half).unwrap();
        }
        Self { ssd, half, next: 0 }
    }
}

impl Tenants for Groups {
    fn read(&mut self, now: u64, random: u64) -> u64 {
        self.ssd.read(now, random % (self.half / PIECE) * PIECE, PIECE).unwrap()
    }

    fn write(&mut self, now: u64) -> u64 {
        let lpn = self.half + self.next % self.half;
        self.next += PIECE;
        self.ssd.write_placed(now, Placement { group: 1, handle: 0 }, lpn, PIECE).unwrap()
    }

    fn idle_at(&self) -> u64 {
        self.ssd.idle_at()
    }
}

#[test]
fn what_a_reader_sees_of_a_writer_depends_on_how_dies_serve() {
    let services = [DieService::InOrder, DieService::ReadsFirst, DieService::ReadsSuspend];
    let [in_order, first, suspend] = services.map(|service| {
        let alone = p99_us(&mut Groups::new(GroupDies::Channels, service), false);
        let beside = |group_dies| p99_us(&mut Groups::new(group_dies, service), true);
        let row = [GroupDies::All, GroupDies::Dies, GroupDies::Channels].map(beside);
        println!(
            "{service:?}: alone {alone:.0} us, beside a writer on all, dies, channels: {row:.0?}"
        );
        let [_, dies, channels] = row;
        assert!((channels / alone - 1.0).abs() < 0.03, "{channels} us, {alone} us alone");
        assert!(dies < alone * 1.5, "{dies} us, {alone} us alone");
        row
    });
    assert!(in_order[0] > 2.0 * first[0], "{in_order:?}, {first:?}");
    assert!(first[0] > 2.0 * first[2], "{first:?}");
    assert!(suspend[0] < first[0] / 2.0, "{suspend:?}, {first:?}");
}
