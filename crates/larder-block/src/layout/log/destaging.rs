//! Sends data to the cores: for draining segments, for streams, and for cleaning requests.
//!
//! *Always:* dirty data that is marked as busy is in flight to the core for one mover only, and is not overwritten in
//! place during that. So when it has arrived, the core has what is here.

use super::index::Found;
use super::state::{LogLayout, Mover, Purpose};
use crate::layout::{Class, Data, DeviceIo, SECTOR_BYTES, Span, Target};

/// Longest read for destaging, and longest write to a core.
const TRANSFER_BYTES_MAX: usize = 1 << 20;

impl LogLayout {
    pub(super) fn mark_busy(&mut self, found: &[Found]) {
        for one in found {
            self.index.change(one.span, |extent| extent.is_busy = true);
        }
    }

    pub(super) fn no_longer_busy(&mut self, found: &[Found]) {
        for one in found {
            for now in self.still_there(one) {
                self.index.change(now.span, |extent| extent.is_busy = false);
            }
        }
        self.has_changed = true;
    }

    /// Reads from the cache device, in the order of the device. Returns the number of reads.
    pub(super) fn read_for_core(
        &mut self,
        mut unread: Vec<Found>,
        purpose: impl Fn(Vec<Found>) -> Purpose,
    ) -> usize {
        unread.sort_by_key(|one| one.extent.location);
        let mut reads = 0;
        for run in unread.chunk_by(|a, b| a.extent.end() == b.extent.location) {
            for found in chunks_of_bytes(run) {
                let offset = found[0].extent.location;
                let bytes = found.iter().map(|one| one.span.bytes()).sum();
                let io = DeviceIo::Read { target: Target::Cache, offset, bytes, reader: None };
                self.issue(io, purpose(found));
                reads += 1;
            }
        }
        reads
    }

    /// Writes data that is marked as busy to its cores, in sorted runs. Leaves out data that was overwritten or became
    /// void since it was read: a write around may have overtaken it. Returns the number of writes.
    pub(super) fn destage(&mut self, data: Vec<(Found, Data)>, mover: Mover) -> usize {
        // Called in each turn, and mostly without data.
        if data.is_empty() {
            return 0;
        }
        let data = data.iter().flat_map(|(one, data)| self.current(one, data)).collect();
        let runs = runs_of(data);
        let writes = runs.len();
        for run in runs {
            let (found, parts): (Vec<Found>, Vec<Data>) = run.into_iter().unzip();
            let first = found[0].span;
            self.leaving.add(run_of(&found));
            let io = DeviceIo::Write {
                target: Target::Core(first.core),
                offset: first.offset(),
                parts,
                beside: None,
                class: Class::Dirty,
                metadata_bytes: 0,
                durable: false,
            };
            self.issue(io, Purpose::Destage { found, mover });
        }
        writes
    }

    /// The parts of read data that are still in force.
    fn current(&self, found: &Found, data: &Data) -> Vec<(Found, Data)> {
        let part = |now: Found| {
            let from = usize::try_from(now.span.first - found.span.first).expect("within a line")
                * SECTOR_BYTES;
            (now, data.slice(from..from + now.span.bytes()))
        };
        let mut now = self.still_there(found);
        // Data that is in force again after a failed batch belongs to no mover, and another mover may have taken it
        // since.
        now.retain(|one| one.extent.is_busy && !self.leaving.has(one.span));
        now.into_iter().map(part).collect()
    }

    /// Destages stream data from memory, once there is enough of it.
    pub(super) fn destage_streams(&mut self) {
        let mut leaving = Vec::new();
        for held in self.buffer.take_if_worth_it() {
            let found = self.find(held.span);
            let is_current = matches!(found.as_slice(), [one] if one.span == held.span
                && one.extent.location == held.location && one.extent.is_dirty && !self.is_moving(one));
            if is_current {
                self.mark_busy(&found);
                leaving.push((found[0], held.data));
            } else {
                self.buffer.has_left(held.span.bytes());
            }
        }
        self.destage(leaving, Mover::Streams);
    }

    /// Whether it is in flight to the core, or being read for that.
    pub(super) fn is_moving(&self, found: &Found) -> bool {
        found.extent.is_busy || self.leaving.has(found.span)
    }

    pub(super) fn destage_ended(&mut self, found: &[Found], mover: Mover, is_well: bool) {
        self.leaving.remove(run_of(found));
        for one in found {
            for now in self.still_there(one) {
                self.index.change(now.span, |extent| {
                    extent.is_busy = false;
                    extent.was_dirty |= is_well && extent.is_dirty;
                    extent.is_dirty &= !is_well;
                });
            }
        }
        self.core(found[0].span.core).destages += 1;
        self.has_changed = true;
        match mover {
            Mover::Streams => self.buffer.has_left(found.iter().map(|one| one.span.bytes()).sum()),
            Mover::Drain(attempt) => self.drain_write_ended(attempt, is_well),
            Mover::Request(request) => self.cleaning_io_ended(request, is_well),
        }
    }
}

/// Groups data for the cores into sorted runs of at most [`TRANSFER_BYTES_MAX`].
pub(super) fn runs_of(mut data: Vec<(Found, Data)>) -> Vec<Vec<(Found, Data)>> {
    data.sort_by_key(|(one, _)| one.span);
    let follows = |a: &Found, b: &Found| a.span.core == b.span.core && a.span.end() == b.span.first;
    let mut runs: Vec<Vec<(Found, Data)>> = Vec::new();
    let mut room = 0;
    for one in data {
        let bytes = one.0.span.bytes();
        let goes_on =
            |run: &Vec<(Found, Data)>| run.last().is_some_and(|(last, _)| follows(last, &one.0));
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
fn run_of(found: &[Found]) -> Span {
    let sectors = found.iter().map(|one| one.span.sectors).sum();
    Span { sectors, ..found[0].span }
}

/// Splits `found` into consecutive chunks of at most [`TRANSFER_BYTES_MAX`].
fn chunks_of_bytes(found: &[Found]) -> Vec<Vec<Found>> {
    let mut chunks: Vec<Vec<Found>> = Vec::new();
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
