//! Messages of an NBD client: options, and then requests, whole and in pieces.
#![no_main]

use std::sync::{Arc, LazyLock};

use larder_device::MemoryDevice;
use larder_export::nbd::fuzzing;
use larder_export::volume::{DeviceVolume, Volume};
use libfuzzer_sys::fuzz_target;

/// Made once, because nothing is written to it.
static VOLUME: LazyLock<Arc<dyn Volume>> = LazyLock::new(|| {
    let device = MemoryDevice::holding(vec![0; 1 << 20]);
    Arc::new(DeviceVolume::new(Arc::new(device)))
});

fuzz_target!(|bytes: &[u8]| fuzzing::connection(&VOLUME, bytes));
