//! Who tells the kernel what is new in the submission queue.

use crate::park::is_inside_block_on;
use crate::plug::is_plugged;

/// Who tells the kernel of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SubmitMode {
    /// The caller does, at once: it will wait for the request.
    Caller,
    /// The thread that leads does, with what others have handed over meanwhile; if there is none, or
    /// it sleeps and few requests are under way, the caller. For those who do not wait in the ring:
    /// fewer and larger calls.
    Leader,
    /// The caller does when it unplugs, with what it has begun meanwhile: it will wait for all of it.
    Unplugged,
}

impl SubmitMode {
    /// How this thread does it.
    pub(crate) fn here() -> Self {
        match (is_inside_block_on(), is_plugged()) {
            (false, _) => Self::Leader,
            (true, false) => Self::Caller,
            (true, true) => Self::Unplugged,
        }
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
