//! Levelling in service: one step machine for an array, which its owner calls from time to time. It counts erases,
//! begins exchanges when they are due, copies at a pace, erases old copies when their dies are idle, and levels within
//! dies while nothing is exchanged.
//!
//! The owner gives the time, and once a second the latencies of the tenants. All state that must survive is in the
//! catalogue of the array ([`LevellingState`](crate::levelling::LevellingState)): after a kill, the machine goes on
//! with the exchange that it finds.
//!
//! ```text
//!              due (turns.rs)                    nothing is left
//!   ┌─ counts ─────────────► copies part by part ─────────────► exchange ended ─┐
//!   │    │                    │  ▲ pace, tenants' p99               (report.rs)  │
//!   │    └─ level_step        ▼  │                                              │
//!   │                        old copy is erased: die idle 5 ms, or 1 a second   │
//!   └────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! | file | content |
//! |---|---|
//! | `turns` | whose turn has come, and the gamma of a drive |
//! | `exchange`, `moving` | the exchange in progress, and its work |
//! | `load` | latencies of the tenants, before and during an exchange |
//! | `report` | what an operator sees |

mod exchange;
mod load;
mod moving;
mod report;
mod turns;

use std::collections::BTreeMap;

use larder_ssd::nand::DieIndex;
use larder_ssd::timed::Nanoseconds;
use larder_ssd::{Error, ErrorKind};

use crate::array::Vssds;
pub use crate::idle::{AlwaysIdle, Idle};
use crate::images::Images;
use crate::kind::{LogicalBlock, VssdId};
use crate::levelling::{PaceLimits, time_of};
pub use exchange::Cause;
use exchange::Exchange;
use load::TenantLoad;
pub use report::{ChannelReport, DriveReport, ExchangeReport, ServiceReport};

/// How levelling works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceOptions {
    /// Rate of an exchange.
    pub pace: PaceLimits,
    /// Blocks that a channel erases until its turn; `None` for the best forecast.
    pub gamma: Option<u64>,
    /// An exchange of which only open parts are left waits this time for their tenants to fill them.
    pub open_wait_ns: Nanoseconds,
    /// A die that is never idle for [`IDLE_NS`] erases an old copy once in this time.
    pub busy_erase_ns: Nanoseconds,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            pace: PaceLimits::default(),
            gamma: None,
            open_wait_ns: OPEN_WAIT_NS,
            busy_erase_ns: BUSY_ERASE_NS,
        }
    }
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// An exchange has begun.
    Begun,
    /// A part of `block` was copied to another die.
    Copied {
        /// The block.
        block: LogicalBlock,
        /// Pages of the part.
        pages: u32,
    },
    /// An old copy was erased, or a block was moved within its die.
    Erased,
    /// An exchange has ended.
    Ended,
    /// Nothing is to be done before this time, unless a tenant erases something.
    Rest {
        /// When to call again.
        until: Nanoseconds,
    },
}

/// An exchange of which only open parts are left waits this time for their tenants.
pub(crate) const OPEN_WAIT_NS: Nanoseconds = 10_000_000_000;
/// A die that is never idle erases once in this time.
pub(crate) const BUSY_ERASE_NS: Nanoseconds = 1_000_000_000;
/// A die that no tenant has used for this time may erase.
pub const IDLE_NS: Nanoseconds = 5_000_000;
/// How often erases are counted while there is nothing else to do.
const LOOK_NS: Nanoseconds = 100_000_000;
/// Counters are made durable when this number of erases has been added. Losing some postpones a turn by as many.
const KEEP_ERASES: u64 = 64;

/// Levelling of all drives of an array.
#[derive(Debug)]
pub struct WearService {
    options: ServiceOptions,
    exchange: Option<Exchange>,
    /// The exchange before.
    last: Option<ExchangeReport>,
    load: BTreeMap<VssdId, TenantLoad>,
    /// When a die last erased for a move.
    erased_at: BTreeMap<(u32, DieIndex), Nanoseconds>,
    /// By die: its erases when it was found to be level.
    level_at: BTreeMap<(u32, DieIndex), u64>,
    level_next: Nanoseconds,
    look_at: Nanoseconds,
    /// Counted erases at the last catalogue.
    kept: u64,
    /// Seconds since 1970, as the owner last said.
    unix_s: u64,
}

impl WearService {
    /// Levelling of an array that begins, or goes on where the catalogue says.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a pace whose limits are out of order, or a gamma of 0.
    pub fn new(options: ServiceOptions) -> Result<Self, Error> {
        options.pace.check()?;
        if options.gamma == Some(0) {
            return Err(Error::new(ErrorKind::Config, "gamma of 0: must be at least 1 block"));
        }
        Ok(Self {
            options,
            exchange: None,
            last: None,
            load: BTreeMap::new(),
            erased_at: BTreeMap::new(),
            level_at: BTreeMap::new(),
            level_next: 0,
            look_at: 0,
            kept: 0,
            unix_s: 0,
        })
    }

    /// Takes charge of an exchange that an operator has just begun.
    pub fn began<I: Images>(&mut self, now: Nanoseconds, array: &Vssds<I>) {
        self.begin_exchange(now, array, Cause::Asked);
    }

    fn drives<I: Images>(&self, array: &Vssds<I>) -> std::ops::Range<u32> {
        let drives = (0..).take_while(|&drive| array.drive(drive).is_some()).count();
        0..u32::try_from(drives).unwrap_or(u32::MAX)
    }

    /// Does at most one piece of work at time `now`: a part is copied, a block is erased, an exchange begins or ends.
    ///
    /// # Errors
    /// [`ErrorKind::PowerLoss`]; [`ErrorKind::ReadOnly`] if an exchange can neither go on nor be taken back.
    pub fn step<I: Images>(
        &mut self,
        now: Nanoseconds,
        array: &mut Vssds<I>,
        idle: &dyn Idle,
    ) -> Result<Step, Error> {
        if array.swap_under_way().is_some() {
            return self.exchange_step(now, array, idle);
        }
        if now >= self.look_at {
            self.look_at = now + LOOK_NS;
            if self.look(now, array)? {
                return Ok(Step::Begun);
            }
        }
        if self.level(now, array, idle)? {
            return Ok(Step::Erased);
        }
        Ok(Step::Rest { until: self.look_at })
    }

    /// Counts erases, and begins an exchange if one is due.
    fn look<I: Images>(&mut self, now: Nanoseconds, array: &mut Vssds<I>) -> Result<bool, Error> {
        for drive in self.drives(array) {
            let new = array.count_erases(drive);
            let paused = array.levelling(drive).is_none_or(|state| state.paused.is_some());
            if new == 0 || paused {
                continue;
            }
            self.note_day(array, drive);
            let Some(pairs) = self.due(array, drive) else { continue };
            match array.swap_begin(drive, &pairs) {
                Ok(()) => {
                    self.begin_exchange(now, array, Cause::Due);
                    return Ok(true);
                }
                // These dies cannot be exchanged: one is read-only, or a vSSD would share a channel. Others may be.
                Err(error) if error.kind() != ErrorKind::PowerLoss => {}
                Err(error) => return Err(error),
            }
        }
        self.keep(array)?;
        Ok(false)
    }

    /// Makes the counters durable, if enough was counted since the last time.
    fn keep<I: Images>(&mut self, array: &mut Vssds<I>) -> Result<(), Error> {
        let states = self.drives(array).filter_map(|drive| array.levelling(drive));
        let counted = states.map(|state| state.seen() + state.spent()).sum();
        if counted >= self.kept + KEEP_ERASES {
            array.keep_levelling()?;
            self.kept = counted;
        }
        Ok(())
    }

    /// Whether `die` may erase for a move now: it is idle, or has not done so for a while.
    fn may_erase(&self, now: Nanoseconds, idle: &dyn Idle, drive: u32, die: DieIndex) -> bool {
        let last = self.erased_at.get(&(drive, die));
        idle.idle_ns(drive, die) >= IDLE_NS
            || last.is_none_or(|at| now >= at + self.options.busy_erase_ns)
    }

    /// Moves a block within a die whose blocks are unevenly worn. Returns whether one was moved.
    fn level<I: Images>(
        &mut self,
        now: Nanoseconds,
        array: &mut Vssds<I>,
        idle: &dyn Idle,
    ) -> Result<bool, Error> {
        if now < self.level_next {
            return Ok(false);
        }
        for drive in self.drives(array) {
            if array.levelling(drive).is_none_or(|state| state.paused.is_some()) {
                continue;
            }
            let Some(geometry) = array.drive(drive).map(|raw| *raw.geometry()) else { continue };
            for die in (0..geometry.array.dies()).map(DieIndex) {
                let erases = array.erases_of(drive, die);
                let level_at = self.level_at.get(&(drive, die)).copied().unwrap_or(0);
                let some = u64::from(geometry.blocks_per_die).div_ceil(4);
                if erases < level_at + some || !self.may_erase(now, idle, drive, die) {
                    continue;
                }
                match array.level_step(drive, die) {
                    Ok(true) => {
                        self.erased_at.insert((drive, die), now);
                        let bytes =
                            u64::from(geometry.block_pages()) * u64::from(geometry.mapping_bytes);
                        self.level_next = now + time_of(bytes, self.options.pace.bytes_per_s);
                        return Ok(true);
                    }
                    Err(error) if error.kind() == ErrorKind::PowerLoss => return Err(error),
                    // Level, or the die takes no more blocks.
                    _ => drop(self.level_at.insert((drive, die), erases)),
                }
            }
        }
        Ok(false)
    }
}
