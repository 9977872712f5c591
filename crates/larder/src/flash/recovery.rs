//! Opening and closing: what a clean shutdown leaves and how it is taken over.
//!
//! A cache that is open says so in its superblock (not clean). A crash leaves it that way, and then
//! nothing on flash is believed: the new epoch is the oldest valid one, filters and index start
//! empty. A clean shutdown writes the snapshot first, then the superblock with the clean mark; the
//! next opening takes the mark away before it serves anything.

use std::time::Duration;

use larder_device::{Device, Io, IoBuffer, PlacementHandle};

use super::Flash;
use super::layout::Layout;
use super::metadata::{
    self, EPOCH_MAX, FirstBlock, SNAPSHOT_HEADER_BYTES, SUPERBLOCK_BYTES, Superblock,
};
use crate::error::{Error, ErrorKind};
use crate::soc::BUCKET_SNAPSHOT_BYTES;

/// How far into a device to look before taking it for blank: file systems and volume managers leave
/// their marks within the first 64 KiB or just behind, and often not in the first block.
const FRONT_BYTES: u64 = 128 << 10;

/// What an opening found on its device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// A blank device.
    Fresh,
    /// A cache that was shut down cleanly; it goes on where it was.
    Clean {
        /// Large objects found again. Small ones are found by their buckets.
        large_objects: u64,
    },
    /// A cache that could not be taken over; it starts empty.
    Discarded {
        /// Why.
        reason: String,
    },
}

/// Reads the first block and decides how to go on. Writes nothing.
///
/// Where the first block says nothing of earlier epochs, the epoch is the second of the clock:
/// later than any that an earlier cache can have used, unless it was opened more than once a
/// second.
pub(super) async fn examine(
    device: &dyn Device,
    layout: &Layout,
    start_empty: bool,
    now: Duration,
) -> Result<(Superblock, Recovery), Error> {
    let front = usize::try_from(device.info().capacity_bytes.min(FRONT_BYTES)).unwrap_or(0);
    let read = Io::Read { offset: 0, buffer: IoBuffer::zeroed(front) };
    let front = device
        .submit(read)
        .await
        .map_err(|failure| Error::device("cannot read the superblock", failure.error))?;
    let (block, rest) = front.as_slice().split_at(SUPERBLOCK_BYTES);
    let foreign = |what: String| {
        let message = format!(
            "{} holds {what}; to use it for this cache, erase its first {FRONT_BYTES} bytes",
            device.info().name
        );
        Error::new(ErrorKind::Foreign, message)
    };
    let start =
        |epoch, oldest_epoch| Superblock { clean: false, epoch, oldest_epoch, layout: *layout };
    let discard = |epoch: u64, reason: &str| {
        (start(epoch, epoch), Recovery::Discarded { reason: reason.to_owned() })
    };
    let first_epoch = now.as_secs().clamp(1, EPOCH_MAX - 1);
    Ok(match Superblock::parse(block) {
        FirstBlock::Blank if !metadata::is_blank_or_ours(rest) => {
            return Err(foreign("data of another program".to_owned()));
        }
        FirstBlock::Blank => (start(first_epoch, first_epoch), Recovery::Fresh),
        FirstBlock::Foreign => return Err(foreign("data of another program".to_owned())),
        FirstBlock::OtherVersion(version) => {
            return Err(foreign(format!("a cache in format version {version}")));
        }
        FirstBlock::Corrupt => discard(first_epoch, "the superblock failed its checksum"),
        FirstBlock::Valid(found) if start_empty => {
            discard(found.epoch + 1, "the configuration says to start empty")
        }
        FirstBlock::Valid(found) if found.layout != *layout => {
            discard(found.epoch + 1, "the configuration divides the device differently than before")
        }
        FirstBlock::Valid(found) if !found.clean => {
            discard(found.epoch + 1, "the cache was not shut down cleanly")
        }
        FirstBlock::Valid(found) => {
            (start(found.epoch + 1, found.oldest_epoch), Recovery::Clean { large_objects: 0 })
        }
    })
}

impl Flash {
    /// Takes the snapshot over if there is one to believe, and marks the device as in use.
    pub(super) async fn recover(&mut self) -> Result<(), Error> {
        if matches!(self.recovery, Recovery::Clean { .. }) {
            match self.import().await? {
                Some(large_objects) => self.recovery = Recovery::Clean { large_objects },
                None => self.disbelieve("the snapshot failed its checks"),
            }
        }
        self.write_superblock(false).await
    }

    /// Starts empty after all: nothing of earlier epochs is valid.
    fn disbelieve(&mut self, reason: &str) {
        self.superblock.oldest_epoch = self.superblock.epoch;
        if let Some(soc) = &mut self.soc {
            soc.disbelieve_before(self.superblock.epoch);
        }
        self.recovery = Recovery::Discarded { reason: reason.to_owned() };
    }

    pub(super) async fn write_shutdown(&self) -> Result<(), Error> {
        let mut bytes = vec![0; SNAPSHOT_HEADER_BYTES];
        if let Some(soc) = &self.soc {
            soc.export(&mut bytes);
        }
        if let Some(loc) = &self.loc {
            loc.export(&mut bytes).await;
        }
        metadata::encode_snapshot(&mut bytes, self.superblock.epoch);
        bytes.resize(bytes.len().next_multiple_of(SUPERBLOCK_BYTES), 0);
        assert!(
            (SUPERBLOCK_BYTES + bytes.len()) as u64 <= self.layout.metadata_bytes,
            "the layout reserves what the largest snapshot takes"
        );
        self.write(SUPERBLOCK_BYTES as u64, &bytes, "the snapshot").await?;
        self.flush().await?;
        self.write_superblock(true).await
    }

    async fn write_superblock(&self, clean: bool) -> Result<(), Error> {
        let mut block = vec![0; SUPERBLOCK_BYTES];
        Superblock { clean, ..self.superblock }.encode(&mut block);
        self.write(0, &block, "the superblock").await?;
        self.flush().await
    }

    /// `None` if there is no snapshot of the previous epoch that passes its checks.
    async fn import(&self) -> Result<Option<u64>, Error> {
        let room = self.layout.metadata_bytes - SUPERBLOCK_BYTES as u64;
        let header = self.read(SUPERBLOCK_BYTES).await?;
        let Some(length) = metadata::announced_snapshot_bytes(header.as_slice(), room) else {
            return Ok(None);
        };
        let whole = self.read(length.next_multiple_of(SUPERBLOCK_BYTES)).await?;
        let content = metadata::parse_snapshot(whole.as_slice(), self.superblock.epoch - 1);
        let buckets = usize::try_from(self.layout.soc_buckets).unwrap_or(usize::MAX);
        let bucket_bytes = buckets.saturating_mul(BUCKET_SNAPSHOT_BYTES);
        let Some((buckets, regions)) = content.and_then(|c| c.split_at_checked(bucket_bytes))
        else {
            return Ok(None);
        };
        if let Some(soc) = &self.soc {
            soc.import(buckets);
        }
        Ok(Some(match &self.loc {
            Some(loc) => loc.import(regions).await,
            None => 0,
        }))
    }

    async fn read(&self, bytes: usize) -> Result<IoBuffer, Error> {
        let buffer = IoBuffer::zeroed(bytes);
        let read = self.device.submit(Io::Read { offset: SUPERBLOCK_BYTES as u64, buffer }).await;
        read.map_err(|f| Error::device("cannot read the snapshot", f.error))
    }

    async fn write(&self, offset: u64, bytes: &[u8], what: &str) -> Result<(), Error> {
        let mut buffer = IoBuffer::zeroed(bytes.len());
        buffer.as_mut_slice().copy_from_slice(bytes);
        self.counters.metadata_written_bytes.add(bytes.len() as u64);
        let write = Io::Write { offset, buffer, handle: PlacementHandle::DEFAULT };
        let written = self.device.submit(write).await;
        written.map_err(|f| Error::device(format!("cannot write {what}"), f.error))?;
        Ok(())
    }

    async fn flush(&self) -> Result<(), Error> {
        let flushed = self.device.submit(Io::Flush).await;
        flushed.map_err(|f| Error::device("cannot flush the device", f.error))?;
        Ok(())
    }
}

/// Entry for the fuzzer: any bytes as a snapshot.
pub(crate) fn fuzz_snapshot(bytes: &[u8]) {
    let _ = metadata::announced_snapshot_bytes(bytes, 1 << 20);
    let _ = metadata::parse_snapshot(bytes, 1);
}
