//! What a crash leaves of the large-object engine: regions with a footer, and one that was being
//! filled.
//!
//! A region counts if its footer is whole and the tombstone log does not say that a later filling
//! has begun. Of a filling that has begun and has no footer yet, the records are read one after
//! another as far as they are whole, and a footer is written for them: it is never filled on, so
//! that no place is ever written twice in one filling.

use larder_device::{Io, IoBuffer, IoFuture};

use super::footer::{self, FooterEntry, RegionIdentity};
use super::index::UNIT_BYTES;
use super::record::{self, RecordIdentity};
use super::regions::RegionState;
use super::{Loc, State};
use crate::error::Error;
use crate::key::KeyHash;
use crate::tombstones::Inheritance;

/// Regions whose footers are read at a time.
const READS_AT_ONCE: u32 = 32;
/// How much of a region to read at first when looking for its footer: one entry for so many bytes.
const BYTES_PER_ENTRY: u32 = 4096;
const BLOCK: usize = 4096;
/// Records that are sorted and put into the index together.
const INDEXED_AT_ONCE: usize = 1 << 19;

/// A record that counts.
struct FoundRecord {
    entry: FooterEntry,
    region: u32,
}

impl Loc {
    /// Takes over what a crash has left. Returns the number of objects.
    ///
    /// # Errors
    /// If it cannot be written down what is not taken over.
    pub(crate) async fn recover(&self, inheritance: &Inheritance) -> Result<u64, Error> {
        let regions = self.place.regions;
        let mut found = Vec::new();
        for first in (0..regions).step_by(READS_AT_ONCE as usize) {
            let batch = first..regions.min(first + READS_AT_ONCE);
            let reads: Vec<_> = batch.map(|region| (region, self.read_tail(region))).collect();
            let mut entries = 0;
            for (region, tail) in reads {
                if let Some((sequence, listed)) = self.footer_in(region, tail).await {
                    entries += listed.len() as u64;
                    let identity = RegionIdentity { region, sequence };
                    self.restore(identity, &listed, inheritance, &mut found);
                }
            }
            if first == 0 {
                // The others will not be much different.
                let expected = entries * u64::from(regions) / u64::from(READS_AT_ONCE.min(regions));
                self.lock().index.reserve(expected);
            }
        }
        for region in self.unsealed() {
            let sequence = inheritance.first_filling(region);
            if sequence > 0 {
                let identity = RegionIdentity { region, sequence };
                self.recover_unsealed(identity, inheritance, &mut found).await;
            }
        }
        self.index_all(&mut found);
        self.empty_unsealed().await?;
        Ok(self.len() as u64)
    }

    /// Makes sure that nothing comes back of what is in regions that were not taken over.
    pub(crate) async fn empty_unsealed(&self) -> Result<(), Error> {
        let regions = self.unsealed();
        let sequence = self.bury_regions(&regions).await?;
        let mut state = self.lock();
        regions.iter().for_each(|&region| state.regions.empty(region, sequence, RegionState::Free));
        Ok(())
    }

    fn unsealed(&self) -> Vec<u32> {
        self.lock().regions.unsealed()
    }

    fn read_tail(&self, region: u32) -> IoFuture {
        let region_bytes = self.place.region_bytes;
        let guess = footer::footer_bytes((region_bytes / BYTES_PER_ENTRY) as usize);
        let bytes = guess.next_multiple_of(BLOCK).min(region_bytes as usize);
        let end = self.offset_of(region) + u64::from(region_bytes);
        self.device.submit(Io::Read { offset: end - bytes as u64, buffer: self.pool.take(bytes) })
    }

    async fn footer_in(&self, region: u32, tail: IoFuture) -> Option<(u64, Vec<FooterEntry>)> {
        let region_bytes = self.place.region_bytes as usize;
        let tail = match tail.await {
            Ok(tail) => tail,
            Err(failure) => {
                self.counters.device_failed(&failure.error);
                return None;
            }
        };
        let announced = footer::announced_bytes(tail.as_slice(), region_bytes)?;
        if announced > tail.len() {
            return self.read_any_footer(region, announced).await;
        }
        footer::parse_any(tail.as_slice(), region, region_bytes)
    }

    /// Takes a region over if it may be believed, and adds its living records to `found`.
    fn restore(
        &self,
        identity: RegionIdentity,
        listed: &[FooterEntry],
        inheritance: &Inheritance,
        found: &mut Vec<FoundRecord>,
    ) {
        let RegionIdentity { region, sequence } = identity;
        let first = inheritance.first_filling(region).max(self.place.oldest_sequence);
        if !(first..self.place.first_sequence).contains(&sequence) {
            return;
        }
        if let Some(tombstones) = &self.tombstones {
            tombstones.filling_sealed(region, sequence);
        }
        self.lock().regions.restore(identity);
        for &entry in listed {
            if !inheritance.is_record_dead(region, entry.offset, sequence) {
                found.push(FoundRecord { entry, region });
            } else if let Some(tombstones) = &self.tombstones {
                tombstones.inherit_record(region);
            }
        }
        if found.len() >= INDEXED_AT_ONCE {
            self.index_all(found);
        }
    }

    /// Puts records into the index, in the order of the index: one part of its memory after another.
    fn index_all(&self, found: &mut Vec<FoundRecord>) {
        found.sort_unstable_by_key(|found| found.entry.hash);
        let State { index, regions, .. } = &mut *self.lock();
        for FoundRecord { entry: FooterEntry { hash, offset, length }, region } in found.drain(..) {
            let age = |region: u32, offset: u32| (regions.get(region).sequence, offset);
            // What was forgotten without a tombstone had expired: the newest is the one that counts.
            let is_newer = |there: u32, at: u32| age(there, at) > age(region, offset);
            index.set_unless(KeyHash(hash), (region, offset, length), is_newer);
        }
    }

    /// Seals a region that was being filled.
    async fn recover_unsealed(
        &self,
        identity: RegionIdentity,
        inheritance: &Inheritance,
        found: &mut Vec<FoundRecord>,
    ) {
        let region_bytes = self.place.region_bytes as usize;
        let offset = self.offset_of(identity.region);
        // Most regions without a footer hold nothing: the first record tells.
        let first = Io::Read { offset, buffer: self.pool.take(BLOCK) };
        let Ok(first) = self.device.submit(first).await else { return };
        if !record::begins(
            first.as_slice(),
            RecordIdentity { sequence: identity.sequence, offset: 0 },
        ) {
            return;
        }
        let whole = Io::Read { offset, buffer: self.pool.take(region_bytes) };
        let Ok(mut whole) = self.device.submit(whole).await else { return };
        let (listed, used) = records_in(whole.as_slice(), identity.sequence);
        let footer_bytes = footer::footer_bytes(listed.len());
        let Ok(used) = u32::try_from(used) else { return };
        // Whoever filled it left room for this.
        if listed.is_empty() || used as usize + footer_bytes > region_bytes {
            return;
        }
        footer::encode(whole.as_mut_slice(), identity, &listed, used);
        let from = (region_bytes - footer_bytes) / BLOCK * BLOCK;
        let mut tail = IoBuffer::zeroed(region_bytes - from);
        tail.as_mut_slice().copy_from_slice(&whole.as_slice()[from..]);
        self.counters.loc_written_bytes.add(tail.len() as u64);
        let handle = self.place.handle;
        let write = Io::Write { offset: offset + from as u64, buffer: tail, handle };
        match self.device.submit(write).await {
            Ok(_) => self.restore(identity, &listed, inheritance, found),
            Err(failure) => self.counters.device_failed(&failure.error),
        }
    }
}

/// The records at the start of a region, as far as they are whole, and where they end. Behind one
/// that was written before its block was full, the next begins in the next block.
fn records_in(bytes: &[u8], sequence: u64) -> (Vec<FooterEntry>, usize) {
    let (mut listed, mut end) = (Vec::new(), 0);
    while let Some(entry) = record_at(bytes, end, sequence)
        .or_else(|| record_at(bytes, end.next_multiple_of(BLOCK), sequence))
    {
        end = (entry.offset as usize + entry.length as usize).next_multiple_of(UNIT_BYTES);
        listed.push(entry);
    }
    (listed, end.min(bytes.len()))
}

fn record_at(bytes: &[u8], at: usize, sequence: u64) -> Option<FooterEntry> {
    let offset = u32::try_from(at).ok()?;
    let record = record::parse_first(bytes.get(at..)?, RecordIdentity { sequence, offset })?;
    let length = u32::try_from(record.body_at() + record.body.len()).ok()?;
    Some(FooterEntry { hash: KeyHash::of(record.key()).0, offset, length })
}
