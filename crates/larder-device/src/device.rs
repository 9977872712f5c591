//! The device trait: what a storage device says of itself and what it does.

use std::ops::Range;
use std::sync::Arc;

use crate::claim::Extent;
use crate::identity::Identity;
use crate::io::{CheckedIo, Io, IoFuture};
use crate::nvme::DriveReport;
use crate::placement::PlacementInfo;

/// Smallest block that a device may have, in bytes: a line of the processor's cache, of memory that outlives power.
pub const BLOCK_BYTES_MIN: u32 = 64;

/// The same of files, disks, drives, and of stores of blocks.
pub(crate) const SECTOR_BYTES: u32 = 512;

/// What a device says of itself; it does not change while the device is open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// For people: "model", a path, …
    pub name: String,
    /// Usable bytes, a multiple of `block_bytes`.
    pub capacity_bytes: u64,
    /// Smallest addressable unit in bytes; offsets and lengths of requests are multiples of it. A power of two of
    /// at least [`BLOCK_BYTES_MIN`], as the device has it: what direct I/O needs of a file, the logical block of a
    /// drive, 64 of memory that is mapped; all others have 512 at least. A cache works in units of 4096 bytes and takes
    /// any device whose block divides that.
    pub block_bytes: u32,
    /// Longest transfer that reaches the device in one piece; longer ones are split by the
    /// backend.
    pub max_transfer_bytes: u32,
    /// What the device offers to those who place data.
    pub placement: PlacementInfo,
    /// Whether a loss of power may undo writes that have completed and were not flushed.
    pub volatile_cache: VolatileCache,
    /// Longest write, aligned to its own length, of which a loss of power leaves all or nothing, in bytes, where
    /// the device says so (NVMe: AWUPF; Linux: `atomic_write_unit_max_bytes`). `None`: nobody says; no more than
    /// sectors of 512 bytes may be relied on.
    pub atomic_write_bytes: Option<u32>,
    /// Bytes of metadata beside each block of the medium (NVMe: MS of the namespace's format; Linux:
    /// `metadata_bytes`, or the tuple of its integrity profile). 0 of files.
    pub metadata_bytes: u16,
    /// Whether requests may have these metadata with their data ([`IoBuffer::with_metadata`]). The block layer takes
    /// none. A block is written with its metadata as one, whatever happens; what writes without has zeros there.
    ///
    /// [`IoBuffer::with_metadata`]: crate::IoBuffer::with_metadata
    pub keeps_metadata: bool,
    /// What tells the medium from others, whatever its name is. Empty where nothing is known.
    pub identity: Identity,
}

/// Whether a device has a write cache that loses what is in it together with power.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum VolatileCache {
    /// It has: what was not flushed may be lost (NVMe: VWC; Linux: `write back`).
    Yes,
    /// It has none, or its cache outlives a loss of power: what has completed stays (Linux: `write through`).
    No,
    /// Nobody says. Whoever has to be sure does as for [`VolatileCache::Yes`].
    #[default]
    Unknown,
}

impl VolatileCache {
    /// Whether what has completed stays without a flush.
    pub fn is_none(self) -> bool {
        self == Self::No
    }

    /// Of two devices of which a third consists.
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
    /// A device without placement that says nothing of its cache and of what it writes whole. Lengths in bytes.
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
    /// The same by placement handle, where known.
    pub host_written_bytes_by_handle: Vec<u64>,
    /// Bytes that the device wrote to its media for whatever reason, where known (MBMW).
    pub media_written_bytes: Option<u64>,
    /// Bytes that the device moved to reclaim space, where known.
    pub copied_bytes: Option<u64>,
    /// Bytes of erased media, where known (MBE).
    pub erased_bytes: Option<u64>,
    /// Bytes that the host deallocated.
    pub deallocated_bytes: u64,
    /// Bytes that the host made zeros without sending them ([`Io::WriteZeroes`]).
    ///
    /// [`Io::WriteZeroes`]: crate::Io::WriteZeroes
    pub zeroed_bytes: u64,
    /// Those of them that had to be written as zeros all the same, because nothing below knows better: they
    /// are among the bytes written, by the default handle.
    pub zeroes_written_bytes: u64,
    /// Requests that failed.
    pub failed_requests: u64,
    /// Those of them that the device was too busy for ([`ErrorKind::Busy`]).
    ///
    /// [`ErrorKind::Busy`]: crate::ErrorKind::Busy
    pub shed_requests: u64,
    /// How long nothing has been sent to the device, in milliseconds, because it owes answers that nobody waits for any
    /// more ([`TimeoutDevice`](crate::TimeoutDevice)); 0 if it answers.
    pub stalled_ms: u64,
    /// Those of the bytes written that the kernel has taken into its page cache, because they need only outlive the
    /// process ([`Durability::Process`]): of a block that is written several times within seconds the device gets
    /// the last version.
    ///
    /// [`Durability::Process`]: crate::Durability::Process
    pub page_cache_written_bytes: u64,
    /// Those of the bytes written that had to survive a loss of power ([`Durability::Power`]).
    ///
    /// [`Durability::Power`]: crate::Durability::Power
    pub durable_written_bytes: u64,
    /// Pieces of such writes after which a flush had to follow, because the kernel refuses to be told with the write.
    pub durable_flushes: u64,
    /// Pieces of requests that went to the kernel with a buffer that it knew beforehand (io_uring with
    /// registered buffers). A request is one piece if it is no longer than `max_transfer_bytes`.
    pub fixed_buffer_pieces: u64,
    /// What the drives below say of themselves, as of some moments ago: theirs are the counters of
    /// an endurance group, in which the neighbours' writes are. Empty where nobody asks them.
    pub drives: Vec<Arc<DriveReport>>,
}

impl DeviceStats {
    /// Device-level write amplification: media bytes per host byte. `None` where the device does
    /// not count media bytes or nothing was written.
    #[allow(clippy::cast_precision_loss)]
    pub fn dlwa(&self) -> Option<f64> {
        let media = self.media_written_bytes?;
        (self.host_written_bytes > 0).then(|| media as f64 / self.host_written_bytes as f64)
    }

    /// What several devices counted together: known of all only if known of each; the longest stall; drives one
    /// behind the other. Of none, nothing is known.
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
            stalled_ms: all.iter().map(|stats| stats.stalled_ms).max().unwrap_or(0),
            page_cache_written_bytes: sum(|stats| stats.page_cache_written_bytes),
            durable_written_bytes: sum(|stats| stats.durable_written_bytes),
            durable_flushes: sum(|stats| stats.durable_flushes),
            fixed_buffer_pieces: sum(|stats| stats.fixed_buffer_pieces),
            drives: all.iter().flat_map(|stats| stats.drives.iter().cloned()).collect(),
        }
    }

    /// Bytes that reached the flash, as far as is known: media bytes where the device counts them
    /// itself; otherwise what the host wrote, and what the drives' own counters show beyond that.
    pub fn flash_written_bytes(&self) -> u64 {
        self.media_written_bytes.unwrap_or_else(|| {
            let beyond = self.drives.iter().filter_map(|drive| drive.beyond_own_bytes());
            beyond.fold(self.host_written_bytes, u64::saturating_add)
        })
    }
}

/// A storage device. Used as `dyn`: one virtual call is nothing beside a flash read.
pub trait Device: Send + Sync {
    /// What the device says of itself.
    fn info(&self) -> &DeviceInfo;

    /// Starts `io`, whose bounds, alignment and handle have been checked. Called by
    /// [`Device::submit`]; a wrapper passes on what it was given.
    fn start(&self, io: CheckedIo) -> IoFuture;

    /// Counters since the device was opened.
    fn stats(&self) -> DeviceStats;

    /// Names the time in which what was written is certainly still there. It changes when writes that
    /// had completed, but were not flushed, may have been lost: with every boot of the computer, or
    /// loss of the device's power. `None` if nobody can tell.
    fn boot(&self) -> Option<u64> {
        None
    }

    /// Where the bytes of `range`, which is not empty, are in the end. A device over others passes on
    /// what they say of their parts of it: so [`Claim`](crate::Claim) knows two that have bytes in
    /// common. One that stores them, and whose requests may outlive it, names them by a
    /// [`DeviceIdentity`](crate::DeviceIdentity) of its own.
    fn stored_at(&self, range: Range<u64>) -> Vec<Extent> {
        vec![Extent::of(self, range)]
    }

    /// Checks `io` and starts it. The future may be dropped: the I/O goes on and its memory stays
    /// alive until it ends.
    fn submit(&self, io: Io) -> IoFuture {
        match io.check(self.info()) {
            Ok(checked) => self.start(checked),
            Err(failure) => IoFuture::ready(Err(failure)),
        }
    }
}

impl<D: Device + ?Sized> Device for Arc<D> {
    fn info(&self) -> &DeviceInfo {
        (**self).info()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        (**self).start(io)
    }

    fn stats(&self) -> DeviceStats {
        (**self).stats()
    }

    fn boot(&self) -> Option<u64> {
        (**self).boot()
    }

    fn stored_at(&self, range: Range<u64>) -> Vec<Extent> {
        (**self).stored_at(range)
    }
}
