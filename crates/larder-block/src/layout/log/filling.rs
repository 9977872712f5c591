//! What a recovery knows of the last filling of a segment: its batches in order, and their records.

use super::batch::BatchHeader;
use super::geometry::Geometry;
use super::record::Record;
use crate::layout::line::line_of;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Filling {
    pub(super) generation: u64,
    pub(super) epoch: u32,
    /// The highest horizon of its headers: batches of its epoch up to here are complete.
    pub(super) horizon: u64,
    /// Earlier generations are void.
    pub(super) void_below: u64,
    /// Whether this is from its footer.
    pub(super) is_listed: bool,
    batches: Vec<Batch>,
    records: Vec<Record>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) sequence: u64,
    /// Offset of the batch in the segment.
    pub(super) position: u32,
    /// Includes its data.
    pub(super) bytes: u32,
    pub(super) is_torn: bool,
    /// The index after its last record, among the records of the filling.
    records_end: u32,
}

impl Filling {
    /// A filling with its first batch.
    pub(super) fn new(header: &BatchHeader, records: &[Record]) -> Self {
        let mut filling = Self {
            generation: header.generation,
            epoch: header.epoch,
            horizon: 0,
            void_below: 0,
            is_listed: false,
            batches: Vec::new(),
            records: Vec::new(),
        };
        filling.push(header, records);
        filling
    }

    /// Reserves room for `records` records.
    pub(super) fn reserve(&mut self, records: usize) {
        self.records.reserve(records);
        // Under full load a writer puts about 32 records into a batch.
        self.batches.reserve(records / 32);
    }

    /// The number of records of all batches.
    pub(super) fn records(&self) -> usize {
        self.records.len()
    }

    pub(super) fn push(&mut self, header: &BatchHeader, records: &[Record]) {
        self.horizon = self.horizon.max(header.horizon);
        self.void_below = self.void_below.max(header.void_below);
        self.records.extend_from_slice(records);
        self.batches.push(Batch {
            sequence: header.sequence,
            position: header.position,
            bytes: header.bytes,
            is_torn: false,
            records_end: u32::try_from(self.records.len()).expect("within a segment"),
        });
    }

    pub(super) fn first(&self) -> &Batch {
        self.batches.first().expect("it was begun with one")
    }

    pub(super) fn last(&self) -> &Batch {
        self.batches.last().expect("it was begun with one")
    }

    /// The offset at which the next batch would begin.
    pub(super) fn end(&self) -> u32 {
        self.last().position + self.last().bytes
    }

    pub(super) fn batches(&self) -> &[Batch] {
        &self.batches
    }

    pub(super) fn records_of(&self, batch: usize) -> &[Record] {
        let from = batch.checked_sub(1).map_or(0, |before| self.batches[before].records_end);
        &self.records[from as usize..self.batches[batch].records_end as usize]
    }

    /// The data of a batch is not what was written.
    pub(super) fn set_torn(&mut self, batch: usize) {
        self.batches[batch].is_torn = true;
    }

    /// The number of batches that count.
    pub(super) fn batches_whole(&self) -> u32 {
        u32::try_from(self.batches.iter().filter(|batch| !batch.is_torn).count())
            .expect("within a segment")
    }

    /// Each batch that counts, with its records.
    pub(super) fn whole(&self) -> impl Iterator<Item = (&Batch, &[Record])> {
        let all = self.batches.iter().enumerate();
        all.filter(|(_, batch)| !batch.is_torn)
            .map(|(number, batch)| (batch, self.records_of(number)))
    }
}

/// Whether no record crosses a line boundary.
pub(super) fn are_in_lines(records: &[Record], geometry: &Geometry) -> bool {
    let line = |sector| line_of(sector, geometry.line_sectors());
    records.iter().all(|record| line(record.span.first) == line(record.span.end() - 1))
}
