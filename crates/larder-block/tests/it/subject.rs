//! Layouts behind one interface, for tests that run on all of them.

use fastrand::Rng;
use larder_block::accounting::Image;
use larder_block::layout::log::{Geometry, LogIdentity, LogLayout, LogOptions, LogRecovery};
use larder_block::layout::ocf::{self, OcfLayout, OcfOptions, OcfRecovery, OcfVersion};
use larder_block::layout::{Layout, SECTOR_BYTES};
use larder_device::DeviceInfo;

use super::rig::{IDENTITY, device, log_options, read_back, with_metadata};

/// A small cache, and the data that is needed to recover it.
pub(crate) trait Subject {
    /// Number of layouts that differ little and share the points of a test.
    const VARIANTS: u64 = 1;

    type Layout: Layout;

    /// A subject with random options.
    fn draw(rng: &mut Rng) -> Self;

    fn block_bytes(&self) -> u32;

    /// Number of bytes that a power loss leaves whole on the cache device.
    fn whole_bytes(&self) -> usize {
        SECTOR_BYTES
    }

    /// An empty layout.
    fn create(&self) -> Self::Layout;

    /// Recovers the layout from `cache` after a crash.
    fn recover(&mut self, rng: &mut Rng, cache: &Image) -> Self::Layout;
}

pub(crate) struct Log {
    device: DeviceInfo,
    options: LogOptions,
    geometry: Geometry,
    epoch: u32,
}

impl Subject for Log {
    type Layout = LogLayout;

    fn draw(rng: &mut Rng) -> Self {
        // The last of them has metadata in its blocks.
        let kind = rng.usize(..4);
        let block_bytes = [64, 512, 4096, 4096][kind];
        let mut device = device(12 * (64 << 10), block_bytes);
        if kind == 3 {
            device = with_metadata(device);
        }
        if block_bytes >= 512 && rng.u8(..4) == 0 {
            device.atomic_write_bytes = None;
        }
        let options = LogOptions {
            segment_bytes: 64 << 10,
            line_bytes: if rng.bool() { 4096 } else { 16384 },
            ..log_options(rng)
        };
        let geometry = Geometry::new(&device, 0, &options).unwrap();
        Self { device, options, geometry, epoch: IDENTITY.epoch }
    }

    fn block_bytes(&self) -> u32 {
        self.geometry.block_bytes
    }

    fn whole_bytes(&self) -> usize {
        match self.geometry {
            geometry if geometry.metadata_bytes > 0 => geometry.block_bytes as usize,
            geometry if geometry.block_bytes < 512 => 8,
            _ => SECTOR_BYTES,
        }
    }

    fn create(&self) -> LogLayout {
        let identity = LogIdentity { epoch: self.epoch, ..IDENTITY };
        LogLayout::new(self.geometry, identity, &self.device, &self.options)
    }

    fn recover(&mut self, rng: &mut Rng, cache: &Image) -> LogLayout {
        let mut recovery = LogRecovery::new(self.geometry, IDENTITY.uuid);
        let mut reads = Vec::new();
        loop {
            reads.extend(std::iter::from_fn(|| recovery.next_read()).take(rng.usize(1..6)));
            if reads.is_empty() {
                break;
            }
            let read = reads.swap_remove(rng.usize(..reads.len()));
            let (bytes, metadata) = read_back(cache, self.geometry.block_bytes, &read);
            recovery.completed_with(read, Some((&bytes, &metadata)));
        }
        self.epoch += 1;
        let (layout, found) = recovery.finish(self.epoch, &self.device, &self.options);
        assert_eq!(found.missing_batches, 0, "a torn end is no gap: {found:?}");
        layout
    }
}

/// `VERSION`: index into [`OcfVersion::ALL`].
pub(crate) struct Ocf<const VERSION: usize>(ocf::Geometry);

impl<const VERSION: usize> Subject for Ocf<VERSION> {
    const VARIANTS: u64 = 3;
    type Layout = OcfLayout;

    fn draw(rng: &mut Rng) -> Self {
        let version = OcfVersion::ALL[VERSION];
        let line_bytes = rng.choice([4096, 4096, 16384, 65536]).unwrap();
        let options = OcfOptions { version, line_bytes };
        let block_bytes = if rng.bool() { 512 } else { 4096 };
        let bytes = ocf::Geometry::device_bytes(0, rng.choice([64, 100, 300]).unwrap(), &options);
        Self(ocf::Geometry::new(&device(bytes, block_bytes), 0, &options).unwrap())
    }

    fn block_bytes(&self) -> u32 {
        self.0.block_bytes
    }

    fn create(&self) -> OcfLayout {
        OcfLayout::new(self.0, IDENTITY.uuid)
    }

    fn recover(&mut self, rng: &mut Rng, cache: &Image) -> OcfLayout {
        let mut recovery = OcfRecovery::new(self.0, IDENTITY.uuid);
        let mut reads: Vec<_> = std::iter::from_fn(|| recovery.next_read()).collect();
        rng.shuffle(&mut reads);
        for read in reads {
            recovery.completed(read, Some(&bytes_of(cache, read.offset, read.bytes)));
        }
        let (layout, found) = recovery.finish();
        assert_eq!((found.damaged_sectors, found.failed_reads), (0, 0), "{found:?}");
        layout
    }
}

fn bytes_of(cache: &Image, offset: u64, bytes: usize) -> Vec<u8> {
    let mut read = vec![0; bytes];
    cache.read(offset, &mut read);
    read
}
