//! The namespaces of a drive: their location, LBA format and handles.

#![deny(clippy::indexing_slicing)]

use std::collections::BTreeMap;

use super::super::fdp_log::HandleUsage;
use super::super::namespace::LbaFormat;
use super::super::placement_id::PlacementId;
use super::super::status::Status;
use super::extent::Extent;
use crate::managed::{PAGE_BYTES, Placement};

/// Maximum number of namespaces of a drive.
pub(super) const NAMESPACES_MAX: u32 = 256;

/// One namespace.
#[derive(Debug, Clone)]
pub(super) struct Namespace {
    /// First page on the drive.
    pub(super) start: u64,
    pub(super) blocks: u64,
    pub(super) format: LbaFormat,
    /// The reclaim unit handle behind each placement handle.
    pub(super) handles: Vec<u16>,
    /// Whether the host listed the handles.
    named: bool,
}

#[derive(Debug)]
pub(super) struct Namespaces {
    capacity_pages: u64,
    all: BTreeMap<u32, Namespace>,
}

impl Namespaces {
    pub(super) fn new(capacity_pages: u64) -> Self {
        Self { capacity_pages, all: BTreeMap::new() }
    }

    pub(super) fn get(&self, nsid: u32) -> Result<&Namespace, Status> {
        self.all.get(&nsid).ok_or(Status::InvalidNamespace)
    }

    /// The identifiers above `nsid`, ascending.
    pub(super) fn behind(&self, nsid: u32) -> Vec<u32> {
        self.all.keys().copied().filter(|number| *number > nsid).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn unallocated_pages(&self) -> u64 {
        self.capacity_pages - self.all.values().map(Namespace::pages).sum::<u64>()
    }

    /// Creates a namespace in the first gap that is large enough.
    pub(super) fn create(
        &mut self,
        blocks: u64,
        format: LbaFormat,
        handles: Vec<u16>,
        named: bool,
    ) -> Result<u32, Status> {
        if blocks == 0 {
            return Err(Status::InvalidField);
        }
        let nsid = (1..=NAMESPACES_MAX).find(|nsid| !self.all.contains_key(nsid));
        let nsid = nsid.ok_or(Status::CapacityExceeded)?;
        let mut namespace = Namespace { start: 0, blocks, format, handles, named };
        namespace.start = self.gap(namespace.pages()).ok_or(Status::CapacityExceeded)?;
        self.all.insert(nsid, namespace);
        Ok(nsid)
    }

    pub(super) fn delete(&mut self, nsid: u32) {
        self.all.remove(&nsid);
    }

    /// Whether one of the handles is used by a namespace in another format.
    pub(super) fn use_in_another_format(&self, handles: &[u16], format: LbaFormat) -> bool {
        let others = self.all.values().filter(|namespace| namespace.format != format);
        others.flat_map(|namespace| &namespace.handles).any(|handle| handles.contains(handle))
    }

    /// The usage of each of the drive's handles.
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

    /// The namespace that holds page `page` of the drive.
    pub(super) fn at_page(&self, page: u64) -> Option<(u32, &Namespace)> {
        let holds = |namespace: &Namespace| {
            (namespace.start..namespace.start + namespace.pages()).contains(&page)
        };
        self.all.iter().find(|(_, n)| holds(n)).map(|(nsid, namespace)| (*nsid, namespace))
    }

    /// The namespace that uses reclaim unit handle `handle`, if exactly one does.
    pub(super) fn only_user_of(&self, handle: u16) -> Option<(u32, &Namespace)> {
        let mut users = self.all.iter().filter(|(_, n)| n.handles.contains(&handle));
        let (nsid, namespace) = users.next()?;
        users.next().is_none().then_some((*nsid, namespace))
    }

    fn gap(&self, pages: u64) -> Option<u64> {
        let mut taken: Vec<_> = self.all.values().map(|n| (n.start, n.start + n.pages())).collect();
        taken.sort_unstable();
        let mut start = 0;
        for (from, to) in taken {
            if from - start >= pages {
                return Some(start);
            }
            start = to;
        }
        (self.capacity_pages - start >= pages).then_some(start)
    }
}

impl Namespace {
    /// Pages of the namespace; the last one may be used only in part.
    pub(super) fn pages(&self) -> u64 {
        self.blocks.div_ceil(self.format.blocks_per_page())
    }

    /// The range on the drive of `blocks` blocks from `slba` on.
    pub(super) fn locate(&self, slba: u64, blocks: u64) -> Result<Extent, Status> {
        let end = slba.checked_add(blocks).ok_or(Status::LbaOutOfRange)?;
        if end > self.blocks {
            return Err(Status::LbaOutOfRange);
        }
        let (first, bytes) = (self.start * PAGE_BYTES, self.format.block_bytes());
        Ok(Extent { start: first + slba * bytes, end: first + end * bytes })
    }

    /// The same, plus the unused rest of the last page if the blocks reach the end of the namespace: deallocating all
    /// used blocks of that page then deallocates the page.
    pub(super) fn locate_to_free(&self, slba: u64, blocks: u64) -> Result<Extent, Status> {
        let extent = self.locate(slba, blocks)?;
        let reaches_the_end = blocks > 0 && slba + blocks == self.blocks;
        let end = (self.start + self.pages()) * PAGE_BYTES;
        Ok(if reaches_the_end { Extent { end, ..extent } } else { extent })
    }

    /// The blocks in page `page` of the drive, which must belong to the namespace: the first, and how many.
    pub(super) fn blocks_of(&self, page: u64) -> (u64, u64) {
        let first = (page - self.start) * self.format.blocks_per_page();
        (first, self.format.blocks_per_page().min(self.blocks - first))
    }

    /// Decodes a placement identifier, on a drive with `groups` reclaim groups.
    pub(super) fn placement(&self, pid: u16, rgif: u8, groups: u16) -> Option<Placement> {
        let PlacementId { group, handle } = PlacementId::decode(pid, rgif)?;
        let handle = *self.handles.get(usize::from(handle))?;
        (group < groups).then_some(Placement { group, handle })
    }

    /// The identifier of a placement in this namespace, if it has that handle.
    pub(super) fn placement_id(&self, placement: Placement, rgif: u8) -> Option<u16> {
        let handle = self.handles.iter().position(|handle| *handle == placement.handle)?;
        let handle = u16::try_from(handle).ok()?;
        PlacementId { group: placement.group, handle }.encode(rgif)
    }
}
