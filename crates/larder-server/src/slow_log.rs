//! The slow log for operators: the last slow requests of all protocols.
//!
//! It keeps keys in a readable form, and never values. Only slow requests take the lock; the check for a slow request
//! reads one atomic. `SLOWLOG` for RESP clients has its own list, with what those clients expect of it
//! (`resp_board/slow.rs`).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::config::ProtocolKind;

/// Number of entries kept.
const ENTRIES_MAX: usize = 128;
/// Bytes of a key that are shown.
const KEY_BYTES_SHOWN: usize = 128;
/// The threshold that keeps nothing, in nanoseconds.
const NEVER: u64 = u64::MAX;

/// The slow log; see the module.
pub(crate) struct SlowLog {
    threshold_ns: AtomicU64,
    /// Slow requests since the start.
    seen: AtomicU64,
    /// The newest first.
    entries: Mutex<VecDeque<SlowEntry>>,
}

/// A slow request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlowEntry {
    /// Its number, from 1 on.
    pub(crate) number: u64,
    /// When it ended, since 1970.
    pub(crate) at: Duration,
    pub(crate) took: Duration,
    pub(crate) protocol: ProtocolKind,
    pub(crate) tenant: String,
    /// In lower case.
    pub(crate) command: &'static str,
    /// The first bytes of its key, as ASCII; other bytes are escaped.
    pub(crate) key: String,
    pub(crate) key_bytes: usize,
    pub(crate) peer: String,
}

/// The origin of a request.
pub(crate) struct RequestOrigin<'a> {
    pub(crate) protocol: ProtocolKind,
    pub(crate) tenant: &'a str,
    pub(crate) peer: String,
}

impl SlowLog {
    /// Keeps requests that take at least `threshold`; `None`: none.
    pub(crate) fn new(threshold: Option<Duration>) -> Self {
        let log = Self {
            threshold_ns: AtomicU64::new(NEVER),
            seen: AtomicU64::new(0),
            entries: Mutex::default(),
        };
        log.set_threshold(threshold);
        log
    }

    /// Replaces the threshold.
    pub(crate) fn set_threshold(&self, threshold: Option<Duration>) {
        let ns = threshold.map(|it| u64::try_from(it.as_nanos()).unwrap_or(NEVER));
        self.threshold_ns.store(ns.unwrap_or(NEVER), Ordering::Relaxed);
    }

    /// The threshold; `None` if nothing is kept.
    pub(crate) fn threshold(&self) -> Option<Duration> {
        let ns = self.threshold_ns.load(Ordering::Relaxed);
        (ns != NEVER).then(|| Duration::from_nanos(ns))
    }

    /// Whether a request that took this long belongs in the log.
    #[inline]
    pub(crate) fn wants(&self, took: Duration) -> bool {
        let threshold = self.threshold_ns.load(Ordering::Relaxed);
        threshold != NEVER && took.as_nanos() >= u128::from(threshold)
    }

    /// Adds a request. When the log is full, it replaces the oldest entry.
    pub(crate) fn add(
        &self,
        took: Duration,
        whose: RequestOrigin<'_>,
        command: &'static str,
        key: &[u8],
    ) {
        let shown = key.get(..KEY_BYTES_SHOWN).unwrap_or(key);
        let mut entry = SlowEntry {
            number: 0,
            at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            took,
            protocol: whose.protocol,
            tenant: whose.tenant.to_owned(),
            command,
            key: shown.escape_ascii().to_string(),
            key_bytes: key.len(),
            peer: whose.peer,
        };
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that the numbers are in the order of the list.
        entry.number = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        entries.push_front(entry);
        entries.truncate(ENTRIES_MAX);
    }

    /// Slow requests since the start, including those that are no longer kept.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// All entries, the newest first.
    pub(crate) fn entries(&self) -> Vec<SlowEntry> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().cloned().collect()
    }

    /// Removes all entries.
    pub(crate) fn clear(&self) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn add(log: &SlowLog, key: &[u8]) {
        let peer = "127.0.0.1:7".to_owned();
        let whose = RequestOrigin { protocol: ProtocolKind::Resp, tenant: "photos", peer };
        log.add(12 * MS, whose, "get", key);
    }

    #[test]
    fn only_what_takes_long_is_wanted() {
        let log = SlowLog::new(Some(10 * MS));
        assert!(log.wants(10 * MS) && !log.wants(9 * MS));
        log.set_threshold(None);
        assert!(!log.wants(Duration::MAX) && log.threshold().is_none());
        log.set_threshold(Some(Duration::ZERO));
        assert!(log.wants(Duration::ZERO));
    }

    #[test]
    fn keys_are_shown_as_text_and_not_longer_than_one_can_read() {
        let log = SlowLog::new(Some(MS));
        add(&log, b"<b>\n\xff\"");
        add(&log, &[b'x'; 5000]);
        let [long, odd] = log.entries().try_into().unwrap();
        assert_eq!((odd.number, odd.key.as_str(), odd.key_bytes), (1, "<b>\\n\\xff\\\"", 6));
        assert_eq!((long.number, long.key.len(), long.key_bytes), (2, KEY_BYTES_SHOWN, 5000));
    }

    #[test]
    fn the_newest_are_kept_and_all_are_counted() {
        let log = SlowLog::new(Some(MS));
        (0..ENTRIES_MAX + 10).for_each(|_| add(&log, b"bread"));
        let entries = log.entries();
        assert_eq!((entries.len(), entries[0].number), (ENTRIES_MAX, ENTRIES_MAX as u64 + 10));
        log.clear();
        assert!(log.entries().is_empty());
        assert_eq!(log.seen(), ENTRIES_MAX as u64 + 10);
    }
}
