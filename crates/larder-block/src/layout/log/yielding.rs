//! How much of a draining segment is on its way to the cores at a time, and to whom that yields.
//!
//! A core serves in the order in which it was asked, or nearly so. A segment of lines that are scattered over a disk
//! takes seconds to destage; sent at once, it would be in front of all that users ask of the core meanwhile. So few
//! writes of it are under way at a time, and none where users write to the core and nobody waits for room. When those
//! have ended it begins with one, and has one more with each that ends: a stream with pauses is held up little.
//!
//! *Always:* whoever waits for the end of a drain, or for the room that it makes, keeps it going.

use super::appender::Source;
use super::segments::RESERVED_SEGMENTS;
use super::state::LogLayout;

/// Writes of a draining segment that are under way, at most: a drive's queue is full of less.
const DEPTH_MAX: usize = 32;
/// How many at least, where somebody waits for the room.
const DEPTH_FOR_ROOM: usize = 8;

#[derive(Debug)]
pub(super) struct Yielding {
    /// Writes around on their way to cores.
    around: usize,
    depth: usize,
}

impl Default for Yielding {
    fn default() -> Self {
        Self { around: 0, depth: DEPTH_MAX }
    }
}

impl Yielding {
    /// A write around sets out.
    pub(super) fn around_begins(&mut self) {
        self.around += 1;
        self.depth = 1;
    }

    /// One has ended.
    pub(super) fn around_ends(&mut self) {
        self.around = self.around.checked_sub(1).expect("begun before");
    }

    /// A write of a draining segment has ended well.
    pub(super) fn destage_ends(&mut self) {
        self.depth = (self.depth + 1).min(DEPTH_MAX);
    }
}

impl LogLayout {
    /// Writes of a draining segment that may be under way.
    pub(super) fn destages_allowed(&self) -> usize {
        let Yielding { around, depth } = self.yielding;
        if self.is_drain_wanted() {
            depth.max(DEPTH_FOR_ROOM)
        } else if around > 0 {
            0
        } else {
            depth
        }
    }

    /// Whether somebody waits for the end of a drain.
    fn is_drain_wanted(&self) -> bool {
        !self.cleanings.is_empty() || !self.held_writes.is_empty() || self.lacks_room()
    }

    /// Whether something of users finds no room.
    fn lacks_room(&self) -> bool {
        let waits = |source: Source| !matches!(source, Source::Kept { .. });
        self.segments.ready() <= RESERVED_SEGMENTS
            && self.appender.lanes.iter().any(|lane| {
                lane.open.is_none() && lane.pending.back().is_some_and(|last| waits(last.source))
            })
    }
}
