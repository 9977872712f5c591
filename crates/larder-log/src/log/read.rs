//! Reading records and footers.

use larder_device::{Io, IoBuffer, IoFuture};

use super::RegionLog;
use crate::BLOCK_BYTES;
use crate::footer::{self, Footer};
use crate::host::{Entries, Event, Host};
use crate::region::{RegionId, RegionIdentity};

/// The device could not read the data, so its content is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable;

/// Length of the first read when the log looks for a footer.
const FOOTER_GUESS_BYTES: usize = 4096;
/// The same when many footers are read: the guess is one entry for this number of bytes.
const BYTES_PER_ENTRY: usize = 4096;

impl<E: Entries, H: Host> RegionLog<E, H> {
    /// Reads the blocks around `span` bytes of a region. Returns them, and where in them the bytes begin. `None` if the
    /// device failed.
    pub async fn read(
        &self,
        region: RegionId,
        offset: u32,
        span: u32,
    ) -> Option<(IoBuffer, usize)> {
        let span = span.min(self.place.region_bytes - offset);
        let start = self.offset_of(region) + u64::from(offset);
        self.read_span(start, span as usize).await
    }

    async fn read_span(&self, start: u64, length: usize) -> Option<(IoBuffer, usize)> {
        let block = u64::from(self.device.info().block_bytes);
        let offset = start - start % block;
        let skip = usize::try_from(start - offset).expect("less than a block");
        let blocks = (skip + length).next_multiple_of(usize::try_from(block).ok()?);
        let read = Io::Read { offset, buffer: self.pool.take(blocks) };
        match self.device.submit(read).await {
            Ok(buffer) => Some((buffer, skip)),
            Err(failure) => {
                self.host.note(Event::Failed(&failure.error));
                None
            }
        }
    }

    /// Lists the records of a sealed region. `None` if its footer cannot be read or is not valid.
    pub async fn read_footer(&self, identity: RegionIdentity) -> Option<Footer> {
        let found = self.footer_of(identity.region, FOOTER_GUESS_BYTES).await.ok().flatten();
        let listed = found.filter(|footer| footer.sequence == identity.sequence);
        if listed.is_none() {
            self.host.note(Event::BadFooter);
        }
        listed
    }

    /// The footer of a region, of any filling.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn read_any_footer(&self, region: RegionId) -> Result<Option<Footer>, Unreadable> {
        self.footer_of(region, self.tail_bytes()).await
    }

    /// Reads a footer. `wanted` is a guess of its length, or the length that it announces.
    async fn footer_of(
        &self,
        region: RegionId,
        wanted: usize,
    ) -> Result<Option<Footer>, Unreadable> {
        let region_bytes = self.region_bytes();
        let whose = (self.place.cache, self.place.form);
        let end = self.offset_of(region) + region_bytes as u64;
        let mut wanted = wanted.min(region_bytes);
        loop {
            let read = self.read_span(end - wanted as u64, wanted).await;
            let (buffer, skip) = read.ok_or(Unreadable)?;
            let tail = &buffer.as_slice()[skip..skip + wanted];
            match footer::announced_bytes(tail, self.place.form, region_bytes) {
                // This happens at most once: the same trailer announces the same length.
                Some(bytes) if bytes > wanted => wanted = bytes,
                _ => return Ok(footer::parse(tail, whose, region, region_bytes)),
            }
        }
    }

    fn tail_bytes(&self) -> usize {
        let guess = self.place.form.footer_bytes(self.region_bytes() / BYTES_PER_ENTRY);
        guess.next_multiple_of(BLOCK_BYTES).min(self.region_bytes())
    }

    /// Begins to read the end of a region, for [`RegionLog::footer_in`].
    pub fn read_tail(&self, region: RegionId) -> IoFuture {
        let bytes = self.tail_bytes();
        let end = self.offset_of(region) + self.region_bytes() as u64;
        self.device.submit(Io::Read { offset: end - bytes as u64, buffer: self.pool.take(bytes) })
    }

    /// The footer in this end of a region; reads more if the footer is longer.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn footer_in(
        &self,
        region: RegionId,
        tail: &IoBuffer,
    ) -> Result<Option<Footer>, Unreadable> {
        let region_bytes = self.region_bytes();
        let whose = (self.place.cache, self.place.form);
        let Some(announced) =
            footer::announced_bytes(tail.as_slice(), self.place.form, region_bytes)
        else {
            return Ok(None);
        };
        if announced > tail.len() {
            return self.footer_of(region, announced).await;
        }
        Ok(footer::parse(tail.as_slice(), whose, region, region_bytes))
    }
}
