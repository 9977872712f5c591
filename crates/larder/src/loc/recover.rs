//! What a crash leaves of the large-object engine: regions with a footer, and one that was being
//! filled.
//!
//! A region counts if its footer is whole and the tombstone log does not say that a later filling
//! has begun. Of a filling that has begun and has no footer yet, the records are read one after
//! another as far as they are whole, and a footer is written for them: it is never filled on, so
//! that no place is ever written twice in one filling.

use larder_device::{Io, IoBuffer, IoFuture};

use super::Loc;
use super::footer::{self, FooterEntry, RegionIdentity};
use super::index::UNIT_BYTES;
use super::record::{self, RecordIdentity};
use super::regions::RegionState;
use crate::error::Error;
use crate::key::KeyHash;
use crate::tombstones::Inheritance;

/// Regions whose footers are read at a time.
const READS_AT_ONCE: u32 = 32;
/// How much of a region to read at first when looking for its footer: one entry for so many bytes.
const BYTES_PER_ENTRY: u32 = 4096;
const BLOCK: usize = 4096;

impl Loc {
    /// Takes over what a crash has left. Returns the number of objects.
    ///
    /// # Errors
    /// If it cannot be written down what is not taken over.
    pub(crate) async fn recover(&self, inheritance: &Inheritance) -> Result<u64, Error> {
        let regions = self.place.regions;
        for first in (0..regions).step_by(READS_AT_ONCE as usize) {
            let batch = first..regions.min(first + READS_AT_ONCE);
            let reads: Vec<_> = batch.map(|region| (region, self.read_tail(region))).collect();
            for (region, tail) in reads {
                if let Some((sequence, listed)) = self.footer_in(region, tail).await {
                    self.restore(RegionIdentity { region, sequence }, &listed, inheritance);
                }
            }
        }
        for region in self.unsealed() {
            let sequence = inheritance.first_filling(region);
            if sequence > 0 {
                self.recover_unsealed(RegionIdentity { region, sequence }, inheritance).await;
            }
        }
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
        if footer::announced_bytes(tail.as_slice(), region_bytes)? > tail.len() {
            return self.read_any_footer(region).await;
        }
        footer::parse_any(tail.as_slice(), region, region_bytes)
    }

    fn restore(&self, identity: RegionIdentity, listed: &[FooterEntry], inheritance: &Inheritance) {
        let RegionIdentity { region, sequence } = identity;
        let first = inheritance.first_filling(region).max(self.place.oldest_sequence);
        if !(first..self.place.first_sequence).contains(&sequence) {
            return;
        }
        if let Some(tombstones) = &self.tombstones {
            tombstones.filling_sealed(region, sequence);
        }
        let mut state = self.lock();
        state.regions.restore(identity);
        for FooterEntry { hash, offset, length } in listed {
            if inheritance.is_record_dead(region, *offset, sequence) {
                if let Some(tombstones) = &self.tombstones {
                    tombstones.inherit_record(region);
                }
                continue;
            }
            let hash = KeyHash(*hash);
            let there = state.index.get(hash).map(|found| state.regions.get(found.region).sequence);
            // What was forgotten without a tombstone had expired: the newest is the one that counts.
            // A footer lists records in the order of their writing.
            if there.is_none_or(|there| there <= sequence) {
                state.index.set(hash, region, *offset, *length);
            }
        }
    }

    /// Seals a region that was being filled.
    async fn recover_unsealed(&self, identity: RegionIdentity, inheritance: &Inheritance) {
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
            Ok(_) => self.restore(identity, &listed, inheritance),
            Err(failure) => self.counters.device_failed(&failure.error),
        }
    }
}

/// The records at the start of a region, as far as they are whole, and where they end.
fn records_in(bytes: &[u8], sequence: u64) -> (Vec<FooterEntry>, usize) {
    let (mut listed, mut at) = (Vec::new(), 0);
    while let Ok(offset) = u32::try_from(at)
        && let Some(rest) = bytes.get(at..)
        && let Some(record) = record::parse_first(rest, RecordIdentity { sequence, offset })
    {
        let length = record.body_at() + record.body.len();
        let Ok(narrow) = u32::try_from(length) else { break };
        listed.push(FooterEntry { hash: KeyHash::of(record.key()).0, offset, length: narrow });
        at = (at + length).next_multiple_of(UNIT_BYTES);
    }
    (listed, at.min(bytes.len()))
}
