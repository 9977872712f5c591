//! The namespaces of a drive: where they lie, which handles they have, which events they want.

#![deny(clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};

use super::super::event::{Event, EventType};
use super::super::fdp_log::HandleUsage;
use super::super::status::Status;

/// Most namespaces of a drive.
pub(super) const NAMESPACES_MAX: u32 = 256;

/// One namespace.
#[derive(Debug, Clone)]
pub(super) struct Namespace {
    /// First logical block on the drive.
    pub(super) start: u64,
    pub(super) blocks: u64,
    /// The reclaim unit handle behind each placement handle.
    pub(super) handles: Vec<u16>,
    /// Whether the host named them.
    named: bool,
    /// Event types enabled, by placement handle.
    enabled: BTreeSet<(u16, u8)>,
}

#[derive(Debug)]
pub(super) struct Namespaces {
    capacity: u64,
    all: BTreeMap<u32, Namespace>,
}

impl Namespaces {
    pub(super) fn new(capacity: u64) -> Self {
        Self { capacity, all: BTreeMap::new() }
    }

    pub(super) fn get(&self, nsid: u32) -> Result<&Namespace, Status> {
        self.all.get(&nsid).ok_or(Status::InvalidNamespace)
    }

    pub(super) fn get_mut(&mut self, nsid: u32) -> Result<&mut Namespace, Status> {
        self.all.get_mut(&nsid).ok_or(Status::InvalidNamespace)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn unallocated_blocks(&self) -> u64 {
        self.capacity - self.all.values().map(|namespace| namespace.blocks).sum::<u64>()
    }

    /// Creates a namespace in the first gap that is large enough.
    pub(super) fn create(
        &mut self,
        blocks: u64,
        handles: Vec<u16>,
        named: bool,
    ) -> Result<u32, Status> {
        if blocks == 0 {
            return Err(Status::InvalidField);
        }
        let nsid = (1..=NAMESPACES_MAX).find(|nsid| !self.all.contains_key(nsid));
        let nsid = nsid.ok_or(Status::CapacityExceeded)?;
        let start = self.gap(blocks).ok_or(Status::CapacityExceeded)?;
        let enabled = BTreeSet::new();
        self.all.insert(nsid, Namespace { start, blocks, handles, named, enabled });
        Ok(nsid)
    }

    pub(super) fn delete(&mut self, nsid: u32) -> Result<Namespace, Status> {
        self.all.remove(&nsid).ok_or(Status::InvalidNamespace)
    }

    /// What each of the drive's handles is used for.
    pub(super) fn usage(&self, handles: u16) -> Vec<HandleUsage> {
        let mut usage = vec![HandleUsage::Unused; usize::from(handles)];
        for namespace in self.all.values() {
            let by = if namespace.named { HandleUsage::Host } else { HandleUsage::Controller };
            for handle in &namespace.handles {
                if let Some(slot) = usage.get_mut(usize::from(*handle)) {
                    *slot = by;
                }
            }
        }
        usage
    }

    /// Whether anybody has asked for events of this kind: the namespace and handle that it is
    /// about, or any, if it is about none.
    pub(super) fn wants(&self, event: &Event) -> bool {
        let kind = event.kind.to_byte();
        let concerned = self.all.iter().filter(|(nsid, _)| event.nsid.is_none_or(|n| n == **nsid));
        concerned.flat_map(|(_, namespace)| &namespace.enabled).any(|(handle, enabled)| {
            *enabled == kind
                && event.placement_id.is_none_or(|pid| {
                    pid == *handle || {
                        // An identifier that does not exist concerns whoever asked for such events
                        // at all.
                        event.kind == EventType::InvalidPlacementId
                    }
                })
        })
    }

    fn gap(&self, blocks: u64) -> Option<u64> {
        let mut taken: Vec<_> = self.all.values().map(|n| (n.start, n.start + n.blocks)).collect();
        taken.sort_unstable();
        let mut start = 0;
        for (from, to) in taken {
            if from - start >= blocks {
                return Some(start);
            }
            start = to;
        }
        (self.capacity - start >= blocks).then_some(start)
    }
}

impl Namespace {
    /// The drive's block for block `slba`, if `blocks` blocks from there lie within the namespace.
    pub(super) fn locate(&self, slba: u64, blocks: u64) -> Result<u64, Status> {
        let end = slba.checked_add(blocks).ok_or(Status::LbaOutOfRange)?;
        if end > self.blocks {
            return Err(Status::LbaOutOfRange);
        }
        Ok(self.start + slba)
    }

    pub(super) fn enable_events(&mut self, handle: u16, kinds: &[u8], enabled: bool) {
        for kind in kinds {
            if enabled {
                self.enabled.insert((handle, *kind));
            } else {
                self.enabled.remove(&(handle, *kind));
            }
        }
    }

    pub(super) fn is_enabled(&self, handle: u16, kind: u8) -> bool {
        self.enabled.contains(&(handle, kind))
    }
}
