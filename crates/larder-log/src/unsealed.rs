//! A region that a crash has left in the middle of its filling: its records are read one after another as
//! far as they are whole, and get a footer.

use larder_device::{Io, IoBuffer};

use crate::BLOCK_BYTES;
use crate::expiry::later_expiry;
use crate::footer::{self, Footer, FooterEntry};
use crate::host::{Entries, Event, Host};
use crate::identity::CacheId;
use crate::log::RegionLog;
use crate::record::{self, RecordIdentity};
use crate::region::RegionIdentity;

impl<E: Entries, H: Host> RegionLog<E, H> {
    /// Seals a region that was being filled: `hash_of` a key is what the footer names it by. Returns its
    /// records, if there are any.
    pub async fn seal_unsealed(
        &self,
        identity: RegionIdentity,
        hash_of: impl Fn(&[u8]) -> u64 + Send,
    ) -> Option<Footer> {
        let region_bytes = self.region_bytes();
        let offset = self.offset_of(identity.region);
        // Most regions without a footer hold nothing: the first record tells.
        let first = Io::Read { offset, buffer: self.pool.take(BLOCK_BYTES) };
        let first = self.device.submit(first).await.ok()?;
        let filling = Filling { cache: self.place.cache, sequence: identity.sequence, hash_of };
        if !record::begins(first.as_slice(), filling.record_at(0)) {
            return None;
        }
        let whole = Io::Read { offset, buffer: self.pool.take(region_bytes) };
        let whole = self.device.submit(whole).await.ok()?;
        let (footer, used) = filling.records_in(whole.as_slice());
        let footer_bytes = footer::footer_bytes(footer.entries.len());
        // Whoever filled it left room for this.
        if footer.entries.is_empty() || used + footer_bytes > region_bytes {
            return None;
        }
        let from = (region_bytes - footer_bytes) / BLOCK_BYTES * BLOCK_BYTES;
        let mut tail = IoBuffer::zeroed(region_bytes - from);
        tail.as_mut_slice().copy_from_slice(&whole.as_slice()[from..]);
        let (cache, used) = (self.place.cache, u32::try_from(used).ok()?);
        let said = (used, footer.latest_expiry_s);
        footer::encode(tail.as_mut_slice(), cache, identity, &footer.entries, said);
        self.host.note(Event::Wrote(tail.len() as u64));
        let (handle, durability) = (self.place.streams[0].handle, self.place.durability);
        let write = Io::Write { offset: offset + from as u64, buffer: tail, handle, durability };
        match self.device.submit(write).await {
            Ok(_) => Some(footer),
            Err(failure) => {
                self.host.note(Event::Failed(&failure.error));
                None
            }
        }
    }
}

/// A filling whose records are looked for.
struct Filling<F> {
    cache: CacheId,
    sequence: u64,
    hash_of: F,
}

impl<F: Fn(&[u8]) -> u64> Filling<F> {
    fn record_at(&self, offset: u32) -> RecordIdentity {
        RecordIdentity { cache: self.cache, sequence: self.sequence, offset }
    }

    /// The records at the start of a region, as far as they are whole, as its footer would list them, and
    /// where they end. Behind one that was written before its block was full, the next begins in the next
    /// block.
    fn records_in(&self, bytes: &[u8]) -> (Footer, usize) {
        let (mut entries, mut latest_expiry_s, mut end) = (Vec::new(), None, 0);
        while let Some((entry, expiry_s)) = self
            .entry_at(bytes, end)
            .or_else(|| self.entry_at(bytes, end.next_multiple_of(BLOCK_BYTES)))
        {
            end = entry.end();
            latest_expiry_s = later_expiry(latest_expiry_s, expiry_s);
            entries.push(entry);
        }
        let latest_expiry_s = latest_expiry_s.unwrap_or(0);
        (Footer { sequence: self.sequence, latest_expiry_s, entries }, end.min(bytes.len()))
    }

    /// The record that begins there, and when it expires.
    fn entry_at(&self, bytes: &[u8], at: usize) -> Option<(FooterEntry, u32)> {
        let offset = u32::try_from(at).ok()?;
        let record = record::parse_first(bytes.get(at..)?, self.record_at(offset))?;
        let length = u32::try_from(record.body_at() + record.body.len()).ok()?;
        let entry = FooterEntry { hash: (self.hash_of)(record.key()), offset, length };
        Some((entry, record.expiry_s))
    }
}
