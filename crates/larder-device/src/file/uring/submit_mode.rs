//! Which thread tells the kernel of new entries in the submission queue.

use crate::park::is_inside_block_on;
use crate::plug::is_plugged;

/// Which thread tells the kernel of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SubmitMode {
    /// The caller, at once: it will wait for the request.
    Caller,
    /// The leader, together with other threads' requests. If there is no leader, or it sleeps and few requests are in
    /// flight, the caller. For callers that do not wait in the ring: it gives fewer and larger calls.
    Leader,
    /// The caller when it unplugs, together with all that it has begun until then: it will wait for all of it.
    Unplugged,
}

impl SubmitMode {
    /// The mode of this thread.
    pub(crate) fn here() -> Self {
        match (is_inside_block_on(), is_plugged()) {
            (false, _) => Self::Leader,
            (true, false) => Self::Caller,
            (true, true) => Self::Unplugged,
        }
    }
}

/// State of the thread that fetches the completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leader {
    /// There is no leader.
    Absent,
    /// The leader will tell the kernel of new entries before it sleeps or stops.
    Awake,
    /// The leader sleeps in the ring, or is about to.
    Asleep,
}
