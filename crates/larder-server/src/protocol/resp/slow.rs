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

/// All entries together take no more: the oldest go first, however many may be kept.
const BYTES_MAX: usize = 2 << 20;

/// See the module.
pub(super) struct SlowLog {
    /// From so many microseconds on; negative is never.
    pub(super) threshold_micros: AtomicI64,
    pub(super) entries_max: AtomicUsize,
    next: AtomicU64,
    /// The newest first.
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    all: VecDeque<Entry>,
    bytes: usize,
}

impl Entries {
    fn truncate(&mut self, entries_max: usize) {
        while self.all.len() > entries_max || self.bytes > BYTES_MAX {
            let Some(oldest) = self.all.pop_back() else { break };
            self.bytes -= oldest.bytes();
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

impl Entry {
    /// What it takes in memory.
    fn bytes(&self) -> usize {
        let arguments = self.arguments.iter().map(|it| size_of::<Vec<u8>>() + it.capacity() + 16);
        size_of::<Self>() + self.peer.capacity() + self.name.capacity() + arguments.sum::<usize>()
    }
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
        entries.bytes += entry.bytes();
        entries.all.push_front(entry);
        entries.truncate(self.entries_max.load(Ordering::Relaxed));
    }

    pub(super) fn len(&self) -> usize {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).all.len()
    }

    pub(super) fn newest(&self, count: usize) -> Vec<Entry> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.all.iter().take(count).cloned().collect()
    }

    pub(super) fn clear(&self) {
        *self.entries.lock().unwrap_or_else(PoisonError::into_inner) = Entries::default();
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

#[cfg(test)]
mod tests {
    use super::super::parse::OwnedArguments;
    use super::*;

    #[test]
    fn entries_are_bounded_in_bytes_however_many_may_be_kept() {
        let log = SlowLog::default();
        log.entries_max.store(100_000, Ordering::Relaxed);
        let argument = [b'x'; 1000];
        let request = OwnedArguments::of(&[&argument[..]; 100]);
        for _ in 0..2000 {
            log.add(Duration::ZERO, request.as_arguments(), "peer".to_owned(), vec![b'n'; 1000]);
        }
        let entries = log.newest(usize::MAX);
        let bytes: usize = entries.iter().map(Entry::bytes).sum();
        assert!((200..600).contains(&entries.len()), "{}", entries.len());
        assert!(bytes > BYTES_MAX / 2 && bytes <= BYTES_MAX, "{bytes}");
        assert_eq!(entries[0].id, 1999, "the newest are kept");
        log.clear();
        assert_eq!((log.len(), log.entries.lock().unwrap().bytes), (0, 0));
    }
}
