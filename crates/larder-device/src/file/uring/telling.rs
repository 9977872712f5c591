//! Who tells the kernel what is new in the submission queue.

use crate::park::is_inside_block_on;

/// Who tells the kernel of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Telling {
    /// The caller does, at once: it will wait for the request.
    Caller,
    /// The thread that leads does, with what others have handed over meanwhile; if there is none, or
    /// it sleeps and few requests are under way, the caller. For those who do not wait in the ring:
    /// fewer and larger calls.
    Leader,
}

impl Telling {
    /// How this thread does it.
    pub(crate) fn here() -> Self {
        if is_inside_block_on() { Self::Caller } else { Self::Leader }
    }
}

/// What the thread does that fetches the completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leader {
    /// There is none.
    Absent,
    /// It will tell the kernel what is new before it sleeps or stops.
    Awake,
    /// It sleeps in the ring, or is about to.
    Asleep,
}
