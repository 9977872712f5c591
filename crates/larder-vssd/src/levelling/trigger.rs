//! When units have a turn to swap.

use larder_ssd::analytic::levelling::Rotation;
use larder_ssd::{Error, ErrorKind};

/// The condition for a unit's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// A number of blocks was erased on the unit for its tenants since its last turn.
    Erases {
        /// The paper's γ, in blocks; at least 1.
        gamma: u64,
        /// Fewer blocks near the end of life, if given.
        taper: Option<Taper>,
    },
    /// A period has passed since the last turn of all units, in the unit of time that the caller of
    /// [`due`](super::Leveller::due) uses. At least 1.
    Period {
        /// Time from one turn to the next.
        length: u64,
    },
}

/// Shorter turns near the end of life. A unit that is half a turn ahead of others when it wears out wastes that much of
/// their life. So a turn is at most half of the remaining life of the most worn unit. This adds few turns, because each
/// is half as long as the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taper {
    /// Rated erases of a unit: its blocks times their rated cycles.
    pub rated_erases: u64,
    /// Minimum length of a turn in blocks; should be a few migrations. At least 1.
    pub gamma_min: u64,
}

/// Which units have a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turns {
    /// All units have a turn together, and all counters are cleared, as in the paper.
    Together,
    /// Only the unit that triggered the turn; the counters of others continue.
    OneByOne,
}

/// By default, turns are this many times more frequent than in the analysis.
pub const DEFAULT_DIVISOR: u32 = 2;
/// Minimum length of a tapered turn in migrations: then a swap still gains twice its cost.
const GAMMA_MIN_MIGRATIONS: u64 = 4;

impl Trigger {
    /// The paper's γ for `rotation`, `divisor` times more often, with a taper. A turn takes `1 / divisor` of the erases
    /// of all units in the share `alpha` of their life, divided by the number of swaps that the analysis requires. The
    /// default divisor is 2 ([`Self::channels`]).
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a divisor or rated erases of 0, `alpha` outside (0, 1], or a γ below the minimum
    /// length of a turn.
    pub fn of(
        rotation: &Rotation,
        alpha: f64,
        divisor: u32,
        rated_erases: u64,
        migration_erases: u64,
    ) -> Result<Self, Error> {
        if divisor == 0 {
            return Err(Error::new(ErrorKind::Config, "divisor of 0: must be at least 1"));
        }
        let gamma = rotation.trigger_erases(alpha, rated_erases)? / u64::from(divisor);
        let gamma_min = GAMMA_MIN_MIGRATIONS.saturating_mul(migration_erases).max(1);
        let trigger = Self::Erases { gamma, taper: Some(Taper { rated_erases, gamma_min }) };
        trigger.check()?;
        Ok(trigger)
    }

    /// The default for the channels of a drive: an imbalance of at most 1.1 after 0.9 of its life, γ/2.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn channels(units: u32, rated_erases: u64, migration_erases: u64) -> Result<Self, Error> {
        let rotation = Rotation::new(units, 0.1)?;
        Self::of(&rotation, 0.9, DEFAULT_DIVISOR, rated_erases, migration_erases)
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let fail = |message: String| Err(Error::new(ErrorKind::Config, message));
        match *self {
            Self::Erases { gamma: 0, .. } => fail("gamma of 0: must be at least 1 block".into()),
            Self::Period { length: 0 } => fail("period of 0: must be at least 1".into()),
            Self::Erases { gamma, taper: Some(taper) }
                if taper.gamma_min == 0 || taper.gamma_min > gamma =>
            {
                let Taper { gamma_min, .. } = taper;
                fail(format!("gamma_min of {gamma_min}: must be 1 to gamma, which is {gamma}"))
            }
            _ => Ok(()),
        }
    }

    /// Blocks that a unit erases until it has a turn, if the most worn one has erased `erases_max`; `None` for periods.
    pub fn threshold(&self, erases_max: u64) -> Option<u64> {
        let Self::Erases { gamma, taper } = *self else { return None };
        let Some(Taper { rated_erases, gamma_min }) = taper else { return Some(gamma) };
        let left = rated_erases.saturating_sub(erases_max);
        Some((left / 2).clamp(gamma_min, gamma))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_become_shorter_near_the_end() {
        let taper = Taper { rated_erases: 3000, gamma_min: 4 };
        let trigger = Trigger::Erases { gamma: 100, taper: Some(taper) };
        let at = |erases| trigger.threshold(erases).unwrap();
        assert_eq!((at(0), at(2800), at(2900), at(2990)), (100, 100, 50, 5));
        assert_eq!((at(2999), at(5000)), (4, 4), "never shorter than gamma_min");
        let plain = Trigger::Erases { gamma: 100, taper: None };
        assert_eq!(plain.threshold(2999), Some(100));
        assert_eq!(Trigger::Period { length: 7 }.threshold(0), None);
    }

    /// Sixteen channels of 1000 blocks and 3000 cycles: 149 swaps in 0.9 of 48 million erases.
    #[test]
    fn the_default_is_half_of_the_papers() {
        let Trigger::Erases { gamma, taper } = Trigger::channels(16, 3_000_000, 1000).unwrap()
        else {
            panic!("by erases")
        };
        assert_eq!(gamma, 289_932 / 2);
        assert_eq!(taper, Some(Taper { rated_erases: 3_000_000, gamma_min: 4000 }));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let rotation = Rotation::new(16, 0.1).unwrap();
        let of = |alpha, divisor, rated, migration| {
            Trigger::of(&rotation, alpha, divisor, rated, migration).unwrap_err().to_string()
        };
        assert!(of(0.9, 0, 1000, 1).contains("divisor"));
        assert!(of(0.0, 1, 1000, 1).contains("0"));
        assert!(of(0.9, 1, 0, 1).contains("rated"));
        assert!(of(0.9, 1, 1000, 1000).contains("gamma_min of 4000"));
        for (trigger, named) in [
            (Trigger::Erases { gamma: 0, taper: None }, "gamma"),
            (Trigger::Period { length: 0 }, "period"),
        ] {
            assert!(trigger.check().unwrap_err().to_string().contains(named));
        }
    }
}
