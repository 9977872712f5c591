//! The state of a unit and its tenant for levelling.

/// A unit, as seen by a rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnitWear {
    /// Blocks erased on it so far, for any reason (the paper's σ). It never decreases.
    pub erases: u64,
    /// Blocks erased for its tenants since its last turn (the paper's c), without migrations.
    pub since_turn: u64,
    /// The present tenant's share of all units' erases, 0 to 1 (the paper's λ, but per erase of all units instead of
    /// per time). `None` until the first period has ended.
    pub rate: Option<f64>,
}

/// The state of a tenant for levelling. It moves along when tenants are swapped.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tenant {
    /// Its share of all erases; `None` until the first period has ended.
    pub(super) rate: Option<f64>,
    /// Blocks erased for it since rates were last updated.
    pub(super) recent: u64,
}

/// Weight of a new period in the moving average. The average reaches back about three periods, so that one burst does
/// not look like a busy tenant.
const WEIGHT_OF_PERIOD: f64 = 0.5;

impl Tenant {
    /// The known rate of the tenant.
    pub fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// Ends a period in which all tenants together erased `all` blocks, at least 1.
    #[allow(clippy::cast_precision_loss)] // a share needs no more than 52 bits
    pub(super) fn end_period(&mut self, all: u64) {
        debug_assert!(self.recent <= all, "{} of {all} erases", self.recent);
        let share = self.recent as f64 / all as f64;
        let known = self.rate.unwrap_or(share);
        let rate = known + WEIGHT_OF_PERIOD * (share - known);
        debug_assert!((0.0..=1.0).contains(&rate), "a share, not {rate}");
        *self = Self { rate: Some(rate), recent: 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_an_average_over_periods() {
        let mut tenant = Tenant { rate: None, recent: 40 };
        tenant.end_period(100);
        assert_eq!(
            tenant,
            Tenant { rate: Some(0.4), recent: 0 },
            "the first period is all there is"
        );
        tenant.end_period(100);
        assert_eq!(tenant.rate, Some(0.2), "an idle period halves it");
        tenant.end_period(100);
        assert_eq!(tenant.rate, Some(0.1));
    }
}
