//! Group commit: pending records are written with one header, in one device write.

use super::super::appender::{AppendedRecord, Batch, Pending, Source};
use super::super::batch::BatchHeader;
use super::super::cores::CoreWrites;
use super::super::index::{Extent, MappedExtent};
use super::super::purpose::LogPurpose;
use super::super::record::{Record, RecordKind};
use super::RecordLog;
use super::room::BatchPlace;
use crate::layout::io_queue::IoQueue;
use crate::layout::line::pack_line;
use crate::layout::{Data, DeviceIo, Target};

impl RecordLog {
    /// Whether a batch of the lane's pending records should be written now.
    pub(in crate::layout::log) fn is_batch_due(&mut self, lane: usize) -> bool {
        self.appender.is_due(lane, self.overwrites)
    }

    /// Writes `taken` with one header. The lane's open segment must have room.
    pub(in crate::layout::log) fn send(
        &mut self,
        lane: usize,
        taken: Vec<Pending>,
        cores: &CoreWrites,
        ios: &mut IoQueue<LogPurpose>,
    ) {
        let may_overwrite = self.may_overwrite(self.used_bytes(lane));
        let record = |one| self.record_of(one, may_overwrite, cores);
        let records: Vec<Record> = taken.iter().map(record).collect();
        let data_bytes = records.iter().map(Record::data_bytes).sum();
        let header_bytes = self.geometry.header_bytes(taken.len(), data_bytes);
        let bytes = header_bytes + u32::try_from(data_bytes).expect("within a segment");
        let (header, place, footer) = self.head(lane, &records, bytes);
        let segment = header.segment;
        let footer_bytes = footer.as_ref().map_or(0, Data::len);
        let (header_block, beside) = self.encode(&header, &records, header_bytes, footer_bytes);
        let mut batch = Batch {
            sequence: header.sequence,
            horizon: header.horizon,
            void_below: header.void_below,
            lane,
            segment,
            generation: header.generation,
            end: (header.position + header.bytes).max(self.geometry.notes_bytes()),
            has_footer: footer.is_some(),
            records: Vec::with_capacity(taken.len()),
            displaced: Vec::new(),
            phase: self.grace.begin(),
            is_behind_hole: false,
            ended: None,
        };
        let mut parts = Vec::with_capacity(taken.len() + 2);
        parts.extend(header_block);
        let mut at = header.position + header_bytes;
        for (pending, record) in taken.into_iter().zip(&records) {
            // A void at the end of a segment has no location; keep the number inside the segment.
            let at_most = self.geometry.segment_bytes - self.geometry.block_bytes;
            let location = self.geometry.offset_of(segment, at.min(at_most));
            at += u32::try_from(record.data_bytes()).expect("within a segment");
            parts.extend(pending.data.clone());
            self.put(segment, &pending, record, location, &mut batch.displaced);
            batch.records.push(AppendedRecord { pending, location });
        }
        let metadata_bytes = header_bytes as usize + footer_bytes;
        parts.extend(footer);
        for displaced in &batch.displaced {
            self.segments.begin_write(self.segment_of(displaced.extent.location));
        }
        self.segments.begin_write(segment);
        if place.is_last {
            self.seal_open(lane);
        }
        let (target, class) = (Target::Cache, self.segments.get(segment).class());
        let offset = self.geometry.offset_of(segment, header.position);
        let durable = true;
        let io = DeviceIo::Write { target, offset, parts, beside, class, metadata_bytes, durable };
        ios.issue(io, LogPurpose::Append { sequence: header.sequence });
        self.appender.sets_out(batch);
    }

    /// Encodes a header: as a block in front of the data, or, if it takes no bytes there, as the metadata of all
    /// blocks of the write, including a footer of `footer_bytes`.
    fn encode(
        &self,
        header: &BatchHeader,
        records: &[Record],
        header_bytes: u32,
        footer_bytes: usize,
    ) -> (Option<Data>, Option<Box<Data>>) {
        let room = match header_bytes as usize {
            0 => self.geometry.metadata_of(header.bytes as usize + footer_bytes),
            bytes => bytes,
        };
        let mut encoded = self.headers.take(room);
        self.geometry.encode(header, &self.identity.uuid, records, encoded.as_mut_slice());
        let encoded = Data::new(encoded);
        if header_bytes > 0 { (Some(encoded), None) } else { (None, Some(Box::new(encoded))) }
    }

    /// The header, the place and, if needed, the footer of a batch of `records` that takes `bytes` bytes. Takes its
    /// place in the open segment.
    fn head(
        &mut self,
        lane: usize,
        records: &[Record],
        bytes: u32,
    ) -> (BatchHeader, BatchPlace, Option<Data>) {
        let segment = self.appender.open(lane).expect("there is room");
        let place = self.place_for(lane, records.len(), bytes);
        let (sequence, horizon) = self.appender.next_header();
        let header = BatchHeader {
            segment,
            position: place.position,
            bytes,
            generation: self.segments.get(segment).generation(),
            sequence,
            horizon,
            void_below: self.segments.void_below(),
            epoch: self.identity.epoch,
        };
        self.appender.list(lane, sequence, records);
        let footer = place.has_footer.then(|| {
            let listing = self.appender.listing(lane);
            let block_bytes = self.geometry.block_bytes;
            Data::copy_of(&listing.encode(&self.identity.uuid, &header, block_bytes))
        });
        let footer_bytes = footer.as_ref().map_or(0, Data::len);
        let footer_bytes = u32::try_from(footer_bytes).expect("within a segment");
        let end = place.position + bytes + footer_bytes;
        // A note uses up the room of both of its places.
        self.segments.append(segment, end.max(self.geometry.notes_bytes()));
        (header, place, footer)
    }

    fn record_of(&self, pending: &Pending, is_overwritable: bool, cores: &CoreWrites) -> Record {
        let kind = match pending.source {
            Source::Write { .. } | Source::Kept { is_dirty: true, .. } => {
                RecordKind::Dirty { is_overwritable }
            }
            // A clean copy is only as durable as the data on its core.
            Source::Kept { .. } | Source::Insert { .. } if cores.is_settled(pending.span.core) => {
                RecordKind::Clean
            }
            Source::Kept { .. } | Source::Insert { .. } => RecordKind::Unsettled,
            // A failed batch may have reached the device. A marker would declare its data clean as well, which the
            // core does not have. So write a void instead.
            Source::Destaged { .. } if self.appender.is_frozen() => RecordKind::Void,
            Source::Destaged { .. } => RecordKind::Destaged,
            Source::Void { .. } | Source::VoidBefore { .. } => RecordKind::Void,
        };
        let checksum =
            pending.data.as_ref().map_or(0, |data| larder_checksum::crc32c(data.bytes()));
        Record { span: pending.span, kind, checksum }
    }

    /// Updates index and segment for a record. Kept data stays at its old location until the copy is durable.
    fn put(
        &mut self,
        segment: u32,
        pending: &Pending,
        record: &Record,
        location: u64,
        displaced: &mut Vec<MappedExtent>,
    ) {
        if record.kind.has_data() {
            let line = pack_line(pending.span, self.geometry.line_sectors());
            self.segments.add_line(segment, line, pending.class);
        }
        if matches!(pending.source, Source::Kept { .. } | Source::Destaged { .. }) {
            return;
        }
        let extent = match record.kind {
            RecordKind::Void | RecordKind::Destaged => None,
            RecordKind::Clean | RecordKind::Unsettled => Some(extent_at(location, pending, false)),
            RecordKind::Dirty { is_overwritable } => {
                let extent = extent_at(location, pending, true);
                Some(Extent { is_overwritable, ..extent })
            }
        };
        self.index.replace(pending.span, extent, displaced);
    }

    /// The device write of a batch has ended.
    pub(in crate::layout::log) fn batch_written(&mut self, sequence: u64, is_well: bool) {
        if let Some((lane, segment)) = self.appender.write_ended(sequence, is_well)
            && self.appender.open(lane) == Some(segment)
        {
            // Seal at once, although the batch is taken back only in its turn: a batch written after the hole would be
            // acknowledged, but a start would not find it.
            self.seal_open(lane);
        }
    }

    /// The next batch that has ended, in their order, and whether it is durable. If not, the caller puts back what it
    /// displaced.
    pub(in crate::layout::log) fn next_ended(&mut self) -> Option<(Batch, bool)> {
        let batch = self.appender.take_ended()?;
        self.grace.end(batch.phase);
        self.segments.end_write(batch.segment);
        for displaced in &batch.displaced {
            self.segments.end_write(self.segment_of(displaced.extent.location));
        }
        let is_durable = batch.ended == Some(true);
        if is_durable {
            self.segments.is_stated(batch.void_below);
            self.segments.has_batch(batch.segment, batch.generation, batch.sequence);
            if batch.end == self.geometry.notes_bytes() {
                self.segments.note_is_durable(batch.segment);
            }
            if batch.has_footer {
                self.segments.footer_is_durable(batch.segment, batch.generation);
            }
        }
        Some((batch, is_durable))
    }

    /// Allows overwrites in the batches that a complete header now states.
    pub(in crate::layout::log) fn cover_stated(&mut self) {
        while let Some((segment, generation, end)) = self.appender.next_stated() {
            self.segments.cover(segment, generation, end);
        }
    }

    /// Whether a batch without records is the note at the start of a filling.
    pub(in crate::layout::log) fn is_first_note(&self, batch: &Batch) -> bool {
        let first_end = self.geometry.header_bytes(0, 0).max(self.geometry.notes_bytes());
        batch.records.is_empty() && batch.end == first_end
    }
}

fn extent_at(location: u64, pending: &Pending, is_dirty: bool) -> Extent {
    let class = pending.class;
    Extent { class, ..Extent::new(location, pending.span.sectors, is_dirty) }
}
