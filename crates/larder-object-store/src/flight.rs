//! One request to the store below, whose bytes all readers of them share as they arrive.
//!
//! ```text
//! open ──begin──► begun ──push, push, …──► ended: complete
//!   └───────────────┴──────────────────────► ended: changed, failed, abandoned
//! ```
//! Bytes that have arrived are read even if the flight ends badly after them.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use event_listener::Event;

/// Bytes of one version of an object, on their way.
#[derive(Debug)]
pub(crate) struct Flight<F> {
    /// The bytes of the object that it brings.
    span: Range<u64>,
    state: Mutex<State<F>>,
    changed: Event,
}

#[derive(Debug)]
struct State<F> {
    is_begun: bool,
    /// What has arrived, in order, each with its place in the object.
    chunks: Vec<(u64, Bytes)>,
    end: Option<Ended<F>>,
}

/// How a flight has ended.
#[derive(Debug)]
pub(crate) enum Ended<F> {
    Complete,
    Trouble(Trouble<F>),
}

/// Why a flight does not bring its bytes.
#[derive(Debug)]
pub(crate) enum Trouble<F> {
    /// The store has another version now.
    Changed,
    /// The store failed.
    Failed(Arc<F>),
    /// The task was dropped.
    Abandoned,
}

impl<F> Clone for Trouble<F> {
    fn clone(&self) -> Self {
        match self {
            Self::Changed => Self::Changed,
            Self::Failed(error) => Self::Failed(Arc::clone(error)),
            Self::Abandoned => Self::Abandoned,
        }
    }
}

impl<F> Flight<F> {
    pub(crate) fn new(span: Range<u64>) -> Self {
        let state = State { is_begun: false, chunks: Vec::new(), end: None };
        Self { span, state: Mutex::new(state), changed: Event::new() }
    }

    pub(crate) fn span(&self) -> &Range<u64> {
        &self.span
    }

    /// Whether a reader of these bytes can join.
    pub(crate) fn brings(&self, bytes: &Range<u64>) -> bool {
        let is_within = self.span.start <= bytes.start && bytes.end <= self.span.end;
        is_within && !matches!(self.lock().end, Some(Ended::Trouble(_)))
    }

    /// The store has answered, with the right version.
    pub(crate) fn begin(&self) {
        self.lock().is_begun = true;
        self.changed.notify(usize::MAX);
    }

    /// The next bytes have arrived.
    pub(crate) fn push(&self, at: u64, chunk: Bytes) {
        let mut state = self.lock();
        debug_assert!(
            state.chunks.last().map_or(self.span.start, end_of) == at,
            "bytes arrive in order"
        );
        state.chunks.push((at, chunk));
        drop(state);
        self.changed.notify(usize::MAX);
    }

    /// Ends the flight, if it has not ended.
    pub(crate) fn end(&self, end: Ended<F>) {
        self.lock().end.get_or_insert(end);
        self.changed.notify(usize::MAX);
    }

    /// Waits until the store has answered with the right version.
    pub(crate) async fn begun(&self) -> Result<(), Trouble<F>> {
        loop {
            let listener = self.changed.listen();
            {
                let state = self.lock();
                match &state.end {
                    _ if state.is_begun => return Ok(()),
                    Some(Ended::Trouble(trouble)) => return Err(trouble.clone()),
                    Some(Ended::Complete) => return Ok(()),
                    None => {}
                }
            }
            listener.await;
        }
    }

    /// The bytes from `at` on that have arrived, up to `end`; waits for the first.
    pub(crate) async fn read(&self, at: u64, end: u64) -> Result<Bytes, Trouble<F>> {
        loop {
            let listener = self.changed.listen();
            {
                let state = self.lock();
                if let Some(bytes) = state.arrived(at, end) {
                    return Ok(bytes);
                }
                match &state.end {
                    Some(Ended::Trouble(trouble)) => return Err(trouble.clone()),
                    // Not one of its bytes: the caller asks elsewhere.
                    Some(Ended::Complete) => return Err(Trouble::Abandoned),
                    None => {}
                }
            }
            listener.await;
        }
    }

    /// These bytes in one piece, if all of them have arrived.
    pub(crate) fn whole(&self, bytes: &Range<u64>) -> Option<Bytes> {
        let state = self.lock();
        let first = state.arrived(bytes.start, bytes.end)?;
        let length = usize::try_from(bytes.end - bytes.start).ok()?;
        if first.len() == length {
            return Some(first);
        }
        let mut whole = BytesMut::with_capacity(length);
        whole.extend_from_slice(&first);
        let mut at = bytes.start;
        while whole.len() < length {
            at = bytes.start + u64::try_from(whole.len()).ok()?;
            whole.extend_from_slice(&state.arrived(at, bytes.end)?);
        }
        debug_assert!(at < bytes.end && whole.len() == length, "no byte comes twice");
        Some(whole.freeze())
    }

    fn lock(&self) -> MutexGuard<'_, State<F>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> State<F> {
    fn arrived(&self, at: u64, end: u64) -> Option<Bytes> {
        let after = self.chunks.partition_point(|(start, _)| *start <= at);
        let (start, chunk) = self.chunks.get(after.checked_sub(1)?)?;
        let from = usize::try_from(at - start).ok()?;
        let until = chunk.len().min(usize::try_from(end - start).unwrap_or(usize::MAX));
        (from < until).then(|| chunk.slice(from..until))
    }
}

fn end_of((at, chunk): &(u64, Bytes)) -> u64 {
    at + u64::try_from(chunk.len()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use larder::block_on;

    use super::*;

    fn flight() -> Flight<std::io::Error> {
        let flight = Flight::new(10..20);
        flight.begin();
        flight.push(10, Bytes::from_static(b"abcd"));
        flight.push(14, Bytes::from_static(b"ef"));
        flight
    }

    #[test]
    fn what_has_arrived_is_read_before_the_trouble_after_it() {
        let flight = flight();
        flight.end(Ended::Trouble(Trouble::Abandoned));
        assert_eq!(block_on(flight.read(12, 20)).unwrap(), "cd");
        assert_eq!(block_on(flight.read(10, 11)).unwrap(), "a");
        assert_eq!(block_on(flight.read(15, 20)).unwrap(), "f");
        assert!(matches!(block_on(flight.read(16, 20)), Err(Trouble::Abandoned)));
        assert!(block_on(flight.begun()).is_ok());
    }

    #[test]
    fn pieces_are_put_together_and_none_is_missing() {
        let flight = flight();
        assert_eq!(flight.whole(&(11..16)).unwrap(), "bcdef");
        assert_eq!(flight.whole(&(14..16)).unwrap(), "ef");
        assert_eq!(flight.whole(&(11..17)), None);
    }

    #[test]
    fn no_reader_joins_a_flight_in_trouble_or_for_other_bytes() {
        let flight = flight();
        assert!(flight.brings(&(12..20)) && !flight.brings(&(9..20)) && !flight.brings(&(12..21)));
        flight.end(Ended::Complete);
        assert!(flight.brings(&(12..20)));
        let other = self::flight();
        other.end(Ended::Trouble(Trouble::Changed));
        other.end(Ended::Complete);
        assert!(!other.brings(&(12..20)), "the first end counts");
    }
}
