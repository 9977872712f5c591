//! A region that a crash has left in the middle of its filling: its records are read one after another as
//! far as they are whole, and get a footer.

use larder_device::{Io, IoBuffer};

use super::footer::{self, Footer, FooterEntry, RegionIdentity};
use super::index::UNIT_BYTES;
use super::record::{self, RecordIdentity};
use super::{Loc, LocPlace};

const BLOCK: usize = 4096;

impl Loc {
    /// Seals a region that was being filled. Returns its records, if there are any.
    pub(super) async fn seal_unsealed(&self, identity: RegionIdentity) -> Option<Footer> {
        let region_bytes = self.place.region_bytes as usize;
        let offset = self.offset_of(identity.region);
        // Most regions without a footer hold nothing: the first record tells.
        let first = Io::Read { offset, buffer: self.pool.take(BLOCK) };
        let first = self.device.submit(first).await.ok()?;
        let cache = self.place.cache;
        let at_first = RecordIdentity { cache, sequence: identity.sequence, offset: 0 };
        if !record::begins(first.as_slice(), at_first) {
            return None;
        }
        let whole = Io::Read { offset, buffer: self.pool.take(region_bytes) };
        let mut whole = self.device.submit(whole).await.ok()?;
        let (footer, used) = records_in(whole.as_slice(), &self.place, identity.sequence);
        let footer_bytes = footer::footer_bytes(footer.entries.len());
        let used = u32::try_from(used).ok()?;
        // Whoever filled it left room for this.
        if footer.entries.is_empty() || used as usize + footer_bytes > region_bytes {
            return None;
        }
        let latest = footer.latest_expiry_s;
        footer::encode(whole.as_mut_slice(), cache, identity, &footer.entries, used, latest);
        let from = (region_bytes - footer_bytes) / BLOCK * BLOCK;
        let mut tail = IoBuffer::zeroed(region_bytes - from);
        tail.as_mut_slice().copy_from_slice(&whole.as_slice()[from..]);
        self.counters.loc_written_bytes.add(tail.len() as u64);
        let (handle, durability) = (self.place.handles[0], self.place.durability);
        let write = Io::Write { offset: offset + from as u64, buffer: tail, handle, durability };
        match self.device.submit(write).await {
            Ok(_) => Some(footer),
            Err(failure) => {
                self.counters.device_failed(&failure.error);
                None
            }
        }
    }
}

/// The records at the start of a region, as far as they are whole, as its footer would list them, and
/// where they end. Behind one that was written before its block was full, the next begins in the next
/// block.
fn records_in(bytes: &[u8], place: &LocPlace, sequence: u64) -> (Footer, usize) {
    let (mut entries, mut latest_expiry_s, mut end) = (Vec::new(), None, 0);
    while let Some((entry, expiry_s)) = record_at(bytes, end, (place, sequence))
        .or_else(|| record_at(bytes, end.next_multiple_of(BLOCK), (place, sequence)))
    {
        end = (entry.offset as usize + entry.length as usize).next_multiple_of(UNIT_BYTES);
        latest_expiry_s = footer::later_expiry(latest_expiry_s, expiry_s);
        entries.push(entry);
    }
    let latest_expiry_s = latest_expiry_s.unwrap_or(0);
    (Footer { sequence, latest_expiry_s, entries }, end.min(bytes.len()))
}

/// The record that begins there, and when it expires.
fn record_at(
    bytes: &[u8],
    at: usize,
    (place, sequence): (&LocPlace, u64),
) -> Option<(FooterEntry, u32)> {
    let offset = u32::try_from(at).ok()?;
    let identity = RecordIdentity { cache: place.cache, sequence, offset };
    let record = record::parse_first(bytes.get(at..)?, identity)?;
    let length = u32::try_from(record.body_at() + record.body.len()).ok()?;
    let entry = FooterEntry { hash: place.hasher.hash(record.key()).0, offset, length };
    Some((entry, record.expiry_s))
}
