//! A device in memory, for tests and experiments. It has no placement handles, and its content is gone with it.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::device::Device;
use crate::error::{Error, ErrorKind};
use crate::info::{BLOCK_BYTES_MIN, DeviceInfo, DeviceStats};
use crate::io::{CheckedIo, Io, IoFuture};

/// Bytes in memory as a device with blocks of 4096 bytes, or another size. Every request ends at once. For a drive with
/// placement and write amplification use [`ModelDevice`](crate::ModelDevice).
///
/// ```
/// use larder_device::{Device, MemoryDevice};
///
/// let device = MemoryDevice::holding(vec![7; 1 << 20]);
/// assert_eq!(device.info().capacity_bytes, 1 << 20);
/// assert!(device.bytes().iter().all(|byte| *byte == 7));
/// ```
#[derive(Debug)]
pub struct MemoryDevice {
    info: DeviceInfo,
    content: Mutex<MemoryContent>,
    written_bytes: AtomicU64,
    zeroed_bytes: AtomicU64,
}

#[derive(Debug)]
struct MemoryContent {
    bytes: Vec<u8>,
    /// Metadata of the blocks, in order.
    metadata: Vec<u8>,
}

impl MemoryDevice {
    /// A device with this content; a rest that does not fill a block of 4096 bytes is cut off.
    pub fn holding(bytes: Vec<u8>) -> Self {
        Self::in_blocks(bytes, 4096)
    }

    /// A device with this content and blocks of `block_bytes` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if that is no power of two, or less than [`BLOCK_BYTES_MIN`].
    pub fn with_blocks(bytes: Vec<u8>, block_bytes: u32) -> Result<Self, Error> {
        if !block_bytes.is_power_of_two() || block_bytes < BLOCK_BYTES_MIN {
            let context = format!(
                "memory device: block_bytes of {block_bytes}: must be a power of two of at least {BLOCK_BYTES_MIN}"
            );
            return Err(Error::new(ErrorKind::Setup, context));
        }
        Ok(Self::in_blocks(bytes, block_bytes))
    }

    fn in_blocks(mut bytes: Vec<u8>, block_bytes: u32) -> Self {
        bytes.truncate(bytes.len() - bytes.len() % block_bytes as usize);
        let info = DeviceInfo::new("memory", bytes.len() as u64, block_bytes, 1 << 20);
        Self {
            info,
            content: Mutex::new(MemoryContent { bytes, metadata: Vec::new() }),
            written_bytes: AtomicU64::new(0),
            zeroed_bytes: AtomicU64::new(0),
        }
    }

    /// The same with `bytes` bytes of metadata per block, zeroed, which requests may carry with their data.
    #[must_use]
    pub fn keeping_metadata(mut self, bytes: u16) -> Self {
        (self.info.metadata_bytes, self.info.keeps_metadata) = (bytes, bytes > 0);
        let content = self.content.get_mut().unwrap_or_else(PoisonError::into_inner);
        let blocks = content.bytes.len() / self.info.block_bytes as usize;
        content.metadata = vec![0; blocks * usize::from(bytes)];
        self
    }

    /// A copy of the device's content.
    pub fn bytes(&self) -> Vec<u8> {
        self.lock().bytes.clone()
    }

    /// A copy of the metadata of its blocks.
    pub fn metadata(&self) -> Vec<u8> {
        self.lock().metadata.clone()
    }

    fn lock(&self) -> MutexGuard<'_, MemoryContent> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The range of the metadata of whole blocks.
    fn metadata_of(&self, blocks: &Range<usize>) -> Range<usize> {
        let per =
            |at: usize| at / self.info.block_bytes as usize * usize::from(self.info.metadata_bytes);
        per(blocks.start)..per(blocks.end)
    }
}

impl Device for MemoryDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let mut io = io.into_inner();
        let mut content = self.lock();
        let MemoryContent { bytes, metadata } = &mut *content;
        let place = |offset: u64, length: usize| {
            let start = usize::try_from(offset).expect("the range was checked");
            start..start + length
        };
        match &mut io {
            Io::Read { offset, buffer } => {
                let place = place(*offset, buffer.len());
                if let Some(into) = buffer.metadata_mut() {
                    into.copy_from_slice(&metadata[self.metadata_of(&place)]);
                }
                buffer.copy_in(0, &bytes[place]);
            }
            Io::Write { offset, buffer, .. } => {
                self.written_bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
                let place = place(*offset, buffer.len());
                let beside = &mut metadata[self.metadata_of(&place)];
                match buffer.metadata() {
                    Some(written) => beside.copy_from_slice(written),
                    None => beside.fill(0),
                }
                buffer.copy_out(0, &mut bytes[place]);
            }
            Io::WriteZeroes { offset, bytes: length } => {
                self.zeroed_bytes.fetch_add(*length, Ordering::Relaxed);
                let length = usize::try_from(*length).expect("the range was checked");
                let place = place(*offset, length);
                metadata[self.metadata_of(&place)].fill(0);
                bytes[place].fill(0);
            }
            Io::Deallocate { .. } | Io::Flush => {}
        }
        drop(content);
        IoFuture::ready(Ok(io.into_buffer()))
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats {
            host_written_bytes: self.written_bytes.load(Ordering::Relaxed),
            zeroed_bytes: self.zeroed_bytes.load(Ordering::Relaxed),
            ..DeviceStats::default()
        }
    }

    /// The same for every such device: none of them loses power while its process runs.
    fn boot(&self) -> Option<u64> {
        Some(1)
    }
}
