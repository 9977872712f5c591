//! Recovery after a crash, which leaves tables, each with all records of its hashes up to its stamp, and footers, which
//! list the other records.
//!
//! 1. The end of every region is read. A region is valid if its footer is whole and the tombstone log does not say that
//!    a later filling has begun. For a region that was being filled, records are read as far as they are whole, and a
//!    footer is written for them. All other regions are void, and are recorded as void.
//! 2. Of each table, the newest writing is valid. An older one may be anywhere, and knows less than the tombstone log
//!    relies on. So a region of tables is given up only when newer writings of its tables are on flash elsewhere
//!    (`tables/mod.rs`). And if a region cannot be read that may have the newest writing of a table, nothing at all is
//!    valid: an older writing could bring back deleted objects.
//! 3. Records with later stamps than their table, whose hash has not died since, are put into the sets of that table,
//!    the newest of a hash last. If the sets do not have room for all of them, they are put into the table itself, all
//!    in one writing, because its stamp tells the next recovery that it knows them all. Regions that were closed before
//!    the horizon have no such records.

use std::collections::VecDeque;
use std::sync::Arc;

use larder_device::IoFuture;
use larder_log::{Closing, Footer, FooterEntry, Record, RegionId, RegionIdentity, Unreadable};

use super::entry::{GRAIN_BYTES, RecordPlace, SetEntry};
use super::host::Why;
use super::log::{ArrayLog, State};
use super::table::{KEY_BYTES, PAGE_BYTES, TABLE_BYTES};
use super::tables::Tables;
use crate::base::error::Error;
use crate::base::ttl_groups::group_of;
use crate::engine::stored::IS_TABLE;
use crate::engine::tombstones::Inheritance;
use crate::observe::events;

/// Regions whose footers are read at a time.
const READS_AT_ONCE: usize = 32;

/// A valid filling.
struct RecoveredFilling {
    filling: RegionIdentity,
    closing: Closing,
    latest_expiry_s: u32,
    entries: Vec<FooterEntry>,
}

/// A record that no table knows.
struct News {
    table: u32,
    entry: FooterEntry,
    filling: RegionIdentity,
    stream: u16,
}

/// The recovery of an array, while it runs.
pub(super) struct ArrayRecovery<'a> {
    log: &'a ArrayLog,
    tables: &'a Tables,
    /// What the tombstone log says of the time before the crash.
    inheritance: Arc<Inheritance>,
}

impl<'a> ArrayRecovery<'a> {
    pub(super) fn of(log: &'a ArrayLog, tables: &'a Tables, inheritance: Arc<Inheritance>) -> Self {
        Self { log, tables, inheritance }
    }

    /// Recovers what a crash has left.
    ///
    /// # Errors
    /// If it cannot be recorded which regions are void.
    pub(super) async fn run(&self) -> Result<(), Error> {
        let (mut found, void) = self.read_footers().await.unwrap_or_else(|unreadable| {
            events::array_given_up(unreadable.number());
            self.log.counters().arrays_given_up.add(1);
            (Vec::new(), (0..self.log.place().log.regions).map(RegionId::new).collect())
        });
        self.log.regions().empty_regions(&void).await?;
        self.restore(&found);
        self.find_tables(&found);
        self.forget_known_deaths();
        let horizon = found.iter().map(|it| it.closing.horizon).max().unwrap_or(0);
        let index_stream = self.log.place().index_stream;
        found.retain(|it| usize::from(it.closing.stream) != index_stream);
        let news = self.news_in(&found, horizon);
        drop(found);
        for news in news.chunk_by(|one, next| one.table == next.table) {
            self.learn(news).await;
        }
        self.log.lock().active.set_horizon(horizon);
        self.log.divide_groups();
        self.tables.restart_sweep();
        Ok(())
    }

    /// Reads the ends of all regions. Returns the valid fillings and the void regions.
    ///
    /// # Errors
    /// The region, if it may have tables and cannot be read.
    async fn read_footers(&self) -> Result<(Vec<RecoveredFilling>, Vec<RegionId>), RegionId> {
        let (mut found, mut void) = (Vec::new(), Vec::new());
        let mut reads: VecDeque<(RegionId, IoFuture)> = VecDeque::new();
        let mut regions = (0..self.log.place().log.regions).map(RegionId::new);
        loop {
            while reads.len() < READS_AT_ONCE {
                let Some(region) = regions.next() else { break };
                reads.push_back((region, self.log.regions().read_tail(region)));
            }
            let Some((region, read)) = reads.pop_front() else { break };
            let footer = match read.await {
                Ok(tail) => self.log.regions().footer_in(region, &tail).await,
                Err(_) => self.log.regions().read_any_footer(region).await,
            };
            match self.judge(region, footer).await {
                Ok(Some(filling)) => found.push(filling),
                Ok(None) => void.push(region),
                Err(Unreadable) => return Err(region),
            }
        }
        Ok((found, void))
    }

    /// The valid content of a region with this footer.
    ///
    /// # Errors
    /// If the region may have tables and cannot be read.
    async fn judge(
        &self,
        region: RegionId,
        footer: Result<Option<Footer>, Unreadable>,
    ) -> Result<Option<RecoveredFilling>, Unreadable> {
        let first = self.inheritance.first_filling(self.log.host().regions.number(region));
        let counts =
            first.max(self.log.place().oldest_sequence)..self.log.place().log.first_sequence;
        let is_readable = footer.is_ok();
        let footer = footer.ok().flatten();
        let footer = match footer.filter(|footer| counts.contains(&footer.sequence)) {
            Some(footer) => Ok(Some(footer)),
            None if counts.contains(&first) => self.seal_unsealed(region, first).await,
            None if is_readable => Ok(None),
            None => Err(Unreadable),
        };
        let Ok(footer) = footer else {
            let is_of_objects = |first: &Record<'_>| first.marks != IS_TABLE;
            let is_of_objects = self.log.regions().look_at_first(region, is_of_objects).await;
            return if is_of_objects == Some(true) { Ok(None) } else { Err(Unreadable) };
        };
        let Some(Footer { sequence, latest_expiry_s, entries, closing }) = footer else {
            return Ok(None);
        };
        let closing = closing.filter(|it| usize::from(it.stream) <= self.log.place().index_stream);
        Ok(closing.map(|closing| RecoveredFilling {
            filling: RegionIdentity { region, sequence },
            closing,
            latest_expiry_s,
            entries,
        }))
    }

    async fn seal_unsealed(
        &self,
        region: RegionId,
        sequence: u64,
    ) -> Result<Option<Footer>, Unreadable> {
        let now_s = self.log.host().regions.breaker.now_s();
        let hash_of = |record: &Record<'_>| match record.marks == IS_TABLE {
            true => table_of(record).map_or(u64::MAX, u64::from),
            false => self.log.place().hasher.hash(record.key()).0,
        };
        let closing = |first: &Record<'_>| {
            let stream = match first.marks == IS_TABLE {
                true => self.log.place().index_stream,
                false => group_of(self.log.place().groups, first.expiry_s, now_s),
            };
            let stream = u16::try_from(stream).ok()?;
            Some(Closing { horizon: 0, closed_s: now_s, stream })
        };
        let filling = RegionIdentity { region, sequence };
        self.log.regions().seal_unsealed(filling, hash_of, closing).await
    }

    fn restore(&self, found: &[RecoveredFilling]) {
        for RecoveredFilling { filling, closing, latest_expiry_s, .. } in found {
            self.log.restore_filling(*filling, closing.stream, *latest_expiry_s);
        }
    }

    /// Notes the newest writing of each table.
    fn find_tables(&self, found: &[RecoveredFilling]) {
        let of_tables = found
            .iter()
            .filter(|it| usize::from(it.closing.stream) == self.log.place().index_stream);
        let mut fillings: Vec<&RecoveredFilling> = of_tables.collect();
        fillings.sort_by_key(|it| it.filling.sequence);
        let mut state = self.log.lock();
        for RecoveredFilling { filling, entries, .. } in fillings {
            for entry in entries {
                let is_one = entry.length as usize == TABLE_BYTES
                    && (entry.offset as usize).is_multiple_of(PAGE_BYTES);
                let table = u32::try_from(entry.hash).ok();
                let table = table.filter(|&table| is_one && table < self.log.place().tables);
                if let Some(table) = table {
                    state.entries.table_found(table, (filling.region, entry.offset), entry.stamp);
                }
            }
        }
    }

    /// Forgets the deaths that tables on flash know: the log need not keep them any longer.
    fn forget_known_deaths(&self) {
        let state = self.log.lock();
        for table in 0..self.log.place().tables {
            let Some(at) = state.entries.place(table) else { continue };
            let mut deaths = self.log.dead().within(state.entries.hashes_of(table));
            deaths.retain(|(_, index)| *index < at.stamp);
            self.log.dead().known(&deaths);
        }
    }

    /// The live records that no table knows, by table, in the order of their stamps.
    fn news_in(&self, found: &[RecoveredFilling], horizon: u64) -> Vec<News> {
        let mut state = self.log.lock();
        let mut news = Vec::new();
        for RecoveredFilling { filling, closing, entries, .. } in found {
            // Stamps ascend within a region.
            if entries.last().is_none_or(|last| last.stamp < horizon) {
                continue;
            }
            for &entry in entries {
                let table = state.entries.slot(entry.hash).table;
                state.entries.touch(table);
                let known = state.entries.place(table).map_or(0, |at| at.stamp);
                if entry.stamp >= known && !self.log.dead().has_died_since(entry.hash, entry.stamp)
                {
                    news.push(News { table, entry, filling: *filling, stream: closing.stream });
                }
            }
        }
        drop(state);
        news.sort_unstable_by_key(|News { table, entry, filling, .. }| {
            (*table, entry.stamp, filling.sequence, entry.offset)
        });
        news
    }

    /// Adds the records that a table does not know.
    async fn learn(&self, news: &[News]) {
        let Some(&News { table, .. }) = news.first() else { return };
        let (entries, all_fit) = {
            let mut state = self.log.lock();
            let shape = state.entries.shape();
            let mut entries: Vec<SetEntry> = Vec::with_capacity(news.len());
            for entry in news.iter().filter_map(|news| self.entry_of(&state, news)) {
                // The later one of a hash is valid.
                let fingerprint = shape.fingerprint_of(entry);
                entries.retain(|earlier| !shape.is_of(*earlier, fingerprint));
                entries.push(entry);
            }
            let all_fit = state.entries.install_all(table, &entries);
            (entries, all_fit)
        };
        let is_learnt = all_fit || self.tables.write_table_with(table, &entries, Why::Upkeep).await;
        if is_learnt {
            self.log.counters().array_found_objects.add(entries.len() as u64);
        }
    }

    /// The entry of a record, unless tables that were written since have taken its region.
    fn entry_of(&self, state: &State, news: &News) -> Option<SetEntry> {
        let News { entry: FooterEntry { hash, offset, length, .. }, filling, stream, .. } = *news;
        let group = u8::try_from(stream).ok()?;
        let slot = state.entries.slot(hash);
        let span = length.next_multiple_of(GRAIN_BYTES);
        let place = RecordPlace { region: filling.region, offset, span };
        let is_there = state.filling(filling.region) == filling;
        is_there.then(|| {
            state.entries.shape().entry(slot.fingerprint, (place, filling.sequence), group)
        })
    }
}

/// The number of the table in a record.
fn table_of(record: &Record<'_>) -> Option<u32> {
    let key: [u8; KEY_BYTES] = record.key().try_into().ok()?;
    u32::try_from(u64::from_le_bytes(key)).ok()
}
