//! Requests to a device: what they are, how they are checked, how they end.
//!
//! This is the one place where bounds, alignment and handles are checked. A backend sees only a
//! [`CheckedIo`].

mod future;
mod observed;
mod outcome;

use crate::buffer::IoBuffer;
use crate::error::{Error, ErrorKind};
use crate::info::DeviceInfo;
use crate::placement::PlacementHandle;
pub(crate) use future::{AbandonedFuture, Deadline, Overseer, WatchedRequest};
pub use future::{Completer, IoFuture};
pub(crate) use observed::ObservedRequest;
pub use observed::{Ending, Observer, RequestKind};
pub use outcome::{IoFailure, IoResult};

/// A request. It owns its buffer, or several as one ([`IoBuffer::list`]); the completion gives it back.
#[derive(Debug)]
pub enum Io {
    /// Fill `buffer` from `offset` on.
    Read {
        /// Byte address on the device.
        offset: u64,
        /// Filled whole, or the request fails.
        buffer: IoBuffer,
    },
    /// Write the whole `buffer` at `offset`.
    Write {
        /// Byte address on the device.
        offset: u64,
        /// The bytes to write.
        buffer: IoBuffer,
        /// The placement handle that the bytes belong to.
        handle: PlacementHandle,
        /// What the bytes must survive once the write has completed.
        durability: Durability,
    },
    /// Tell the device that a range is no longer needed. What a later read of it returns is unspecified.
    Deallocate {
        /// Byte address on the device.
        offset: u64,
        /// Length of the range.
        bytes: u64,
    },
    /// Make a range read as zeros. The device does so without a transfer where it can: files with `fallocate`, NVMe
    /// namespaces with Write Zeroes. Elsewhere zeros are written. The request uses the default handle, because no
    /// interface takes another, and is as durable as a write that the device has taken ([`Durability::Device`]).
    WriteZeroes {
        /// Byte address on the device.
        offset: u64,
        /// Length of the range.
        bytes: u64,
    },
    /// Make everything written so far durable.
    Flush,
}

/// What the bytes of a write survive once it has completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// The end of this process, however it ends, but not a crash of the computer: the bytes may be only in the kernel's
    /// page cache. A file device completes the write at once. The kernel writes the last version of each block some
    /// seconds later, or with the next flush. Other devices treat this as [`Durability::Device`].
    ///
    /// If the kernel then fails to write the bytes, the error is reported only by the next flush.
    Process,
    /// The device has taken the bytes. A loss of power may lose what was not flushed.
    #[default]
    Device,
    /// A loss of power: the bytes are on the medium, or in memory of the device that survives without power. If power
    /// is lost while the write is in flight, any subset of its 512-byte sectors may have been written. The guarantee
    /// does not cover what other writes have left in the device's volatile cache.
    ///
    /// For files and block devices the write itself carries the flag (`RWF_DSYNC`), for NVMe namespaces the command
    /// does (FUA). Where that is refused, a flush follows the write. Where [`DeviceInfo::volatile_cache`] is
    /// [`VolatileCache::No`](crate::VolatileCache::No), this costs no more than [`Durability::Device`].
    Power,
}

/// A request whose bounds, alignment and placement handle fit its device. Only [`Io::check`] makes one.
#[derive(Debug)]
pub struct CheckedIo(Io);

impl Io {
    /// A write with [`Durability::Device`]: it completes once the device has taken the bytes.
    pub fn write(offset: u64, buffer: IoBuffer, handle: PlacementHandle) -> Self {
        Self::Write { offset, buffer, handle, durability: Durability::Device }
    }

    /// Whether this is a write that must survive a loss of power.
    pub fn is_power_durable(&self) -> bool {
        matches!(self, Self::Write { durability: Durability::Power, .. })
    }

    /// Verb, byte offset and length, for messages and checks.
    pub fn extent(&self) -> (&'static str, u64, u64) {
        match self {
            Self::Read { offset, buffer } => ("read", *offset, buffer.len() as u64),
            Self::Write { offset, buffer, .. } => ("write", *offset, buffer.len() as u64),
            Self::Deallocate { offset, bytes } => ("deallocate", *offset, *bytes),
            Self::WriteZeroes { offset, bytes } => ("write zeroes", *offset, *bytes),
            Self::Flush => ("flush", 0, 0),
        }
    }

    /// Takes the buffer out of the request.
    pub fn into_buffer(self) -> IoBuffer {
        match self {
            Self::Read { buffer, .. } | Self::Write { buffer, .. } => buffer,
            Self::Deallocate { .. } | Self::WriteZeroes { .. } | Self::Flush => IoBuffer::empty(),
        }
    }

    /// Checks the request against the device's [`DeviceInfo`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRequest`] with the reason. The failure gives the buffer back.
    pub fn check(self, info: &DeviceInfo) -> Result<CheckedIo, IoFailure> {
        match self.complaint(info) {
            None => Ok(CheckedIo(self)),
            Some(complaint) => {
                let (verb, offset, bytes) = self.extent();
                let context =
                    format!("{verb} of {bytes} bytes at {offset} on {}: {complaint}", info.name);
                let error = Error::new(ErrorKind::InvalidRequest, context);
                Err(IoFailure { error, buffer: self.into_buffer() })
            }
        }
    }

    fn complaint(&self, info: &DeviceInfo) -> Option<String> {
        if matches!(self, Self::Flush) {
            return None;
        }
        let (_, offset, bytes) = self.extent();
        let block = u64::from(info.block_bytes);
        if bytes == 0 {
            return Some("the length is zero".to_owned());
        }
        if !offset.is_multiple_of(block) {
            let before = offset - offset % block;
            return Some(format!(
                "the offset {offset} is no multiple of the {block}-byte block; begin at {before}"
            ));
        }
        if !bytes.is_multiple_of(block) {
            let whole = bytes.next_multiple_of(block);
            return Some(format!(
                "the length {bytes} is no multiple of the {block}-byte block; give {whole} bytes"
            ));
        }
        if let Self::Read { buffer, .. } | Self::Write { buffer, .. } = self
            && buffer.is_list()
            && let Some(complaint) = complaint_of_list(buffer, info.block_bytes as usize)
        {
            return Some(complaint);
        }
        if let Self::Read { buffer, .. } | Self::Write { buffer, .. } = self
            && let Some(metadata) = buffer.metadata()
            && let Some(complaint) = complaint_of_metadata(metadata.len(), bytes / block, info)
        {
            return Some(complaint);
        }
        if offset.checked_add(bytes).is_none_or(|end| end > info.capacity_bytes) {
            return Some(format!(
                "the range ends beyond the capacity of {} bytes",
                info.capacity_bytes
            ));
        }
        match self {
            Self::Write { handle, .. } if handle.index() >= info.placement.handles => Some(
                format!("handle {handle} is not among the device's {}", info.placement.handles),
            ),
            _ => None,
        }
    }
}

/// Each buffer of a list must be whole blocks: a device can switch buffers only at a block boundary.
fn complaint_of_list(buffer: &IoBuffer, block: usize) -> Option<String> {
    let odd = |run: &[u8]| run.is_empty() || !run.len().is_multiple_of(block);
    let (number, run) = buffer.runs().enumerate().find(|(_, run)| odd(run))?;
    let (bytes, whole) = (run.len(), run.len().next_multiple_of(block).max(block));
    Some(format!(
        "buffer {number} of its list has {bytes} bytes, which is no multiple of the {block}-byte block; give it {whole}"
    ))
}

/// A request has metadata for exactly its own blocks, and only where the device keeps metadata.
fn complaint_of_metadata(given: usize, blocks: u64, info: &DeviceInfo) -> Option<String> {
    if !info.keeps_metadata {
        return Some(format!(
            "it has {given} bytes of metadata, and the device keeps none: give it data alone"
        ));
    }
    let wanted = blocks * u64::from(info.metadata_bytes);
    (given as u64 != wanted).then(|| {
        format!(
            "it has {given} bytes of metadata; give its {blocks} blocks {} each, {wanted} bytes",
            info.metadata_bytes
        )
    })
}

impl CheckedIo {
    /// The request, to inspect.
    pub fn get(&self) -> &Io {
        &self.0
    }

    /// The request, to carry out.
    pub fn into_inner(self) -> Io {
        self.0
    }

    /// Ends the request with `error`, giving its buffer back.
    pub fn fail(self, error: Error) -> IoFuture {
        IoFuture::ready(Err(IoFailure { error, buffer: self.0.into_buffer() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::PlacementInfo;

    fn info() -> DeviceInfo {
        let placement = PlacementInfo { handles: 2, ..PlacementInfo::none() };
        DeviceInfo { placement, ..DeviceInfo::new("test", 1 << 20, 4096, 1 << 18) }
    }

    fn complaint(io: Io) -> String {
        io.check(&info()).expect_err("must be refused").error.to_string()
    }

    #[test]
    fn bad_requests_are_refused_with_the_reason() {
        let read = |offset, bytes| Io::Read { offset, buffer: IoBuffer::zeroed(bytes) };
        assert!(complaint(read(0, 0)).contains("length is zero"));
        let odd = complaint(read(4608, 4096));
        assert!(odd.contains("offset 4608 is no multiple of the 4096-byte block; begin at 4096"));
        let odd = complaint(read(0, 100));
        assert!(odd.contains("length 100 is no multiple of the 4096-byte block; give 4096"));
        let list = |bytes: [usize; 2]| {
            let buffer = IoBuffer::list(bytes.map(IoBuffer::zeroed).into());
            Io::Read { offset: 0, buffer }
        };
        let odd = complaint(list([4096 + 512, 4096 - 512]));
        assert!(odd.contains("buffer 0 of its list has 4608 bytes"), "{odd}");
        assert!(complaint(list([8192, 0])).contains("buffer 1 of its list has 0 bytes"));
        assert!(list([8192, 4096]).check(&info()).is_ok());
        assert!(complaint(read(1 << 20, 4096)).contains("beyond the capacity"));
        assert!(complaint(read(u64::MAX - 4095, 4096)).contains("beyond the capacity"));
        let handle = PlacementHandle::new(2);
        let write = Io::write(0, IoBuffer::zeroed(4096), handle);
        assert!(complaint(write).contains("handle 2 is not among"));
        assert!(read((1 << 20) - 4096, 4096).check(&info()).is_ok());
        assert!(Io::Flush.check(&info()).is_ok());
    }

    #[test]
    fn metadata_are_of_all_blocks_of_a_request_where_they_are_kept() {
        let read = |metadata| Io::Read {
            offset: 0,
            buffer: IoBuffer::zeroed(8192).with_metadata(IoBuffer::zeroed(metadata)),
        };
        assert!(
            complaint(read(128)).contains("has 128 bytes of metadata, and the device keeps none")
        );
        let keeps = DeviceInfo { metadata_bytes: 64, keeps_metadata: true, ..info() };
        assert!(read(128).check(&keeps).is_ok());
        for odd in [0, 64, 127, 192] {
            let refused = read(odd).check(&keeps).expect_err("must be refused").error.to_string();
            assert!(refused.contains("give its 2 blocks 64 each, 128 bytes"), "{refused}");
        }
    }
}
