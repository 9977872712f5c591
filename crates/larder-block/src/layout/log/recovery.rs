//! What a log says of itself after a crash.
//!
//! First the headers of each segment are read, one behind the other, until none of the same filling follows. Then the
//! data of those batches are checked that no header states as complete: the last ones before a crash. Like the layout
//! this does no I/O: it says what is to be read. Segments do not depend on each other, so as many reads may go side by
//! side.
//!
//! *Always:* whatever was acknowledged is found, for its batch and all before it in its segment were complete. A batch
//! that was not is left out as a whole, now and in every later recovery: statements count within an epoch, and what
//! was not stated in its own is checked each time. So it is not overwritten in place either.

use std::collections::{HashMap, VecDeque};

use larder_device::DeviceInfo;

use super::appender::Appender;
use super::batch::{BatchHeader, CacheUuid, HEADER_BYTES_MAX, Record, RecordKind};
use super::geometry::{Geometry, LogOptions};
use super::index::Extent;
use super::segments::Adopted;
use super::state::{LogIdentity, LogLayout};
use crate::layout::line::pack_line;

/// A read that a recovery wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryRead {
    what: Want,
    /// Where on the cache device, in bytes.
    pub offset: u64,
    /// How many: whole blocks.
    pub bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    /// The header at this position of a segment.
    Header { segment: u32, position: u32 },
    /// The data of a batch, by number.
    Data { segment: u32, batch: usize },
}

/// What a recovery has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Batches that count.
    pub batches: u64,
    /// Batches whose data are not what their header says: they were under way when the cache stopped.
    pub torn_batches: u64,
    /// Reads that the device refused. Dirty data may have been lost.
    pub failed_reads: u64,
    /// Epoch of the last header that was found.
    pub last_epoch: u32,
}

#[derive(Debug)]
struct Batch {
    header: BatchHeader,
    records: Vec<Record>,
    is_torn: bool,
}

/// A recovery: reads are taken with [`next_read`](Self::next_read) and answered with [`completed`](Self::completed)
/// until there are none; then [`finish`](Self::finish) makes a layout of it.
#[derive(Debug)]
pub struct LogRecovery {
    geometry: Geometry,
    uuid: CacheUuid,
    /// By segment.
    batches: Vec<Vec<Batch>>,
    wanted: VecDeque<RecoveryRead>,
    outstanding: usize,
    has_checked: bool,
    found: Recovered,
}

impl LogRecovery {
    /// Of the cache with this UUID.
    pub fn new(geometry: Geometry, uuid: [u8; 16]) -> Self {
        let mut recovery = Self {
            geometry,
            uuid,
            batches: (0..geometry.segments).map(|_| Vec::new()).collect(),
            wanted: VecDeque::new(),
            outstanding: 0,
            has_checked: false,
            found: Recovered::default(),
        };
        (0..geometry.segments).for_each(|segment| recovery.want_header(segment, 0));
        recovery
    }

    /// What is to be read next. `None` while others are under way that say it, and when nothing is left.
    pub fn next_read(&mut self) -> Option<RecoveryRead> {
        if self.wanted.is_empty() && self.outstanding == 0 && !self.has_checked {
            self.has_checked = true;
            self.want_unstated();
        }
        let read = self.wanted.pop_front()?;
        self.outstanding += 1;
        Some(read)
    }

    /// What was read; `None` if the device refused.
    pub fn completed(&mut self, read: RecoveryRead, bytes: Option<&[u8]>) {
        self.outstanding -= 1;
        self.found.failed_reads += u64::from(bytes.is_none());
        match read.what {
            Want::Header { segment, position } => {
                self.header_read(segment, position, bytes.unwrap_or_default())
            }
            Want::Data { segment, batch } => {
                let batch = &mut self.batches[segment as usize][batch];
                batch.is_torn = !bytes.is_some_and(|bytes| are_whole(&batch.records, bytes));
            }
        }
    }

    fn want_header(&mut self, segment: u32, position: u32) {
        let room = self.geometry.segment_bytes - position;
        if room < self.geometry.block_bytes {
            return;
        }
        let bytes = HEADER_BYTES_MAX.min(room as usize);
        let offset = self.geometry.offset_of(segment, position);
        self.wanted.push_back(RecoveryRead {
            what: Want::Header { segment, position },
            offset,
            bytes,
        });
    }

    fn header_read(&mut self, segment: u32, position: u32, bytes: &[u8]) {
        let room = self.geometry.segment_bytes - position;
        let place = (segment, position);
        let parsed =
            BatchHeader::parse(bytes, &self.uuid, place, (room, self.geometry.block_bytes));
        let Some((header, records)) = parsed else { return };
        let batches = &mut self.batches[segment as usize];
        let follows = batches.last().is_none_or(|last| {
            let before = &last.header;
            (before.generation, before.epoch) == (header.generation, header.epoch)
                && before.sequence < header.sequence
        });
        let are_in_lines = records.iter().all(|record| {
            let line = u64::from(self.geometry.line_sectors());
            record.span.first / line == (record.span.end() - 1) / line
        });
        if follows && are_in_lines {
            batches.push(Batch { header, records, is_torn: false });
            self.want_header(segment, position + header.bytes);
        }
    }

    /// The data of batches that no header states as complete.
    fn want_unstated(&mut self) {
        let horizons = self.horizons();
        for (segment, batches) in (0..).zip(&self.batches) {
            for (number, Batch { header, records, .. }) in batches.iter().enumerate() {
                let is_stated = header.sequence <= horizons[&header.epoch];
                let header_bytes = self.geometry.header_bytes(records.len());
                if is_stated || header.bytes == header_bytes {
                    continue;
                }
                let offset = self.geometry.offset_of(segment, header.position + header_bytes);
                let bytes = (header.bytes - header_bytes) as usize;
                let what = Want::Data { segment, batch: number };
                self.wanted.push_back(RecoveryRead { what, offset, bytes });
            }
        }
    }

    /// Up to where each epoch's batches are stated as complete.
    fn horizons(&self) -> HashMap<u32, u64> {
        let mut horizons = HashMap::new();
        for Batch { header, .. } in self.batches.iter().flatten() {
            let horizon = horizons.entry(header.epoch).or_insert(0);
            *horizon = header.horizon.max(*horizon);
        }
        horizons
    }

    /// The log as it was left, on the device that `info` is about, and what was found. `epoch` has to be higher than
    /// that of the start before, and stand durably in the label.
    ///
    /// # Panics
    /// If reads are left, or the epoch is not higher than what was found.
    pub fn finish(
        mut self,
        epoch: u32,
        info: &DeviceInfo,
        options: &LogOptions,
    ) -> (LogLayout, Recovered) {
        let is_done = self.has_checked && self.wanted.is_empty() && self.outstanding == 0;
        assert!(is_done, "a recovery is finished when all is read");
        let horizons = self.horizons();
        let all = || self.batches.iter().flatten().map(|batch| &batch.header);
        let void_below = all().map(|header| header.void_below).max().unwrap_or(0);
        let youngest = all().map(|header| header.generation).max().unwrap_or(0);
        let last_sequence = all().map(|header| header.sequence).max().unwrap_or(0);
        self.found.last_epoch = all().map(|header| header.epoch).max().unwrap_or(0);
        assert!(
            epoch > self.found.last_epoch,
            "epoch {epoch} behind one of {}",
            self.found.last_epoch
        );
        for batches in &mut self.batches {
            if batches.first().is_some_and(|batch| batch.header.generation < void_below) {
                batches.clear();
            }
        }
        let identity = LogIdentity { uuid: self.uuid, epoch };
        let mut log = LogLayout::new(self.geometry, identity, info, options);
        log.appender = Appender::new(last_sequence);
        log.segments.adopt_bounds(void_below, youngest);
        self.adopt_segments(&mut log, &horizons);
        self.put_records(&mut log);
        (log, self.found)
    }

    fn adopt_segments(&self, log: &mut LogLayout, horizons: &HashMap<u32, u64>) {
        let bounds = |batches: &[Batch]| {
            let (first, last) = (&batches.first()?.header, &batches.last()?.header);
            Some((first.generation, first.sequence, last.sequence))
        };
        // The youngest generation of those that begin up to a sequence.
        let mut youngest: Vec<(u64, u64)> = self
            .batches
            .iter()
            .filter_map(|batches| bounds(batches))
            .map(|(generation, first, _)| (first, generation))
            .collect();
        youngest.sort_unstable();
        let mut so_far = 0;
        for (_, generation) in &mut youngest {
            so_far = so_far.max(*generation);
            *generation = so_far;
        }
        for (segment, batches) in (0..).zip(&self.batches) {
            let Some((generation, _, last)) = bounds(batches) else { continue };
            // It was open until its last batch at least.
            let beside = youngest.partition_point(|(first, _)| *first <= last);
            let stated = batches
                .iter()
                .filter(|batch| batch.header.sequence <= horizons[&batch.header.epoch]);
            let covered = stated.map(|batch| batch.header.position + batch.header.bytes).max();
            let lines =
                batches.iter().filter(|batch| !batch.is_torn).flat_map(|batch| &batch.records);
            let lines = lines.filter(|record| record.kind.has_data());
            let line_sectors = self.geometry.line_sectors();
            let found = Adopted {
                generation,
                barrier: youngest[..beside].last().map_or(generation, |(_, youngest)| *youngest),
                covered_bytes: covered.unwrap_or(0),
                lines: lines.map(|record| pack_line(record.span, line_sectors)).collect(),
            };
            log.segments.adopt(segment, found);
        }
        log.segments.end_adopting();
    }

    /// Tells the index of all records in the order in which they were written.
    fn put_records(&mut self, log: &mut LogLayout) {
        let mut batches: Vec<&Batch> = self.batches.iter().flatten().collect();
        self.found.torn_batches = batches.iter().filter(|batch| batch.is_torn).count() as u64;
        batches.retain(|batch| !batch.is_torn);
        self.found.batches = batches.len() as u64;
        batches.sort_by_key(|batch| batch.header.sequence);
        let is_allowed = log.policy.overwrite_align_bytes.is_some();
        for Batch { header, records, .. } in batches {
            let mut position = header.position + self.geometry.header_bytes(records.len());
            for Record { span, kind, .. } in records {
                let is_known = !matches!(kind, RecordKind::Void | RecordKind::Unsettled);
                let extent = is_known.then(|| Extent {
                    location: self.geometry.location_of(header.segment, position),
                    sectors: span.sectors,
                    is_dirty: *kind != RecordKind::Clean,
                    is_overwritable: is_allowed
                        && *kind == RecordKind::Dirty { is_overwritable: true },
                    is_busy: false,
                    hits: 0,
                });
                log.index.replace(*span, extent, &mut Vec::new());
                position += if kind.has_data() { span.sectors * 512 } else { 0 };
            }
        }
    }
}

/// Whether the data of a batch are those that its records were written with.
fn are_whole(records: &[Record], mut data: &[u8]) -> bool {
    records.iter().all(|record| match data.split_at_checked(record.data_bytes()) {
        Some((own, rest)) => {
            data = rest;
            !record.kind.has_data() || crc32c::crc32c(own) == record.checksum
        }
        None => false,
    })
}
