//! Caches in memory with counts, and patterns of requests.

use fastrand::Rng;
use larder_block::accounting::{Accounting, Counts, Image, stamped};
use larder_block::layout::log::{
    Geometry, LoadOptions, LogIdentity, LogLayout, LogOptions, LogRecovery, RecoveryRead,
};
use larder_block::layout::{CoreId, Span};
use larder_device::DeviceInfo;
use larder_workload::generate::ZipfMandelbrot;

pub(crate) const IDENTITY: LogIdentity = LogIdentity { uuid: *b"a cache's UUID..", epoch: 1 };

/// Random options that may change from one start of a log to the next.
pub(crate) fn log_options(rng: &mut Rng) -> LogOptions {
    LogOptions {
        write_buffer_bytes: rng.choice([0, 64 << 10, 256 << 10]).unwrap(),
        reinsert_percent: rng.choice([0, 25, 50]).unwrap(),
        load: LoadOptions {
            at_start_max: rng.choice([0, 1 << 20]).unwrap(),
            part_records: rng.choice([4, 32]).unwrap(),
            range_lines: rng.choice([1, 8]).unwrap(),
        },
        ..LogOptions::default()
    }
}

/// A cache device of `bytes` with blocks of `block_bytes`, all of it a log. Blocks shorter than a sector mean memory.
pub(crate) fn device(bytes: u64, block_bytes: u32) -> DeviceInfo {
    let info = DeviceInfo::new("cache", bytes, block_bytes, 1 << 20);
    let whole = if block_bytes < 512 { 8 } else { block_bytes.max(4096) };
    DeviceInfo { atomic_write_bytes: Some(whole), ..info }
}

/// The same device with 64 bytes of metadata per block, which requests can use.
pub(crate) fn with_metadata(device: DeviceInfo) -> DeviceInfo {
    DeviceInfo { metadata_bytes: 64, keeps_metadata: true, ..device }
}

/// Data and metadata of a read that the recovery of a log requests.
pub(crate) fn read_back(
    cache: &Image,
    block_bytes: u32,
    read: &RecoveryRead,
) -> (Vec<u8>, Vec<u8>) {
    let (mut bytes, mut metadata) = (vec![0; read.bytes], vec![0; read.metadata_bytes]);
    cache.read(read.offset, &mut bytes);
    let each = read.metadata_bytes / (read.bytes / block_bytes as usize).max(1);
    cache.read_metadata(read.offset, block_bytes, each, &mut metadata);
    (bytes, metadata)
}

/// The log that is found on `cache`, started with the epoch `epoch`.
pub(crate) fn start(
    device: &DeviceInfo,
    options: &LogOptions,
    epoch: u32,
    cache: Image,
) -> Accounting<LogLayout> {
    Accounting::new(found(device, options, epoch, &cache), cache)
}

/// The same without devices.
pub(crate) fn found(
    device: &DeviceInfo,
    options: &LogOptions,
    epoch: u32,
    cache: &Image,
) -> LogLayout {
    let geometry = Geometry::new(device, 0, options).unwrap();
    let mut recovery = LogRecovery::new(geometry, IDENTITY.uuid);
    while let Some(read) = recovery.next_read() {
        let (bytes, metadata) = read_back(cache, device.block_bytes, &read);
        recovery.completed_with(read, Some((&bytes, &metadata)));
    }
    recovery.finish(epoch, device, options).0
}

pub(crate) struct Log {
    pub(crate) options: LogOptions,
    pub(crate) run: Accounting<LogLayout>,
}

impl Log {
    pub(crate) fn new(device: DeviceInfo, options: LogOptions) -> Self {
        let geometry = Geometry::new(&device, 0, &options).unwrap();
        let layout = LogLayout::new(geometry, IDENTITY, &device, &options);
        let run = Accounting::new(layout, Image::default());
        let is_whole = device.keeps_metadata;
        let whole_bytes = if is_whole { device.block_bytes as usize } else { 512 };
        Self { options, run: run.tearing_between(whole_bytes) }
    }

    /// On `bytes`, with lines of `line_bytes`: segments of 256 KiB, or of 16 lines if that is more, and a write buffer
    /// of a 16th. On blocks of 4 KiB segments are twice as long, because their footers take at least one block.
    pub(crate) fn of(bytes: u64, block_bytes: u32, line_bytes: u32) -> Self {
        let options = LogOptions {
            segment_bytes: (if block_bytes > 512 { 512 << 10 } else { 256 << 10 })
                .max(16 * line_bytes),
            line_bytes,
            write_buffer_bytes: bytes / 16,
            ..LogOptions::default()
        };
        Self::new(device(bytes, block_bytes), options)
    }

    /// Writes `bytes` at each of these numbers, `depth` at a time, and returns the cost.
    pub(crate) fn write(
        &mut self,
        depth: usize,
        bytes: u32,
        version: u64,
        at: impl Iterator<Item = u64>,
    ) -> Counts {
        let before = self.run.counts();
        let sectors = bytes / 512;
        let one = |number: u64| stamped(core(0), number * u64::from(sectors), sectors, version);
        self.run.run_all(depth, at.map(one));
        self.run.counts().since(&before)
    }
}

pub(crate) fn core(number: u16) -> CoreId {
    CoreId::new(number).unwrap()
}

/// Numbers below `count` by Zipf's law with exponent 0.99, with the ranks scattered.
pub(crate) fn zipf(count: u64, seed: u64) -> impl Iterator<Item = u64> {
    let law = ZipfMandelbrot::new(count, 0.0, 0.99);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut places: Vec<u64> = (0..count).collect();
    fastrand::Rng::with_seed(7).shuffle(&mut places);
    std::iter::from_fn(move || {
        places.get(usize::try_from(law.draw(&mut rng) - 1).unwrap()).copied()
    })
}

/// Number of sectors of a core that random loads use, and number of cores.
pub(crate) const CORE_SECTORS: u64 = 4096;
pub(crate) const CORES: u16 = 2;
/// Length limit of a request.
pub(crate) const LONGEST_SECTORS: u64 = 256;

/// A random range of whole blocks of a core. Half of the load goes to an eighth of the core.
pub(crate) fn span_by_chance(rng: &mut Rng, block_bytes: u32) -> Span {
    let block = u64::from(block_bytes / 512).max(1);
    let room = if rng.bool() { CORE_SECTORS / 8 } else { CORE_SECTORS };
    let longest = rng.choice([8, 8, 40, LONGEST_SECTORS]).unwrap();
    let sectors = rng.u64(1..=longest / block) * block;
    let first = rng.u64(0..(room - sectors) / block) * block;
    Span { core: core(rng.u16(..CORES)), first, sectors: u32::try_from(sectors).unwrap() }
}
