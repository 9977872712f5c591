//! Compares dirty data with the checksums of its records, before a start accepts it as dirty.
//!
//! This reads all dirty data. So a start does it only on request, where everything is destaged anyway. Data that may
//! have been overwritten in place has no valid checksum. And if headers are in metadata nothing is verified, because a
//! block that is overwritten in place loses its piece of a header.

use super::batch::CacheUuid;
use super::blocks::Blocks;
use super::filling::{Batch, Filling};
use super::geometry::Geometry;
use super::record::{Record, RecordKind};
use super::record_log::RecordLog;
use crate::layout::Span;

/// What to verify, and what has turned out to be wrong.
#[derive(Debug, Default)]
pub(super) struct Verifying {
    is_wanted: bool,
    /// Dirty records whose data does not match, and the locations of the data.
    unsound: Vec<(Span, u64)>,
}

/// Whether the checksum of a record is that of the data at its location, and the data is dirty.
fn is_verified(record: &Record) -> bool {
    record.kind == RecordKind::Dirty { is_overwritable: false }
}

impl Verifying {
    pub(super) fn want(&mut self, is_wanted: bool) {
        self.is_wanted = is_wanted;
    }

    /// Whether a batch after `clean_up_to` has data to compare.
    pub(super) fn is_to_be_verified(
        &self,
        (filling, batch): (&Filling, usize),
        geometry: &Geometry,
        clean_up_to: u64,
    ) -> bool {
        self.is_wanted
            && !geometry.has_metadata()
            && filling.batches().get(batch).is_some_and(|one| one.sequence > clean_up_to)
            && filling.records_of(batch).iter().any(is_verified)
    }

    /// Compares the data of a batch of `segment`, which was read as `blocks`.
    pub(super) fn verify(
        &mut self,
        (filling, batch): (&Filling, usize),
        (geometry, uuid): (&Geometry, &CacheUuid),
        segment: u32,
        blocks: Blocks<'_>,
    ) {
        let Batch { sequence, position, .. } = filling.batches()[batch];
        let records = filling.records_of(batch);
        let parsed = geometry.parse(blocks, uuid, (segment, position));
        // A footer has no checksums of data; only the headers have them.
        let own = parsed.filter(|(header, _)| header.sequence == sequence);
        let own = own.map(|(_, records)| records).unwrap_or_default();
        let data_bytes = records.iter().map(Record::data_bytes).sum();
        let mut at = geometry.header_bytes(records.len(), data_bytes) as usize;
        for (number, record) in records.iter().enumerate() {
            let end = at + record.data_bytes();
            let is_sound =
                own.get(number).zip(blocks.bytes.get(at..end)).is_some_and(|(own, data)| {
                    (own.span, own.kind) == (record.span, record.kind)
                        && larder_checksum::crc32c(data) == own.checksum
                });
            if is_verified(record) && !is_sound {
                let location = geometry.offset_of(segment, position) + at as u64;
                self.unsound.push((record.span, location));
            }
            at = end;
        }
    }

    /// Removes dirty data from `log` that is not what was written, and adds it to `dropped`. Data with a younger record
    /// is not affected.
    pub(super) fn drop_unsound(&mut self, log: &mut RecordLog, dropped: &mut Vec<Span>) {
        for (span, location) in std::mem::take(&mut self.unsound) {
            log.load(span);
            for now in log.index.found(span) {
                if now.is_part_of(span, location) && now.extent.is_dirty {
                    log.index.replace(now.span, None, &mut Vec::new());
                    dropped.push(now.span);
                }
            }
        }
    }
}
