//! The possible results of a look-up of a key while others change it.
//!
//! Every write has a distinct version and lasts from its call to its answer. A look-up may find any version whose write
//! had begun before the look-up ended, except for one that is certainly older than the current version: one that was
//! acknowledged, or found by a client, before the look-up began. Nor may it find a version whose write had ended before
//! another look-up began that found something else and has ended: that version has been replaced.

use std::cell::RefCell;
use std::collections::HashMap;

/// The position of a begin or end in the order of all events.
type Moment = u64;

#[derive(Debug, Clone, Copy)]
struct Write {
    begun: Moment,
    /// `None` until its end is known; for a write that was given up it stays `None`.
    ended: Option<Moment>,
    /// When it was certainly the state of the key: acknowledged as done, or found.
    certain: Option<Moment>,
    /// When it had certainly been replaced: a look-up found another version after its end.
    replaced: Option<Moment>,
}

/// All writes of all keys.
#[derive(Default)]
pub(super) struct Oracle {
    now: RefCell<Moment>,
    /// By key and version.
    keys: RefCell<HashMap<u32, HashMap<u32, Write>>>,
    versions: RefCell<u32>,
}

impl Oracle {
    pub(super) fn tick(&self) -> Moment {
        *self.now.borrow_mut() += 1;
        *self.now.borrow()
    }

    /// Records the begin of a write. Returns its version.
    pub(super) fn writes(&self, key: u32) -> u32 {
        let begun = self.tick();
        *self.versions.borrow_mut() += 1;
        let version = *self.versions.borrow();
        let write = Write { begun, ended: None, certain: None, replaced: None };
        self.keys.borrow_mut().entry(key).or_default().insert(version, write);
        version
    }

    /// Records that the write was done, or may have been.
    pub(super) fn wrote(&self, key: u32, version: u32, certainly: bool) {
        let now = self.tick();
        let mut keys = self.keys.borrow_mut();
        let write = keys.get_mut(&key).and_then(|writes| writes.get_mut(&version)).unwrap();
        write.ended = Some(now);
        if certainly {
            write.certain = Some(write.certain.unwrap_or(now));
        }
    }

    /// Records that the write was certainly not done.
    pub(super) fn did_not_write(&self, key: u32, version: u32) {
        self.keys.borrow_mut().get_mut(&key).unwrap().remove(&version);
    }

    /// Checks a look-up that began at `begun` and has found this version. The error says what is wrong.
    pub(super) fn found(&self, key: u32, version: u32, begun: Moment) -> Result<(), String> {
        let now = self.tick();
        let mut keys = self.keys.borrow_mut();
        let writes = keys.entry(key).or_default();
        let Some(found) = writes.get(&version).copied() else {
            return Err(format!("key {key}: version {version} was never written"));
        };
        if found.replaced.is_some_and(|replaced| replaced < begun) {
            return Err(format!(
                "key {key}: found version {version} ({found:?}) at {begun} to {now}, and another one before"
            ));
        }
        let newer = writes.iter().find(|(_, other)| {
            let follows = found.ended.is_some_and(|ended| ended < other.begun);
            follows && other.certain.is_some_and(|certain| certain < begun)
        });
        if let Some((newer, other)) = newer {
            return Err(format!(
                "key {key}: found version {version} ({found:?}) at {begun} to {now}, after {newer} ({other:?})"
            ));
        }
        let found = writes.get_mut(&version).unwrap();
        found.certain = Some(found.certain.unwrap_or(now));
        for (other, write) in writes.iter_mut() {
            if *other != version && write.ended.is_some_and(|ended| ended < begun) {
                write.replaced = Some(write.replaced.unwrap_or(now));
            }
        }
        // Drop old versions that have certainly been replaced.
        if writes.len() > 200 {
            let oldest =
                writes.values().map(|it| it.begun).max().unwrap_or(0).saturating_sub(100_000);
            writes.retain(|_, it| it.begun > oldest || it.ended.is_none());
        }
        Ok(())
    }
}

#[test]
fn it_knows_what_may_be_found() {
    let oracle = Oracle::default();
    let first = oracle.writes(1);
    oracle.wrote(1, first, true);
    assert!(oracle.found(1, first, oracle.tick()).is_ok());
    let second = oracle.writes(1);
    assert!(oracle.found(1, first, oracle.tick()).is_ok(), "both may be found");
    let begun = oracle.tick();
    oracle.wrote(1, second, true);
    assert!(oracle.found(1, first, begun).is_ok(), "it began before");
    assert!(oracle.found(1, first, oracle.tick()).is_err());
    // Finding the newer version makes it certain, though its write has not ended.
    let third = oracle.writes(1);
    assert!(oracle.found(1, third, oracle.tick()).is_ok());
    assert!(oracle.found(1, second, oracle.tick()).is_err());
    assert!(oracle.found(1, 77, oracle.tick()).is_err());
    // Two concurrent writes, one of which is found after both have ended: it has replaced the other.
    let (one, other) = (oracle.writes(2), oracle.writes(2));
    assert!(
        oracle.found(2, one, oracle.tick()).is_ok()
            && oracle.found(2, other, oracle.tick()).is_ok()
    );
    oracle.wrote(2, one, true);
    oracle.wrote(2, other, true);
    let both = oracle.tick();
    assert!(oracle.found(2, one, oracle.tick()).is_ok());
    assert!(oracle.found(2, other, both).is_ok(), "it may have looked before");
    assert!(oracle.found(2, other, oracle.tick()).is_err());
}
