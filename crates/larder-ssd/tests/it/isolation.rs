//! The effect of a writer on a reader, by the order in which dies work and by what the two share. With dies that work
//! in order, reads wait for queues of programs; with reads first, for one program; on separate dies or channels, for
//! none.
//!
//! The drive is that of the interference tables for FlashBlox (FAST'17): 8 channels of 4 dies, tR 60 us, 16 KiB through
//! a channel in 40 us, tP 700 us, tE 5 ms. A reader of 64 KiB with queue depth 4 runs next to a writer of 64 KiB with
//! queue depth 16.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use larder_ssd::managed::{Geometry, GroupDies, ManagedConfig, Placement};
use larder_ssd::nand::{BlockIndex, DieIndex, PhysicalOp};
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_ssd::timed::{DieService, DriveTiming, Media, NandTiming, TimedSsd, enterprise_tlc};

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
    /// Reads 64 KiB from anywhere in the reader's part. Returns when the data has arrived.
    fn read(&mut self, now: u64, random: u64) -> u64;
    /// Writes the writer's next 64 KiB. Returns when they are acknowledged.
    fn write(&mut self, now: u64) -> u64;
    /// When all preparation is done.
    fn idle_at(&self) -> u64;
}

/// The 99th percentile of the reader's latency in microseconds.
fn p99_us(tenants: &mut impl Tenants, with_writer: bool) -> f64 {
    let start = tenants.idle_at() + 10_000_000;
    // When each request in flight ends, and whether it is the writer's.
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

/// A host that builds superblocks on an open-channel drive: a block of each of its dies, filled stripe by stripe
/// round-robin; the oldest are erased to make room for new ones.
struct Superblocks {
    dies: Vec<DieIndex>,
    open: Vec<BlockIndex>,
    full: VecDeque<Vec<BlockIndex>>,
    /// Stripes in the open blocks.
    stripes: usize,
}

impl Superblocks {
    const KEPT: usize = 8;

    fn new(dies: Vec<DieIndex>) -> Self {
        Self { dies, open: Vec::new(), full: VecDeque::new(), stripes: 0 }
    }

    /// Programs the next stripe.
    fn append(&mut self, ssd: &mut RawSsd) {
        let stripe = ssd.geometry().stripe_pages();
        let round = ssd.geometry().block_pages() as usize / stripe as usize;
        if self.stripes == self.open.len() * round {
            if !self.open.is_empty() {
                self.full.push_back(std::mem::take(&mut self.open));
            }
            if self.full.len() > Self::KEPT {
                self.full.pop_front().unwrap().iter().for_each(|&block| ssd.erase(block).unwrap());
            }
            let allocate = |&die| ssd.allocate(die, [0; 16]).unwrap();
            self.open = self.dies.iter().map(allocate).collect();
            self.stripes = 0;
        }
        let block = self.open[self.stripes % self.dies.len()];
        let row = (self.stripes / self.dies.len()) as u32;
        ssd.program(block, row * stripe, stripe).unwrap();
        self.stripes += 1;
    }
}

/// Two hosts on the dies of one open-channel drive.
struct RawHosts {
    ssd: RawSsd,
    media: Media,
    reader: Superblocks,
    writer: Superblocks,
    ops: Vec<PhysicalOp>,
}

impl RawHosts {
    /// The reader has the dies for which `is_readers` is true, the writer those for which `is_writers` is.
    fn new(
        service: DieService,
        is_readers: impl Fn(DieIndex) -> bool,
        is_writers: impl Fn(DieIndex) -> bool,
    ) -> Self {
        let media = Media::new(timing(service)).unwrap();
        let mut ssd = RawSsd::new(RawConfig::new(media.timing().geometry(32).unwrap())).unwrap();
        ssd.record_ops(true);
        let dies = (0..media.timing().dies()).map(DieIndex);
        let mut reader = Superblocks::new(dies.clone().filter(|&die| is_readers(die)).collect());
        let writer = Superblocks::new(dies.filter(|&die| is_writers(die)).collect());
        let round = reader.dies.len() * 64;
        (0..round * Superblocks::KEPT).for_each(|_| reader.append(&mut ssd));
        let mut hosts = Self { ssd, media, reader, writer, ops: Vec::new() };
        hosts.book(0);
        hosts
    }

    /// Books the firmware's operations, which can begin at `now`. Returns when the last one is done, and when the last
    /// programmed data was in the buffer.
    fn book(&mut self, now: u64) -> (u64, u64) {
        self.ssd.take_ops(&mut self.ops);
        let (mut done, mut buffered) = (now, now);
        for op in self.ops.drain(..) {
            if let PhysicalOp::Program { .. } = op {
                buffered = self.media.wait_for_room(buffered);
            }
            done = done.max(self.media.book(buffered, op));
        }
        (done, buffered)
    }
}

impl Tenants for RawHosts {
    fn read(&mut self, now: u64, random: u64) -> u64 {
        let begin = self.media.command(now);
        // A row of four blocks that were programmed one after the other.
        let dies = self.reader.dies.len() / 4;
        let full = &self.reader.full;
        let blocks = &full[random as usize % full.len()];
        let first = (random >> 8) as usize % dies * 4;
        let at = (random >> 16) as u32 % 64 * 4;
        for block in &blocks[first..first + 4] {
            self.ssd.read(*block, at, 4).unwrap();
        }
        let (ready, _) = self.book(begin);
        self.media.send(begin, ready, PIECE * 4096)
    }

    fn write(&mut self, now: u64) -> u64 {
        let arrived = self.media.receive(now, PIECE * 4096);
        (0..4).for_each(|_| self.writer.append(&mut self.ssd));
        let (_, buffered) = self.book(arrived);
        self.media.acknowledge(buffered)
    }

    fn idle_at(&self) -> u64 {
        self.media.idle_at()
    }
}

/// The same as for groups, with blocks that the hosts choose themselves.
#[test]
fn raw_blocks_on_channels_of_their_own_isolate_as_groups_do() {
    let array = timing(DieService::InOrder).array();
    let first_channels = |die| array.channel_of(die).0 < 4;
    for service in [DieService::InOrder, DieService::ReadsFirst] {
        let own = || RawHosts::new(service, first_channels, |die| !first_channels(die));
        let alone = p99_us(&mut own(), false);
        let beside = p99_us(&mut own(), true);
        let shared = p99_us(&mut RawHosts::new(service, first_channels, |_| true), true);
        println!("{service:?}: alone {alone:.0} us, on channels {beside:.0}, shared {shared:.0}");
        assert!((beside / alone - 1.0).abs() < 0.03, "{beside} us, {alone} us alone");
        assert!(shared > alone * 3.0, "{shared} us, {alone} us alone");
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
