//! The label of a cache on its device, and the snapshot behind it.

use std::sync::{Arc, Mutex, PoisonError};

use larder_device::label::Labeller;
use larder_device::{Device, Io, IoBuffer, PlacementHandle};

use crate::base::error::Error;
use crate::engine::superblock::Superblock;
use crate::observe::stats::Counters;

/// The front of the device, which only this type writes. The label names an epoch before anything is written with it.
pub(super) struct LabelArea {
    device: Arc<dyn Device>,
    labeller: Labeller,
    /// That of this epoch; without the clean mark.
    superblock: Mutex<Superblock>,
    /// Bytes at the front of the device for label, tombstones and snapshot.
    room_bytes: u64,
    counters: Arc<Counters>,
}

impl LabelArea {
    pub(super) fn new(
        device: Arc<dyn Device>,
        (labeller, superblock): (Labeller, Superblock),
        counters: Arc<Counters>,
    ) -> Self {
        let room_bytes = superblock.layout.metadata_bytes;
        Self { device, labeller, superblock: Mutex::new(superblock), room_bytes, counters }
    }

    /// The superblock of the current epoch.
    pub(super) fn superblock(&self) -> Superblock {
        *self.superblock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another epoch has begun: its superblock is on the device.
    pub(super) fn began(&self, superblock: Superblock) {
        *self.superblock.lock().unwrap_or_else(PoisonError::into_inner) = superblock;
    }

    /// Writes a superblock of this epoch or of the next one.
    pub(super) async fn write_superblock(&self, superblock: Superblock) -> Result<(), Error> {
        let before = self.superblock();
        assert!(
            before.epoch <= superblock.epoch && superblock.oldest_epoch <= superblock.epoch,
            "epochs grow, and what is written from now on counts: {superblock:?} after {before:?}"
        );
        let content = superblock.encode();
        self.counters.metadata_written_bytes.add(Labeller::written_bytes(content.len()));
        let written = self.labeller.write(content).await;
        written.map_err(|error| Error::device("cannot write the label", error))
    }

    pub(super) async fn write(&self, offset: u64, bytes: &[u8], what: &str) -> Result<(), Error> {
        debug_assert!(
            offset + bytes.len() as u64 <= self.room_bytes,
            "{what} stays within what is reserved for metadata"
        );
        let mut buffer = IoBuffer::zeroed(bytes.len());
        buffer.as_mut_slice().copy_from_slice(bytes);
        self.counters.metadata_written_bytes.add(bytes.len() as u64);
        let write = Io::write(offset, buffer, PlacementHandle::DEFAULT);
        let written = self.device.submit(write).await;
        written.map_err(|f| Error::device(format!("cannot write {what}"), f.error))?;
        Ok(())
    }

    /// Flushes the device's volatile cache. A device that reports none is not asked if the cache was told to rely on
    /// the device ([`CrashSafety::Power`]).
    pub(super) async fn flush(&self) -> Result<(), Error> {
        if self.superblock().power && self.device.info().volatile_cache.is_none() {
            return Ok(());
        }
        let flushed = self.device.submit(Io::Flush).await;
        flushed.map_err(|f| Error::device("cannot flush the device", f.error))?;
        Ok(())
    }
}
