//! Requests beyond the end of the device.

use larder_device::{Device, ErrorKind, Io, IoBuffer, PlacementHandle};

use crate::{BLOCK, Failure};

/// Requests that end beyond the device must be refused; one for the last block must not.
pub(super) fn check(device: &dyn Device) -> Result<(), Failure> {
    let end = device.info().capacity_bytes;
    let write = |offset: u64, blocks: usize| {
        let buffer = IoBuffer::zeroed(blocks * BLOCK);
        device.submit(Io::write(offset, buffer, PlacementHandle::DEFAULT)).wait()
    };
    let block = BLOCK as u64;
    write(end - block, 1)?;
    for (offset, blocks) in [(end - block, 2), (end, 1), (end + (1 << 30), 1), (u64::MAX - 4095, 1)]
    {
        match write(offset, blocks) {
            Err(failure) if failure.error.kind() == ErrorKind::InvalidRequest => {
                println!("refused: {failure}");
            }
            Err(failure) => return Err(format!("refused for another reason: {failure}").into()),
            Ok(_) => return Err(format!("{blocks} blocks at {offset} were written").into()),
        }
    }
    let dead = Io::Deallocate { offset: end - block, bytes: 2 * block };
    match device.submit(dead).wait() {
        Err(failure) if failure.error.kind() == ErrorKind::InvalidRequest => Ok(()),
        _ => Err("a deallocation over the end was not refused".into()),
    }
}
