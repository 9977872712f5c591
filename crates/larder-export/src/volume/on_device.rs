//! Any device as a volume.
//!
//! Requests need not be whole blocks of the device. For a partial block, the volume reads the block, patches the bytes
//! in and writes the whole block. Advertising the block size and refusing such requests would not do: a client that
//! uses `NBD_OPT_EXPORT_NAME` never learns the block size, the common test suites for NBD servers write 512-byte
//! sectors, and a file that allows direct I/O only in blocks of 4096 bytes would be useless to both. If a power loss
//! tears a block, neighbouring bytes may be lost along with those being written, as on any drive that emulates small
//! sectors.
//!
//! While a block is read, patched and written, no other request may write it. So changes of overlapping blocks run one
//! after the other, in order of arrival ([`Turns`]). This includes changes of whole blocks and changes from other
//! connections. Consequently a later write never overtakes a stalled write of the same place.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use larder_device::{
    BufferPool, Device, Durability, Io, IoBuffer, IoFuture, IoResult, PlacementHandle, steps,
};

use super::turns::Turns;
use super::{BlockSizes, Context, Volume, VolumeInfo, length};

/// Longest read or write: the length that every client may assume.
const REQUEST_BYTES_MAX: u32 = 32 << 20;
/// Smallest preferred block size that is reported, even for devices with smaller blocks.
const PREFERRED_BYTES_MIN: u32 = 4096;

/// A device as a volume of all its bytes, for requests of any length at any offset. Writes use the default placement
/// handle.
///
/// ```
/// use std::sync::Arc;
/// use larder_export::volume::{DeviceVolume, Volume};
/// use larder_device::{Durability, IoBuffer, MemoryDevice};
///
/// let volume = DeviceVolume::new(Arc::new(MemoryDevice::holding(vec![7; 1 << 20])));
/// let mut three = IoBuffer::zeroed(3);
/// three.as_mut_slice().copy_from_slice(&[1, 2, 3]);
/// volume.write(4095, three, Durability::Device).wait()?;
/// let read = volume.read(4094, IoBuffer::zeroed(5)).wait()?;
/// assert_eq!(read.as_slice(), [7, 1, 2, 3, 7]);
/// # Ok::<(), larder_device::IoFailure>(())
/// ```
pub struct DeviceVolume {
    on: Arc<OnDevice>,
    info: VolumeInfo,
}

/// The state that all requests share.
struct OnDevice {
    device: Arc<dyn Device>,
    block_bytes: u64,
    turns: Arc<Turns>,
    pool: BufferPool,
}

impl DeviceVolume {
    /// A volume of all of `device`.
    pub fn new(device: Arc<dyn Device>) -> Self {
        let about = device.info();
        let info = VolumeInfo {
            size_bytes: about.capacity_bytes,
            blocks: BlockSizes {
                min: 1,
                preferred: about.block_bytes.max(PREFERRED_BYTES_MIN),
                max: REQUEST_BYTES_MAX,
            },
            contexts: vec![Context::Allocation],
            caches: false,
        };
        let block_bytes = u64::from(about.block_bytes);
        let (turns, pool) = (Arc::default(), BufferPool::new());
        Self { on: Arc::new(OnDevice { device, block_bytes, turns, pool }), info }
    }

    /// The underlying device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.on.device
    }

    /// Runs `begin`, which changes `range`, when its turn comes.
    fn change<F, S>(&self, range: Range<u64>, begin: F) -> IoFuture
    where
        F: FnOnce(Arc<OnDevice>) -> S + Send + 'static,
        S: Future<Output = IoResult> + Send,
    {
        let on = Arc::clone(&self.on);
        // Take the turn here, not when the future is polled, so that turns follow the order of the requests.
        let turn = on.turns.take(on.blocks_around(&range));
        steps::request(async move {
            turn.comes().await;
            let ended = begin(on).await;
            // Keep the turn until the device has completed the request: the next request may change the same bytes.
            drop(turn);
            ended
        })
    }
}

impl Volume for DeviceVolume {
    fn info(&self) -> &VolumeInfo {
        &self.info
    }

    fn read(&self, offset: u64, buffer: IoBuffer) -> IoFuture {
        let range = range_of(offset, &buffer);
        if self.on.is_whole(&range) {
            return self.on.device.submit(Io::Read { offset, buffer });
        }
        let on = Arc::clone(&self.on);
        steps::request(async move {
            let whole = on.read_around(&range).await?;
            let (mut buffer, mut at) = (buffer, on.before(range.start));
            for run in buffer.runs_mut() {
                whole.copy_out(at, run);
                at += run.len();
            }
            Ok(buffer)
        })
    }

    fn write(&self, offset: u64, buffer: IoBuffer, durability: Durability) -> IoFuture {
        let range = range_of(offset, &buffer);
        self.change(range.clone(), move |on| async move {
            if on.is_whole(&range) {
                return on.write(offset, buffer, durability).await;
            }
            on.patch(range, Some(buffer), durability).await
        })
    }

    fn flush(&self) -> IoFuture {
        self.on.device.submit(Io::Flush)
    }

    fn trim(&self, range: Range<u64>, durability: Durability) -> IoFuture {
        let Some(inner) = self.on.blocks_within(&range) else {
            // Partial blocks stay as they are.
            return IoFuture::ready(Ok(IoBuffer::empty()));
        };
        self.change(range, move |on| async move {
            let (offset, bytes) = (inner.start, inner.end - inner.start);
            on.device.submit(Io::Deallocate { offset, bytes }).await?;
            on.settle(durability).await
        })
    }

    /// Devices keep reserved space in any case, so `keeps_room` is ignored.
    fn write_zeroes(&self, range: Range<u64>, _: bool, durability: Durability) -> IoFuture {
        let inner = self.on.blocks_within(&range);
        self.change(range.clone(), move |on| async move {
            let Some(inner) = inner else { return on.patch(range, None, durability).await };
            if range.start < inner.start {
                on.patch(range.start..inner.start, None, Durability::Device).await?;
            }
            let (offset, bytes) = (inner.start, inner.end - inner.start);
            on.device.submit(Io::WriteZeroes { offset, bytes }).await?;
            if inner.end < range.end {
                on.patch(inner.end..range.end, None, Durability::Device).await?;
            }
            on.settle(durability).await
        })
    }
}

impl OnDevice {
    fn is_whole(&self, range: &Range<u64>) -> bool {
        range.start.is_multiple_of(self.block_bytes) && range.end.is_multiple_of(self.block_bytes)
    }

    /// The smallest range of whole blocks that contains `range`.
    fn blocks_around(&self, range: &Range<u64>) -> Range<u64> {
        let start = range.start - range.start % self.block_bytes;
        // The capacity is a multiple of the block size, so the end is within it.
        start..range.end.next_multiple_of(self.block_bytes)
    }

    /// The whole blocks inside `range`, if there are any.
    fn blocks_within(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let start = range.start.next_multiple_of(self.block_bytes);
        let end = range.end - range.end % self.block_bytes;
        (start < end).then_some(start..end)
    }

    /// The offset within its block.
    fn before(&self, offset: u64) -> usize {
        usize::try_from(offset % self.block_bytes).expect("a block fits into memory")
    }

    async fn read_around(&self, range: &Range<u64>) -> IoResult {
        let blocks = self.blocks_around(range);
        let buffer = self.pool.take(length(&blocks));
        self.device.submit(Io::Read { offset: blocks.start, buffer }).await
    }

    fn write(&self, offset: u64, buffer: IoBuffer, durability: Durability) -> IoFuture {
        let handle = PlacementHandle::DEFAULT;
        self.device.submit(Io::Write { offset, buffer, handle, durability })
    }

    /// Patches `content`, or zeros, into the blocks around `range`, and writes these blocks whole.
    async fn patch(
        &self,
        range: Range<u64>,
        content: Option<IoBuffer>,
        durability: Durability,
    ) -> IoResult {
        let blocks = self.blocks_around(&range);
        let mut whole = self.pool.take(length(&blocks));
        // Only the first and the last block keep old bytes, so only these are read.
        let last = blocks.end - self.block_bytes;
        let ends = [
            (!range.start.is_multiple_of(self.block_bytes)).then_some(blocks.start),
            (!range.end.is_multiple_of(self.block_bytes)).then_some(last),
        ];
        for (nth, offset) in ends.into_iter().enumerate() {
            let Some(offset) = offset.filter(|offset| nth == 0 || ends[0] != Some(*offset)) else {
                continue;
            };
            let buffer = self.pool.take(length(&(0..self.block_bytes)));
            let block = self.device.submit(Io::Read { offset, buffer }).await?;
            whole.copy_in(length(&(blocks.start..offset)), block.as_slice());
        }
        let at = self.before(range.start);
        match &content {
            None => whole.as_mut_slice()[at..at + length(&range)].fill(0),
            Some(content) => whole.copy_buffer_in(at, content),
        }
        self.write(blocks.start, whole, durability).await
    }

    /// Flushes if `durability` asks for it.
    async fn settle(&self, durability: Durability) -> IoResult {
        match durability {
            Durability::Power => self.device.submit(Io::Flush).await,
            Durability::Process | Durability::Device => Ok(IoBuffer::empty()),
        }
    }
}

fn range_of(offset: u64, buffer: &IoBuffer) -> Range<u64> {
    offset..offset + buffer.len() as u64
}
