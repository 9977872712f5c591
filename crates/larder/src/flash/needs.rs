//! Computes how much memory a cache will need, before it touches the device.

use std::sync::Arc;
use std::time::Duration;

use larder_device::{
    CheckedIo, Device, DeviceInfo, DeviceStats, Error as DeviceError, ErrorKind, IoFailure,
    IoFuture, VirtualClock,
};

use super::Flash;
use super::recovery::Start;
use crate::base::error::Error;
use crate::base::time::CacheClock;
use crate::config::Config;
use crate::observe::stats::Counters;

/// A device that consists only of its description. All I/O fails.
struct DescribedDevice(DeviceInfo);

impl Device for DescribedDevice {
    fn info(&self) -> &DeviceInfo {
        &self.0
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let error = DeviceError::new(ErrorKind::Io, "a description has no bytes");
        IoFuture::ready(Err(IoFailure { error, buffer: io.into_inner().into_buffer() }))
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats::default()
    }
}

/// Bytes of memory that flash needs for a cache on such a device while the device is empty.
///
/// # Errors
/// If the configuration is not valid for this device.
pub(crate) fn memory_bytes_needed(config: &Config, info: &DeviceInfo) -> Result<u64, Error> {
    let device: Arc<dyn Device> = Arc::new(DescribedDevice(info.clone()));
    let start = Start::empty_on(&device, config)?;
    let counters = Arc::new(Counters::with_listener(None, start.hasher()));
    let clock = VirtualClock::starting_at(Duration::from_secs(1));
    let clock = Arc::new(CacheClock::new(Arc::new(clock)));
    let (flash, _) = Flash::planned(config, device, start, None, (counters, clock))?;
    Ok(flash.memory_bytes_to_keep())
}
