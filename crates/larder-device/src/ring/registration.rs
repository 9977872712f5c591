//! The state of one device in a hosted ring.

use std::time::Instant;

use crate::file_options::FileOptions;
use crate::transfer::Piece;
use crate::transfer::waiting::WaitingPieces;

/// A device in a ring, with the bounds that its options give it for each ring.
pub(super) struct Registration<T> {
    /// Number of the device, unique within the process.
    pub(super) device: u64,
    pub(super) target: T,
    pub(super) waiting: WaitingPieces,
    /// Pieces that the kernel has, or will have at the next submission.
    pub(super) under_way: usize,
    depth: usize,
}

impl<T> Registration<T> {
    pub(super) fn new(device: u64, target: T, options: &FileOptions) -> Self {
        let (waiting, depth) = (WaitingPieces::new(options), usize::from(options.queue_depth));
        Self { device, target, waiting, under_way: 0, depth }
    }

    /// Whether one more piece may be in flight.
    pub(super) fn has_room(&self) -> bool {
        self.under_way < self.depth
    }

    /// Whether no piece is in flight or waiting.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way == 0 && self.waiting.is_empty()
    }

    /// The next waiting piece, if one more may be in flight.
    pub(super) fn pop(&mut self) -> Option<Piece> {
        if self.has_room() { self.waiting.pop() } else { None }
    }

    pub(super) fn push(&mut self, now: &mut Option<Instant>, piece: Piece) {
        self.waiting.push(*now.get_or_insert_with(Instant::now), piece);
    }
}
