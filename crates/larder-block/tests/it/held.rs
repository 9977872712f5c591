//! A device whose requests wait until they are released, in any order.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use larder_device::{
    CheckedIo, Completer, Device, DeviceInfo, DeviceStats, Io, IoFuture, MemoryDevice,
};

/// Memory whose requests, of the kinds set by [`HeldDevice::hold`], wait until they are released.
pub(crate) struct HeldDevice {
    below: MemoryDevice,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    reads: bool,
    writes: bool,
    flushes: bool,
    waiting: VecDeque<(CheckedIo, Completer)>,
}

impl HeldDevice {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        let below = MemoryDevice::with_blocks(vec![0; bytes], 4096).unwrap();
        Arc::new(Self { below, held: Mutex::default() })
    }

    /// Whether writes and flushes wait from now on.
    pub(crate) fn hold(&self, writes: bool, flushes: bool) {
        let mut held = self.held.lock().unwrap();
        (held.writes, held.flushes) = (writes, flushes);
    }

    /// Whether reads wait from now on.
    pub(crate) fn hold_reads(&self, reads: bool) {
        self.held.lock().unwrap().reads = reads;
    }

    pub(crate) fn waiting(&self) -> usize {
        self.held.lock().unwrap().waiting.len()
    }

    /// Waits until `count` requests wait.
    #[track_caller]
    pub(crate) fn wait_for(&self, count: usize) {
        until(|| self.waiting() == count);
    }

    /// Carries out the request that has waited longest.
    pub(crate) fn let_go(&self) {
        let (io, completer) = self.held.lock().unwrap().waiting.pop_front().unwrap();
        completer.complete(self.below.start(io).wait());
    }

    /// The content of the device.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.below.bytes()
    }
}

impl Device for HeldDevice {
    fn info(&self) -> &DeviceInfo {
        self.below.info()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let mut held = self.held.lock().unwrap();
        let waits = match io.get() {
            Io::Read { .. } => held.reads,
            Io::Flush => held.flushes,
            _ => held.writes,
        };
        if !waits {
            drop(held);
            return self.below.start(io);
        }
        let (future, completer) = IoFuture::pending();
        held.waiting.push_back((io, completer));
        future
    }

    fn stats(&self) -> DeviceStats {
        self.below.stats()
    }
}

/// Waits until `is_so` returns true.
#[track_caller]
pub(crate) fn until(is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(10), "not so after 10 s");
        std::thread::sleep(Duration::from_micros(200));
    }
}
