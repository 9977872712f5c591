//! The SSD model under a clock: dies, channels, the link, a write buffer, garbage collection.

use larder_ssd::managed::{ManagedConfig, ManagedSsd, PAGE_BYTES};
use larder_ssd::timed::{DriveTiming, TimedSsd};

use crate::error::{Error, ErrorKind};
use crate::info::{DeviceInfo, DeviceStats};
use crate::io::Io;
use crate::model::counts::{self, ModelCounts};

use super::{Moment, TimingModel};

/// [`larder_ssd::timed`] as the timing model of a device. Data in the drive's write buffer survives a loss of power
/// there, so a flush costs only a command.
#[derive(Debug)]
pub struct SsdTiming {
    ssd: TimedSsd,
}

impl SsdTiming {
    /// A new drive of `config` with the times of `timing`.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if no such drive could work, or if it has several reclaim groups.
    pub fn new(config: ManagedConfig, timing: DriveTiming) -> Result<Self, Error> {
        let setup = |why: &dyn std::fmt::Display| {
            Error::new(ErrorKind::Setup, format!("timed SSD model: {why}"))
        };
        if config.groups != 1 {
            return Err(setup(&format!("{} reclaim groups: must be 1", config.groups)));
        }
        TimedSsd::new(config, timing).map(|ssd| Self { ssd }).map_err(|error| setup(&error))
    }

    /// The drive, to inspect.
    pub fn timed(&self) -> &TimedSsd {
        &self.ssd
    }

    /// Its firmware, to inspect.
    pub fn firmware(&self) -> &ManagedSsd {
        self.ssd.ssd()
    }
}

impl TimingModel for SsdTiming {
    fn info(&self) -> DeviceInfo {
        counts::describe(self.firmware().config(), self.ssd.timing().name)
    }

    fn serve(&mut self, now: Moment, io: &Io) -> Result<Moment, larder_ssd::Error> {
        let (_, offset, bytes) = io.extent();
        let (lpn, pages) = (offset / PAGE_BYTES, bytes / PAGE_BYTES);
        let now_ns = now.as_nanos();
        let end_ns = match io {
            Io::Read { .. } => self.ssd.read(now_ns, lpn, pages)?,
            Io::Write { handle, .. } => self.ssd.write(now_ns, lpn, pages, handle.index())?,
            // The drive writes zeros as ordinary pages.
            Io::WriteZeroes { .. } => self.ssd.write(now_ns, lpn, pages, 0)?,
            Io::Deallocate { .. } => self.ssd.deallocate(now_ns, lpn, pages)?,
            Io::Flush => now_ns + self.ssd.timing().command_ns,
        };
        Ok(Moment::from_nanos(end_ns))
    }

    fn stats(&self) -> DeviceStats {
        ModelCounts::default().with(self.firmware())
    }
}
