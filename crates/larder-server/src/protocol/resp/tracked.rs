//! The tracking of a client: what it remembers, and the keys that it is told of.

use std::sync::Arc;

use crate::keyspace::{Follower, Keyspace};

/// Which keys a client remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// All that it reads.
    Reads,
    /// What it reads behind `CLIENT CACHING YES`.
    OptIn,
    /// What it reads, but behind `CLIENT CACHING NO`.
    OptOut,
    /// None: it follows prefixes.
    Broadcast,
}

/// The tracking of a client. Dropping it ends it at once.
pub(super) struct Tracking {
    pub(super) keyspace: Arc<Keyspace>,
    pub(super) follower: Arc<Follower>,
    pub(super) mode: Mode,
    /// `CLIENT CACHING` was said for the next request.
    pub(super) is_caching_said: bool,
}

impl Tracking {
    /// Whether the next read is remembered.
    pub(super) fn remembers(&self) -> bool {
        match self.mode {
            Mode::Reads => true,
            Mode::OptIn => self.is_caching_said,
            Mode::OptOut => !self.is_caching_said,
            Mode::Broadcast => false,
        }
    }
}

impl Drop for Tracking {
    fn drop(&mut self) {
        self.keyspace.ends(&self.follower);
        while self.keyspace.forgets_page(&self.follower) {}
    }
}
