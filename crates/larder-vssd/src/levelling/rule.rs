//! The choice of a pair.

use super::UnitWear;

/// Which two units swap their tenants at a turn.
pub trait SwapRule {
    /// The pair to swap, two different indexes of `units`, or `None` if no swap is worth its cost. `horizon` is how
    /// many blocks a busy unit will erase until its next turn. Must depend on its arguments only.
    fn choose(&self, units: &[UnitWear], horizon: u64) -> Option<(usize, usize)>;
}

impl<R: SwapRule + ?Sized> SwapRule for Box<R> {
    fn choose(&self, units: &[UnitWear], horizon: u64) -> Option<(usize, usize)> {
        (**self).choose(units, horizon)
    }
}
