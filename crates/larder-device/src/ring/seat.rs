//! What a hosted ring has of one device.

use std::time::Instant;

use crate::file::options::FileOptions;
use crate::file::transfer::Piece;
use crate::file::waiting::Waiting;

/// A device in a ring. It has the bounds that its options give it for each ring.
pub(super) struct Seat<T> {
    /// Which device, among all that this process ever had.
    pub(super) device: u64,
    pub(super) target: T,
    pub(super) waiting: Waiting,
    /// Pieces that the kernel has, or will have when it is told.
    pub(super) under_way: usize,
    depth: usize,
}

impl<T> Seat<T> {
    pub(super) fn new(device: u64, target: T, options: &FileOptions) -> Self {
        let (waiting, depth) = (Waiting::new(options), usize::from(options.queue_depth));
        Self { device, target, waiting, under_way: 0, depth }
    }

    /// Whether the kernel may have one more piece.
    pub(super) fn has_room(&self) -> bool {
        self.under_way < self.depth
    }

    /// Whether nothing of it is left.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way == 0 && self.waiting.is_empty()
    }

    /// The next piece that waits, if the kernel may have it.
    pub(super) fn pop(&mut self) -> Option<Piece> {
        if self.has_room() { self.waiting.pop() } else { None }
    }

    pub(super) fn push(&mut self, now: &mut Option<Instant>, piece: Piece) {
        self.waiting.push(*now.get_or_insert_with(Instant::now), piece);
    }
}
