//! A process that keeps its cache on blocks of the drive: requests that it had begun may happen after its end, those
//! that they would have led to do not. So each life of it has its own way to the drive, which is closed when it dies.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use larder_device::blocks::{BlocksOptions, DeviceOnBlocksOptions};
use larder_device::{
    BlockStore, BlocksOnDevice, CheckedIo, Device, DeviceInfo, DeviceOnBlocks, DeviceStats, Error,
    ErrorKind, Extent, IoFuture,
};

use super::device::StagedDevice;

/// How the drive is divided.
#[derive(Debug, Clone, Copy)]
pub(super) struct Division {
    pub(super) blocks: BlocksOptions,
    pub(super) device: DeviceOnBlocksOptions,
}

/// What of blocks outlives a crash, and what does not.
#[derive(Default)]
pub(super) struct OnBlocks {
    pub(super) life: Option<Life>,
    /// There is a device already.
    pub(super) is_formatted: bool,
}

/// A process that has not ended.
pub(super) struct Life {
    pub(super) way: Arc<Way>,
    pub(super) device: Arc<DeviceOnBlocks>,
}

/// A process's way to the drive.
pub(super) struct Way {
    drive: Arc<StagedDevice>,
    closed: AtomicBool,
}

impl Way {
    pub(super) fn new(drive: Arc<StagedDevice>) -> Arc<Self> {
        Arc::new(Self { drive, closed: AtomicBool::new(false) })
    }

    /// The process dies.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

impl Device for Way {
    fn info(&self) -> &DeviceInfo {
        self.drive.info()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        if self.closed.load(Ordering::Relaxed) {
            return io.fail(Error::new(ErrorKind::Gone, "its process is no more"));
        }
        self.drive.start(io)
    }

    fn stats(&self) -> DeviceStats {
        self.drive.stats()
    }

    fn boot(&self) -> Option<u64> {
        self.drive.boot()
    }

    fn stored_at(&self, range: Range<u64>) -> Vec<Extent> {
        self.drive.stored_at(range)
    }
}

/// The device above the blocks above `way`.
pub(super) async fn open(
    division: Division,
    way: Arc<Way>,
    is_formatted: bool,
) -> Result<DeviceOnBlocks, Error> {
    if is_formatted {
        let store: Arc<dyn BlockStore> = Arc::new(BlocksOnDevice::open(way).await?);
        return DeviceOnBlocks::open(store, &division.device).await;
    }
    let store = Arc::new(BlocksOnDevice::format(way, &division.blocks).await?);
    DeviceOnBlocks::format(store, &division.device).await
}
