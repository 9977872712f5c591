//! A memory device that records its requests. A write carries the purpose of its bytes in the placement handle, and a
//! read reports the handle of the last write to that place. So a test can tell table reads from object reads.
//!
//! It stores each block without its trailing zeros, so values of zeros take no memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use larder_device::{
    CheckedIo, Device, DeviceInfo, DeviceStats, Io, IoFuture, PlacementHandle, PlacementInfo,
};

pub(super) const BLOCK_BYTES: usize = 4096;
const LINE_BYTES: usize = 64;

/// A request to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) is_read: bool,
    /// The handle with which the bytes were written.
    pub(super) handle: PlacementHandle,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// See the [module](self).
pub(super) struct WatchedDevice {
    info: DeviceInfo,
    state: Mutex<State>,
}

struct State {
    blocks: Vec<Block>,
    asked: Vec<Asked>,
    written_bytes: u64,
}

#[derive(Clone, Default)]
struct Block {
    handle: PlacementHandle,
    /// The rest of the block is zeros.
    bytes: Box<[u8]>,
}

impl WatchedDevice {
    /// A device of `bytes` bytes with `handles` placement handles.
    pub(super) fn new(bytes: u64, handles: u16) -> Self {
        let mut info = DeviceInfo::new("watched", bytes, 4096, 1 << 20);
        info.placement = PlacementInfo { handles, path: "model", ..PlacementInfo::none() };
        let blocks = usize::try_from(bytes).unwrap_or(usize::MAX) / BLOCK_BYTES;
        let blocks = vec![Block::default(); blocks];
        Self { info, state: Mutex::new(State { blocks, asked: Vec::new(), written_bytes: 0 }) }
    }

    /// Returns the requests since the last call.
    pub(super) fn take_asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.lock().asked)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The block numbers of a byte range.
fn blocks_of(offset: u64, bytes: u64) -> std::ops::Range<usize> {
    let block = |offset: u64| usize::try_from(offset).expect("it is in memory") / BLOCK_BYTES;
    block(offset)..block(offset + bytes)
}

impl Device for WatchedDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let mut io = io.into_inner();
        let State { blocks, asked, written_bytes } = &mut *self.lock();
        match &mut io {
            Io::Read { offset, buffer } => {
                let bytes = buffer.len() as u64;
                let read = &blocks[blocks_of(*offset, bytes)];
                let handle = read.first().map(|block| block.handle).unwrap_or_default();
                asked.push(Asked { is_read: true, handle, offset: *offset, bytes });
                let mut whole = [0; BLOCK_BYTES];
                for (number, block) in read.iter().enumerate() {
                    let (kept, zeros) = whole.split_at_mut(block.bytes.len());
                    kept.copy_from_slice(&block.bytes);
                    zeros.fill(0);
                    buffer.copy_in(number * BLOCK_BYTES, &whole);
                }
            }
            Io::Write { offset, buffer, handle, .. } => {
                let bytes = buffer.len() as u64;
                asked.push(Asked { is_read: false, handle: *handle, offset: *offset, bytes });
                *written_bytes += bytes;
                let mut whole = [0; BLOCK_BYTES];
                for (number, block) in blocks[blocks_of(*offset, bytes)].iter_mut().enumerate() {
                    buffer.copy_out(number * BLOCK_BYTES, &mut whole);
                    let mut lines = whole.chunks_exact(LINE_BYTES);
                    let kept =
                        lines.rposition(|line| line != [0; LINE_BYTES]).map_or(0, |it| it + 1);
                    let kept = kept * LINE_BYTES;
                    *block = Block { handle: *handle, bytes: whole[..kept].into() };
                }
            }
            Io::WriteZeroes { offset, bytes } | Io::Deallocate { offset, bytes } => {
                blocks[blocks_of(*offset, *bytes)].fill(Block::default());
            }
            Io::Flush => {}
        }
        IoFuture::ready(Ok(io.into_buffer()))
    }

    fn stats(&self) -> DeviceStats {
        let host_written_bytes = self.lock().written_bytes;
        DeviceStats { host_written_bytes, ..DeviceStats::default() }
    }

    fn boot(&self) -> Option<u64> {
        Some(1)
    }
}

#[cfg(test)]
mod tests {
    use larder_device::IoBuffer;

    use super::*;

    #[test]
    fn what_was_written_is_read_and_told_by_its_handle() {
        let device = WatchedDevice::new(1 << 20, 3);
        let handle = PlacementHandle::new(2);
        let mut bytes = vec![0; 2 * BLOCK_BYTES];
        (bytes[0], bytes[BLOCK_BYTES - 1], bytes[BLOCK_BYTES + 70]) = (1, 2, 3);
        let mut buffer = IoBuffer::zeroed(bytes.len());
        buffer.copy_in(0, &bytes);
        device.submit(Io::write(8192, buffer, handle)).wait().unwrap();
        let read = |offset, bytes| {
            let io = Io::Read { offset, buffer: IoBuffer::zeroed(bytes) };
            device.submit(io).wait().unwrap().as_slice().to_vec()
        };
        assert!(read(8192, bytes.len()) == bytes && read(0, 4096) == [0; 4096]);
        let asked = |is_read, handle, offset, bytes| Asked { is_read, handle, offset, bytes };
        let seen = [
            asked(false, handle, 8192, 8192),
            asked(true, handle, 8192, 8192),
            asked(true, PlacementHandle::DEFAULT, 0, 4096),
        ];
        assert_eq!((device.take_asked(), device.take_asked()), (seen.to_vec(), vec![]));
        device.submit(Io::Deallocate { offset: 8192, bytes: 4096 }).wait().unwrap();
        assert!(read(8192, 4096) == [0; 4096] && read(12_288, 4096) == bytes[BLOCK_BYTES..]);
    }
}
