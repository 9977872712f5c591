//! What levelling knows of a drive and must not forget. The catalogue stores it.
//!
//! Invariant: `seen + spent` of a die is at most its erases. The other erases have not been counted yet.

use super::{Tenant, UnitWear};

/// Levelling of a drive, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LevellingState {
    /// Blocks that a channel erases until its turn; `None` before the first choice.
    pub gamma: Option<Gamma>,
    /// Why nothing is moved at present; `None` if levelling goes on.
    pub paused: Option<PausedBy>,
    /// Exchanges that were completed.
    pub exchanges: u64,
    /// Pages that exchanges and steps within a die have copied.
    pub moved_pages: u64,
    /// Erases over time.
    pub daily: DailyErases,
    /// By channel.
    pub channels: Vec<UnitState>,
    /// By die.
    pub dies: Vec<DieState>,
}

/// Blocks that a channel erases until its turn, and where the number comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gamma {
    /// At least 1.
    pub blocks: u64,
    /// Its source.
    pub source: GammaSource,
}

/// Where a gamma comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GammaSource {
    /// A part of the endurance, because rates are not known yet.
    Endurance,
    /// The forecast with the longest life, at the rates and the live blocks at that time.
    Forecast,
    /// An option of the owner.
    Given,
}

/// The cause of a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PausedBy {
    /// An operator asked for it.
    Operator,
    /// A die became read-only during an exchange, which was taken back.
    WornDie,
}

/// Erases for tenants in a period of wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DailyErases {
    /// Begin of the period in seconds since 1970; 0 before the first.
    pub since_unix_s: u64,
    /// Erases for tenants of the whole drive at that time.
    pub erases_then: u64,
    /// Erases a day of the period before.
    pub before: u64,
}

/// A channel or a die, and the tenant on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnitState {
    /// Blocks erased for tenants of the unit since its last turn.
    pub since_turn: u64,
    /// Blocks erased for the present tenant since rates were last updated.
    pub recent: u64,
    /// Share of the present tenant in all erases, in 10^-9; `None` if unknown.
    pub rate_ppb: Option<u32>,
}

/// A die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DieState {
    /// Erases for tenants that were counted.
    pub seen: u64,
    /// Erases for moves: old blocks of exchanges and of steps within the die.
    pub spent: u64,
    /// The die as a unit of its channel.
    pub unit: UnitState,
}

/// Shares are stored in this unit.
const PPB: f64 = 1e9;

impl LevellingState {
    /// A drive about which nothing is known.
    pub(crate) fn new(channels: u32, dies: u32) -> Self {
        Self {
            channels: vec![UnitState::default(); channels as usize],
            dies: vec![DieState::default(); dies as usize],
            ..Self::default()
        }
    }

    /// Blocks erased for moves so far.
    pub fn spent(&self) -> u64 {
        self.dies.iter().map(|die| die.spent).sum()
    }

    /// Blocks erased for tenants so far, as far as they are counted.
    pub fn seen(&self) -> u64 {
        self.dies.iter().map(|die| die.seen).sum()
    }
}

impl UnitState {
    /// The wear of this unit, which has erased `erases` blocks.
    pub fn wear(&self, erases: u64) -> UnitWear {
        let rate = self.rate_ppb.map(|ppb| f64::from(ppb) / PPB);
        UnitWear { erases, since_turn: self.since_turn, rate }
    }

    pub(super) fn tenant(&self) -> Tenant {
        Tenant { rate: self.wear(0).rate, recent: self.recent }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // shares are 0 to 1
    pub(super) fn of(since_turn: u64, tenant: Tenant) -> Self {
        let rate_ppb = tenant.rate.map(|rate| (rate.clamp(0.0, 1.0) * PPB).round() as u32);
        Self { since_turn, recent: tenant.recent, rate_ppb }
    }

    /// Exchanges the tenants of two units.
    pub(crate) fn exchange(one: &mut Self, other: &mut Self) {
        std::mem::swap(&mut one.recent, &mut other.recent);
        std::mem::swap(&mut one.rate_ppb, &mut other.rate_ppb);
    }
}
