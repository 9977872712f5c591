//! Sends data to the cores: for draining segments, for streams, and for cleaning requests.
//!
//! *Always:* dirty data that is marked as busy is in flight to the core for one mover only, and is not overwritten in
//! place during that. So when it has arrived, the core has what is here.

use super::index::{Index, MappedExtent};
use super::leaving::LeavingRuns;
use super::purpose::{LogPurpose, Mover};
use super::write_buffer::{BufferedWrite, WriteBuffer};
use crate::layout::io_queue::IoQueue;
use crate::layout::{Data, DeviceIo, PlacementClass, SECTOR_BYTES, Span, Target};

/// Longest read for destaging, and longest write to a core.
const TRANSFER_BYTES_MAX: usize = 1 << 20;

/// Data on its way to the cores: what is in flight, and what is in memory for them.
#[derive(Debug)]
pub(super) struct Destaging {
    /// Stream data that is held until it is on its core.
    buffer: WriteBuffer,
    /// Ranges in flight to cores, of destages and of writes around.
    leaving: LeavingRuns,
    line_sectors: u32,
}

impl Destaging {
    /// `buffer_bytes`: the most stream data that is held in memory.
    pub(super) fn new(buffer_bytes: u64, line_sectors: u32) -> Self {
        let (buffer, leaving) = (WriteBuffer::new(buffer_bytes), LeavingRuns::default());
        Self { buffer, leaving, line_sectors }
    }

    /// Holds stream data in memory, if there is room.
    pub(super) fn hold(&mut self, held: BufferedWrite) {
        self.buffer.add(held);
    }

    /// Data of `span` is or will be void.
    pub(super) fn forget(&mut self, span: Span) {
        self.buffer.forget(span, self.line_sectors);
    }

    /// Takes out the data that is in memory. Returns it, and what has to be read.
    pub(super) fn take_held(
        &mut self,
        found: impl IntoIterator<Item = MappedExtent>,
    ) -> (Vec<(MappedExtent, Data)>, Vec<MappedExtent>) {
        let (mut read, mut unread) = (Vec::new(), Vec::new());
        for one in found {
            match self.buffer.take(one.span, one.extent.location) {
                Some(data) => read.push((one, data)),
                None => unread.push(one),
            }
        }
        (read, unread)
    }

    /// Whether a part of `span` is in flight to its core.
    pub(super) fn is_leaving(&self, span: Span) -> bool {
        self.leaving.has(span)
    }

    /// Whether it is in flight to the core, or being read for that.
    pub(super) fn is_moving(&self, found: &MappedExtent) -> bool {
        found.extent.is_busy || self.leaving.has(found.span)
    }

    /// A write around of `span` begins. Nothing of it may be in flight.
    pub(super) fn around_begins(&mut self, span: Span) {
        self.leaving.add(span);
    }

    pub(super) fn around_ends(&mut self, span: Span) {
        self.leaving.remove(span);
    }

    /// Writes data that is marked as busy to its cores, in sorted runs. Leaves out data that was overwritten or became
    /// void since it was read: a write around may have overtaken it. Returns the number of writes.
    pub(super) fn write(
        &mut self,
        data: Vec<(MappedExtent, Data)>,
        mover: Mover,
        index: &Index,
        ios: &mut IoQueue<LogPurpose>,
    ) -> usize {
        // Called in each turn, and mostly without data.
        if data.is_empty() {
            return 0;
        }
        let data = data.iter().flat_map(|(one, data)| self.current(one, data, index)).collect();
        let runs = runs_of(data);
        let writes = runs.len();
        for run in runs {
            let (found, parts): (Vec<MappedExtent>, Vec<Data>) = run.into_iter().unzip();
            let first = found[0].span;
            self.leaving.add(run_of(&found));
            let io = DeviceIo::Write {
                target: Target::Core(first.core),
                offset: first.offset(),
                parts,
                beside: None,
                class: PlacementClass::Dirty,
                metadata_bytes: 0,
                durable: false,
            };
            ios.issue(io, LogPurpose::Destage { found, mover });
        }
        writes
    }

    /// The parts of read data that are still in force.
    fn current(
        &self,
        found: &MappedExtent,
        data: &Data,
        index: &Index,
    ) -> Vec<(MappedExtent, Data)> {
        let part = |now: MappedExtent| {
            let from = usize::try_from(now.span.first - found.span.first).expect("within a line")
                * SECTOR_BYTES;
            (now, data.slice(from..from + now.span.bytes()))
        };
        let mut now = index.still_there(found);
        // Data that is in force again after a failed batch belongs to no mover, and another mover may have taken it
        // since.
        now.retain(|one| one.extent.is_busy && !self.leaving.has(one.span));
        now.into_iter().map(part).collect()
    }

    /// Destages stream data from memory, once there is enough of it.
    pub(super) fn write_streams(&mut self, index: &mut Index, ios: &mut IoQueue<LogPurpose>) {
        let mut leaving = Vec::new();
        for held in self.buffer.take_if_worth_it() {
            let found = index.found(held.span);
            let is_current = matches!(found.as_slice(), [one] if one.span == held.span
                && one.extent.location == held.location && one.extent.is_dirty && !self.is_moving(one));
            if is_current {
                index.mark_busy(&found);
                leaving.push((found[0], held.data));
            } else {
                self.buffer.has_left(held.span.bytes());
            }
        }
        self.write(leaving, Mover::Streams, index, ios);
    }

    /// A write to a core has ended: what it wrote, unless it was overwritten since, is clean if the write succeeded.
    pub(super) fn ended(
        &mut self,
        found: &[MappedExtent],
        mover: Mover,
        is_well: bool,
        index: &mut Index,
    ) {
        self.leaving.remove(run_of(found));
        for one in found {
            for now in index.still_there(one) {
                index.change(now.span, |extent| {
                    extent.is_busy = false;
                    extent.was_dirty |= is_well && extent.is_dirty;
                    extent.is_dirty &= !is_well;
                });
            }
        }
        if mover == Mover::Streams {
            self.buffer.has_left(found.iter().map(|one| one.span.bytes()).sum());
        }
    }
}

/// Reads from the cache device, in the order of the device. Returns the number of reads.
pub(super) fn read_for_core(
    mut unread: Vec<MappedExtent>,
    ios: &mut IoQueue<LogPurpose>,
    purpose: impl Fn(Vec<MappedExtent>) -> LogPurpose,
) -> usize {
    unread.sort_by_key(|one| one.extent.location);
    let mut reads = 0;
    for run in unread.chunk_by(|a, b| a.extent.end() == b.extent.location) {
        for found in chunks_of_bytes(run) {
            let offset = found[0].extent.location;
            let bytes = found.iter().map(|one| one.span.bytes()).sum();
            let io = DeviceIo::Read { target: Target::Cache, offset, bytes, reader: None };
            ios.issue(io, purpose(found));
            reads += 1;
        }
    }
    reads
}

/// Splits the data of one read among the parts for which it was read.
pub(super) fn split(
    found: Vec<MappedExtent>,
    data: &Data,
) -> impl Iterator<Item = (MappedExtent, Data)> {
    let mut at = 0;
    found.into_iter().map(move |one| {
        let from = at;
        at += one.span.bytes();
        (one, data.slice(from..at))
    })
}

/// Groups data for the cores into sorted runs of at most [`TRANSFER_BYTES_MAX`].
pub(super) fn runs_of(mut data: Vec<(MappedExtent, Data)>) -> Vec<Vec<(MappedExtent, Data)>> {
    data.sort_by_key(|(one, _)| one.span);
    let follows = |a: &MappedExtent, b: &MappedExtent| {
        a.span.core == b.span.core && a.span.end() == b.span.first
    };
    let mut runs: Vec<Vec<(MappedExtent, Data)>> = Vec::new();
    let mut room = 0;
    for one in data {
        let bytes = one.0.span.bytes();
        let goes_on = |run: &Vec<(MappedExtent, Data)>| {
            run.last().is_some_and(|(last, _)| follows(last, &one.0))
        };
        match runs.last_mut().filter(|run| bytes <= room && goes_on(run)) {
            Some(run) => run.push(one),
            None => {
                runs.push(vec![one]);
                room = TRANSFER_BYTES_MAX;
            }
        }
        room = room.saturating_sub(bytes);
    }
    runs
}

/// The sectors of a run.
fn run_of(found: &[MappedExtent]) -> Span {
    let sectors = found.iter().map(|one| one.span.sectors).sum();
    Span { sectors, ..found[0].span }
}

/// Splits `found` into consecutive chunks of at most [`TRANSFER_BYTES_MAX`].
fn chunks_of_bytes(found: &[MappedExtent]) -> Vec<Vec<MappedExtent>> {
    let mut chunks: Vec<Vec<MappedExtent>> = Vec::new();
    let mut room = 0;
    for one in found {
        if chunks.is_empty() || one.span.bytes() > room {
            chunks.push(Vec::new());
            room = TRANSFER_BYTES_MAX;
        }
        room -= one.span.bytes();
        chunks.last_mut().expect("one was pushed").push(*one);
    }
    chunks
}
