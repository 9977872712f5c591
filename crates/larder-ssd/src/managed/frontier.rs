//! Where the next page is written: placements as the host names them, streams as the firmware keeps them, and the
//! frontier that each stream fills.
//!
//! A *stream* is a sequence of host writes that share units. There is one for every active handle and one more on
//! drives that detect sequential writes. Frontiers are numbered group by group.

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

/// The kind of data that fills an open unit, with the number of its frontier. It is stored on the media with the unit,
/// so that the frontiers can be found again after a power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Host writes.
    Host(u32),
    /// Pages that garbage collection moves.
    Collection(u32),
    /// The pages of one cold unit; no frontier continues it.
    Levelling,
}
