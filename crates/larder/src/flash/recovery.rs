//! Opening and closing: what a clean shutdown leaves and how it is taken over.
//!
//! A cache that is open says so in its superblock (not clean). A crash leaves it that way, and then
//! nothing on flash is believed: the new epoch is the oldest valid one, filters and index start
//! empty. A clean shutdown writes the snapshot first, then the superblock with the clean mark; the
//! next opening takes the mark away before it serves anything.

use larder_device::{Device, Io, IoBuffer, PlacementHandle};

use super::Flash;
use super::layout::Layout;
use super::metadata::{self, FirstBlock, SNAPSHOT_HEADER_BYTES, SUPERBLOCK_BYTES, Superblock};
use crate::error::{Error, ErrorKind};
use crate::soc::BUCKET_SNAPSHOT_BYTES;

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
pub(super) async fn examine(
    device: &dyn Device,
    layout: &Layout,
    start_empty: bool,
) -> Result<(Superblock, Recovery), Error> {
    let read = Io::Read { offset: 0, buffer: IoBuffer::zeroed(SUPERBLOCK_BYTES) };
    let block = device
        .submit(read)
        .await
        .map_err(|failure| Error::device("cannot read the superblock", failure.error))?;
    let foreign = |what: String| {
        let message = format!(
            "{} holds {what}; to use it for this cache, erase its first {SUPERBLOCK_BYTES} bytes",
            device.info().name
        );
        Error::new(ErrorKind::Foreign, message)
    };
    let start =
        |epoch, oldest_epoch| Superblock { clean: false, epoch, oldest_epoch, layout: *layout };
    let discard = |epoch: u64, reason: &str| {
        (start(epoch, epoch), Recovery::Discarded { reason: reason.to_owned() })
    };
    Ok(match Superblock::parse(block.as_slice()) {
        FirstBlock::Blank => (start(1, 1), Recovery::Fresh),
        FirstBlock::Foreign => return Err(foreign("data of another program".to_owned())),
        FirstBlock::OtherVersion(version) => {
            return Err(foreign(format!("a cache in format version {version}")));
        }
        FirstBlock::Corrupt => discard(1, "the superblock failed its checksum"),
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
            match self.import().await {
                Some(large_objects) => self.recovery = Recovery::Clean { large_objects },
                None => {
                    self.superblock.oldest_epoch = self.superblock.epoch;
                    let reason = "the snapshot failed its checks".to_owned();
                    self.recovery = Recovery::Discarded { reason };
                }
            }
        }
        self.write_superblock(false).await
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
    async fn import(&self) -> Option<u64> {
        let room = self.layout.metadata_bytes - SUPERBLOCK_BYTES as u64;
        let header = self.read(SUPERBLOCK_BYTES).await?;
        let length = metadata::announced_snapshot_bytes(header.as_slice(), room)?;
        let whole = self.read(length.next_multiple_of(SUPERBLOCK_BYTES)).await?;
        let content = metadata::parse_snapshot(whole.as_slice(), self.superblock.epoch - 1)?;
        let bucket_bytes = usize::try_from(self.layout.soc_buckets).ok()? * BUCKET_SNAPSHOT_BYTES;
        let (buckets, regions) = content.split_at_checked(bucket_bytes)?;
        if let Some(soc) = &self.soc {
            soc.import(buckets);
        }
        match &self.loc {
            Some(loc) => Some(loc.import(regions).await),
            None => Some(0),
        }
    }

    async fn read(&self, bytes: usize) -> Option<IoBuffer> {
        let buffer = IoBuffer::zeroed(bytes);
        self.device.submit(Io::Read { offset: SUPERBLOCK_BYTES as u64, buffer }).await.ok()
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
