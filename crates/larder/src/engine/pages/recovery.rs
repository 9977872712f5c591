//! Takes over what a crash or a shutdown has left, before the cache serves.
//!
//! 1. The end of every region is read. A region is valid if its footer is whole and nothing says that a later filling
//!    has begun. For a region that was being filled, pages are read as far as they are whole, and a footer is written
//!    for them. All other regions are void, and are recorded as void.
//! 2. The directory of each valid region is read. Where there is none, its pages are.
//! 3. The pages go to their sets in the order in which they were written, without what has died since.

use std::collections::VecDeque;

use larder_device::IoFuture;
use larder_log::{
    Footer, FooterEntry, Record, RecordIdentity, RegionId, RegionIdentity, Unreadable, record,
};

use super::Pages;
use super::directory::{is_directory, parse};
use super::page::{BODY_AT, PAGE_BYTES, SETS_END, fingerprint, records, set_of};
use super::snapshot::GoneSlots;
use crate::base::error::Error;
use crate::base::side_by_side::together;
use crate::engine::tombstones::Inheritance;

/// Regions that are read at a time.
const READS_AT_ONCE: usize = 32;

/// A valid filling, and its pages in order: set, offset, and a fingerprint for each slot.
struct Recovered {
    filling: RegionIdentity,
    pages: Vec<(u32, u32, Vec<u16>)>,
}

/// What says which fillings count and what is dead in them.
pub(super) enum Left<'a> {
    /// The tombstone log.
    Log(&'a Inheritance),
    /// The snapshot of a clean shutdown, which lists everything.
    Listed(&'a GoneSlots),
}

impl Left<'_> {
    /// The first valid filling of a region. `None` if none is.
    fn first_filling(&self, region: RegionId, number: u32) -> Option<u64> {
        match self {
            Left::Log(log) => Some(log.first_filling(number)),
            Left::Listed(listed) => listed.get(&region).map(|(sequence, _)| *sequence),
        }
    }

    /// Offsets of dead objects.
    fn dead_in(&self, filling: RegionIdentity, number: u32) -> Vec<u32> {
        match self {
            Left::Log(log) => log.dead_in(number, filling.sequence),
            Left::Listed(listed) => listed
                .get(&filling.region)
                .filter(|(sequence, _)| *sequence == filling.sequence)
                .map_or_else(Vec::new, |(_, dead)| dead.clone()),
        }
    }
}

impl Pages {
    /// Recovers what was left.
    ///
    /// # Errors
    /// If it cannot be recorded which regions are void, or what is dead.
    pub(super) async fn recover_all(&self, left: &Left<'_>) -> Result<(), Error> {
        let (mut found, void) = self.read_footers(left).await;
        self.log.empty_regions(&void).await?;
        found.sort_by_key(|(filling, _)| filling.sequence);
        for group in found.chunks(READS_AT_ONCE) {
            let read = group.iter().map(|(filling, entries)| self.read_pages(*filling, entries));
            for recovered in together(read).await {
                self.restore(recovered, left);
            }
        }
        if let (Some(tombstones), Left::Listed(_)) = (self.tombstones(), left) {
            tombstones.commit(tombstones.all_so_far()).await?;
        }
        Ok(())
    }

    /// Reads the ends of all regions. Returns the valid fillings with their records, and the void regions.
    async fn read_footers(
        &self,
        left: &Left<'_>,
    ) -> (Vec<(RegionIdentity, Vec<FooterEntry>)>, Vec<RegionId>) {
        let (mut found, mut void) = (Vec::new(), Vec::new());
        let mut reads: VecDeque<(RegionId, IoFuture)> = VecDeque::new();
        let mut regions = (0..self.place.log.regions).map(RegionId::new);
        loop {
            while reads.len() < READS_AT_ONCE {
                let Some(region) = regions.next() else { break };
                reads.push_back((region, self.log.read_tail(region)));
            }
            let Some((region, read)) = reads.pop_front() else { break };
            let footer = match read.await {
                Ok(tail) => self.log.footer_in(region, &tail).await,
                Err(_) => self.log.read_any_footer(region).await,
            };
            match self.judge(region, footer, left).await {
                Some(Footer { sequence, entries, .. }) => {
                    found.push((RegionIdentity { region, sequence }, entries));
                }
                None => void.push(region),
            }
        }
        (found, void)
    }

    /// The footer of the valid filling of a region.
    async fn judge(
        &self,
        region: RegionId,
        footer: Result<Option<Footer>, Unreadable>,
        left: &Left<'_>,
    ) -> Option<Footer> {
        let first = left.first_filling(region, self.log.host().regions.number(region))?;
        let counts = first.max(self.place.oldest_sequence)..self.place.log.first_sequence;
        let footer = footer.ok().flatten().filter(|footer| counts.contains(&footer.sequence));
        if footer.is_some() || !counts.contains(&first) {
            return footer;
        }
        let hash_of = |record: &Record<'_>| set_of(record).map_or(SETS_END, |set| set).into();
        let filling = RegionIdentity { region, sequence: first };
        self.log.seal_unsealed(filling, hash_of, |_| None).await.ok().flatten()
    }

    /// Set and offset of a page that a footer lists; `None` for the directory, or what is no page.
    pub(super) fn page_entry(&self, entry: &FooterEntry) -> Option<(u32, u32)> {
        let set = u32::try_from(entry.hash).ok().filter(|&set| set < self.sets.count())?;
        let is_page = entry.length as usize == PAGE_BYTES
            && (entry.offset as usize).is_multiple_of(PAGE_BYTES);
        is_page.then_some((set, entry.offset))
    }

    /// The pages of a filling, by its directory, or else page by page.
    async fn read_pages(&self, filling: RegionIdentity, entries: &[FooterEntry]) -> Recovered {
        let listed: Vec<_> = entries.iter().filter_map(|entry| self.page_entry(entry)).collect();
        let directory = match entries.last() {
            Some(last) => self.read_directory(filling, *last, listed.len()).await,
            None => None,
        };
        let mut pages = Vec::with_capacity(listed.len());
        match directory {
            Some(slots) => {
                let listed = listed.into_iter().zip(slots);
                pages.extend(listed.map(|((set, offset), slots)| (set, offset, slots)));
            }
            None => {
                for (set, offset) in listed {
                    if let Some(slots) = self.read_slots(filling, (set, offset)).await {
                        pages.push((set, offset, slots));
                    }
                }
            }
        }
        Recovered { filling, pages }
    }

    async fn read_directory(
        &self,
        filling: RegionIdentity,
        last: FooterEntry,
        pages: usize,
    ) -> Option<Vec<Vec<u16>>> {
        let FooterEntry { offset, length, .. } = last;
        let (buffer, skip) = self.log.read(filling.region, offset, length).await?;
        let bytes = buffer.as_slice().get(skip..)?;
        let record = record::parse_first(bytes, self.identity(filling, offset))?;
        let listed = record.body.get(record.key_bytes..)?;
        is_directory(record.key()).then(|| parse(listed, pages)).flatten()
    }

    /// The fingerprints of a page that no directory lists.
    async fn read_slots(
        &self,
        filling: RegionIdentity,
        (set, offset): (u32, u32),
    ) -> Option<Vec<u16>> {
        let span = u32::try_from(PAGE_BYTES).expect("4096");
        let (buffer, skip) = self.log.read(filling.region, offset, span).await?;
        let bytes = buffer.as_slice().get(skip..)?;
        let record = record::parse_first(bytes, self.identity(filling, offset))?;
        (set_of(&record) == Some(set)).then(|| {
            let objects = records(bytes, BODY_AT);
            objects.map(|it| fingerprint(self.place.hasher.hash(it.key))).collect()
        })
    }

    fn identity(&self, filling: RegionIdentity, offset: u32) -> RecordIdentity {
        let cache = self.place.log.cache;
        RecordIdentity { cache, sequence: filling.sequence, offset }
    }

    /// Adds the pages of a filling, the oldest of those that are not added yet, to their sets.
    fn restore(&self, Recovered { filling, pages }: Recovered, left: &Left<'_>) {
        let number = self.log.host().regions.number(filling.region);
        let dead = left.dead_in(filling, number);
        let mut state = self.log.lock();
        state.regions.restore(filling, 0);
        for (set, offset, mut slots) in pages {
            for (slot, fingerprint) in (offset..).zip(&mut slots) {
                if dead.binary_search(&slot).is_ok() {
                    *fingerprint = 0;
                }
            }
            let place = self.geometry.place(filling.region, offset);
            self.sets.change(set, |set| set.push_page(place, &slots));
        }
        drop(state);
        let Some(tombstones) = self.tombstones() else { return };
        match left {
            Left::Log(_) => {
                let count = u32::try_from(dead.len()).unwrap_or(u32::MAX);
                tombstones.inherit_filling(number, filling.sequence, count);
            }
            Left::Listed(_) => {
                tombstones.filling_sealed(number, filling.sequence);
                for offset in dead {
                    // The next opening may have no snapshot that says so. They are committed together.
                    let _later = tombstones.invalidate_record(number, offset, filling.sequence);
                }
            }
        }
    }
}
