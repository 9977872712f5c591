//! The information and counters of a device.

use std::sync::Arc;

use crate::drive_report::DriveReport;
use crate::identity::Identity;
use crate::placement::PlacementInfo;

/// Smallest block of any device in bytes: a cache line of the processor, for persistent memory.
pub const BLOCK_BYTES_MIN: u32 = 64;

/// Smallest block of files, disks, drives and block stores in bytes.
pub(crate) const SECTOR_BYTES: u32 = 512;

/// Information on a device, which does not change while the device is open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// Name, for people: "model", a path, …
    pub name: String,
    /// Usable bytes, a multiple of `block_bytes`.
    pub capacity_bytes: u64,
    /// Smallest addressable unit in bytes; offsets and lengths of requests are multiples of it. A power of two of at
    /// least [`BLOCK_BYTES_MIN`]: for a file what direct I/O needs, for a drive its logical block, for mapped memory
    /// 64; otherwise at least 512. A cache works in units of 4096 bytes and accepts any device whose block divides
    /// that.
    pub block_bytes: u32,
    /// Longest transfer in bytes that reaches the device in one piece; the backend splits longer ones.
    pub max_transfer_bytes: u32,
    /// The placement that the device offers.
    pub placement: PlacementInfo,
    /// Whether a loss of power may undo writes that have completed and were not flushed.
    pub volatile_cache: VolatileCache,
    /// Longest write in bytes, aligned to its own length, that a loss of power leaves either whole or undone, where the
    /// device reports it (NVMe: AWUPF; Linux: `atomic_write_unit_max_bytes`). `None` if unknown; then rely on no more
    /// than 512-byte sectors.
    pub atomic_write_bytes: Option<u32>,
    /// Bytes of metadata per block of the medium (NVMe: MS of the namespace's format; Linux: `metadata_bytes`, or the
    /// tuple of its integrity profile). 0 for files.
    pub metadata_bytes: u16,
    /// Whether requests may carry these metadata with their data ([`IoBuffer::with_metadata`]). The block layer does
    /// not allow it. A block and its metadata are always written as one. A write without metadata stores zeros there.
    ///
    /// [`IoBuffer::with_metadata`]: crate::IoBuffer::with_metadata
    pub keeps_metadata: bool,
    /// Identifies the medium under any name. Empty where nothing is known.
    pub identity: Identity,
}

/// Whether a device has a write cache that loses its content without power.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum VolatileCache {
    /// It has one: what was not flushed may be lost (NVMe: VWC; Linux: `write back`).
    Yes,
    /// It has none, or its cache survives a loss of power: what has completed stays (Linux: `write through`).
    No,
    /// Unknown. To be safe, treat it as [`VolatileCache::Yes`].
    #[default]
    Unknown,
}

impl VolatileCache {
    /// Whether what has completed stays without a flush.
    pub fn is_none(self) -> bool {
        self == Self::No
    }

    /// The value for a device that consists of these two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, Self::No) => Self::No,
            (Self::Yes, _) | (_, Self::Yes) => Self::Yes,
            _ => Self::Unknown,
        }
    }
}

impl std::fmt::Display for VolatileCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Unknown => "unknown",
        })
    }
}

impl DeviceInfo {
    /// Information on a device without placement, whose cache and atomic writes are unknown. Lengths in bytes.
    pub fn new(
        name: impl Into<String>,
        capacity_bytes: u64,
        block_bytes: u32,
        max_transfer_bytes: u32,
    ) -> Self {
        Self {
            name: name.into(),
            capacity_bytes,
            block_bytes,
            max_transfer_bytes,
            placement: PlacementInfo::none(),
            volatile_cache: VolatileCache::Unknown,
            atomic_write_bytes: None,
            metadata_bytes: 0,
            keeps_metadata: false,
            identity: Identity::default(),
        }
    }
}

/// Counters since the device was opened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceStats {
    /// Bytes that the host read.
    pub host_read_bytes: u64,
    /// Bytes that the host wrote (NVMe FDP statistics: HBMW).
    pub host_written_bytes: u64,
    /// Bytes that the host wrote, by placement handle, where known.
    pub host_written_bytes_by_handle: Vec<u64>,
    /// Bytes that the device wrote to its media for any reason, where known (MBMW).
    pub media_written_bytes: Option<u64>,
    /// Bytes that the device moved to reclaim space, where known.
    pub copied_bytes: Option<u64>,
    /// Bytes of erased media, where known (MBE).
    pub erased_bytes: Option<u64>,
    /// Bytes that the host deallocated.
    pub deallocated_bytes: u64,
    /// Bytes that the host zeroed without sending them ([`Io::WriteZeroes`]).
    ///
    /// [`Io::WriteZeroes`]: crate::Io::WriteZeroes
    pub zeroed_bytes: u64,
    /// Part of `zeroed_bytes` that had to be written as zeros, because nothing below can zero them otherwise. They also
    /// count as bytes written with the default handle.
    pub zeroes_written_bytes: u64,
    /// Requests that failed.
    pub failed_requests: u64,
    /// Failed requests for which the device was too busy ([`ErrorKind::Busy`]).
    ///
    /// [`ErrorKind::Busy`]: crate::ErrorKind::Busy
    pub shed_requests: u64,
    /// Requests that waited for their tenant's share of the device.
    pub delayed_requests: u64,
    /// How long they waited, all together, in nanoseconds.
    pub delayed_ns: u64,
    /// How long the device has been stalled, in milliseconds; 0 if it answers. A stalled device has not answered
    /// requests that were given up ([`TimeoutDevice`](crate::TimeoutDevice)), and nothing is sent to it.
    pub stalled_ms: u64,
    /// Part of the bytes written that went to the kernel's page cache, because they need only outlive the process
    /// ([`Durability::Process`]). If a block is written several times within seconds, the device gets only the last
    /// version.
    ///
    /// [`Durability::Process`]: crate::Durability::Process
    pub page_cache_written_bytes: u64,
    /// Part of the bytes written that had to survive a loss of power ([`Durability::Power`]).
    ///
    /// [`Durability::Power`]: crate::Durability::Power
    pub durable_written_bytes: u64,
    /// Pieces of such writes that needed a flush after them, because the kernel refuses the flag on the write.
    pub durable_flushes: u64,
    /// Pieces of requests that went to the kernel with a registered buffer (io_uring). A request is one piece if it is
    /// no longer than `max_transfer_bytes`.
    pub fixed_buffer_pieces: u64,
    /// The latest reports of the drives below. Their counters are those of an endurance group, so they include other
    /// users' writes. Empty where the drives are not polled.
    pub drives: Vec<Arc<DriveReport>>,
}

impl DeviceStats {
    /// Device-level write amplification: media bytes per host byte. `None` where the device does not count media bytes
    /// or nothing was written.
    #[allow(clippy::cast_precision_loss)]
    pub fn dlwa(&self) -> Option<f64> {
        let media = self.media_written_bytes?;
        (self.host_written_bytes > 0).then(|| media as f64 / self.host_written_bytes as f64)
    }

    /// The counters of several devices together. An optional counter is known only if every device knows it; the stall
    /// is the longest one; the drives are listed one after the other. Without devices nothing is known.
    pub fn of_all(all: &[Self]) -> Self {
        if all.is_empty() {
            return Self::default();
        }
        let sum = |one: fn(&Self) -> u64| all.iter().map(one).sum();
        let known = |one: fn(&Self) -> Option<u64>| all.iter().map(one).sum();
        let handles = all.iter().map(|stats| stats.host_written_bytes_by_handle.len());
        let of_handle = |handle: usize| {
            all.iter().filter_map(|stats| stats.host_written_bytes_by_handle.get(handle)).sum()
        };
        Self {
            host_read_bytes: sum(|stats| stats.host_read_bytes),
            host_written_bytes: sum(|stats| stats.host_written_bytes),
            host_written_bytes_by_handle: (0..handles.max().unwrap_or(0)).map(of_handle).collect(),
            media_written_bytes: known(|stats| stats.media_written_bytes),
            copied_bytes: known(|stats| stats.copied_bytes),
            erased_bytes: known(|stats| stats.erased_bytes),
            deallocated_bytes: sum(|stats| stats.deallocated_bytes),
            zeroed_bytes: sum(|stats| stats.zeroed_bytes),
            zeroes_written_bytes: sum(|stats| stats.zeroes_written_bytes),
            failed_requests: sum(|stats| stats.failed_requests),
            shed_requests: sum(|stats| stats.shed_requests),
            delayed_requests: sum(|stats| stats.delayed_requests),
            delayed_ns: sum(|stats| stats.delayed_ns),
            stalled_ms: all.iter().map(|stats| stats.stalled_ms).max().unwrap_or(0),
            page_cache_written_bytes: sum(|stats| stats.page_cache_written_bytes),
            durable_written_bytes: sum(|stats| stats.durable_written_bytes),
            durable_flushes: sum(|stats| stats.durable_flushes),
            fixed_buffer_pieces: sum(|stats| stats.fixed_buffer_pieces),
            drives: all.iter().flat_map(|stats| stats.drives.iter().cloned()).collect(),
        }
    }

    /// Bytes that reached the flash, as far as is known: media bytes where the device counts them itself; otherwise
    /// what the host wrote, plus what the drives' own counters show beyond that.
    pub fn flash_written_bytes(&self) -> u64 {
        self.media_written_bytes.unwrap_or_else(|| {
            let beyond = self.drives.iter().filter_map(|drive| drive.beyond_own_bytes());
            beyond.fold(self.host_written_bytes, u64::saturating_add)
        })
    }
}
