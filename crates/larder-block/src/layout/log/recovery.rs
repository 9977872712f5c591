//! Recovers a log after a crash or a stop.
//!
//! First the header at the beginning of each segment is read, and the [footer](super::footer) at its end. If the
//! footer is not of the same filling, because the segment was still being filled, the headers are read one after the
//! other until none follows. Then the batches that no header states as complete, the last ones before a crash, are
//! read whole, and their data is checked. Like the layout, this does no I/O: it says what to read. Segments do not
//! depend on each other, so as many reads may be in flight at the same time.
//!
//! After an orderly stop nothing was in flight, and the label describes what there is ([`serving`](super::serving)):
//! any deviation is damage. Without a deviation, the data in drained segments is recovered too.
//!
//! *Always:* everything acknowledged is found, because its batch and all earlier ones in its segment were complete. An
//! incomplete batch is ignored as a whole, now and in every later recovery: statements count within an epoch, and a
//! batch that was not stated in its own epoch is checked each time. So such a batch is never overwritten in place
//! either.

use std::collections::{BTreeSet, HashMap, VecDeque};

use larder_device::DeviceInfo;

use super::LogLayout;
use super::appender::Appender;
use super::batch::{BatchHeader, CacheUuid, HEADER_BYTES_MAX};
use super::blocks::Blocks;
use super::filling::{Batch, Filling, are_in_lines};
use super::footer::{Footer, footer_bytes};
use super::geometry::{Geometry, LoadOptions, LogOptions, NotePlace};
use super::index::Extent;
use super::record::{Record, RecordKind};
use super::record_log::{LogIdentity, RecordLog};
use super::segments::{RecoveredSegment, checksum};
use super::unloaded::{RecordedState, UnloadedRecords};
use super::verifying::Verifying;
use crate::layout::line::pack_line;
use crate::layout::{CoreId, ShutdownState, Span};

/// Bytes that are read at once to follow a chain of headers.
const CHAIN_BYTES: usize = 128 << 10;
/// Bytes that are searched after the last batch of a segment without a footer: more than a batch.
const TAIL_BYTES: usize = 1 << 20;

/// A read that a recovery requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryRead {
    what: LogReadPurpose,
    /// Offset on the cache device, in bytes.
    pub offset: u64,
    /// Bytes to read: whole blocks.
    pub bytes: usize,
    /// Bytes of their metadata that are wanted too; 0 if headers are not in metadata.
    pub metadata_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogReadPurpose {
    /// The header at the beginning of a segment.
    First { segment: u32 },
    /// The footer of a segment.
    Footer { segment: u32 },
    /// The header at this position of a segment, and those that follow it.
    Chain { segment: u32, position: u32 },
    /// What follows the last batch of a segment that was found.
    Tail { segment: u32, position: u32 },
    /// A whole batch, by number.
    Batch { segment: u32, batch: usize },
    /// A complete batch whose dirty data is to be verified.
    Verify { segment: u32, batch: usize },
}

/// Result of a recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveredLog {
    /// Valid batches.
    pub batches: u64,
    /// Their records.
    pub records: u64,
    /// Batches whose data does not match their header: they were in flight when the cache stopped.
    pub torn_batches: u64,
    /// Reads that the device refused. Dirty data may be lost.
    pub failed_reads: u64,
    /// The highest epoch of the headers that were found.
    pub last_epoch: u32,
    /// Whether the content differs from what an orderly stop has left.
    pub is_damaged: bool,
    /// Batches that were complete before the crash and are missing. Not counted after an orderly stop, or if the
    /// device refused a read.
    pub missing_batches: u64,
    /// Dirty data that does not match its record: it is dropped.
    pub unsound: Vec<Span>,
}

/// A recovery. Take reads with [`next_read`](Self::next_read) and answer them with [`completed`](Self::completed)
/// until there are none; then [`finish`](Self::finish) makes a layout of it.
#[derive(Debug)]
pub struct LogRecovery {
    pub(super) geometry: Geometry,
    pub(super) uuid: CacheUuid,
    /// By segment number.
    pub(super) fillings: Vec<Option<Filling>>,
    /// By segment, for those that were found.
    note_places: Vec<NotePlace>,
    wanted: VecDeque<RecoveryRead>,
    outstanding: usize,
    has_checked: bool,
    pub(super) found: RecoveredLog,
    pub(super) clean_up_to: u64,
    settled_up_to: u64,
    /// The state that an orderly stop recorded, if the log was stopped in that way.
    left: Option<ShutdownState>,
    /// The existing cores, if they were given.
    cores: Option<BTreeSet<CoreId>>,
    /// By epoch: the highest horizon in headers after gaps.
    pub(super) behind_gaps: HashMap<u32, u64>,
    verifying: Verifying,
}

impl LogRecovery {
    /// A recovery of the cache with this UUID.
    pub fn new(geometry: Geometry, uuid: [u8; 16]) -> Self {
        let mut recovery = Self {
            geometry,
            uuid,
            fillings: (0..geometry.segments).map(|_| None).collect(),
            note_places: vec![NotePlace::default(); geometry.segments as usize],
            wanted: VecDeque::new(),
            outstanding: 0,
            has_checked: false,
            found: RecoveredLog::default(),
            clean_up_to: 0,
            settled_up_to: 0,
            left: None,
            cores: None,
            behind_gaps: HashMap::new(),
            verifying: Verifying::default(),
        };
        for segment in 0..geometry.segments {
            recovery.want(LogReadPurpose::First { segment }, segment, 0, HEADER_BYTES_MAX);
        }
        recovery
    }

    /// The cores have the data of all batches up to this sequence:
    /// [`LogSuperblock::clean_up_to`](super::LogSuperblock).
    #[must_use]
    pub fn clean_up_to(self, sequence: u64) -> Self {
        Self { clean_up_to: sequence, ..self }
    }

    /// Unsettled data in batches up to this sequence is clean: [`LogSuperblock::settled_up_to`](super::LogSuperblock).
    #[must_use]
    pub fn settled_up_to(self, sequence: u64) -> Self {
        Self { settled_up_to: sequence, ..self }
    }

    /// Compares dirty data with the checksums of its records. Data that differs is [dropped](RecoveredLog::unsound).
    #[must_use]
    pub fn verifying_dirty(mut self, is_wanted: bool) -> Self {
        self.verifying.want(is_wanted);
        self
    }

    /// Sets the state that an orderly stop recorded.
    #[must_use]
    pub fn after_stop(self, left: Option<ShutdownState>) -> Self {
        Self { left, ..self }
    }

    /// The sectors of all torn batches, in no particular order.
    pub fn torn(&self) -> Vec<Span> {
        let of_filling = |filling: &Filling| {
            let all = filling.batches().iter().enumerate().filter(|(_, batch)| batch.is_torn);
            let records = all.flat_map(|(number, _)| filling.records_of(number));
            let with_data = records.filter(|record| record.kind.has_data());
            with_data.map(|record| record.span).collect::<Vec<_>>()
        };
        self.found().flat_map(of_filling).collect()
    }

    /// Only these cores exist. Records of any other core are of a removed core, which had all its data by then: they
    /// are ignored.
    #[must_use]
    pub fn of_cores(self, cores: impl IntoIterator<Item = CoreId>) -> Self {
        Self { cores: Some(cores.into_iter().collect()), ..self }
    }

    /// The next read. `None` while it depends on reads in flight, and when nothing is left.
    pub fn next_read(&mut self) -> Option<RecoveryRead> {
        if self.wanted.is_empty() && self.outstanding == 0 && !self.has_checked {
            self.has_checked = true;
            self.want_unstated();
        }
        let read = self.wanted.pop_front()?;
        self.outstanding += 1;
        Some(read)
    }

    /// Answers a read; `None` if the device refused it. For a device without metadata of interest.
    pub fn completed(&mut self, read: RecoveryRead, bytes: Option<&[u8]>) {
        self.completed_with(read, bytes.map(|bytes| (bytes, &[][..])));
    }

    /// Answers a read with bytes and metadata of the blocks, [`RecoveryRead::metadata_bytes`] of the latter.
    pub fn completed_with(&mut self, read: RecoveryRead, found: Option<(&[u8], &[u8])>) {
        self.outstanding -= 1;
        self.found.failed_reads += u64::from(found.is_none());
        let (bytes, metadata) = found.unwrap_or_default();
        let blocks = Blocks { bytes, metadata };
        match read.what {
            LogReadPurpose::First { segment } => self.first_read(segment, blocks),
            LogReadPurpose::Footer { segment } => self.footer_read(segment, bytes),
            LogReadPurpose::Chain { segment, position } => {
                self.chain_read(segment, position, blocks)
            }
            LogReadPurpose::Tail { segment, position } => self.tail_read(segment, position, blocks),
            LogReadPurpose::Verify { segment, batch } => {
                let filling = self.fillings[segment as usize].as_ref().expect("it was found");
                let log = (&self.geometry, &self.uuid);
                self.verifying.verify((filling, batch), log, segment, blocks);
            }
            LogReadPurpose::Batch { segment, batch } => {
                let filling = self.fillings[segment as usize].as_mut().expect("it was found");
                let Batch { sequence, position, .. } = filling.batches()[batch];
                let parsed = self.geometry.parse(blocks, &self.uuid, (segment, position));
                let is_whole = parsed.is_some_and(|(header, records)| {
                    let data_bytes: usize = records.iter().map(Record::data_bytes).sum();
                    let data = bytes.len().checked_sub(data_bytes).and_then(|at| bytes.get(at..));
                    header.sequence == sequence
                        && data.is_some_and(|data| are_whole(&records, data))
                });
                if !is_whole {
                    filling.set_torn(batch);
                }
            }
        }
    }

    fn want(&mut self, what: LogReadPurpose, segment: u32, position: u32, bytes: usize) {
        let bytes = bytes.min((self.geometry.segment_bytes - position) as usize);
        let offset = self.geometry.offset_of(segment, position);
        let metadata_bytes = match what {
            LogReadPurpose::Footer { .. } => 0,
            _ => self.geometry.metadata_of(bytes),
        };
        self.wanted.push_back(RecoveryRead { what, offset, bytes, metadata_bytes });
    }

    fn want_footer(&mut self, segment: u32, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.geometry.segment_bytes);
        let position = self.geometry.segment_bytes - bytes;
        self.want(LogReadPurpose::Footer { segment }, segment, position, bytes as usize);
    }

    fn want_chain(&mut self, segment: u32, position: u32) {
        if self.geometry.segment_bytes - position >= self.geometry.block_bytes {
            let bytes = CHAIN_BYTES.max(2 * self.geometry.header_view_bytes());
            self.want(LogReadPurpose::Chain { segment, position }, segment, position, bytes);
        }
    }

    /// After an orderly stop there is no tail to search: the content is compared with the label.
    fn want_tail(&mut self, segment: u32, position: u32) {
        let position = position + self.geometry.block_bytes;
        if self.left.is_none() && position < self.geometry.segment_bytes {
            self.want(LogReadPurpose::Tail { segment, position }, segment, position, TAIL_BYTES);
        }
    }

    fn first_read(&mut self, segment: u32, blocks: Blocks<'_>) {
        let Some((header, records)) = self.first_header(segment, blocks) else { return };
        self.fillings[segment as usize] = Some(Filling::new(&header, &records));
        // If all records are whole lines, one read is enough.
        let lines = self.geometry.segment_bytes / self.geometry.line_bytes;
        self.want_footer(segment, footer_bytes(lines as usize, self.geometry.block_bytes));
    }

    /// The first header of a filling. If a note has two places, this is the later note, and it counts for both places.
    fn first_header(
        &mut self,
        segment: u32,
        blocks: Blocks<'_>,
    ) -> Option<(BatchHeader, Vec<Record>)> {
        if !self.geometry.tears_sectors() {
            return self.header(segment, 0, blocks);
        }
        let notes = [NotePlace::First, NotePlace::Second].into_iter().filter_map(|place| {
            let position = self.geometry.note_position(place)?;
            let (header, records) =
                self.header(segment, position, self.geometry.after(blocks, position)?)?;
            records.is_empty().then_some((place, header))
        });
        let (place, header) = notes.max_by_key(|(_, header)| header.generation)?;
        self.note_places[segment as usize] = place;
        let bytes = self.geometry.notes_bytes();
        Some((BatchHeader { position: 0, bytes, ..header }, Vec::new()))
    }

    fn footer_read(&mut self, segment: u32, bytes: &[u8]) {
        let first = self.fillings[segment as usize].as_mut().expect("its header was read");
        match Footer::parse(bytes, &self.uuid, segment, &self.geometry) {
            Footer::Longer(whole) if whole > bytes.len() => self.want_footer(segment, whole),
            Footer::Of(filling)
                if filling.epoch == first.epoch && filling.first() == first.first() =>
            {
                *first = filling;
                first.is_listed = true;
            }
            _ => {
                let end = first.end();
                self.want_chain(segment, end);
            }
        }
    }

    /// Batches of a segment, from `position` on.
    fn chain_read(&mut self, segment: u32, position: u32, blocks: Blocks<'_>) {
        let is_all = position as usize + blocks.bytes.len() >= self.geometry.segment_bytes as usize;
        let mut at = position;
        while let Some(rest) = self.geometry.after(blocks, at - position) {
            let Some((header, records)) = self.header(segment, at, rest) else {
                // The header may be incomplete in what was read.
                let is_seen = rest.bytes.len() >= self.geometry.header_view_bytes();
                if is_seen || is_all || at == position {
                    return self.want_tail(segment, at);
                }
                break;
            };
            let filling = self.fillings[segment as usize].as_mut().expect("its header was read");
            // Within an epoch sequences grow, also from one filling of a segment to the next: batches left by an
            // earlier filling have lower ones. An earlier epoch may have left a batch with a higher sequence, which no
            // start has found.
            let is_of_it = (header.epoch, header.generation) == (filling.epoch, filling.generation);
            if !is_of_it || header.sequence <= filling.last().sequence {
                return self.want_tail(segment, at);
            }
            filling.push(&header, &records);
            at += header.bytes;
        }
        self.want_chain(segment, at);
    }

    pub(super) fn header(
        &self,
        segment: u32,
        position: u32,
        blocks: Blocks<'_>,
    ) -> Option<(BatchHeader, Vec<Record>)> {
        let parsed = self.geometry.parse(blocks, &self.uuid, (segment, position));
        parsed.filter(|(_, records)| are_in_lines(records, &self.geometry))
    }

    /// Requests the batches with data that no header states as complete, and those to be verified.
    fn want_unstated(&mut self) {
        let (horizons, void_below) = (self.horizons(), self.void_below());
        let mut unstated = Vec::new();
        for (segment, filling) in (0..).zip(&self.fillings) {
            let Some(filling) = filling else { continue };
            for (number, batch) in filling.batches().iter().enumerate() {
                let has_data = filling.records_of(number).iter().any(|one| one.kind.has_data());
                if batch.sequence > horizons[&filling.epoch] && has_data {
                    unstated.push((
                        LogReadPurpose::Batch { segment, batch: number },
                        segment,
                        *batch,
                    ));
                } else if filling.generation >= void_below
                    && self.verifying.is_to_be_verified(
                        (filling, number),
                        &self.geometry,
                        self.clean_up_to,
                    )
                {
                    unstated.push((
                        LogReadPurpose::Verify { segment, batch: number },
                        segment,
                        *batch,
                    ));
                }
            }
        }
        for (what, segment, Batch { position, bytes, .. }) in unstated {
            self.want(what, segment, position, bytes as usize);
        }
    }

    /// The generation below which segments are void.
    fn void_below(&self) -> u64 {
        self.found().map(|filling| filling.void_below).max().unwrap_or(0)
    }

    pub(super) fn found(&self) -> impl Iterator<Item = &Filling> {
        self.fillings.iter().flatten()
    }

    /// The sequence up to which the batches of each epoch are stated as complete.
    pub(super) fn horizons(&self) -> HashMap<u32, u64> {
        let mut horizons = HashMap::new();
        for filling in self.found() {
            let horizon = horizons.entry(filling.epoch).or_insert(0);
            *horizon = filling.horizon.max(*horizon);
        }
        horizons
    }

    /// The highest epoch that was found. `finish` must be called with a higher one.
    pub fn last_epoch(&self) -> u32 {
        self.found().map(|filling| filling.epoch).max().unwrap_or(0)
    }

    /// Makes a layout of the recovered log, on the device described by `info`. Returns it, and what was found. `epoch`
    /// must be higher than that of the previous start, and durable in the label.
    ///
    /// # Panics
    /// If reads are left, or if the epoch is not higher than what was found.
    pub fn finish(
        mut self,
        epoch: u32,
        info: &DeviceInfo,
        options: &LogOptions,
    ) -> (LogLayout, RecoveredLog) {
        let is_done = self.has_checked && self.wanted.is_empty() && self.outstanding == 0;
        assert!(is_done, "a recovery is finished when all is read");
        let horizons = self.horizons();
        let void_below = self.void_below();
        let youngest = self.found().map(|filling| filling.generation).max().unwrap_or(0);
        let last_sequence = self.found().map(|filling| filling.last().sequence).max().unwrap_or(0);
        self.found.last_epoch = self.last_epoch();
        assert!(
            epoch > self.found.last_epoch,
            "epoch {epoch} behind one of {}",
            self.found.last_epoch
        );
        if self.left.is_none() && self.found.failed_reads == 0 {
            self.found.missing_batches = self.missing_batches(void_below);
        }
        let lowest = self.compare_with_stop(last_sequence).unwrap_or(void_below);
        for filling in &mut self.fillings {
            filling.take_if(|filling| filling.generation < lowest);
        }
        let identity = LogIdentity { uuid: self.uuid, epoch };
        let align = self.geometry.overwrite_align(info, options);
        let mut log = RecordLog::new(self.geometry, identity, align);
        log.appender = Appender::new(last_sequence);
        log.segments.adopt_bounds(void_below, youngest);
        self.adopt_segments(&mut log, &horizons, void_below);
        log.adopt(self.put_records(&options.load, align.is_some(), void_below));
        if self.found.records <= options.load.at_start_max as u64 {
            log.load_all();
            drop(log.take_loaded_dirty());
        }
        self.verifying.drop_unsound(&mut log, &mut self.found.unsound);
        (LogLayout::of(log, options), self.found)
    }

    /// After an orderly stop: the lowest generation that counts, if the content is as it was left.
    fn compare_with_stop(&mut self, last_sequence: u64) -> Option<u64> {
        let left = self.left?;
        let counts = |filling: &Filling| filling.generation >= left.lowest;
        let standing = (0..).zip(&self.fillings).filter_map(|(segment, filling)| {
            let filling = filling.as_ref().filter(|filling| counts(filling))?;
            Some((segment, filling.generation, filling.batches_whole(), filling.last().sequence))
        });
        let is_whole = checksum(standing) == left.checksum
            && last_sequence == left.last
            && self.found.failed_reads == 0;
        self.found.is_damaged = !is_whole;
        is_whole.then_some(left.lowest)
    }

    fn adopt_segments(&self, log: &mut RecordLog, horizons: &HashMap<u32, u64>, void_below: u64) {
        // For each first sequence: the youngest generation that begins up to it.
        let mut youngest: Vec<(u64, u64)> =
            self.found().map(|filling| (filling.first().sequence, filling.generation)).collect();
        youngest.sort_unstable();
        let mut so_far = 0;
        for (_, generation) in &mut youngest {
            so_far = so_far.max(*generation);
            *generation = so_far;
        }
        for (segment, filling) in (0..).zip(&self.fillings) {
            let Some(filling) = filling else { continue };
            // The segment was open at least until its last batch.
            let beside = youngest.partition_point(|(first, _)| *first <= filling.last().sequence);
            let is_stated = |batch: &&Batch| batch.sequence <= horizons[&filling.epoch];
            let stated = filling.batches().iter().filter(is_stated);
            let covered = stated.map(|batch| batch.position + batch.bytes).max();
            let line_sectors = self.geometry.line_sectors();
            let mut lines = Vec::with_capacity(filling.records());
            for (_, records) in filling.whole() {
                let data = records.iter().filter(|record| record.kind.has_data());
                lines.extend(data.map(|record| pack_line(record.span, line_sectors)));
            }
            let generation = filling.generation;
            let found = RecoveredSegment {
                generation,
                barrier: youngest[..beside].last().map_or(generation, |(_, youngest)| *youngest),
                covered_bytes: covered.unwrap_or(0),
                batches: filling.batches_whole(),
                last_sequence: filling.last().sequence,
                is_drained: generation < void_below,
                is_listed: filling.is_listed,
                lines,
            };
            log.segments.adopt(segment, found);
        }
        for (segment, place) in (0..).zip(&self.note_places) {
            log.segments.adopt_note(segment, *place);
        }
        log.segments.end_adopting();
    }

    /// Collects the records for the index. They are dropped here, segment by segment.
    fn put_records(
        &mut self,
        options: &LoadOptions,
        may_overwrite: bool,
        void_below: u64,
    ) -> UnloadedRecords {
        let of_filling =
            |filling: &Filling| filling.whole().map(|(_, records)| records.len()).sum();
        let records: usize = self.found().map::<usize, _>(of_filling).sum();
        let mut unloaded = UnloadedRecords::new(records, self.geometry.line_sectors(), options);
        for (segment, filling) in (0..).zip(std::mem::take(&mut self.fillings)) {
            let Some(filling) = filling else { continue };
            let mut batches = filling.batches().len() as u64;
            let is_drained = filling.generation < void_below;
            for (batch, records) in filling.whole() {
                let is_clean = is_drained || batch.sequence <= self.clean_up_to;
                let how = (is_clean, may_overwrite);
                self.put_batch(&mut unloaded, (segment, batch), records, how);
                self.found.batches += 1;
                self.found.records += records.len() as u64;
                batches -= 1;
            }
            self.found.torn_batches += batches;
        }
        unloaded
    }

    fn put_batch(
        &self,
        unloaded: &mut UnloadedRecords,
        (segment, batch): (u32, &Batch),
        records: &[Record],
        (is_clean, may_overwrite): (bool, bool),
    ) {
        let is_settled = is_clean || batch.sequence <= self.settled_up_to;
        let data_bytes = records.iter().map(Record::data_bytes).sum();
        let mut position = batch.position + self.geometry.header_bytes(records.len(), data_bytes);
        for Record { span, kind, .. } in records {
            let location = self.geometry.offset_of(segment, position);
            let cached = |is_dirty| Extent {
                // Data declared clean must not be overwritten in place: a later start would take the new data for
                // clean too.
                is_overwritable: may_overwrite
                    && !is_clean
                    && *kind == RecordKind::Dirty { is_overwritable: true },
                ..Extent::new(location, span.sectors, is_dirty)
            };
            let said = match kind {
                RecordKind::Dirty { .. } => RecordedState::Cached(cached(!is_clean)),
                RecordKind::Clean => RecordedState::Cached(cached(false)),
                RecordKind::Unsettled if is_settled => RecordedState::Cached(cached(false)),
                RecordKind::Unsettled | RecordKind::Void => RecordedState::Void,
                RecordKind::Destaged => RecordedState::Destaged,
            };
            if self.cores.as_ref().is_none_or(|cores| cores.contains(&span.core)) {
                unloaded.push(batch.sequence, *span, said);
            }
            position += if kind.has_data() { span.sectors * 512 } else { 0 };
        }
    }
}

/// Whether the data of a batch matches the checksums of its records.
fn are_whole(records: &[Record], mut data: &[u8]) -> bool {
    records.iter().all(|record| match data.split_at_checked(record.data_bytes()) {
        Some((own, rest)) => {
            data = rest;
            !record.kind.has_data() || larder_checksum::crc32c(own) == record.checksum
        }
        None => false,
    })
}
