//! Group commit: pending records are written with one header, in one device write.

use super::appender::{Appended, Batch, DIRTY_LANE, Pending, Source};
use super::batch::{BatchHeader, RECORDS_MAX};
use super::drain::Drain;
use super::index::{Extent, Found};
use super::record::{Record, RecordKind};
use super::room::Place;
use super::state::{LogLayout, Purpose, bytes_between};
use super::write_buffer::Held;
use crate::layout::line::{pack_line, unpack_line};
use crate::layout::{Data, DeviceIo, Span, Target};

/// A batch of this many bytes does not wait for others to complete.
const FULL_BATCH_BYTES: usize = 128 << 10;
/// Most bytes of a batch.
const BATCH_BYTES_MAX: usize = 512 << 10;
/// Most batches of a lane in flight.
const IN_FLIGHT_MAX: usize = 8;

impl LogLayout {
    /// Writes the pending records. While a batch is in flight, a small one waits for more records.
    pub(super) fn form_batches(&mut self) {
        for lane in 0..self.appender.lanes.len() {
            loop {
                let state = &self.appender.lanes[lane];
                let is_full =
                    state.pending_bytes >= FULL_BATCH_BYTES || state.pending.len() >= RECORDS_MAX;
                let may_follow = is_full && state.in_flight < IN_FLIGHT_MAX && !state.awaits_note;
                let is_free = state.in_flight == 0 || may_follow;
                if state.pending.is_empty() || !is_free {
                    break;
                }
                let goes = is_full || self.appender.has_waited(lane, self.overwrites);
                if !goes || !self.form_batch(lane) {
                    break;
                }
            }
        }
        self.send_note_if_due();
    }

    /// Writes a header without records, if writes wait for its statements and no other header is coming.
    fn send_note_if_due(&mut self) {
        let is_due =
            !self.held_writes.is_empty() && self.appender.is_idle() && self.appender.has_unstated();
        if is_due && self.make_room(DIRTY_LANE, false) {
            self.send(DIRTY_LANE, Vec::new());
        }
    }

    /// Whether a batch was sent, or pending records turned out to be outdated.
    fn form_batch(&mut self, lane: usize) -> bool {
        let Some(first) = self.appender.lanes[lane].pending.front() else { return false };
        let is_kept = first.source.may_use_reserve();
        if !self.make_room(lane, is_kept) {
            let waits = self.appender.lanes[lane].awaits_note || self.segments.ready() > 0;
            return is_kept && !waits && self.give_up_kept(lane);
        }
        let is_first = self.used_bytes(lane) == 0;
        let most = if is_first { self.geometry.first_records_max() } else { RECORDS_MAX };
        let (mut taken, mut bytes): (Vec<Pending>, usize) = (Vec::new(), 0);
        while let Some(next) = self.appender.lanes[lane].pending.front() {
            let more = bytes + next.data.as_ref().map_or(0, Data::len);
            if taken.len() == most
                || !self.has_room(lane, taken.len() + 1, more)
                || (more > BATCH_BYTES_MAX && !taken.is_empty())
            {
                break;
            }
            let next = self.appender.pop(lane).expect("it was looked at");
            if let Some(attempt) = self.out_of_date(&next) {
                self.kept_ended(attempt);
                continue;
            }
            bytes = more;
            taken.push(next);
        }
        self.has_changed = true;
        if !taken.is_empty() {
            self.send(lane, taken);
        }
        true
    }

    /// Handles a lane without room even in the reserve, which kept data and markers use. Failed batches, or a failing
    /// core that keeps segments from draining, have used it up. Kept data goes to the core instead, or is evicted:
    /// that makes room for markers. If the drain waits for a retry, nothing makes room, and the markers fail with
    /// their flushes. Returns whether something was given up.
    fn give_up_kept(&mut self, lane: usize) -> bool {
        let is_stuck = self.drain.as_ref().is_some_and(Drain::waits_for_retry);
        let is_kept = |one: &Pending| one.source.may_use_reserve();
        let mut markers = Vec::new();
        let mut has_given_up = false;
        while self.appender.lanes[lane].pending.front().is_some_and(is_kept)
            && let Some(pending) = self.appender.pop(lane)
        {
            match pending.source {
                Source::Destaged { .. } if !is_stuck => markers.push(pending),
                source => {
                    self.has_failed(pending.span, source);
                    has_given_up = true;
                }
            }
        }
        for marker in markers.into_iter().rev() {
            self.appender.push_first(lane, marker);
        }
        self.has_changed |= has_given_up;
        has_given_up
    }

    /// The drain attempt of kept data that was overwritten or became void in the meantime; `None` if the data is
    /// current. An outdated copy must not get a younger sequence than the record that replaced it.
    fn out_of_date(&self, pending: &Pending) -> Option<u64> {
        let Source::Kept { location, attempt, .. } = pending.source else { return None };
        let found = self.find(pending.span);
        let is_it = |one: &Found| one.span == pending.span && one.extent.location == location;
        let is_there = found.len() == 1 && found.iter().all(is_it);
        (!is_there).then_some(attempt)
    }

    /// Writes `taken` with one header.
    pub(super) fn send(&mut self, lane: usize, taken: Vec<Pending>) {
        let may_overwrite = self.policy.may_overwrite(&self.geometry, self.used_bytes(lane));
        let records: Vec<Record> =
            taken.iter().map(|one| self.record_of(one, may_overwrite)).collect();
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
            batch.records.push(Appended { pending, location });
        }
        let metadata_bytes = header_bytes as usize + footer_bytes;
        parts.extend(footer);
        for displaced in &batch.displaced {
            let (segment, _) = self.geometry.place_of(displaced.extent.location);
            self.segments.begin_write(segment);
        }
        self.segments.begin_write(segment);
        if place.is_last {
            self.segments.seal(segment);
            self.appender.lanes[lane].open = None;
        }
        let (target, class) = (Target::Cache, self.segments.get(segment).class());
        let offset = self.geometry.offset_of(segment, header.position);
        let durable = true;
        let io = DeviceIo::Write { target, offset, parts, beside, class, metadata_bytes, durable };
        self.issue(io, Purpose::Append { sequence: header.sequence });
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
        self.geometry.encode(header, &self.uuid, records, encoded.as_mut_slice());
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
    ) -> (BatchHeader, Place, Option<Data>) {
        let segment = self.appender.lanes[lane].open.expect("there is room");
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
            epoch: self.epoch,
        };
        let listing = &mut self.appender.lanes[lane].listing;
        listing.push(sequence, records);
        let footer = place.has_footer.then(|| {
            Data::copy_of(&listing.encode(&self.uuid, &header, self.geometry.block_bytes))
        });
        let footer_bytes = footer.as_ref().map_or(0, Data::len);
        let footer_bytes = u32::try_from(footer_bytes).expect("within a segment");
        let end = place.position + bytes + footer_bytes;
        // A note uses up the room of both of its places.
        self.segments.append(segment, end.max(self.geometry.notes_bytes()));
        (header, place, footer)
    }

    fn record_of(&self, pending: &Pending, is_overwritable: bool) -> Record {
        let kind = match pending.source {
            Source::Write { .. } | Source::Kept { is_dirty: true, .. } => {
                RecordKind::Dirty { is_overwritable }
            }
            // A clean copy is only as durable as the data on its core.
            Source::Kept { .. } | Source::Insert { .. } if self.is_settled(pending.span.core) => {
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
        displaced: &mut Vec<Found>,
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

    /// The device write of a batch has ended. Acknowledges the batches that are now complete, in order.
    pub(super) fn append_ended(&mut self, sequence: u64, is_well: bool) {
        if let Some((lane, segment)) = self.appender.write_ended(sequence, is_well)
            && self.appender.lanes[lane].open == Some(segment)
        {
            // Seal at once, although the batch is taken back only in its turn: a batch written after the hole would be
            // acknowledged, but a start would not find it.
            self.segments.seal(segment);
            self.appender.lanes[lane].open = None;
        }
        while let Some(batch) = self.appender.take_ended() {
            self.grace.end(batch.phase);
            self.segments.end_write(batch.segment);
            for displaced in &batch.displaced {
                let (segment, _) = self.geometry.place_of(displaced.extent.location);
                self.segments.end_write(segment);
            }
            if batch.ended == Some(true) {
                self.segments.is_stated(batch.void_below);
                self.segments.has_batch(batch.segment, batch.generation, batch.sequence);
                if batch.end == self.geometry.notes_bytes() {
                    self.segments.note_is_durable(batch.segment);
                }
                if batch.has_footer {
                    self.segments.footer_is_durable(batch.segment, batch.generation);
                }
                batch.records.into_iter().for_each(|record| self.is_durable(record));
            } else {
                self.take_back(batch);
            }
        }
        while let Some((segment, generation, end)) = self.appender.next_stated() {
            self.segments.cover(segment, generation, end);
        }
        self.has_changed = true;
    }

    fn is_durable(&mut self, Appended { pending, location }: Appended) {
        let Pending { span, data, source, .. } = pending;
        match source {
            Source::Write { request, is_eager } => {
                self.requests.end_part(request, true);
                if let (true, Some(data)) = (is_eager, data) {
                    self.buffer.add(Held { span, location, data });
                }
            }
            Source::Insert { request } | Source::Void { request } => {
                self.requests.end_part(request, true);
            }
            Source::VoidBefore { request } => self.prepared(request, true, false),
            Source::Destaged { request, .. } => self.cleaning_io_ended(request, true),
            Source::Kept { location: from, is_dirty, attempt } => {
                // Data evicted during the copy is evicted at the new location.
                let found = self.find_recorded(span);
                let (segment, position) = self.geometry.place_of(location);
                let may_overwrite = self.policy.may_overwrite(&self.geometry, position);
                // A part overwritten during the copy has a younger record.
                for one in found {
                    let shift = bytes_between(span, one.span);
                    if one.extent.location != from + shift {
                        continue;
                    }
                    let is_overwritable = is_dirty && may_overwrite;
                    let moved = Extent {
                        location: location + shift,
                        is_overwritable,
                        was_dirty: is_dirty && !one.extent.is_dirty,
                        hits: 0,
                        // An earlier attempt may be destaging it from its old location.
                        is_busy: false,
                        ..one.extent
                    };
                    self.index.replace(one.span, Some(moved), &mut Vec::new());
                    self.has_come_to(segment, moved.class);
                    self.cleaning_follows(Found { span: one.span, extent: moved });
                }
                self.kept_ended(attempt);
            }
        }
    }

    /// A batch has failed: what it displaced is in force again.
    fn take_back(&mut self, batch: Batch) {
        // If this was the note at the start of a filling, the records that wait for it fail too. The next segment
        // would also begin with a note, so a device that takes no writes would be tried segment by segment.
        let first_end = self.geometry.header_bytes(0, 0).max(self.geometry.notes_bytes());
        let is_first = batch.records.is_empty() && batch.end == first_end;
        while is_first && let Some(pending) = self.appender.pop(batch.lane) {
            self.has_failed(pending.span, pending.source);
        }
        for Appended { pending, .. } in batch.records {
            if let Source::Write { .. } | Source::Insert { .. } | Source::Void { .. } =
                pending.source
            {
                self.index.replace(pending.span, None, &mut Vec::new());
            }
            self.has_failed(pending.span, pending.source);
        }
        for Found { span, extent } in batch.displaced {
            // A destage may still be in flight; when it completes, it must not be attributed to data that was
            // overwritten in place.
            let extent = Extent { is_busy: false, is_overwritable: false, ..extent };
            self.index.replace(span, Some(extent), &mut Vec::new());
            let (segment, _) = self.geometry.place_of(extent.location);
            self.has_come_to(segment, extent.class);
            self.cleaning_missed(span);
        }
    }

    /// A record could not be appended.
    fn has_failed(&mut self, span: Span, source: Source) {
        match source {
            Source::Write { request, .. }
            | Source::Insert { request }
            | Source::Void { request } => self.requests.end_part(request, false),
            Source::VoidBefore { request } => self.prepared(request, false, false),
            Source::Destaged { request, location } => {
                self.is_not_marked(span, location);
                self.cleaning_io_ended(request, false);
            }
            Source::Kept { attempt, .. } => self.kept_ended(attempt),
        }
    }

    /// A segment is about to be filled again: evicts what the index still knows of it. All of it is clean, because the
    /// segment was drained.
    pub(super) fn forget_filling(&mut self, segment: u32, lines: &[u64]) {
        for found in self.recorded_in(segment, lines) {
            assert!(!found.extent.is_dirty, "a drained segment holds nothing dirty");
            self.buffer.forget(found.span, self.geometry.line_sectors());
            self.index.replace(found.span, None, &mut Vec::new());
        }
    }

    /// The cached data in a segment, among the lines that it lists.
    pub(super) fn found_in(&self, segment: u32, lines: &[u64]) -> Vec<Found> {
        let mut found = self.recorded_in(segment, lines);
        found.retain(|one| !one.extent.is_evicted);
        found
    }

    /// The data in a segment that is in the index, whether evicted or not.
    fn recorded_in(&self, segment: u32, lines: &[u64]) -> Vec<Found> {
        let line_sectors = self.geometry.line_sectors();
        let mut lines = lines.to_vec();
        lines.sort_unstable();
        lines.dedup();
        let mut found = Vec::new();
        for line in lines {
            self.index.find_recorded(unpack_line(line, line_sectors), &mut found);
        }
        found.retain(|one| self.geometry.place_of(one.extent.location).0 == segment);
        found
    }
}

fn extent_at(location: u64, pending: &Pending, is_dirty: bool) -> Extent {
    let class = pending.class;
    Extent { class, ..Extent::new(location, pending.span.sectors, is_dirty) }
}
