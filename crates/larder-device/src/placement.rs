//! Placement handles, and the placement that a device offers. The cache decides which data gets which handle
//! (`larder::plan`).

use std::fmt;

/// Where a write belongs. Resolved once, at start-up, from (tenant, lifetime class); never computed per request.
///
/// Handle 0 is the device's default, which a write without a placement directive gets (NVMe: placement handle 0 of the
/// namespace). It is never assigned to a stream, so metadata and everything undeclared share it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PlacementHandle(u16);

impl PlacementHandle {
    /// The handle of writes that name no other.
    pub const DEFAULT: Self = Self(0);

    /// The handle at `index` of the device's list.
    pub const fn new(index: u16) -> Self {
        Self(index)
    }

    /// Position in the device's list of placement handles.
    pub const fn index(self) -> u16 {
        self.0
    }
}

impl fmt::Display for PlacementHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What garbage collection may do with the data of one handle (NVMe FDP reclaim unit handle type).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isolation {
    /// Host writes of different handles never share a reclaim unit, but garbage collection may mix
    /// what it moves.
    InitiallyIsolated,
    /// Moved data shares a reclaim unit only with data of the same handle.
    PersistentlyIsolated,
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InitiallyIsolated => "initially isolated",
            Self::PersistentlyIsolated => "persistently isolated",
        })
    }
}

/// The placement that a device offers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacementInfo {
    /// Number of handles, including the default. 1 means that the device cannot place.
    pub handles: u16,
    /// Reclaim groups that the handles belong to. All groups have the same number of handles, listed group by group.
    /// Data written with handles of different groups share neither reclaim units nor garbage collection, and each group
    /// has room only for its part of the device.
    pub groups: u16,
    /// Bytes of one reclaim unit, if the device reports it.
    pub reclaim_unit_bytes: Option<u64>,
    /// What garbage collection may mix, if the device reports it.
    pub isolation: Option<Isolation>,
    /// How placement reaches the device, for people: "model", "none", …
    pub path: &'static str,
}

impl PlacementInfo {
    /// A device that cannot place: one handle, the default.
    pub const fn none() -> Self {
        Self { handles: 1, groups: 1, reclaim_unit_bytes: None, isolation: None, path: "none" }
    }

    /// Whether writes with different handles end up in different places.
    pub fn is_active(&self) -> bool {
        self.handles > 1
    }

    /// The number of reclaim groups; 1 if the device's number is impossible.
    pub fn groups(&self) -> u16 {
        let divides = self.groups > 0 && self.handles.is_multiple_of(self.groups);
        if divides { self.groups } else { 1 }
    }

    /// Handles of each group. The first one is the default of its group.
    pub fn handles_per_group(&self) -> u16 {
        self.handles / self.groups()
    }

    /// Handle `number` of reclaim group `group`. `None` if there is no such handle.
    pub fn handle(&self, group: u16, number: u16) -> Option<PlacementHandle> {
        let exists = group < self.groups() && number < self.handles_per_group();
        exists.then(|| PlacementHandle(group * self.handles_per_group() + number))
    }
}

/// The way in which placement reaches a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlacementPath {
    /// Write streams of the block layer.
    WriteStreams,
    /// NVMe commands with a data placement directive.
    Passthrough,
    /// The handles of a simulated drive.
    Model,
    /// No placement.
    None,
}

impl PlacementPath {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::WriteStreams => "write streams",
            Self::Passthrough => "passthrough",
            Self::Model => "model",
            Self::None => "none",
        }
    }
}

impl fmt::Display for PlacementPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WriteStreams => "write streams",
            Self::Passthrough => "NVMe passthrough",
            Self::Model => "model",
            Self::None => "none",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_listed_group_by_group() {
        let two = PlacementInfo { handles: 8, groups: 2, ..PlacementInfo::none() };
        assert_eq!(two.handles_per_group(), 4);
        assert_eq!(two.handle(1, 3), Some(PlacementHandle(7)));
        assert_eq!(two.handle(1, 4), None);
        assert_eq!(two.handle(2, 0), None);
        assert_eq!(PlacementInfo::none().handle(0, 0), Some(PlacementHandle::DEFAULT));
    }

    #[test]
    fn a_device_that_says_nonsense_has_one_group() {
        for groups in [0, 9] {
            let odd = PlacementInfo { handles: 8, groups, ..PlacementInfo::none() };
            assert_eq!((odd.groups(), odd.handles_per_group()), (1, 8));
        }
    }
}
