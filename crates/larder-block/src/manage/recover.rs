//! What a start finds on the cache device.

use std::collections::VecDeque;
use std::sync::Arc;

use larder_device::{BufferPool, Device, Io, IoFuture};

use super::stored::StoredLayout;
use crate::cache::CacheShape;
use crate::layout::Layout;
use crate::layout::log::{LogOptions, LogRecovery};
use crate::layout::ocf::OcfRecovery;

/// Reads that go side by side.
const READS: usize = 32;

/// What a start has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Started {
    /// Sectors that are cached.
    pub valid_sectors: u64,
    /// Of these, those that only the cache device has.
    pub dirty_sectors: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Reads that the device refused: dirty data may have been lost.
    pub failed_reads: u64,
    /// Parts of the device whose content was not what its description says: they were under way when the cache ended,
    /// or are damaged.
    pub torn: u64,
    /// Clean runs that were compared with the core.
    pub compared: u32,
    /// Of these, those that differ.
    pub changed: u32,
}

/// A layout as it was left.
pub(super) struct Recovered {
    pub(super) layout: Box<dyn Layout>,
    pub(super) shape: CacheShape,
    pub(super) started: Started,
}

/// `epoch`: of this start, for a log.
pub(super) async fn recover(
    device: &Arc<dyn Device>,
    stored: &StoredLayout,
    (uuid, epoch): ([u8; 16], u32),
    options: &LogOptions,
) -> Recovered {
    let mut started = Started::default();
    let (layout, shape): (Box<dyn Layout>, CacheShape) = match stored {
        StoredLayout::Log(superblock) => {
            let geometry = superblock.geometry;
            let mut recovery = LogRecovery::new(geometry, uuid).clean_up_to(superblock.clean_up_to);
            let mut reads = Reads::new(device);
            loop {
                while let Some(read) = reads.room().then(|| recovery.next_read()).flatten() {
                    reads.begin(read, read.offset, read.bytes);
                }
                let Some((read, bytes)) = reads.next().await else { break };
                recovery.completed(read, bytes.as_ref().map(|bytes| bytes.as_slice()));
            }
            let (layout, found) = recovery.finish(epoch, device.info(), options);
            (started.failed_reads, started.torn) = (found.failed_reads, found.torn_batches);
            started.read_bytes = reads.bytes;
            let (capacity_bytes, line_bytes) = (geometry.capacity_bytes(), geometry.line_bytes);
            (Box::new(layout), CacheShape { capacity_bytes, line_bytes })
        }
        StoredLayout::Ocf(superblock) => {
            let geometry = superblock.geometry;
            let mut recovery = OcfRecovery::new(geometry, uuid);
            let mut reads = Reads::new(device);
            loop {
                while let Some(read) = reads.room().then(|| recovery.next_read()).flatten() {
                    reads.begin(read, read.offset, read.bytes);
                }
                let Some((read, bytes)) = reads.next().await else { break };
                recovery.completed(read, bytes.as_ref().map(|bytes| bytes.as_slice()));
            }
            let (layout, found) = recovery.finish();
            (started.failed_reads, started.torn) = (found.failed_reads, found.damaged_sectors);
            started.read_bytes = reads.bytes;
            let (capacity_bytes, line_bytes) = (geometry.capacity_bytes(), geometry.line_bytes);
            (Box::new(layout), CacheShape { capacity_bytes, line_bytes })
        }
    };
    let usage = layout.usage();
    (started.valid_sectors, started.dirty_sectors) = (usage.valid_sectors, usage.dirty_sectors);
    Recovered { layout, shape, started }
}

/// Reads side by side, whose ends are taken in the order in which they began.
struct Reads<'a, R> {
    device: &'a Arc<dyn Device>,
    pool: BufferPool,
    under_way: VecDeque<(R, IoFuture)>,
    bytes: u64,
}

impl<'a, R> Reads<'a, R> {
    fn new(device: &'a Arc<dyn Device>) -> Self {
        Self { device, pool: BufferPool::new(), under_way: VecDeque::new(), bytes: 0 }
    }

    fn room(&self) -> bool {
        self.under_way.len() < READS
    }

    fn begin(&mut self, read: R, offset: u64, bytes: usize) {
        self.bytes += bytes as u64;
        let buffer = self.pool.take(bytes);
        self.under_way.push_back((read, self.device.submit(Io::Read { offset, buffer })));
    }

    async fn next(&mut self) -> Option<(R, Option<larder_device::IoBuffer>)> {
        let (read, future) = self.under_way.pop_front()?;
        Some((read, future.await.ok()))
    }
}
