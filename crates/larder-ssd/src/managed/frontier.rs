//! Where the next page is written: placements as the host names them, streams as the firmware keeps them, and the
//! frontier that each stream fills.
//!
//! A *stream* is a sequence of host writes that share units. There is one for every active handle and one more on
//! drives that detect sequential writes. Frontiers are numbered group by group.

use super::config::ManagedConfig;
use super::options::GcDestination;
use super::units::{Owner, Role};

/// The placement of a write: a reclaim group and a handle in it (NVMe's placement identifier).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Placement {
    /// Reclaim group; 0 on drives with one.
    pub group: u16,
    /// Reclaim unit handle.
    pub handle: u16,
}

/// The pages of an open unit that are still to be written; empty when no unit is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Frontier {
    pub(crate) next: u32,
    pub(crate) end: u32,
}

impl Frontier {
    #[inline]
    pub(crate) fn room(self) -> u32 {
        self.end - self.next
    }

    /// Whether a unit was ever opened for this frontier; the unit may be full by now.
    pub(crate) fn is_of_a_unit(self) -> bool {
        self.end != 0
    }
}

/// All frontiers. Host frontier `index` is that of stream `index % streams` of group `index / streams`; the first
/// streams of a group are its active handles.
#[derive(Debug)]
pub(super) struct Frontiers {
    host: Vec<Frontier>,
    /// Per group none, one, or one per stream: see [`GcDestination`].
    collection: Vec<Frontier>,
    streams: usize,
    groups: u16,
    active_handles: u16,
    destination: GcDestination,
}

impl Frontiers {
    pub(super) fn new(config: &ManagedConfig) -> Self {
        let groups = usize::from(config.groups);
        Self {
            host: vec![Frontier::default(); groups * config.streams()],
            collection: vec![Frontier::default(); groups * config.gc_frontiers()],
            streams: config.streams(),
            groups: config.groups,
            active_handles: config.active_handles(),
            destination: config.gc_destination,
        }
    }

    /// Forgets all open units.
    pub(super) fn clear(&mut self) {
        self.host.fill(Frontier::default());
        self.collection.fill(Frontier::default());
    }

    /// The host frontier of an active placement.
    #[inline]
    pub(super) fn index_of(&self, placement: Placement) -> Option<usize> {
        let known = placement.group < self.groups && placement.handle < self.active_handles;
        known.then(|| usize::from(placement.group) * self.streams + usize::from(placement.handle))
    }

    /// The host frontier of sequential streams, on a drive that detects them.
    pub(super) fn sequential(&self) -> usize {
        self.streams - 1
    }

    /// The numbers of all host frontiers.
    pub(super) fn host_indices(&self) -> std::ops::Range<usize> {
        0..self.host.len()
    }

    #[inline]
    pub(super) fn host(&self, index: usize) -> Frontier {
        self.host[index]
    }

    #[inline]
    pub(super) fn host_mut(&mut self, index: usize) -> &mut Frontier {
        &mut self.host[index]
    }

    /// The frontier of `role`, unless that is levelling, which keeps its own.
    pub(super) fn of(&self, role: Role) -> Option<Frontier> {
        match role {
            Role::Host(index) => Some(self.host[index as usize]),
            Role::Collection(index) => Some(self.collection[index as usize]),
            Role::Levelling => None,
        }
    }

    /// Sets the frontier of `role`. Returns false, and does nothing, if that is levelling.
    pub(super) fn set(&mut self, role: Role, frontier: Frontier) -> bool {
        match role {
            Role::Host(index) => self.host[index as usize] = frontier,
            Role::Collection(index) => self.collection[index as usize] = frontier,
            Role::Levelling => return false,
        }
        true
    }

    /// Number of frontiers that have room.
    pub(super) fn with_room(&self) -> usize {
        let all = self.host.iter().chain(&self.collection);
        all.filter(|frontier| frontier.room() > 0).count()
    }

    /// Streams of each group.
    pub(super) fn streams(&self) -> usize {
        self.streams
    }

    /// The group of host frontier `index`.
    pub(super) fn group_of(&self, index: usize) -> usize {
        index / self.streams
    }

    /// The stream of host frontier `index`, as a number in its group.
    #[inline]
    pub(super) fn stream_of(&self, index: usize) -> usize {
        index % self.streams
    }

    /// The stream that writes the data of `owner`, as a number in its group; `None` if there is not just one.
    pub(super) fn stream_of_owner(&self, owner: Owner) -> Option<usize> {
        match owner {
            Owner::Handle(handle) => Some(usize::from(handle)),
            Owner::Sequential => Some(self.sequential()),
            Owner::Mixed | Owner::Unowned => None,
        }
    }

    /// The owner of the units that host frontier `index` fills.
    pub(super) fn owner_of(&self, index: usize) -> Owner {
        match u16::try_from(self.stream_of(index)) {
            Ok(handle) if handle < self.active_handles => Owner::Handle(handle),
            _ => Owner::Sequential,
        }
    }

    /// The placement whose writes go to host frontier `index`.
    pub(super) fn placement_of(&self, index: usize) -> Placement {
        let narrow = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        let handle = match self.owner_of(index) {
            Owner::Handle(handle) => handle,
            _ => 0,
        };
        Placement { group: narrow(self.group_of(index)), handle }
    }

    /// The owner of the units to which data of `owner` is moved, and the role of the frontier to use.
    pub(super) fn destination(&self, group: usize, owner: Owner) -> (Owner, Role) {
        let stream = self.stream_of_owner(owner).unwrap_or(0);
        let index = narrow(group * self.streams + stream);
        match self.destination {
            GcDestination::HostFrontier => (owner, Role::Host(index)),
            GcDestination::Handle(handle) => {
                let index = narrow(group * self.streams) + u32::from(handle);
                (Owner::Handle(handle), Role::Host(index))
            }
            GcDestination::Shared => (Owner::Mixed, Role::Collection(narrow(group))),
            GcDestination::PerHandle => (owner, Role::Collection(index)),
        }
    }
}

/// Numbers of frontiers are below 2^32, as the check of the configuration ensures.
#[allow(clippy::cast_possible_truncation)]
fn narrow(n: usize) -> u32 {
    n as u32
}
