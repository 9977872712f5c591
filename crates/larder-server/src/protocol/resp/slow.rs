//! What took long: the last requests that did.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::parse::Arguments;

/// Of a request so many arguments are kept, of so many bytes each.
const ARGUMENTS_KEPT: usize = 32;
const ARGUMENT_BYTES_KEPT: usize = 128;
/// Entries that an operator may ask for at most.
pub(super) const ENTRIES_MAX: i64 = 100_000;

/// See the module.
pub(super) struct SlowLog {
    /// From so many microseconds on; negative is never.
    pub(super) threshold_micros: AtomicI64,
    pub(super) entries_max: AtomicUsize,
    next: AtomicU64,
    /// The newest first.
    entries: Mutex<VecDeque<Entry>>,
}

/// A request that took long.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) id: u64,
    pub(super) at_s: u64,
    pub(super) micros: u64,
    pub(super) arguments: Vec<Vec<u8>>,
    pub(super) peer: String,
    pub(super) name: Vec<u8>,
}

impl Default for SlowLog {
    fn default() -> Self {
        Self {
            threshold_micros: AtomicI64::new(10_000),
            entries_max: AtomicUsize::new(128),
            next: AtomicU64::new(0),
            entries: Mutex::default(),
        }
    }
}

impl SlowLog {
    /// Whether a request that took so long belongs in it.
    pub(super) fn wants(&self, took: Duration) -> bool {
        let threshold = self.threshold_micros.load(Ordering::Relaxed);
        u64::try_from(threshold).is_ok_and(|micros| took >= Duration::from_micros(micros))
    }

    pub(super) fn add(
        &self,
        took: Duration,
        arguments: Arguments<'_>,
        peer: String,
        name: Vec<u8>,
    ) {
        let entry = Entry {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            at_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
            micros: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            arguments: clipped(arguments),
            peer,
            name,
        };
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push_front(entry);
        entries.truncate(self.entries_max.load(Ordering::Relaxed));
    }

    pub(super) fn len(&self) -> usize {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(super) fn newest(&self, count: usize) -> Vec<Entry> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().take(count).cloned().collect()
    }

    pub(super) fn clear(&self) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn clipped(arguments: Arguments<'_>) -> Vec<Vec<u8>> {
    let all = arguments.len();
    let kept = if all > ARGUMENTS_KEPT { ARGUMENTS_KEPT - 1 } else { all };
    let clip = |argument: &[u8]| match argument.split_at_checked(ARGUMENT_BYTES_KEPT) {
        Some((head, rest)) if !rest.is_empty() => {
            let rest = format!("... ({} more bytes)", rest.len());
            [head, rest.as_bytes()].concat()
        }
        _ => argument.to_vec(),
    };
    let mut clipped: Vec<Vec<u8>> = arguments.from(0).take(kept).map(clip).collect();
    if all > kept {
        clipped.push(format!("... ({} more arguments)", all - kept).into_bytes());
    }
    clipped
}
