//! Devices that lose power together, at a change that was chosen before.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use larder_device::{
    CheckedIo, Completer, Device, DeviceInfo, DeviceStats, FaultDevice, FaultPlan, Io, IoFuture,
    MemoryDevice,
};

type Failing = FaultDevice<MemoryDevice>;

/// Limit of changes in one step. A cache that makes more of them is in an endless loop.
const RESTLESS_MAX: u64 = 20_000;

/// The power supply of all devices. Every request except a read is a change: whether power is lost during a read makes
/// no difference.
#[derive(Default)]
pub(super) struct Power {
    /// Number of changes until power is lost.
    left: AtomicU64,
    is_lost: AtomicBool,
    /// Number of changes since the last release of held requests: a cache comes to rest after each step.
    restless: AtomicU64,
    devices: OnceLock<Vec<Arc<Failing>>>,
    /// Completers of requests that were submitted after the power loss. They are kept, so that the callers wait.
    unheard: Mutex<Vec<Completer>>,
}

/// One of the devices.
pub(super) struct Powered {
    device: Arc<Failing>,
    power: Arc<Power>,
}

impl Power {
    /// Makes devices from (size in bytes, block size in bytes, bytes that a power loss leaves whole, if known). All of
    /// them forget data that was not flushed.
    pub(super) fn feed(of: &[(u64, u32, Option<u32>)]) -> (Arc<Self>, Vec<Arc<dyn Device>>) {
        let power = Arc::new(Self::default());
        let make = |(bytes, block_bytes, whole): &(u64, u32, Option<u32>)| {
            let bytes = vec![0; usize::try_from(*bytes).unwrap()];
            let memory = MemoryDevice::with_blocks(bytes, *block_bytes).unwrap();
            let plan = FaultPlan::new(0).volatile_writes(1 << 20);
            let plan = whole.map_or(plan.clone(), |bytes| plan.atomic_write_bytes(bytes));
            Arc::new(FaultDevice::new(memory, &plan))
        };
        let devices: Vec<Arc<Failing>> = of.iter().map(make).collect();
        let fed = |device: &Arc<Failing>| -> Arc<dyn Device> {
            Arc::new(Powered { device: Arc::clone(device), power: Arc::clone(&power) })
        };
        let all = devices.iter().map(fed).collect();
        assert!(power.devices.set(devices).is_ok());
        (power, all)
    }

    fn devices(&self) -> &[Arc<Failing>] {
        self.devices.get().expect("they were made with it")
    }

    /// Power returns. From now on requests overtake each other by up to `overtaken_max`.
    pub(super) fn return_with(&self, seed: u64, overtaken_max: u32) {
        for (device, number) in self.devices().iter().zip(0..) {
            device.restart().unwrap();
            let plan = FaultPlan::new(seed.wrapping_add(number));
            device.set_plan(&plan.completing_out_of_order(overtaken_max));
        }
        self.lose_after(u64::MAX);
        self.is_lost.store(false, Ordering::SeqCst);
    }

    /// Ends the requests that wait since the power loss, and so frees their callers. Requests that the callers then
    /// submit are treated in the same way.
    pub(super) fn forget_the_unheard(&self) {
        assert!(self.is_lost(), "callers that get an answer go on");
        loop {
            let unheard = std::mem::take(&mut *self.unheard.lock().unwrap());
            if unheard.is_empty() {
                return;
            }
            drop(unheard);
        }
    }

    /// Power is lost at the change after `changes` changes.
    pub(super) fn lose_after(&self, changes: u64) {
        self.left.store(changes, Ordering::SeqCst);
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::SeqCst)
    }

    /// Power is lost now.
    pub(super) fn lose(&self) {
        self.is_lost.store(true, Ordering::SeqCst);
        self.devices().iter().for_each(|device| device.crash().unwrap());
    }

    /// Releases the held requests.
    pub(super) fn let_go(&self) {
        self.rests();
        self.devices().iter().for_each(|device| device.release_delayed());
    }

    /// The cache has come to rest.
    pub(super) fn rests(&self) {
        self.restless.store(0, Ordering::SeqCst);
    }

    /// Whether power is lost at this request.
    fn goes_with(&self, io: &Io) -> bool {
        if matches!(io, Io::Read { .. }) {
            return false;
        }
        let restless = self.restless.fetch_add(1, Ordering::SeqCst);
        assert!(restless < RESTLESS_MAX, "a cache that goes on for ever by itself: {io:?}");
        let left = self.left.load(Ordering::SeqCst);
        self.left.store(left.saturating_sub(1), Ordering::SeqCst);
        left == 0
    }
}

impl Device for Powered {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        if !self.power.is_lost() && !self.power.goes_with(io.get()) {
            return self.device.start(io);
        }
        if !self.power.is_lost.swap(true, Ordering::SeqCst) {
            self.device.crash_during(vec![io]).unwrap();
            self.power.lose();
        }
        // After the power loss no request ends.
        let (future, completer) = IoFuture::pending();
        self.power.unheard.lock().unwrap().push(completer);
        future
    }

    fn stats(&self) -> DeviceStats {
        self.device.stats()
    }
}
