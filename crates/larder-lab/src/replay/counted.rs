//! Drives of any kind that report their counters in the same terms.

use std::sync::Arc;

use larder_device::{Device, ModelDevice};
use larder_ssd::managed;

/// A drive that reports its counters in the terms of a managed drive.
pub trait CountedDrive {
    /// Counters since the drive was made.
    fn stats(&self) -> managed::Stats;

    /// Bytes written to it.
    fn host_bytes(&self) -> u64 {
        self.stats().host_bytes()
    }

    /// Addressable bytes.
    fn capacity_bytes(&self) -> u64;
}

impl<T: CountedDrive> CountedDrive for Arc<T> {
    fn stats(&self) -> managed::Stats {
        T::stats(self)
    }

    fn host_bytes(&self) -> u64 {
        T::host_bytes(self)
    }

    fn capacity_bytes(&self) -> u64 {
        T::capacity_bytes(self)
    }
}

impl CountedDrive for ModelDevice {
    fn stats(&self) -> managed::Stats {
        self.with_ssd(|ssd| ssd.stats().clone())
    }

    fn host_bytes(&self) -> u64 {
        self.with_ssd(|ssd| ssd.stats().host_bytes())
    }

    fn capacity_bytes(&self) -> u64 {
        self.info().capacity_bytes
    }
}
