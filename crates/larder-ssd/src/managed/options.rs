//! Options of the drive's firmware.

/// Where garbage collection writes the live pages that it moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GcDestination {
    /// To the unit that the host is filling: host data and moved data mix. This is the drive of the analytic formulas.
    HostFrontier,
    /// To a unit of its own, shared by all handles: NVMe FDP "initially isolated".
    Shared,
    /// To a unit of its own per handle: NVMe FDP "persistently isolated".
    PerHandle,
    /// To the unit that the host is filling with this handle, whatever handle the data belongs to: the "noisy handle"
    /// that WARP (FAST'26) found behind initially isolated handles, and FEMU's default.
    Handle(u16),
}

/// The dies on which the units of a reclaim group lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum GroupDies {
    /// All dies: groups share every die and every channel.
    #[default]
    All,
    /// Separate dies per group, spread over as many channels as possible: groups wait for each other on channels, but
    /// not for each other's programs and erases.
    Dies,
    /// Separate channels per group, with all their dies: groups share only the link and the buffer.
    Channels,
}

/// Which full unit garbage collection reclaims. The file of each policy in `victim/` states its rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum VictimPolicy {
    /// The one with the fewest live pages.
    #[default]
    Greedy,
    /// The one that was filled first.
    Fifo,
    /// The one with the best (1 - u) · age / u, where u is the live share.
    CostBenefit,
    /// The one with the fewest live pages among this many drawn at random.
    DChoices(u32),
    /// Any, at random.
    Random,
    /// The one with the fewest live pages among this many that were filled first.
    Windowed(u32),
}

/// The units among which garbage collection looks for its victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum VictimScope {
    /// Units of all handles.
    #[default]
    Global,
    /// Units of the handle that needs room, as long as reclaiming the policy's choice frees a page. Otherwise the
    /// policy chooses one unit per handle, and the one with the fewest live pages is reclaimed.
    PerHandle,
}

/// How to treat a write that names a placement which the drive does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum InvalidPid {
    /// Refuse it, so that mistakes are found.
    #[default]
    Reject,
    /// Write to handle 0 of group 0 and record an event, as real drives do.
    UseDefault,
}

/// Collection of almost empty units ahead of need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LazyCollection {
    /// Collection ahead of need runs while fewer units than this are erased (in the group). Must be above the reserve.
    pub below_erased_units: u32,
    /// It stops at a victim with more live pages than this percentage of a unit. WARP (FAST'26) uses 5 to 10.
    pub live_percent_max: u8,
}

/// How drives without FDP detect sequential streams and keep them in separate units ("save sequential" in WARP,
/// FAST'26).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SaveSequential {
    /// Number of streams tracked at the same time; the one that has been idle for longest is dropped.
    pub streams: u8,
    /// Pages after which a stream counts as sequential.
    pub pages_min: u32,
}
