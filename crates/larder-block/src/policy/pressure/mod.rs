//! Pressure: decides which writes bypass a write-back cache that is full of dirty data. Such a write needs room, and
//! room is made by destaging other data. If that costs the core more than the write itself, the write goes to the
//! core.
//!
//! ```text
//!             little room, half is dirty           none for a write
//!   Absorb ─────────────────────────────► Pressure ─────────────────► Saturated
//!     ▲                                    │    ▲                      │
//!     └────────────────────────────────────┘    └──────────────────────┘
//!       more room again, or less than 40 %            some room again
//! ```
//!
//! - `Absorb`: all writes are cached.
//! - `Pressure`: long writes and streams bypass the cache, if that is cheaper for the core.
//! - `Saturated`: every write that is cheaper for the core bypasses the cache, except writes of cached data.
//!
//! Costs are measured as the time in which the core is busy. Writes begin to bypass the cache when that is cheaper by
//! a fifth. In `Absorb` nothing is measured.

mod costs;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::layout::{CoreId, DeviceIo, Room};
use crate::{Error, ErrorKind};
pub(crate) use costs::CoreIo;
use costs::{Costs, Kind};

/// Writes of at least this length are long.
const LONG_BYTES: u64 = 64 << 10;
/// Dirty share of the cache in percent at which pressure begins, and below which it ends.
const DIRTY_PERCENT: [u8; 2] = [50, 40];
/// Number of refused writes of a kind after which its cost is measured again.
const ASKED_AGAIN: u32 = 1000;

/// Which writes bypass a write-back cache that is full of dirty data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BypassPolicy {
    /// None: writes wait for room.
    Never,
    /// Writes that cost the core less than destaging the data in their place. Needs the time whenever I/Os are issued
    /// and end ([`Cache::at`](crate::cache::Cache::at)).
    #[default]
    Cost,
    /// All writes that find no room.
    Full,
}

const POLICIES: [(BypassPolicy, &str); 3] =
    [(BypassPolicy::Never, "never"), (BypassPolicy::Cost, "cost"), (BypassPolicy::Full, "full")];

impl fmt::Display for BypassPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = POLICIES.into_iter().find(|(policy, _)| policy == self).map(|(_, name)| name);
        f.write_str(name.expect("each has a name"))
    }
}

impl FromStr for BypassPolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = POLICIES.into_iter().find(|(_, name)| text == *name);
        found.map(|(policy, _)| policy).ok_or_else(|| {
            let message = format!("bypass {text:?}: give never, cost or full");
            Error::new(ErrorKind::Setup, message)
        })
    }
}

/// The state of the [pressure](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PressureState {
    /// There is room: all writes are cached.
    #[default]
    Absorb,
    /// The next write has room; for more room, dirty data must be destaged.
    Pressure,
    /// No write has room before data is destaged.
    Saturated,
}

impl PressureState {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Absorb => "absorb",
            Self::Pressure => "pressure",
            Self::Saturated => "saturated",
        }
    }
}

/// A write whose data would become dirty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteFacts {
    pub(crate) core: CoreId,
    pub(crate) bytes: u64,
    /// Whether it continues an earlier write.
    pub(crate) is_stream: bool,
    /// Whether a part of it is cached.
    pub(crate) has_cached: bool,
    pub(crate) room: Room,
    /// The dirty share of the capacity.
    pub(crate) dirty_percent: u8,
}

/// Tracks the pressure; see the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    policy: BypassPolicy,
    state: PressureState,
    costs: Costs,
    /// By core and kind of write: whether it bypasses the cache, and the number of refused writes since that changed.
    worth: BTreeMap<(CoreId, Kind), (bool, u32)>,
}

impl Pressure {
    pub(crate) fn new(policy: BypassPolicy) -> Self {
        Self { policy, ..Self::default() }
    }

    pub(crate) fn state(&self) -> PressureState {
        self.state
    }

    /// Whether it needs the time.
    pub(crate) fn measures(&self) -> bool {
        self.policy == BypassPolicy::Cost && self.state != PressureState::Absorb
    }

    /// An I/O is issued. `None` if its completion is of no interest.
    pub(crate) fn begins(&mut self, io: &DeviceIo, now: Duration) -> Option<CoreIo> {
        if self.measures() { self.costs.begins(io, now) } else { None }
    }

    /// An I/O has ended.
    pub(crate) fn ended(&mut self, io: &CoreIo, now: Duration) {
        self.costs.ended(io, now);
    }

    /// Whether a write bypasses the cache. Call it for each write that would be dirty.
    pub(crate) fn passes(&mut self, write: &WriteFacts) -> bool {
        if self.policy == BypassPolicy::Never {
            return false;
        }
        self.state = self.next_state(write);
        match (self.state, self.policy) {
            (PressureState::Absorb, _) | (_, BypassPolicy::Never) => false,
            (PressureState::Saturated, BypassPolicy::Full) => true,
            (PressureState::Pressure, BypassPolicy::Full) => false,
            (PressureState::Pressure, BypassPolicy::Cost) => {
                (write.is_stream || write.bytes >= LONG_BYTES) && self.is_cheaper(write)
            }
            // Bypassing cached data requires a record that invalidates it, and that record needs room too.
            (PressureState::Saturated, BypassPolicy::Cost) => {
                !write.has_cached && self.is_cheaper(write)
            }
        }
    }

    fn next_state(&self, write: &WriteFacts) -> PressureState {
        let WriteFacts { bytes, room: Room { bytes: free, step_bytes: step }, .. } = *write;
        let [from, below] = DIRTY_PERCENT;
        match self.state {
            PressureState::Absorb if free >= 2 * step || write.dirty_percent < from => {
                PressureState::Absorb
            }
            _ if free >= 3 * step || write.dirty_percent < below => PressureState::Absorb,
            PressureState::Saturated if free < bytes + step / 4 => PressureState::Saturated,
            _ if free < bytes + step / 8 => PressureState::Saturated,
            _ => PressureState::Pressure,
        }
    }

    /// Whether the write costs the core less than destaging the data in its place.
    fn is_cheaper(&mut self, write: &WriteFacts) -> bool {
        let WriteFacts { core, bytes, is_stream, dirty_percent, .. } = *write;
        let kind = Kind::of(bytes, is_stream);
        let dirty_bytes = bytes * u64::from(dirty_percent) / 100;
        let costs =
            (self.costs.of_writing(core, kind, bytes), self.costs.of_destaging(dirty_bytes));
        let (Some(writing), Some(destaging)) = costs else { return false };
        let (passes, refused) = self.worth.entry((core, kind)).or_default();
        let limit = if *passes { destaging } else { destaging / 5 * 4 };
        *passes = writing < limit;
        if *passes {
            *refused = 0;
        } else {
            *refused += 1;
            if *refused >= ASKED_AGAIN {
                *refused = 0;
                self.costs.forget(core, kind);
            }
        }
        *passes
    }
}

#[cfg(test)]
mod tests;
