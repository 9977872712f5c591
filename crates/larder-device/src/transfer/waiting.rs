//! The queue of pieces that wait for a free slot, and the limits on waiting.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Piece, Pieces};
use crate::error::{Error, ErrorKind};
use crate::file_options::FileOptions;

/// A queue with a bound on its length and on the age of its pieces.
pub(crate) struct WaitingPieces {
    pieces: VecDeque<(Instant, Piece)>,
    max: usize,
    age_max: Duration,
}

impl WaitingPieces {
    pub(crate) fn new(options: &FileOptions) -> Self {
        let max = usize::try_from(options.waiting_max).unwrap_or(usize::MAX);
        Self { pieces: VecDeque::new(), max, age_max: options.waiting_age_max }
    }

    /// Checks whether a further request may wait. If not, its pieces come back as failed: drop them outside of any
    /// lock, which completes the request.
    pub(crate) fn admit(&self, pieces: Pieces) -> Result<Pieces, Pieces> {
        if self.pieces.len() < self.max {
            return Ok(pieces);
        }
        pieces.refuse(Error::new(
            ErrorKind::Busy,
            format!("{}: {} pieces wait already", pieces.context(), self.pieces.len()),
        ));
        Err(pieces)
    }

    pub(crate) fn len(&self) -> usize {
        self.pieces.len()
    }

    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn push(&mut self, now: Instant, piece: Piece) {
        let last = self.pieces.back();
        debug_assert!(last.is_none_or(|(since, _)| *since <= now), "the oldest is in front");
        self.pieces.push_back((now, piece));
    }

    pub(crate) fn pop(&mut self) -> Option<Piece> {
        self.pieces.pop_front().map(|(_, piece)| piece)
    }

    /// Takes out the pieces that have waited too long, as failed: drop them outside of any lock, which completes their
    /// requests. Allocates nothing if none is too old.
    pub(crate) fn take_aged(&mut self) -> Vec<Piece> {
        let Some((oldest, _)) = self.pieces.front() else { return Vec::new() };
        let now = Instant::now();
        if now.duration_since(*oldest) <= self.age_max {
            return Vec::new();
        }
        let young =
            self.pieces.partition_point(|(since, _)| now.duration_since(*since) > self.age_max);
        debug_assert!(young > 0, "the one in front was too old");
        let refuse = |(since, mut piece): (Instant, Piece)| {
            let waited = now.duration_since(since).as_millis();
            piece.refuse(&format!("it waited {waited} ms for its turn"));
            piece
        };
        self.pieces.drain(..young).map(refuse).collect()
    }

    /// Takes out all pieces.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn take_all(&mut self) -> Vec<Piece> {
        self.pieces.drain(..).map(|(_, piece)| piece).collect()
    }
}
