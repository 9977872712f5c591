//! Virtual SSDs on raw drives, without a clock, on one core: allocation and look-up of blocks, appends of pages, and
//! the time that an array needs to recover a terabyte.
//!
//! `cargo bench -p larder-vssd --bench vssd`. Rounds are interleaved. Prints medians and spread, and whether they meet
//! the targets. If one is missed, the exit status is 1.

use std::time::Instant;

use larder_ssd::nand::{DieArray, DieIndex, NandGeometry};
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_vssd::{
    Isolation, LogicalBlock, MemoryImages, Pages, Request, Throughputs, VssdId, Vssds,
};
use larder_workload::{Spread, machine};

const ROUNDS: usize = 5;
/// Millions per second.
const ALLOCATIONS_MIN: f64 = 1.0;
const APPENDS_MIN: f64 = 5.0;
const RECOVERY_SECONDS_MAX: f64 = 2.0;
/// Maximum memory of the map, for each 10^12 bytes of blocks.
const MAP_BYTES_MAX: u64 = 8_000_000;

/// Blocks of 2 MiB, with stripes of one page: programming many pages at once saves nothing.
const BLOCKS: NandGeometry = NandGeometry {
    array: DieArray { channels: 16, dies_per_channel: 4 },
    planes: 1,
    bits: 1,
    blocks_per_die: 128,
    pages_per_block: 512,
    page_bytes: 4096,
    mapping_bytes: 4096,
};
/// The same with 1 TiB in 524,288 blocks; a row is 16 KiB of each of 4 planes, so that 32 bits can number all.
const TERABYTE: NandGeometry = NandGeometry {
    planes: 4,
    blocks_per_die: 8192,
    pages_per_block: 32,
    page_bytes: 16 << 10,
    mapping_bytes: 16 << 10,
    ..BLOCKS
};

fn main() {
    let directory = std::env::current_dir().expect("a directory to work in");
    machine::describe(&directory).iter().for_each(|line| println!("{line}"));
    println!(
        "parameters: 16 channels x 4 dies, blocks of 2 MiB, no payload; {ROUNDS} rounds; allocations and appends: \
         {} blocks of 4 KiB pages, stripes of 1 page; recovery: {} blocks",
        BLOCKS.blocks(),
        TERABYTE.blocks()
    );
    let mut kept = blocks();
    kept &= recovery();
    if !kept {
        std::process::exit(1);
    }
}

/// Prints whether a target is met.
fn judge(kept: bool, what: &str) -> bool {
    println!("{} {what}", if kept { "kept:  " } else { "MISSED:" });
    kept
}

fn array(
    geometry: NandGeometry,
    isolation: Isolation,
    tenants: u32,
) -> (Vssds<MemoryImages>, Vec<VssdId>) {
    let drives = vec![RawSsd::new(RawConfig::new(geometry)).expect("valid")];
    let rates = Throughputs { channel_mb_s: 400, die_mb_s: 100, soft_plane_mb_s: 25 };
    let mut array = Vssds::create(drives, MemoryImages::default(), [1; 16], rates).expect("valid");
    let request = Request { isolation, mb_s: 0, bytes: 1 };
    let tenants = (0..tenants).map(|_| array.alloc(request).expect("there is room")).collect();
    (array, tenants)
}

/// Allocations, look-ups and appends.
fn blocks() -> bool {
    let (mut dies, on_dies) = array(BLOCKS, Isolation::Die, 64);
    let (mut channels, on_channels) = array(BLOCKS, Isolation::Channel, 16);
    let mut drive = RawSsd::new(RawConfig::new(BLOCKS)).expect("valid");
    let mut rates = [const { Vec::new() }; 5];
    for _ in 0..ROUNDS {
        let round = [
            allocate(&mut dies, &on_dies, 0),
            allocate(&mut dies, &on_dies, 1),
            program(&mut drive, 1),
            program(&mut drive, 64),
            append(&mut channels, &on_channels),
        ];
        rates.iter_mut().zip(round).for_each(|(rates, rate)| rates.push(rate));
    }
    let [bare, mapped, single, wide, appended] =
        rates.map(|rates| Spread::of(rates).expect("there are rounds"));
    for (name, unit, rate, note) in [
        ("allocate, look up", "blocks", bare, "freed in between"),
        ("allocate, map to a die, look up", "blocks", mapped, "erased and freed in between"),
        ("raw drive, 1 page a program", "pages", single, ""),
        ("raw drive, 64 pages a program", "pages", wide, ""),
        ("vSSD of a channel, 1 page an append", "pages", appended, ""),
    ] {
        println!("{name:44} {rate:.2} M {unit}/s  {note}");
    }
    let allocations = judge(mapped.median >= ALLOCATIONS_MIN, "allocation and map, at least 1 M/s");
    judge(single.median >= APPENDS_MIN, "pages of the raw drive, at least 5 M/s") && allocations
}

/// Blocks per second that are allocated, get `pages` pages and are looked up. Frees are not timed.
fn allocate(array: &mut Vssds<MemoryImages>, tenants: &[VssdId], pages: u32) -> f64 {
    let (mut seconds, mut count) = (0.0, 0);
    let mut made: Vec<(VssdId, LogicalBlock)> = Vec::new();
    for tag in 0..64 {
        let start = Instant::now();
        for _ in 0..64 {
            for &vssd in tenants {
                let block = array.alloc_block(vssd, tag).expect("there is room");
                if pages > 0 {
                    array.append(vssd, block, 0, Pages::Count(pages)).expect("it is new");
                }
                assert_eq!(array.written_pages(vssd, block), Ok(u64::from(pages)));
                made.push((vssd, block));
            }
        }
        seconds += start.elapsed().as_secs_f64();
        count += made.len();
        for (vssd, block) in made.drain(..) {
            array.free_block(vssd, block).expect("it is there");
        }
    }
    #[allow(clippy::cast_precision_loss)] // the count is small
    let millions = count as f64 / 1e6;
    millions / seconds
}

/// Times `work`, which does `count` operations. Returns millions of operations per second.
#[allow(clippy::cast_precision_loss)] // counts of operations
fn rate(count: u64, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    count as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// Pages per second, programmed `pages` at a time; then all is erased, which is not timed.
fn program(drive: &mut RawSsd, pages: u32) -> f64 {
    let mut blocks = Vec::new();
    for die in (0..BLOCKS.array.dies()).map(DieIndex) {
        let free = drive.free_blocks(die);
        blocks.extend((0..free).map(|_| drive.allocate(die, [0; 16]).expect("it is free")));
    }
    let count = blocks.len() as u64 * u64::from(BLOCKS.block_pages());
    let programmed = rate(count, || {
        for &block in &blocks {
            for at in (0..BLOCKS.block_pages()).step_by(pages as usize) {
                drive.program(block, at, pages).expect("in order");
            }
        }
    });
    blocks.into_iter().for_each(|block| drive.erase(block).expect("no block fails"));
    programmed
}

/// Pages per second that tenants append in turn, one at a time; allocations are timed, frees are not.
fn append(array: &mut Vssds<MemoryImages>, tenants: &[VssdId]) -> f64 {
    let block_pages = u64::from(BLOCKS.block_pages()) * u64::from(BLOCKS.array.dies_per_channel);
    let rounds = 16;
    let mut made = Vec::new();
    let appended = rate(rounds * tenants.len() as u64 * block_pages, || {
        for tag in 0..rounds {
            let open = tenants
                .iter()
                .map(|&vssd| (vssd, array.alloc_block(vssd, tag).expect("there is room")));
            let open: Vec<_> = open.collect();
            for at in 0..block_pages {
                for &(vssd, block) in &open {
                    array.append(vssd, block, at, Pages::Count(1)).expect("in order");
                }
            }
            made.extend(open);
        }
    });
    made.into_iter().for_each(|(vssd, block)| array.free_block(vssd, block).expect("it is there"));
    appended
}

/// A terabyte of tenants with a die each, with all of their blocks begun: memory of the map, and recovery time of the
/// array after a power loss.
fn recovery() -> bool {
    let (mut array, tenants) = array(TERABYTE, Isolation::Die, TERABYTE.array.dies());
    for &vssd in &tenants {
        for tag in 0..u64::from(array.info(vssd).expect("it is there").blocks) {
            let block = array.alloc_block(vssd, tag).expect("there is room");
            let stripe = Pages::Count(TERABYTE.stripe_pages());
            array.append(vssd, block, 0, stripe).expect("it is new");
        }
    }
    let bytes = u64::from(TERABYTE.blocks())
        * u64::from(TERABYTE.block_pages())
        * u64::from(TERABYTE.mapping_bytes);
    let map_bytes = array.map_bytes();
    let mut seconds = Vec::new();
    let mut blocks = 0;
    for _ in 0..ROUNDS {
        let (mut drives, images) = array.into_parts();
        drives.iter_mut().for_each(RawSsd::power_loss);
        let start = Instant::now();
        let (opened, found) = Vssds::open(drives, images).expect("it opens");
        seconds.push(start.elapsed().as_secs_f64());
        (array, blocks) = (opened, found.blocks);
    }
    seconds.sort_by(f64::total_cmp);
    let median = seconds[ROUNDS / 2];
    println!(
        "recovery of {bytes} bytes, {blocks} logical blocks: {median:.3} s (min {:.3}, max {:.3})",
        seconds[0],
        seconds[ROUNDS - 1]
    );
    println!("map: {map_bytes} bytes, {} for each 10^12 of blocks", per_terabyte(map_bytes, bytes));
    let small =
        judge(per_terabyte(map_bytes, bytes) <= MAP_BYTES_MAX, "map of a terabyte, at most 8 MB");
    judge(median <= RECOVERY_SECONDS_MAX, "recovery of a terabyte, at most 2 s") && small
}

fn per_terabyte(part: u64, of: u64) -> u64 {
    part * 1_000_000 / (of / 1_000_000)
}
