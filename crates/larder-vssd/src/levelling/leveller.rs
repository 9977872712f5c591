//! The state of all units, with one trigger and one rule.
//!
//! Invariants: `erases` of a unit never decreases; erases of migrations are counted there and nowhere else; the known
//! rates of all tenants add up to about 1; a swap moves rates along with their tenants, so that a unit is judged by its
//! present tenant, not by the previous one.

use larder_ssd::{Error, ErrorKind};

use super::{SwapRule, Tenant, Trigger, Turns, UnitState, UnitWear};

/// Decides when to swap the tenants of which two units. The owner of the units reports erases, calls
/// [`due`](Self::due), migrates, and reports that with [`swapped`](Self::swapped).
///
/// ```
/// use larder_vssd::levelling::{Leveller, PairRule, Trigger, Turns};
///
/// # fn main() -> Result<(), larder_ssd::Error> {
/// let trigger = Trigger::Erases { gamma: 100, taper: None };
/// let mut leveller = Leveller::new(3, trigger, Turns::OneByOne, PairRule { migration_erases: 10 })?;
/// leveller.erased(1, 100);
/// assert_eq!(leveller.due(0), Some((1, 0)));
/// leveller.swapped((1, 0), 10);
/// assert_eq!(leveller.due(0), None);
/// leveller.erased(0, 100); // the same tenant, on its new unit
/// assert_eq!(leveller.due(0), Some((0, 2)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Leveller<R> {
    rule: R,
    trigger: Trigger,
    turns: Turns,
    units: Vec<Unit>,
    /// Time of the next turn, for a trigger of fixed periods.
    next_turn: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Unit {
    erases: u64,
    since_turn: u64,
    tenant: Tenant,
}

impl<R: SwapRule> Leveller<R> {
    /// For `units` new units.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for no units, or an invalid trigger.
    pub fn new(units: usize, trigger: Trigger, turns: Turns, rule: R) -> Result<Self, Error> {
        Self::resume(&vec![0; units], trigger, turns, rule)
    }

    /// For units with the given numbers of erased blocks. The rates of their tenants are unknown: the first turn comes
    /// when a unit has erased as many blocks as a turn takes.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn resume(erases: &[u64], trigger: Trigger, turns: Turns, rule: R) -> Result<Self, Error> {
        if erases.is_empty() {
            return Err(Error::new(ErrorKind::Config, "0 units to level: must be at least 1"));
        }
        trigger.check()?;
        let next_turn = match trigger {
            Trigger::Period { length } => length,
            Trigger::Erases { .. } => 0,
        };
        let units = erases.iter().map(|&erases| Unit { erases, ..Unit::default() }).collect();
        Ok(Self { rule, trigger, turns, units, next_turn })
    }

    /// Continues with counters and tenants that were stored; `units` has an entry for each unit.
    ///
    /// # Panics
    /// If it has not.
    #[must_use]
    pub fn with_state(mut self, units: &[UnitState]) -> Self {
        assert_eq!(units.len(), self.units.len(), "a state for each unit");
        for (unit, state) in self.units.iter_mut().zip(units) {
            (unit.since_turn, unit.tenant) = (state.since_turn, state.tenant());
        }
        self
    }

    /// Counters and tenants, to be stored.
    pub fn state(&self) -> Vec<UnitState> {
        self.units.iter().map(|unit| UnitState::of(unit.since_turn, unit.tenant)).collect()
    }

    /// Records that `blocks` blocks of `unit` were erased for its tenant.
    ///
    /// # Panics
    /// If there is no such unit.
    pub fn erased(&mut self, unit: usize, blocks: u64) {
        let unit = &mut self.units[unit];
        unit.erases += blocks;
        unit.since_turn += blocks;
        unit.tenant.recent += blocks;
    }

    /// The wear of each unit.
    pub fn wear(&self) -> Vec<UnitWear> {
        let wear = |unit: &Unit| UnitWear {
            erases: unit.erases,
            since_turn: unit.since_turn,
            rate: unit.tenant.rate,
        };
        self.units.iter().map(wear).collect()
    }

    /// The pair to swap, if a swap is due. One swap at a time: call this again when it is done, because several units
    /// may have a turn at the same time. `now` is for triggers of fixed periods, in their unit of time, from 0 on;
    /// other triggers ignore it.
    pub fn due(&mut self, now: u64) -> Option<(usize, usize)> {
        self.take_rates(now);
        while let Some(horizon) = self.next_turn(now) {
            let wear = self.wear();
            self.take_turn();
            if let Some((i, j)) = self.rule.choose(&wear, horizon) {
                assert!(i != j && i.max(j) < wear.len(), "a rule chose {i} and {j}");
                return Some((i, j));
            }
        }
        None
    }

    /// Records that the tenants of `pair` were swapped, with `migration_erases` blocks erased on each unit.
    ///
    /// # Panics
    /// If there are no such units.
    pub fn swapped(&mut self, pair: (usize, usize), migration_erases: u64) {
        let (i, j) = pair;
        assert_ne!(i, j, "a unit exchanges tenants with another one");
        let first = self.units[i].tenant;
        self.units[i].tenant = std::mem::replace(&mut self.units[j].tenant, first);
        self.migrated(i, migration_erases);
        self.migrated(j, migration_erases);
    }

    /// Records that a migration erased `blocks` blocks of `unit`. They do not count towards the rate of any tenant.
    ///
    /// # Panics
    /// If there is no such unit.
    pub fn migrated(&mut self, unit: usize, blocks: u64) {
        self.units[unit].erases += blocks;
    }

    /// The tenant of `unit`.
    ///
    /// # Panics
    /// If there is no such unit.
    pub fn tenant(&self, unit: usize) -> Tenant {
        self.units[unit].tenant
    }

    /// Assigns `tenant` to `unit`. `Tenant::default()` is a tenant with unknown rate.
    ///
    /// # Panics
    /// If there is no such unit.
    pub fn seat(&mut self, unit: usize, tenant: Tenant) {
        self.units[unit].tenant = tenant;
    }

    /// Restarts the turns of all units, after a swap that makes their pending turns unnecessary.
    pub fn clear_turns(&mut self) {
        self.units.iter_mut().for_each(|unit| unit.since_turn = 0);
    }

    /// Updates the rates if the period for them has ended: when a tenant has erased as many blocks as a turn takes, or
    /// at the turn of a fixed period. Returns whether it has.
    pub(crate) fn take_rates(&mut self, now: u64) -> bool {
        let ended = match self.threshold() {
            Some(threshold) => self.units.iter().any(|unit| unit.tenant.recent >= threshold),
            None => now >= self.next_turn,
        };
        let all: u64 = self.units.iter().map(|unit| unit.tenant.recent).sum();
        if ended && all > 0 {
            self.units.iter_mut().for_each(|unit| unit.tenant.end_period(all));
        }
        ended && all > 0
    }

    /// If a turn is due: how many blocks a busy unit will erase until its next turn.
    fn next_turn(&self, now: u64) -> Option<u64> {
        let most = self.units.iter().map(|unit| unit.since_turn).max()?;
        match self.threshold() {
            Some(threshold) => (most >= threshold).then_some(threshold),
            None => (now >= self.next_turn).then_some(most),
        }
    }

    /// Ends the turn by clearing the counters of the units that had it.
    fn take_turn(&mut self) {
        if let Trigger::Period { length } = self.trigger {
            // Missed turns are not made up for.
            self.next_turn = self.next_turn.saturating_add(length);
            return self.clear_turns();
        }
        match self.turns {
            Turns::Together => self.clear_turns(),
            Turns::OneByOne => {
                let first = self.units.iter_mut().rev().max_by_key(|unit| unit.since_turn);
                first.into_iter().for_each(|unit| unit.since_turn = 0);
            }
        }
    }

    fn threshold(&self) -> Option<u64> {
        self.trigger.threshold(self.units.iter().map(|unit| unit.erases).max().unwrap_or(0))
    }
}
