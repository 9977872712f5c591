//! Events of the drive about placement: the bounded FDP event log, and counters that cover all events. Event numbers
//! are those of NVMe's log page 23h.

use std::collections::VecDeque;

use super::frontier::Placement;

/// Something that the drive did to a reclaim unit or a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The host closed a unit that still had room (NVMe 00h).
    NotFullyWritten {
        /// The placement that filled the unit.
        placement: Placement,
        /// The unit.
        unit: u32,
        /// Pages that were padded.
        pages: u32,
    },
    /// A reset closed a unit that still had room (NVMe 02h).
    ResetModified {
        /// The placement that filled the unit.
        placement: Placement,
        /// The unit.
        unit: u32,
        /// Pages that were padded.
        pages: u32,
    },
    /// A write named a placement that the drive does not have, and went to the default one
    /// (NVMe 03h).
    InvalidPlacement {
        /// The placement that the write named.
        placement: Placement,
    },
    /// Live pages were moved out of a unit before its erase (NVMe 80h).
    MediaReallocated {
        /// The unit that was erased.
        unit: u32,
        /// The placement of all of its data, if it was only one.
        source: Option<Placement>,
        /// Pages that were moved.
        pages: u32,
    },
    /// A handle moved on to another unit, because moved data filled its own (NVMe 81h).
    ImplicitlyModified {
        /// The placement whose unit was full.
        placement: Placement,
        /// The unit that it fills now.
        unit: u32,
    },
    /// A host write moved on to another unit of its handle, because one was full. NVMe has no event for it: the host
    /// knows how much it writes.
    MovedOn {
        /// The placement whose unit was full.
        placement: Placement,
        /// The unit that it fills now.
        unit: u32,
    },
    /// An erase failed and the unit was retired. NVMe leaves such events to vendors (F0h on).
    UnitRetired {
        /// The unit.
        unit: u32,
        /// Erases that succeeded before.
        erases: u32,
    },
}

/// Events by type since the drive was created, including those that the ring no longer holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// [`Event::NotFullyWritten`].
    pub not_fully_written: u64,
    /// [`Event::ResetModified`].
    pub reset_modified: u64,
    /// [`Event::InvalidPlacement`].
    pub invalid_placement: u64,
    /// [`Event::MediaReallocated`].
    pub media_reallocated: u64,
    /// [`Event::ImplicitlyModified`].
    pub implicitly_modified: u64,
    /// [`Event::MovedOn`].
    pub moved_on: u64,
    /// [`Event::UnitRetired`].
    pub unit_retired: u64,
}

/// All events since the record was last taken; see
/// [`ManagedSsd::take_event_record`](super::ManagedSsd::take_event_record).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventRecord {
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// The logical pages that were moved: for each [`Event::MediaReallocated`] in turn, as many pages as it counts.
    pub moved_pages: Vec<u64>,
}

/// The newest events, and the number of events of each type.
#[derive(Debug)]
pub(crate) struct Events {
    ring: VecDeque<Event>,
    capacity: usize,
    counts: EventCounts,
    /// Set while a record is kept.
    record: Option<EventRecord>,
}

impl Events {
    pub(crate) fn new(capacity: u32) -> Self {
        let capacity = capacity as usize;
        let ring = VecDeque::with_capacity(capacity);
        Self { ring, capacity, counts: EventCounts::default(), record: None }
    }

    /// Records `event`, replacing the oldest if the ring is full.
    pub(crate) fn record(&mut self, event: Event) {
        let count = match event {
            Event::NotFullyWritten { .. } => &mut self.counts.not_fully_written,
            Event::ResetModified { .. } => &mut self.counts.reset_modified,
            Event::InvalidPlacement { .. } => &mut self.counts.invalid_placement,
            Event::MediaReallocated { .. } => &mut self.counts.media_reallocated,
            Event::ImplicitlyModified { .. } => &mut self.counts.implicitly_modified,
            Event::MovedOn { .. } => &mut self.counts.moved_on,
            Event::UnitRetired { .. } => &mut self.counts.unit_retired,
        };
        *count += 1;
        if let Some(record) = &mut self.record {
            record.events.push(event);
        }
        if self.capacity == 0 {
            return;
        }
        if self.ring.len() == self.capacity {
            self.ring.pop_front();
        }
        self.ring.push_back(event);
    }

    pub(crate) fn counts(&self) -> EventCounts {
        self.counts
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.ring.iter()
    }

    /// Starts or stops the record of all events.
    pub(crate) fn keep_record(&mut self, keep: bool) {
        self.record = keep.then(EventRecord::default);
    }

    /// The events since the last call; empty if no record is kept.
    pub(crate) fn take_record(&mut self) -> EventRecord {
        self.record.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Records, if a record is kept, which logical pages were moved for the next [`Event::MediaReallocated`].
    pub(crate) fn record_moved(&mut self, pages: impl Iterator<Item = u64>) {
        if let Some(record) = &mut self.record {
            record.moved_pages.extend(pages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_forgets_and_the_counters_do_not() {
        let mut events = Events::new(2);
        for unit in 0..5 {
            events.record(Event::MediaReallocated { unit, source: None, pages: 1 });
        }
        assert_eq!(events.counts().media_reallocated, 5);
        let left: Vec<_> = events.iter().copied().collect();
        let moved = |unit| Event::MediaReallocated { unit, source: None, pages: 1 };
        assert_eq!(left, [3, 4].map(moved));
    }

    #[test]
    fn a_ring_without_room_only_counts() {
        let mut events = Events::new(0);
        events.record(Event::UnitRetired { unit: 1, erases: 2 });
        assert_eq!((events.counts().unit_retired, events.iter().count()), (1, 0));
    }
}
