//! Any device as a volume.
//!
//! Requests need not be whole blocks of the device. Those that are not read the blocks at their ends, put the bytes in
//! and write the blocks whole. They could be refused by the block size that is advertised; but whoever asks for an
//! export by `NBD_OPT_EXPORT_NAME` is never told of block sizes, what others test servers with writes sectors of 512
//! bytes, and a file that allows direct I/O in blocks of 4096 only would be of no use to either. A block that a loss of
//! power tears may then lose bytes beside those that were being written, as on any drive that emulates small sectors.
//!
//! A block that is read, changed and written must not be written by anybody else in between. So changes of overlapping
//! blocks are made one after the other, in the order in which they came ([`Turns`]): also those of whole blocks, and
//! whichever connection they came by. What is stalled is therefore never overtaken by a later write of the same place.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use larder_device::{
    BufferPool, Device, Durability, Io, IoBuffer, IoFuture, IoResult, PlacementHandle, steps,
};

use super::turns::Turns;
use super::{BlockSizes, Context, Volume, VolumeInfo, length};

/// Longest read or write: what every client may assume.
const REQUEST_BYTES_MAX: u32 = 32 << 20;
/// What is preferred of devices with smaller blocks.
const PREFERRED_BYTES_MIN: u32 = 4096;

/// A device as a volume of all its bytes, for requests of any length at any offset. Written under the default handle.
///
/// ```
/// use std::sync::Arc;
/// use larder_block::volume::{DeviceVolume, Volume};
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

/// What requests have in common that consist of several.
struct OnDevice {
    device: Arc<dyn Device>,
    block_bytes: u64,
    turns: Arc<Turns>,
    pool: BufferPool,
}

impl DeviceVolume {
    /// All of `device`.
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

    /// The device below.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.on.device
    }

    /// Begins a change of `range` in its turn.
    fn change<F, S>(&self, range: Range<u64>, begin: F) -> IoFuture
    where
        F: FnOnce(Arc<OnDevice>) -> S + Send + 'static,
        S: Future<Output = IoResult> + Send,
    {
        let on = Arc::clone(&self.on);
        // Taken here, not when the steps are polled: requests have the order in which they were made.
        let turn = on.turns.take(on.blocks_around(&range));
        steps::request(async move {
            turn.comes().await;
            let ended = begin(on).await;
            // Not before the device has ended it: the next one may change the same bytes.
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
            // What is no whole block stays as it is.
            return IoFuture::ready(Ok(IoBuffer::empty()));
        };
        self.change(range, move |on| async move {
            let (offset, bytes) = (inner.start, inner.end - inner.start);
            on.device.submit(Io::Deallocate { offset, bytes }).await?;
            on.settle(durability).await
        })
    }

    /// Devices keep what is reserved, whether it is asked for or not.
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

    /// The blocks in which the range lies.
    fn blocks_around(&self, range: &Range<u64>) -> Range<u64> {
        let start = range.start - range.start % self.block_bytes;
        // The capacity is whole blocks, so this is within it.
        start..range.end.next_multiple_of(self.block_bytes)
    }

    /// The blocks that lie in the range, if there are any.
    fn blocks_within(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let start = range.start.next_multiple_of(self.block_bytes);
        let end = range.end - range.end % self.block_bytes;
        (start < end).then_some(start..end)
    }

    /// How many bytes of its block are before an offset.
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

    /// Puts `content`, or zeros, into the blocks around `range`, and writes those whole.
    async fn patch(
        &self,
        range: Range<u64>,
        content: Option<IoBuffer>,
        durability: Durability,
    ) -> IoResult {
        let blocks = self.blocks_around(&range);
        let mut whole = self.pool.take(length(&blocks));
        // Of the blocks between the ends nothing stays.
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

    /// Makes durable what has ended, if that is wanted.
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
