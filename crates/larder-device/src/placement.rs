//! Where a write belongs: placement handles, and how a device's few handles are given out.

use std::fmt;

/// Where a write belongs. Resolved once, at start-up, from (tenant, lifetime class); never computed
/// per I/O.
///
/// Handle 0 is the device's default: what a write without a placement directive gets (NVMe:
/// placement handle 0 of the namespace). It is never handed out, so metadata and everything
/// undeclared share it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PlacementHandle(u16);

impl PlacementHandle {
    /// The handle of everything that names no other.
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

/// What a device offers to those who place data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacementInfo {
    /// Number of handles, the default among them. 1 means that the device cannot place.
    pub handles: u16,
    /// Bytes of one reclaim unit, if the device says so.
    pub reclaim_unit_bytes: Option<u64>,
    /// What garbage collection may mix, if the device says so.
    pub isolation: Option<Isolation>,
    /// How placement reaches the device, for people: "model", "none", …
    pub path: &'static str,
}

impl PlacementInfo {
    /// A device that cannot place: one handle, the default.
    pub const fn none() -> Self {
        Self { handles: 1, reclaim_unit_bytes: None, isolation: None, path: "none" }
    }

    /// Whether writes with different handles end up in different places.
    pub fn is_active(&self) -> bool {
        self.handles > 1
    }
}

/// One stream and the handle that it was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// Whose bytes these are, for people: "SOC", "LOC", …
    pub stream: String,
    /// The handle to write them with.
    pub handle: PlacementHandle,
    /// Whether the default had to serve because no handle was left.
    pub fell_back: bool,
}

/// Gives out the handles of one device. Never fails: when none is left the default serves, and the
/// assignment says so.
#[derive(Debug)]
pub struct HandleAllocator {
    free: Vec<u16>,
    assignments: Vec<Assignment>,
}

impl HandleAllocator {
    /// All handles of `placement` but the default are free.
    pub fn new(placement: &PlacementInfo) -> Self {
        Self { free: (1..placement.handles).rev().collect(), assignments: Vec::new() }
    }

    /// An allocator that has only the default to give: placement is switched off.
    pub fn disabled() -> Self {
        Self { free: Vec::new(), assignments: Vec::new() }
    }

    /// A handle for `stream`: the lowest free one, or the default.
    pub fn allocate(&mut self, stream: &str) -> PlacementHandle {
        let free = self.free.pop();
        let handle = free.map_or(PlacementHandle::DEFAULT, PlacementHandle);
        self.assignments.push(Assignment {
            stream: stream.to_owned(),
            handle,
            fell_back: free.is_none(),
        });
        handle
    }

    /// Takes back what `stream` was given; the handle can serve another stream.
    pub fn release(&mut self, stream: &str) {
        if let Some(at) = self.assignments.iter().position(|a| a.stream == stream) {
            let gone = self.assignments.remove(at);
            if !gone.fell_back {
                self.free.push(gone.handle.0);
                self.free.sort_unstable_by(|a, b| b.cmp(a));
            }
        }
    }

    /// Who has which handle, in the order of allocation.
    pub fn assignments(&self) -> &[Assignment] {
        &self.assignments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_serves_when_handles_run_out() {
        let info = PlacementInfo { handles: 3, ..PlacementInfo::none() };
        let mut handles = HandleAllocator::new(&info);
        assert_eq!(handles.allocate("SOC").index(), 1);
        assert_eq!(handles.allocate("LOC").index(), 2);
        assert_eq!(handles.allocate("other"), PlacementHandle::DEFAULT);
        let fell_back: Vec<bool> = handles.assignments().iter().map(|a| a.fell_back).collect();
        assert_eq!(fell_back, [false, false, true]);
    }

    #[test]
    fn a_released_handle_serves_again() {
        let info = PlacementInfo { handles: 3, ..PlacementInfo::none() };
        let mut handles = HandleAllocator::new(&info);
        handles.allocate("SOC");
        handles.allocate("LOC");
        handles.release("SOC");
        assert_eq!(handles.allocate("next").index(), 1);
    }

    #[test]
    fn a_device_without_placement_gives_only_the_default() {
        let mut handles = HandleAllocator::new(&PlacementInfo::none());
        assert_eq!(handles.allocate("SOC"), PlacementHandle::DEFAULT);
        assert!(handles.assignments()[0].fell_back);
    }
}
