//! A process that keeps its cache on blocks of the drive. Requests that it submitted may be executed after its end, but
//! it must submit no more. So each life of the process has its own handle to the drive, which is closed when it dies.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use larder_blocks::{
    BlockStore, BlocksOnDevice, BlocksOptions, DeviceOnBlocks, DeviceOnBlocksOptions,
};
use larder_device::{
    CheckedIo, Device, DeviceInfo, DeviceStats, Error, ErrorKind, Extent, IoFuture,
};

use super::device::StagedDevice;
use super::on_vssd::OnVssd;

/// How the drive is divided.
#[derive(Debug, Clone, Copy)]
pub(super) struct Division {
    pub(super) below: Below,
    pub(super) device: DeviceOnBlocksOptions,
}

/// The layer that provides the blocks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Below {
    Drive(BlocksOptions),
    /// A virtual SSD of an array, separate from the drive.
    Vssd,
}

/// State of a cache on blocks: the current process, and the parts that survive a crash.
#[derive(Default)]
pub(super) struct OnBlocks {
    pub(super) life: Option<Life>,
    /// Whether the device has been formatted.
    pub(super) is_formatted: bool,
    /// Set for seeds whose blocks are those of a vSSD.
    pub(super) vssd: Option<OnVssd>,
}

/// A running process.
pub(super) struct Life {
    pub(super) way: Way,
    pub(super) device: Arc<DeviceOnBlocks>,
}

/// The handle of a process to the drive.
#[derive(Clone)]
pub(super) struct Way {
    drive: Arc<StagedDevice>,
    closed: Arc<AtomicBool>,
}

impl Way {
    pub(super) fn new(drive: Arc<StagedDevice>) -> Self {
        Self { drive, closed: Arc::default() }
    }

    /// Closes the handle, because the process dies.
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

/// The opening of existing or new blocks, and of the device on them.
pub(super) type Opening = Pin<Box<dyn Future<Output = Result<DeviceOnBlocks, Error>>>>;

impl OnBlocks {
    /// Opens the device on the blocks of `way`.
    pub(super) fn open(&self, division: Division, way: &Way) -> Opening {
        let is_formatted = self.is_formatted;
        let options = division.device;
        match (division.below, &self.vssd) {
            (Below::Drive(blocks), _) => {
                let way = Arc::new(way.clone());
                Box::pin(async move {
                    let store: Arc<dyn BlockStore> = match is_formatted {
                        true => Arc::new(BlocksOnDevice::open(way).await?),
                        false => Arc::new(BlocksOnDevice::format(way, &blocks).await?),
                    };
                    above(store, options, is_formatted).await
                })
            }
            (Below::Vssd, vssd) => {
                let vssd = vssd.as_ref().expect("it was made with the plan");
                let store = vssd.store(&way.drive, &way.closed);
                Box::pin(async move { above(Arc::new(store?), options, is_formatted).await })
            }
        }
    }
}

async fn above(
    store: Arc<dyn BlockStore>,
    options: DeviceOnBlocksOptions,
    is_formatted: bool,
) -> Result<DeviceOnBlocks, Error> {
    match is_formatted {
        true => DeviceOnBlocks::open(store, &options).await,
        false => DeviceOnBlocks::format(store, &options).await,
    }
}
