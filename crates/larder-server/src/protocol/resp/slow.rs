//! The slow log: the last requests that took long, those of each tenant by themselves. No tenant pushes out the entries
//! of another.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
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
    /// Of each tenant, the newest first.
    of_tenants: Vec<Mutex<VecDeque<Entry>>>,
}

/// Whose entries, or clients, are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    All,
    /// Those of the tenant of this number.
    Of(usize),
}

impl Whose {
    pub(super) fn has(self, tenant: usize) -> bool {
        match self {
            Self::All => true,
            Self::Of(number) => number == tenant,
        }
    }
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

impl SlowLog {
    pub(super) fn new(tenants: usize) -> Self {
        Self {
            threshold_micros: AtomicI64::new(10_000),
            entries_max: AtomicUsize::new(128),
            next: AtomicU64::new(0),
            of_tenants: (0..tenants).map(|_| Mutex::default()).collect(),
        }
    }

    /// Whether a request that took so long belongs in it.
    pub(super) fn wants(&self, took: Duration) -> bool {
        let threshold = self.threshold_micros.load(Ordering::Relaxed);
        u64::try_from(threshold).is_ok_and(|micros| took >= Duration::from_micros(micros))
    }

    /// Adds a request of a client of the tenant of this number.
    pub(super) fn add(
        &self,
        tenant: usize,
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
        let Some(entries) = self.of_tenants.get(tenant) else { return };
        let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push_front(entry);
        entries.truncate(self.entries_max.load(Ordering::Relaxed));
    }

    pub(super) fn len(&self, whose: Whose) -> usize {
        self.logs(whose).map(|entries| entries.len()).sum()
    }

    /// The newest first.
    pub(super) fn newest(&self, whose: Whose, count: usize) -> Vec<Entry> {
        let of_each = |log: MutexGuard<'_, VecDeque<Entry>>| -> Vec<Entry> {
            log.iter().take(count).cloned().collect()
        };
        let mut newest: Vec<Entry> = self.logs(whose).flat_map(of_each).collect();
        newest.sort_unstable_by_key(|entry| Reverse(entry.id));
        newest.truncate(count);
        newest
    }

    pub(super) fn clear(&self, whose: Whose) {
        self.logs(whose).for_each(|mut entries| entries.clear());
    }

    fn logs(&self, whose: Whose) -> impl Iterator<Item = MutexGuard<'_, VecDeque<Entry>>> {
        let meant =
            self.of_tenants.iter().enumerate().filter(move |(tenant, _)| whose.has(*tenant));
        meant.map(|(_, entries)| entries.lock().unwrap_or_else(PoisonError::into_inner))
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
