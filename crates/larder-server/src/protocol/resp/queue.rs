//! Requests that wait for EXEC, and keys that are watched meanwhile.

use std::time::Duration;

use larder::{Value, ValueMeta};

use super::command::Command;
use super::parse::OwnedArguments;
use crate::worker::{UnderWay, Worker};

/// Requests between MULTI and EXEC.
pub(super) struct Transaction {
    pub(super) requests: Vec<(usize, &'static Command, OwnedArguments)>,
    /// A request was refused: nothing will be done.
    pub(super) is_spoilt: bool,
    /// Counted among what is under way.
    pub(super) under_way: UnderWay,
}

/// A key, and what it was when it began to be watched.
pub(super) struct Watched {
    pub(super) key: Vec<u8>,
    /// Version and end of the value, if there was one.
    pub(super) seen: Option<(u64, Option<Duration>)>,
}

impl Transaction {
    pub(super) fn new(worker: &Worker) -> Self {
        Self { requests: Vec::new(), is_spoilt: false, under_way: worker.under_way(0) }
    }
}

impl Watched {
    /// Whether the value of its key is what it was.
    pub(super) fn is_still(&self, current: Option<&Value>) -> bool {
        self.is_still_meta(current.map(Value::meta))
    }

    pub(super) fn is_still_meta(&self, current: Option<ValueMeta>) -> bool {
        match (self.seen, current) {
            (None, None) => true,
            // Version 0 names none.
            (Some((version, end)), Some(meta)) => {
                version != 0 && version == meta.version && end == meta.expires_at
            }
            _ => false,
        }
    }
}
