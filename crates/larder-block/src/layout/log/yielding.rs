//! Limits how much of a draining segment is in flight to the cores, and yields to client writes.
//!
//! A core serves requests roughly in the order in which they arrive. Destaging a segment with lines scattered over a
//! disk takes seconds; issued all at once, its writes would delay all later client requests to the core. So only a few
//! writes of a drain are in flight at a time, and none while clients write to the core and no request waits for room.
//! After these writes have ended it begins with one write, and adds one with each completion: so a stream with pauses
//! is hardly delayed.
//!
//! *Always:* a request that waits for the end of a drain, or for the room that it makes, keeps the drain going.

/// Most writes of a draining segment in flight; fewer already fill the queue of a drive.
const DEPTH_MAX: usize = 32;
/// The lowest limit while a request waits for the room.
const DEPTH_FOR_ROOM: usize = 8;

#[derive(Debug)]
pub(super) struct Yielding {
    /// Writes around in flight to cores.
    around: usize,
    depth: usize,
}

impl Default for Yielding {
    fn default() -> Self {
        Self { around: 0, depth: DEPTH_MAX }
    }
}

impl Yielding {
    /// A write around begins.
    pub(super) fn around_begins(&mut self) {
        self.around += 1;
        self.depth = 1;
    }

    /// A write around has ended.
    pub(super) fn around_ends(&mut self) {
        self.around = self.around.checked_sub(1).expect("begun before");
    }

    /// A write of a draining segment has succeeded.
    pub(super) fn destage_ends(&mut self) {
        self.depth = (self.depth + 1).min(DEPTH_MAX);
    }

    /// Writes of a draining segment that may be in flight. `is_wanted`: a request waits for the end of a drain.
    pub(super) fn allowed(&self, is_wanted: bool) -> usize {
        if is_wanted {
            self.depth.max(DEPTH_FOR_ROOM)
        } else if self.around > 0 {
            0
        } else {
            self.depth
        }
    }
}
