//! When exchanges are made.

use larder_ssd::analytic::levelling::Rotation;
use larder_vssd::levelling::{
    Carry, DieLevelling, Leveller, LiteralRule, PairRule, SwapRule, Trigger, Turns,
};

use super::rated::{ALPHA, Rated, STEPS_PER_WEEK};
use crate::Error;

/// How channels are levelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channels {
    /// No levelling.
    Never,
    /// The paper's rule with its trigger: all counters are cleared at each exchange.
    Literal,
    /// The pair rule with the paper's counters, at a multiple of gamma's rate.
    Together(u32),
    /// The pair rule with its defaults, at a multiple of gamma's rate: turns one by one, shorter near the end of life.
    Pair(u32),
    /// The pair rule, with one exchange each time this number of weeks has passed.
    Weeks(u64),
}

/// How dies are levelled, if channels are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dies {
    /// How the dies of exchanged channels are assigned.
    pub(super) carry: Carry,
    /// Whether dies of a channel are also exchanged independently of channels.
    pub(super) by_themselves: bool,
}

/// The levelling policy of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) channels: Channels,
    pub(super) dies: Dies,
    /// Whether migrations cause no wear.
    pub(super) free: bool,
}

/// A leveller of channels with any rule.
pub(super) type ChannelLeveller = Leveller<Box<dyn SwapRule>>;

impl Policy {
    /// Levels only channels.
    pub(super) const fn of(channels: Channels) -> Self {
        let dies = Dies { carry: Carry::AsTheyAre, by_themselves: false };
        Self { channels, dies, free: false }
    }

    /// The same policy, with migrations that cause no wear.
    pub(super) const fn for_free(self) -> Self {
        Self { free: true, ..self }
    }

    /// Blocks that a migration erases on a die.
    pub(super) fn die_migration(&self, rated: &Rated) -> u64 {
        if self.free { 0 } else { rated.die_migration() }
    }

    /// The leveller of the channels; `None` if channels are not exchanged.
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

    /// The leveller of the dies; `None` if dies are not levelled.
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

/// The trigger of the analysis for `units` units, made more frequent by a factor.
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
