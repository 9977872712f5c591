//! Open counts of inodes: an inode without a name stays as long as it is open.

use std::collections::{BTreeSet, HashMap};

/// Open counts, and the inodes without a name.
#[derive(Debug)]
pub(super) struct OpenInodes {
    counts: HashMap<u64, u64>,
    /// Inodes without a name. A power loss leaves some that are not open any more.
    orphans: BTreeSet<u64>,
}

impl OpenInodes {
    /// Nothing is open, and a power loss has left `orphans`.
    pub(super) fn new(orphans: BTreeSet<u64>) -> Self {
        Self { counts: HashMap::new(), orphans }
    }

    /// Increases the open count of an inode.
    pub(super) fn hold(&mut self, ino: u64, times: u64) {
        *self.counts.entry(ino).or_default() += times;
    }

    /// Decreases the open count of an inode. Returns whether it is to be removed: it has no name and is not open any
    /// more.
    pub(super) fn release(&mut self, ino: u64, times: u64) -> bool {
        let Some(count) = self.counts.get_mut(&ino) else { return false };
        *count = count.saturating_sub(times);
        if *count > 0 {
            return false;
        }
        self.counts.remove(&ino);
        self.orphans.contains(&ino)
    }

    /// Records that an inode has lost its last name. Returns whether it stays, because it is open.
    pub(super) fn lost_last_name(&mut self, ino: u64) -> bool {
        let is_open = self.counts.contains_key(&ino);
        if is_open {
            self.orphans.insert(ino);
        }
        is_open
    }

    /// Records that an inode was removed.
    pub(super) fn removed(&mut self, ino: u64) {
        self.orphans.remove(&ino);
    }

    /// The inodes without a name.
    pub(super) fn orphans(&self) -> impl Iterator<Item = u64> {
        self.orphans.iter().copied()
    }

    /// Takes all inodes without a name, for the caller to remove them.
    pub(super) fn take_orphans(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.orphans)
    }
}
