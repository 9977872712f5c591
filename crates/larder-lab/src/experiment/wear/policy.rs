//! When which exchange is made.

use larder_ssd::analytic::levelling::Rotation;
use larder_ssd::vssd::levelling::{
    Carry, DieLevelling, Leveller, LiteralRule, PairRule, SwapRule, Trigger, Turns,
};

use super::rated::{ALPHA, Rated};
use super::years::STEPS_PER_WEEK;
use crate::Error;

/// How channels are levelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channels {
    /// Not at all.
    Never,
    /// The paper's rule with its trigger: all counters cleared at each exchange.
    Literal,
    /// The pair rule with the paper's counters, so many times as often as gamma.
    Together(u32),
    /// The pair rule as it is by default, so many times as often as gamma: turns one by one, shorter
    /// near the end of life.
    Pair(u32),
    /// The pair rule, one exchange each so many weeks.
    Weeks(u64),
}

/// How dies are levelled, when channels are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dies {
    /// What is made of the dies of channels that exchange places.
    pub(super) carry: Carry,
    /// Whether dies of a channel exchange places by themselves.
    pub(super) by_themselves: bool,
}

/// All of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) channels: Channels,
    pub(super) dies: Dies,
    /// Migrations wear nothing.
    pub(super) free: bool,
}

/// A leveller of channels, whatever its rule.
pub(super) type ChannelLeveller = Leveller<Box<dyn SwapRule>>;

impl Policy {
    /// Channels alone.
    pub(super) const fn of(channels: Channels) -> Self {
        let dies = Dies { carry: Carry::AsTheyAre, by_themselves: false };
        Self { channels, dies, free: false }
    }

    /// The same with migrations that wear nothing.
    pub(super) const fn for_free(self) -> Self {
        Self { free: true, ..self }
    }

    /// Blocks that a migration erases on a die.
    pub(super) fn die_migration(&self, rated: &Rated) -> u64 {
        if self.free { 0 } else { rated.die_migration() }
    }

    /// The leveller of the channels; `None` if nothing is exchanged.
    pub(super) fn channels(&self, rated: &Rated) -> Result<Option<ChannelLeveller>, Error> {
        let migration_erases = self.die_migration(rated) * rated.dies as u64;
        let units = u32::try_from(rated.channels).unwrap_or(u32::MAX);
        let by_erases = |divisor, tapered| {
            let erases = rated.channel_erases();
            trigger(rated, units, divisor, erases, migration_erases, tapered)
        };
        let pair = || Box::new(PairRule { migration_erases }) as Box<dyn SwapRule>;
        let (rule, turns, trigger): (Box<dyn SwapRule>, _, _) = match self.channels {
            Channels::Never => return Ok(None),
            Channels::Literal => (Box::new(LiteralRule), Turns::Together, by_erases(1, false)?),
            Channels::Together(divisor) => (pair(), Turns::Together, by_erases(divisor, false)?),
            Channels::Pair(divisor) => (pair(), Turns::OneByOne, by_erases(divisor, true)?),
            Channels::Weeks(weeks) => {
                (pair(), Turns::Together, Trigger::Period { length: weeks * STEPS_PER_WEEK })
            }
        };
        Leveller::new(rated.channels, trigger, turns, rule).map(Some).map_err(wrong)
    }

    /// The leveller of the dies; `None` if they are not looked at.
    pub(super) fn dies(&self, rated: &Rated) -> Result<Option<DieLevelling>, Error> {
        if rated.dies < 2 || self.channels == Channels::Never {
            return Ok(None);
        }
        let migration_erases = self.die_migration(rated);
        let units = u32::try_from(rated.dies).unwrap_or(u32::MAX);
        let trigger = trigger(rated, units, 2, rated.die_erases(), migration_erases, true)?;
        let rule = PairRule { migration_erases };
        let dies = DieLevelling::new(rated.channels, rated.dies, trigger, rule, self.dies.carry);
        dies.map(Some).map_err(wrong)
    }
}

/// The trigger that the analysis gives for so many units, so many times as often.
fn trigger(
    rated: &Rated,
    units: u32,
    divisor: u32,
    rated_erases: u64,
    migration_erases: u64,
    tapered: bool,
) -> Result<Trigger, Error> {
    let rotation = Rotation::new(units, rated.delta).map_err(wrong)?;
    let trigger = Trigger::of(&rotation, ALPHA, divisor, rated_erases, migration_erases);
    Ok(match trigger.map_err(wrong)? {
        Trigger::Erases { gamma, .. } if !tapered => Trigger::Erases { gamma, taper: None },
        other => other,
    })
}

fn wrong(error: larder_ssd::Error) -> Error {
    Error::usage(format!("levelling: {error}; choose more cycles, or a larger delta"))
}
