//! Counters that simulated drives keep in addition to their firmware's, and their device information.

use larder_ssd::managed::{GcDestination, ManagedConfig, ManagedSsd, PAGE_BYTES};

use crate::error::{Error, ErrorKind};
use crate::info::{DeviceInfo, DeviceStats, VolatileCache};
use crate::io::{Io, IoFailure};
use crate::placement::{Isolation, PlacementInfo};

/// Nothing is split: a transfer of any length is one step of the model.
pub(super) const MAX_TRANSFER_BYTES: u32 = 1 << 30;

/// Counters that the firmware lacks: it does not see reads, and counts deallocated pages only if they held data.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ModelCounts {
    pub(super) read_bytes: u64,
    pub(super) deallocated_bytes: u64,
    pub(super) durable_written_bytes: u64,
    pub(super) zeroed_bytes: u64,
    pub(super) failed_requests: u64,
}

impl ModelCounts {
    /// Counts `io` with its outcome.
    pub(super) fn note<E>(&mut self, io: &Io, outcome: &Result<(), E>) {
        match (io, outcome) {
            (_, Err(_)) => self.failed_requests += 1,
            (Io::Read { buffer, .. }, Ok(())) => self.read_bytes += buffer.len() as u64,
            (Io::Deallocate { bytes, .. }, Ok(())) => self.deallocated_bytes += bytes,
            (Io::WriteZeroes { bytes, .. }, Ok(())) => self.zeroed_bytes += bytes,
            (Io::Write { buffer, .. }, Ok(())) if io.is_power_durable() => {
                self.durable_written_bytes += buffer.len() as u64;
            }
            (Io::Write { .. } | Io::Flush, Ok(())) => {}
        }
    }

    /// These counters together with those of the firmware.
    pub(super) fn with(&self, ssd: &ManagedSsd) -> DeviceStats {
        let stats = ssd.stats();
        let unit_bytes = ssd.config().geometry.unit_bytes();
        // The drive's handle counters add up all groups, so with several groups they do not match our handles.
        let known = ssd.config().groups == 1;
        let by_handle = stats.host_pages_by_handle.iter().filter(|_| known);
        let by_handle = by_handle.map(|pages| pages * PAGE_BYTES).collect();
        DeviceStats {
            host_written_bytes: stats.host_bytes(),
            host_written_bytes_by_handle: by_handle,
            media_written_bytes: Some(stats.media_bytes()),
            copied_bytes: Some(stats.copied_pages * PAGE_BYTES),
            erased_bytes: Some(stats.erased_units * unit_bytes),
            ..self.alone()
        }
    }

    /// These counters alone.
    pub(super) fn alone(&self) -> DeviceStats {
        DeviceStats {
            host_read_bytes: self.read_bytes,
            deallocated_bytes: self.deallocated_bytes,
            durable_written_bytes: self.durable_written_bytes,
            zeroed_bytes: self.zeroed_bytes,
            zeroes_written_bytes: self.zeroed_bytes,
            failed_requests: self.failed_requests,
            ..DeviceStats::default()
        }
    }
}

/// The failure of a request that the model has refused.
#[cold]
pub(super) fn failure(error: &larder_ssd::Error, io: Io, device: &str) -> IoFailure {
    let kind = match error.kind() {
        larder_ssd::ErrorKind::NoSpace | larder_ssd::ErrorKind::ReadOnly => ErrorKind::NoSpace,
        _ => ErrorKind::Io,
    };
    let (verb, offset, bytes) = io.extent();
    let context = format!("{verb} of {bytes} bytes at {offset} on {device}: {error}");
    IoFailure { error: Error::new(kind, context), buffer: io.into_buffer() }
}

/// The device information of a drive of `config`.
pub(super) fn describe(config: &ManagedConfig, name: &str) -> DeviceInfo {
    let geometry = &config.geometry;
    let placement = if config.fdp {
        PlacementInfo {
            handles: config.handles.saturating_mul(config.groups),
            groups: config.groups,
            reclaim_unit_bytes: Some(geometry.unit_bytes()),
            isolation: match config.gc_destination {
                GcDestination::Shared => Some(Isolation::InitiallyIsolated),
                GcDestination::PerHandle => Some(Isolation::PersistentlyIsolated),
                _ => None,
            },
            path: "model",
        }
    } else {
        PlacementInfo { reclaim_unit_bytes: Some(geometry.unit_bytes()), ..PlacementInfo::none() }
    };
    let block_bytes = u32::try_from(PAGE_BYTES).unwrap_or(u32::MAX);
    DeviceInfo {
        placement,
        // Data in its buffer survives a loss of power.
        volatile_cache: VolatileCache::No,
        ..DeviceInfo::new(name, geometry.logical_bytes(), block_bytes, MAX_TRANSFER_BYTES)
    }
}
