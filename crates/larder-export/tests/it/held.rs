//! Devices whose requests wait, and waiting for what other threads do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_device::{HeldDevice, Io, MemoryDevice};

pub(crate) fn held_device(bytes: usize) -> Arc<HeldDevice<MemoryDevice>> {
    let below = MemoryDevice::with_blocks(vec![0; bytes], 4096).unwrap();
    Arc::new(HeldDevice::new(below))
}

/// Whether the request changes data.
pub(crate) fn is_change(io: &Io) -> bool {
    !matches!(io, Io::Read { .. } | Io::Flush)
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
