//! All flights of a store: a reader joins one that brings what it misses, or starts one.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::flight::{Ended, Flight, Trouble};
use crate::layout::{Layout, runs};

/// The flights that have not been stored yet, by the front of their keys.
#[derive(Debug)]
pub(crate) struct InFlight<F> {
    table: Mutex<Table<F>>,
}

#[derive(Debug)]
struct Table<F> {
    flights: HashMap<Box<[u8]>, Vec<Arc<Flight<F>>>>,
    /// How many have ended.
    ended: u64,
}

/// The task's end of a flight. If it is dropped early, the flight is abandoned.
#[derive(Debug)]
pub(crate) struct Ticket<F> {
    all: Arc<InFlight<F>>,
    object: Box<[u8]>,
    flight: Arc<Flight<F>>,
}

/// How missing parts become requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Merging {
    /// Parts that may lie between two missing ones of a request.
    pub(crate) gap_parts: u64,
    pub(crate) parts_max: u64,
}

/// The flights for parts that were missing.
#[derive(Debug)]
pub(crate) struct Joined<F> {
    pub(crate) joined: Vec<(u64, Arc<Flight<F>>)>,
    pub(crate) started: Vec<(u64, Arc<Flight<F>>)>,
    /// One for each flight that was started: to be given to a task.
    pub(crate) tickets: Vec<Ticket<F>>,
}

impl<F> InFlight<F> {
    pub(crate) fn new() -> Self {
        Self { table: Mutex::new(Table { flights: HashMap::new(), ended: 0 }) }
    }

    /// How many flights have ended: a part that was missing before one ended may be in the cache after it.
    pub(crate) fn ended(&self) -> u64 {
        self.lock().ended
    }

    /// The flight that brings these bytes, if there is one.
    pub(crate) fn bringing(&self, object: &[u8], bytes: &Range<u64>) -> Option<Arc<Flight<F>>> {
        self.lock().bringing(object, bytes)
    }

    /// Joins or starts flights for missing parts, which are sorted. `None` if a flight has ended since `ended` was
    /// read, so that the parts may be in the cache now.
    pub(crate) fn join(
        self: &Arc<Self>,
        object: &[u8],
        (layout, merging): (&Layout, Merging),
        missing: &[u64],
        ended: Option<u64>,
    ) -> Option<Joined<F>> {
        let mut table = self.lock();
        let mut joined = Joined { joined: Vec::new(), started: Vec::new(), tickets: Vec::new() };
        let mut wanted = Vec::new();
        for &part in missing {
            match table.bringing(object, &layout.bytes_of(part)) {
                Some(flight) => joined.joined.push((part, flight)),
                None => wanted.push(part),
            }
        }
        if !wanted.is_empty() && ended.is_some_and(|ended| ended != table.ended) {
            return None;
        }
        for run in runs(&wanted, merging.gap_parts, merging.parts_max) {
            let flight = table.begin(object, layout.bytes_of_run(&run));
            let parts = wanted.iter().filter(|part| run.contains(part));
            joined.started.extend(parts.map(|part| (*part, Arc::clone(&flight))));
            joined.tickets.push(self.ticket(object, flight));
        }
        Some(joined)
    }

    /// A flight that a request has begun already.
    pub(crate) fn begin(self: &Arc<Self>, object: &[u8], span: Range<u64>) -> Ticket<F> {
        let flight = self.lock().begin(object, span);
        self.ticket(object, flight)
    }

    fn ticket(self: &Arc<Self>, object: &[u8], flight: Arc<Flight<F>>) -> Ticket<F> {
        Ticket { all: Arc::clone(self), object: object.into(), flight }
    }

    fn lock(&self) -> MutexGuard<'_, Table<F>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> Table<F> {
    fn bringing(&self, object: &[u8], bytes: &Range<u64>) -> Option<Arc<Flight<F>>> {
        self.flights.get(object)?.iter().find(|flight| flight.brings(bytes)).map(Arc::clone)
    }

    fn begin(&mut self, object: &[u8], span: Range<u64>) -> Arc<Flight<F>> {
        let flight = Arc::new(Flight::new(span));
        self.flights.entry(object.into()).or_default().push(Arc::clone(&flight));
        flight
    }
}

impl<F> Ticket<F> {
    pub(crate) fn flight(&self) -> &Flight<F> {
        &self.flight
    }

    pub(crate) fn shared_flight(&self) -> Arc<Flight<F>> {
        Arc::clone(&self.flight)
    }
}

impl<F> Drop for Ticket<F> {
    fn drop(&mut self) {
        self.flight.end(Ended::Trouble(Trouble::Abandoned));
        let mut table = self.all.lock();
        table.ended += 1;
        if let Some(flights) = table.flights.get_mut(&self.object) {
            flights.retain(|flight| !Arc::ptr_eq(flight, &self.flight));
            if flights.is_empty() {
                table.flights.remove(&self.object);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { part_bytes: 10, size: 95 };
    const MERGING: Merging = Merging { gap_parts: 1, parts_max: 4 };

    #[test]
    fn missing_parts_are_joined_or_started_together() {
        let all: Arc<InFlight<std::io::Error>> = Arc::new(InFlight::new());
        let first = all.join(b"a", (&LAYOUT, MERGING), &[1, 2], None).unwrap();
        assert_eq!((first.started.len(), first.tickets.len()), (2, 1));
        let second = all.join(b"a", (&LAYOUT, MERGING), &[2, 3, 5, 9], None).unwrap();
        assert_eq!((second.joined.len(), second.started.len()), (1, 3));
        let spans: Vec<_> = second.tickets.iter().map(|it| it.flight().span().clone()).collect();
        assert_eq!(spans, [30..60, 90..95]);
        let other = all.join(b"b", (&LAYOUT, MERGING), &[2], None).unwrap();
        assert_eq!(other.joined.len(), 0, "another version of the object is another object");
    }

    #[test]
    fn a_flight_that_ended_in_the_meantime_sends_its_reader_back_to_the_cache() {
        let all: Arc<InFlight<std::io::Error>> = Arc::new(InFlight::new());
        let before = all.ended();
        drop(all.join(b"a", (&LAYOUT, MERGING), &[1], Some(before)).unwrap());
        assert!(all.bringing(b"a", &(10..20)).is_none());
        assert!(all.join(b"a", (&LAYOUT, MERGING), &[1], Some(before)).is_none());
        assert!(all.join(b"a", (&LAYOUT, MERGING), &[1], None).is_some());
    }

    #[test]
    fn a_ticket_that_is_dropped_abandons_its_flight() {
        let all: Arc<InFlight<std::io::Error>> = Arc::new(InFlight::new());
        let ticket = all.begin(b"a", 0..10);
        let flight = all.bringing(b"a", &(0..5)).unwrap();
        drop(ticket);
        let ended = larder::block_on(flight.read(0, 5));
        assert!(matches!(ended, Err(Trouble::Abandoned)));
    }
}
