//! Lines in use. Requests do not overlap, but two of them may use the same line.

use std::collections::HashMap;

#[derive(Debug, Default)]
struct Lock {
    /// Requests that read or write some of its sectors.
    users: u32,
    is_cleaned: bool,
    /// Number of destages that wait to clean the line.
    claims: u32,
}

/// By line, for lines in use.
#[derive(Debug, Default)]
pub(super) struct LineLocks(HashMap<u32, Lock>);

impl LineLocks {
    pub(super) fn add_user(&mut self, line: u32) {
        self.0.entry(line).or_default().users += 1;
    }

    /// Returns whether it was the last user.
    pub(super) fn remove_user(&mut self, line: u32) -> bool {
        self.change(line, |lock| {
            lock.users -= 1;
            lock.users == 0
        })
    }

    /// Whether the line is not in use: it may be cleaned, and if it is clean it may change owner.
    pub(super) fn is_idle(&self, line: u32) -> bool {
        self.0.get(&line).is_none_or(|lock| lock.users == 0 && !lock.is_cleaned)
    }

    /// Whether it may be written or made void: not while it is being cleaned, or about to be.
    pub(super) fn may_change(&self, line: u32) -> bool {
        self.0.get(&line).is_none_or(|lock| !lock.is_cleaned && lock.claims == 0)
    }

    /// # Panics
    /// If the line is in use.
    pub(super) fn begin_cleaning(&mut self, line: u32) {
        assert!(self.is_idle(line), "line {line} is in use");
        self.0.entry(line).or_default().is_cleaned = true;
    }

    pub(super) fn end_cleaning(&mut self, line: u32) {
        self.change(line, |lock| lock.is_cleaned = false);
    }

    pub(super) fn claim(&mut self, line: u32) {
        self.0.entry(line).or_default().claims += 1;
    }

    pub(super) fn end_claim(&mut self, line: u32) {
        self.change(line, |lock| lock.claims -= 1);
    }

    fn change<T>(&mut self, line: u32, change: impl FnOnce(&mut Lock) -> T) -> T {
        let lock = self.0.get_mut(&line).expect("a lock that was taken");
        let changed = change(lock);
        if lock.users == 0 && lock.claims == 0 && !lock.is_cleaned {
            self.0.remove(&line);
        }
        changed
    }
}
