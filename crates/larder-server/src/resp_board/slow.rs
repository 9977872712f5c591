//! The slow log of `SLOWLOG`: the last slow requests, separate for each tenant. No tenant pushes out the entries of
//! another.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Arguments that are kept of a request; the next constant is the bytes kept of each.
const ARGUMENTS_KEPT: usize = 32;
const ARGUMENT_BYTES_KEPT: usize = 128;
/// Most entries that an operator may configure.
pub(crate) const ENTRIES_MAX: i64 = 100_000;

/// Most bytes of the entries of all tenants together. Each tenant has an equal part; its oldest entries go first.
const BYTES_MAX: usize = 2 << 20;

/// The slow log of `SLOWLOG`.
pub(crate) struct SlowLog {
    /// Threshold in microseconds; negative: never.
    pub(crate) threshold_micros: AtomicI64,
    pub(crate) entries_max: AtomicUsize,
    next: AtomicU64,
    /// One for each tenant.
    of_tenants: Vec<Mutex<Entries>>,
}

/// The entries of one tenant, the newest first.
#[derive(Default)]
struct Entries {
    all: VecDeque<SlowLogEntry>,
    bytes: usize,
}

impl Entries {
    fn truncate(&mut self, entries_max: usize, bytes_max: usize) {
        while self.all.len() > entries_max || self.bytes > bytes_max {
            let Some(oldest) = self.all.pop_back() else { break };
            self.bytes -= oldest.bytes();
        }
    }
}

/// Whose entries, or clients, are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientScope {
    All,
    /// Those of the tenant with this number.
    Of(usize),
}

impl ClientScope {
    pub(crate) fn has(self, tenant: usize) -> bool {
        match self {
            Self::All => true,
            Self::Of(number) => number == tenant,
        }
    }
}

/// A slow request.
#[derive(Clone)]
pub(crate) struct SlowLogEntry {
    pub(crate) id: u64,
    pub(crate) at_s: u64,
    pub(crate) micros: u64,
    pub(crate) arguments: Vec<Vec<u8>>,
    pub(crate) peer: String,
    pub(crate) name: Vec<u8>,
}

impl SlowLogEntry {
    /// Its size in memory.
    fn bytes(&self) -> usize {
        let arguments = self.arguments.iter().map(|it| size_of::<Vec<u8>>() + it.capacity() + 16);
        size_of::<Self>() + self.peer.capacity() + self.name.capacity() + arguments.sum::<usize>()
    }
}

impl SlowLog {
    pub(crate) fn new(tenants: usize) -> Self {
        Self {
            threshold_micros: AtomicI64::new(10_000),
            entries_max: AtomicUsize::new(128),
            next: AtomicU64::new(0),
            of_tenants: (0..tenants).map(|_| Mutex::default()).collect(),
        }
    }

    /// Whether a request that took this long belongs in the log.
    pub(crate) fn wants(&self, took: Duration) -> bool {
        let threshold = self.threshold_micros.load(Ordering::Relaxed);
        u64::try_from(threshold).is_ok_and(|micros| took >= Duration::from_micros(micros))
    }

    /// Adds a request of a client of the tenant with this number: the number of its arguments, and all of them.
    pub(crate) fn add<'a>(
        &self,
        tenant: usize,
        took: Duration,
        arguments: (usize, impl Iterator<Item = &'a [u8]>),
        peer: String,
        name: Vec<u8>,
    ) {
        let entry = SlowLogEntry {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            at_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
            micros: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            arguments: clipped(arguments),
            peer,
            name,
        };
        let Some(entries) = self.of_tenants.get(tenant) else { return };
        let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.bytes += entry.bytes();
        entries.all.push_front(entry);
        let bytes_max = BYTES_MAX / self.of_tenants.len();
        entries.truncate(self.entries_max.load(Ordering::Relaxed), bytes_max);
    }

    pub(crate) fn len(&self, whose: ClientScope) -> usize {
        self.logs(whose).map(|entries| entries.all.len()).sum()
    }

    /// Up to `count` entries, the newest first.
    pub(crate) fn newest(&self, whose: ClientScope, count: usize) -> Vec<SlowLogEntry> {
        let of_each = |log: MutexGuard<'_, Entries>| -> Vec<SlowLogEntry> {
            log.all.iter().take(count).cloned().collect()
        };
        let mut newest: Vec<SlowLogEntry> = self.logs(whose).flat_map(of_each).collect();
        newest.sort_unstable_by_key(|entry| Reverse(entry.id));
        newest.truncate(count);
        newest
    }

    pub(crate) fn clear(&self, whose: ClientScope) {
        self.logs(whose).for_each(|mut entries| *entries = Entries::default());
    }

    fn logs(&self, whose: ClientScope) -> impl Iterator<Item = MutexGuard<'_, Entries>> {
        let meant =
            self.of_tenants.iter().enumerate().filter(move |(tenant, _)| whose.has(*tenant));
        meant.map(|(_, entries)| entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn clipped<'a>((all, arguments): (usize, impl Iterator<Item = &'a [u8]>)) -> Vec<Vec<u8>> {
    let kept = if all > ARGUMENTS_KEPT { ARGUMENTS_KEPT - 1 } else { all };
    let clip = |argument: &[u8]| match argument.split_at_checked(ARGUMENT_BYTES_KEPT) {
        Some((head, rest)) if !rest.is_empty() => {
            let rest = format!("... ({} more bytes)", rest.len());
            [head, rest.as_bytes()].concat()
        }
        _ => argument.to_vec(),
    };
    let mut clipped: Vec<Vec<u8>> = arguments.take(kept).map(clip).collect();
    if all > kept {
        clipped.push(format!("... ({} more arguments)", all - kept).into_bytes());
    }
    clipped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_bounded_in_bytes_however_many_may_be_kept() {
        let log = SlowLog::new(2);
        log.entries_max.store(100_000, Ordering::Relaxed);
        let argument = [b'x'; 1000];
        let request = [&argument[..]; 100];
        let add = |tenant| {
            let peer = "peer".to_owned();
            log.add(tenant, Duration::ZERO, (100, request.into_iter()), peer, vec![b'n'; 1000]);
        };
        add(0);
        (0..2000).for_each(|_| add(1));
        let entries = log.newest(ClientScope::Of(1), usize::MAX);
        let bytes: usize = entries.iter().map(SlowLogEntry::bytes).sum();
        assert!((100..300).contains(&entries.len()), "{}", entries.len());
        assert!(bytes > BYTES_MAX / 4 && bytes <= BYTES_MAX / 2, "{bytes}");
        assert_eq!(entries[0].id, 2000, "the newest are kept");
        assert_eq!(log.len(ClientScope::Of(0)), 1, "no tenant pushes out those of another");
        log.clear(ClientScope::All);
        assert_eq!(log.len(ClientScope::All), 0);
        assert!(log.logs(ClientScope::All).all(|entries| entries.bytes == 0));
    }
}
