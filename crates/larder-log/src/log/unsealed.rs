//! Seals a region that a crash has left in the middle of its filling: reads its records one after another as far as
//! they are whole, and writes a footer.

use larder_device::{Io, IoBuffer};

use super::read::Unreadable;
use super::{LogPlace, RegionLog};
use crate::BLOCK_BYTES;
use crate::expiry::later_expiry;
use crate::footer::{Closing, Footer, FooterEntry, NewFooter};
use crate::form::RecordForm;
use crate::host::{Entries, Event, Host};
use crate::identity::CacheId;
use crate::record::{self, Record, RecordIdentity};
use crate::region::{RegionId, RegionIdentity};

impl<E: Entries, H: Host> RegionLog<E, H> {
    /// Seals a region that was being filled. `hash_of` gives the hash by which the footer lists a record. `closing`
    /// says how the region was filled, from its first record. Returns the footer with the records, if there are any.
    ///
    /// # Errors
    /// If the device fails.
    pub async fn seal_unsealed(
        &self,
        identity: RegionIdentity,
        hash_of: impl Fn(&Record<'_>) -> u64 + Send,
        closing: impl Fn(&Record<'_>) -> Option<Closing> + Send,
    ) -> Result<Option<Footer>, Unreadable> {
        let region_bytes = self.region_bytes();
        let offset = self.offset_of(identity.region);
        // Most regions without a footer hold nothing; the first record tells.
        let first = Io::Read { offset, buffer: self.pool.take(BLOCK_BYTES) };
        let first = self.carry_out(first).await?;
        let LogPlace { cache, form, durability, .. } = self.place;
        let filling = Filling { cache, form, sequence: identity.sequence, hash_of };
        if !record::begins(first.as_slice(), filling.record_at(0)) {
            return Ok(None);
        }
        let whole = Io::Read { offset, buffer: self.pool.take(region_bytes) };
        let whole = self.carry_out(whole).await?;
        let (mut footer, used) = filling.records_in(whole.as_slice());
        let first = record::parse_first(whole.as_slice(), filling.record_at(0));
        footer.closing = first.as_ref().and_then(closing);
        debug_assert!(first.is_none() || footer.closing.is_some() == form.is_stamped());
        let footer_bytes = form.footer_bytes(footer.entries.len());
        // The cache that filled the region left room for this.
        if footer.entries.is_empty() || used + footer_bytes > region_bytes {
            return Ok(None);
        }
        let from = (region_bytes - footer_bytes) / BLOCK_BYTES * BLOCK_BYTES;
        let mut tail = IoBuffer::zeroed(region_bytes - from);
        tail.as_mut_slice().copy_from_slice(&whole.as_slice()[from..]);
        let new = NewFooter {
            identity,
            entries: &footer.entries,
            used_bytes: u32::try_from(used).expect("regions are shorter than 4 GiB"),
            latest_expiry_s: footer.latest_expiry_s,
            closing: footer.closing,
        };
        new.encode(tail.as_mut_slice(), cache);
        let stream = footer.closing.map_or(0, |closing| usize::from(closing.stream));
        let handle = self.place.streams[stream].handle;
        self.host.note(Event::Wrote { stream, bytes: tail.len() as u64 });
        let write = Io::Write { offset: offset + from as u64, buffer: tail, handle, durability };
        self.carry_out(write).await?;
        Ok(Some(footer))
    }

    /// Passes the first record of a region, of any filling, to `look`, if the record can be read. For a region whose
    /// end cannot be read.
    pub async fn look_at_first<T>(
        &self,
        region: RegionId,
        look: impl FnOnce(&Record<'_>) -> T,
    ) -> Option<T> {
        let (offset, mut bytes) = (self.offset_of(region), Vec::new());
        while bytes.len() < self.region_bytes() {
            let (offset, buffer) = (offset + bytes.len() as u64, self.pool.take(BLOCK_BYTES));
            match self.device.submit(Io::Read { offset, buffer }).await {
                Ok(block) => bytes.extend_from_slice(block.as_slice()),
                Err(_) => break,
            }
            if let Some(record) = record::parse_first_of_any(&bytes, self.place.cache) {
                return Some(look(&record));
            }
        }
        None
    }

    async fn carry_out(&self, io: Io) -> Result<IoBuffer, Unreadable> {
        self.device.submit(io).await.map_err(|failure| {
            self.host.note(Event::Failed(&failure.error));
            Unreadable
        })
    }
}

/// A filling whose records are to be found.
struct Filling<F> {
    cache: CacheId,
    form: RecordForm,
    sequence: u64,
    hash_of: F,
}

impl<F: Fn(&Record<'_>) -> u64> Filling<F> {
    fn record_at(&self, offset: u32) -> RecordIdentity {
        RecordIdentity { cache: self.cache, sequence: self.sequence, offset }
    }

    /// The whole records at the start of a region, as its footer would list them, and where they end. If a record was
    /// written before its block was full, the next one begins in the next block.
    fn records_in(&self, bytes: &[u8]) -> (Footer, usize) {
        let (mut entries, mut latest_expiry_s, mut end) = (Vec::new(), None, 0);
        while let Some((entry, expiry_s)) = self
            .entry_at(bytes, end)
            .or_else(|| self.entry_at(bytes, end.next_multiple_of(BLOCK_BYTES)))
        {
            end = self.form.end_of(&entry);
            latest_expiry_s = later_expiry(latest_expiry_s, expiry_s);
            entries.push(entry);
        }
        let latest_expiry_s = latest_expiry_s.unwrap_or(0);
        let sequence = self.sequence;
        (Footer { closing: None, sequence, latest_expiry_s, entries }, end.min(bytes.len()))
    }

    /// The record that begins there, and when it expires.
    fn entry_at(&self, bytes: &[u8], at: usize) -> Option<(FooterEntry, u32)> {
        let offset = u32::try_from(at).ok()?;
        let record = record::parse_first(bytes.get(at..)?, self.record_at(offset))?;
        let length = u32::try_from(record.body_at() + record.body.len()).ok()?;
        let (hash, stamp) = ((self.hash_of)(&record), record.stamp.unwrap_or(0));
        let entry = FooterEntry { hash, offset, length, stamp };
        Some((entry, record.expiry_s))
    }
}
