//! The cost of a pattern of requests.

use crate::layout::{Data, DeviceIo, PlacementClass, Target};

/// Bytes and I/Os that were read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that have ended.
    pub requests: u64,
    /// Bytes that clients have written.
    pub user_written_bytes: u64,
    /// Bytes written to the cache device.
    pub cache_written_bytes: u64,
    /// Of these, bytes by placement class: metadata, dirty and clean.
    pub cache_written_bytes_by_class: [u64; 3],
    /// Of these, metadata.
    pub cache_written_metadata_bytes: u64,
    /// Bytes of per-block metadata on the cache device; included in no other number.
    pub cache_beside_bytes: u64,
    /// Writes to the cache device.
    pub cache_writes: u64,
    /// Bytes read from the cache device.
    pub cache_read_bytes: u64,
    /// Bytes written to cores.
    pub core_written_bytes: u64,
    /// Writes to cores.
    pub core_writes: u64,
    /// Bytes read from cores.
    pub core_read_bytes: u64,
    /// Flushes of the cache device and of cores.
    pub flushes: [u64; 2],
}

impl Counts {
    /// The counts since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let by_class = |class: usize| {
            self.cache_written_bytes_by_class[class] - before.cache_written_bytes_by_class[class]
        };
        Self {
            requests: self.requests - before.requests,
            user_written_bytes: self.user_written_bytes - before.user_written_bytes,
            cache_written_bytes: self.cache_written_bytes - before.cache_written_bytes,
            cache_written_bytes_by_class: [by_class(0), by_class(1), by_class(2)],
            cache_written_metadata_bytes: self.cache_written_metadata_bytes
                - before.cache_written_metadata_bytes,
            cache_beside_bytes: self.cache_beside_bytes - before.cache_beside_bytes,
            cache_writes: self.cache_writes - before.cache_writes,
            cache_read_bytes: self.cache_read_bytes - before.cache_read_bytes,
            core_written_bytes: self.core_written_bytes - before.core_written_bytes,
            core_writes: self.core_writes - before.core_writes,
            core_read_bytes: self.core_read_bytes - before.core_read_bytes,
            flushes: [self.flushes[0] - before.flushes[0], self.flushes[1] - before.flushes[1]],
        }
    }

    /// Bytes written to the cache device per byte that clients wrote.
    pub fn cw(&self) -> f64 {
        self.per_user_byte(self.cache_written_bytes)
    }

    /// The same for per-block metadata, which [`cw`](Self::cw) does not include.
    pub fn beside(&self) -> f64 {
        self.per_user_byte(self.cache_beside_bytes)
    }

    /// The part of [`cw`](Self::cw) that is metadata.
    pub fn metadata(&self) -> f64 {
        self.per_user_byte(self.cache_written_metadata_bytes)
    }

    /// Bytes read from the cache device per byte that clients wrote.
    pub fn cr(&self) -> f64 {
        self.per_user_byte(self.cache_read_bytes)
    }

    /// Bytes written to cores per byte that clients wrote.
    pub fn kw(&self) -> f64 {
        self.per_user_byte(self.core_written_bytes)
    }

    pub(in crate::accounting) fn count(&mut self, io: &DeviceIo) {
        match io {
            DeviceIo::Read { target: Target::Cache, bytes, .. } => {
                self.cache_read_bytes += *bytes as u64
            }
            DeviceIo::Read { bytes, .. } => self.core_read_bytes += *bytes as u64,
            DeviceIo::Deallocate { .. } => {}
            DeviceIo::Flush { target } => self.flushes[usize::from(*target != Target::Cache)] += 1,
            DeviceIo::Write { target: Target::Core(_), parts, .. } => {
                self.core_written_bytes += bytes_of(parts);
                self.core_writes += 1;
            }
            DeviceIo::Write { parts, beside, class, metadata_bytes, .. } => {
                self.cache_beside_bytes += beside.as_ref().map_or(0, |beside| beside.len()) as u64;
                self.cache_written_bytes += bytes_of(parts);
                self.cache_written_metadata_bytes += *metadata_bytes as u64;
                self.cache_writes += 1;
                let number = match class {
                    PlacementClass::Metadata => 0,
                    PlacementClass::Dirty => 1,
                    PlacementClass::Clean => 2,
                };
                self.cache_written_bytes_by_class[number] += bytes_of(parts);
            }
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn per_user_byte(&self, bytes: u64) -> f64 {
        bytes as f64 / self.user_written_bytes as f64
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "cw {:.4} (md {:.4}) / cr {:.4} / kw {:.4}",
            self.cw(),
            self.metadata(),
            self.cr(),
            self.kw()
        )?;
        write!(
            f,
            ", {} cache writes, {} core writes of {}",
            self.cache_writes, self.core_writes, self.requests
        )
    }
}

fn bytes_of(parts: &[Data]) -> u64 {
    parts.iter().map(|part| part.len() as u64).sum()
}
