//! A device around any other, with an observer that is told when requests begin and how they end.

use std::ops::Range;
use std::sync::Arc;

use crate::clock::Clock;
use crate::device::Device;
use crate::device::Extent;
use crate::info::{DeviceInfo, DeviceStats};
use crate::io::{CheckedIo, Io, IoFuture, ObservedRequest, Observer, RequestKind};

/// A device around another one that tells an observer of its requests.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
/// use larder_device::{
///     Device, Ending, Io, IoBuffer, MemoryDevice, ObservedDevice, Observer, RealClock, RequestKind, block_on,
/// };
///
/// #[derive(Default)]
/// struct Reads(AtomicU64);
///
/// impl Observer for Reads {
///     fn begins(&self, kind: RequestKind, _: Duration) -> u64 {
///         self.0.fetch_add(u64::from(kind == RequestKind::Read), Ordering::Relaxed)
///     }
///
///     fn ended(&self, _: u64, _: Duration, ending: Ending<'_>) {
///         assert!(matches!(ending, Ending::Well));
///     }
/// }
///
/// let reads = Arc::new(Reads::default());
/// let memory = Arc::new(MemoryDevice::holding(vec![0; 1 << 20]));
/// let device = ObservedDevice::new(memory, Arc::clone(&reads) as _, Arc::new(RealClock));
/// block_on(device.submit(Io::Read { offset: 0, buffer: IoBuffer::zeroed(4096) })).unwrap();
/// assert_eq!(reads.0.load(Ordering::Relaxed), 1);
/// ```
pub struct ObservedDevice {
    device: Arc<dyn Device>,
    observer: Arc<dyn Observer>,
    clock: Arc<dyn Clock>,
}

impl ObservedDevice {
    /// `device` with an observer. Times are monotonic time of `clock`.
    pub fn new(
        device: Arc<dyn Device>,
        observer: Arc<dyn Observer>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { device, observer, clock }
    }
}

impl Device for ObservedDevice {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let kind = match io.get() {
            Io::Read { .. } => RequestKind::Read,
            Io::Write { .. } => RequestKind::Write,
            Io::Deallocate { .. } | Io::WriteZeroes { .. } | Io::Flush => RequestKind::Other,
        };
        let number = self.observer.begins(kind, self.clock.monotonic());
        let observed =
            ObservedRequest::new(Arc::clone(&self.observer), Arc::clone(&self.clock), number);
        self.device.start(io).observed(observed)
    }

    fn stats(&self) -> DeviceStats {
        self.device.stats()
    }

    fn boot(&self) -> Option<u64> {
        self.device.boot()
    }

    fn stored_at(&self, range: Range<u64>) -> Vec<Extent> {
        self.device.stored_at(range)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::buffer::IoBuffer;
    use crate::clock::VirtualClock;
    use crate::error::ErrorKind;
    use crate::fault::{Fault, FaultDevice, FaultPlan, FaultRule};
    use crate::io::Ending;
    use crate::memory::MemoryDevice;
    use crate::park::block_on;

    #[derive(Default)]
    struct RequestLog(Mutex<Vec<String>>);

    impl Observer for RequestLog {
        fn begins(&self, kind: RequestKind, _: Duration) -> u64 {
            let mut log = self.0.lock().unwrap();
            log.push(format!("{kind:?}"));
            log.len() as u64
        }

        fn ended(&self, number: u64, _: Duration, ending: Ending<'_>) {
            let ending = match ending {
                Ending::Failed(error) => format!("{:?}", error.kind()),
                other => format!("{other:?}"),
            };
            self.0.lock().unwrap().push(format!("{number} {ending}"));
        }
    }

    #[test]
    fn every_request_ends_once() {
        let log = Arc::new(RequestLog::default());
        let run = |rule: Option<FaultRule>| {
            let plan = rule.into_iter().fold(FaultPlan::new(1), FaultPlan::with);
            let device = FaultDevice::new(MemoryDevice::holding(vec![0; 1 << 20]), &plan);
            let clock = Arc::new(VirtualClock::starting_at(Duration::ZERO));
            let device = ObservedDevice::new(Arc::new(device), Arc::clone(&log) as _, clock);
            device.submit(Io::Read { offset: 0, buffer: IoBuffer::zeroed(4096) })
        };
        block_on(run(None)).unwrap();
        let failed = block_on(run(Some(FaultRule::new(Fault::Error))));
        assert_eq!(failed.unwrap_err().error.kind(), ErrorKind::Io);
        drop(run(Some(FaultRule::new(Fault::Stall))));
        let told = log.0.lock().unwrap().join(", ");
        assert_eq!(told, "Read, 1 Well, Read, 3 Io, Read, 5 GivenUp");
    }
}
