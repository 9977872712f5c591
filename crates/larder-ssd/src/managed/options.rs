//! The habits that a drive's firmware can be given.

/// Where garbage collection writes the live pages that it moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GcDestination {
    /// To the unit that the host is filling: host data and moved data mix. The textbook drive of
    /// the analytic formulas.
    HostFrontier,
    /// To a unit of its own, shared by all handles: NVMe FDP "initially isolated".
    Shared,
    /// To a unit of its own per handle: NVMe FDP "persistently isolated".
    PerHandle,
    /// To the unit that the host is filling with this handle, whosever data it was: the "noisy
    /// handle" that WARP (FAST'26) found behind initially isolated handles, and FEMU's default.
    Handle(u16),
}

/// On which dies the units of a reclaim group lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum GroupDies {
    /// On all: groups share every die and every channel.
    #[default]
    All,
    /// On dies of its own, on as many channels as they can be: groups wait for each other on
    /// channels, but not for each other's programs and erases.
    Dies,
    /// On channels of its own, with all their dies: groups share nothing but link and buffer.
    Channels,
}

/// Which full unit garbage collection reclaims. The file of each in `victim/` states its rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum VictimPolicy {
    /// The one with the fewest live pages.
    #[default]
    Greedy,
    /// The one that was filled first.
    Fifo,
    /// The one with the best (1 - u) · age / u, of u live.
    CostBenefit,
    /// The one with the fewest live pages of this many drawn at random.
    DChoices(u32),
    /// Any.
    Random,
    /// The one with the fewest live pages among this many that were filled first.
    Windowed(u32),
}

/// Among whose units garbage collection looks for its victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum VictimScope {
    /// Among those of all handles.
    #[default]
    Global,
    /// Among those of the handle that needs room, as long as reclaiming its choice frees a page.
    /// Then among all: each handle's choice is asked for and the one with the fewest live pages
    /// goes.
    PerHandle,
}

/// What becomes of a write that names a placement which the drive does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum InvalidPid {
    /// It is refused, so that mistakes are found.
    #[default]
    Reject,
    /// It goes to handle 0 of group 0 and leaves an event, as real drives do.
    UseDefault,
}

/// Collection ahead of need, of units that hold almost nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LazyCollection {
    /// It runs while fewer units than this are erased (in the group). It must be above the reserve.
    pub below_erased_units: u32,
    /// It stops at a victim with more live pages than this share of a unit. WARP (FAST'26) uses 5
    /// to 10.
    pub live_percent_max: u8,
}

/// How drives without FDP find sequential streams and keep them in units of their own ("save
/// sequential" in WARP, FAST'26).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SaveSequential {
    /// Streams that are followed at once; the one that rested longest is forgotten.
    pub streams: u8,
    /// A stream counts as sequential when it has gone on for this many pages.
    pub pages_min: u32,
}
