//! How long dies were not used, as those know who see the load: moves and loans wait for that.

use larder_ssd::nand::DieIndex;
use larder_ssd::timed::Nanoseconds;

/// How long no tenant has used a die.
pub trait Idle {
    /// Time since the last operation of a tenant on `die`; large if there was none.
    fn idle_ns(&self, drive: u32, die: DieIndex) -> Nanoseconds;
}

/// Dies without tenants, for owners that know nothing of the load.
#[derive(Debug, Clone, Copy, Default)]
pub struct AlwaysIdle;

impl Idle for AlwaysIdle {
    fn idle_ns(&self, _: u32, _: DieIndex) -> Nanoseconds {
        Nanoseconds::MAX
    }
}
