//! Wear levelling across channels and dies: which units swap their tenants, and when.
//!
//! A tenant with channels of its own wears only those channels. All channels of the drive last equally long only if
//! tenants swap places from time to time. A swap moves all data on two channels, and costs an erase of each of their
//! blocks. The paper (section 4) bounds how rarely this may be done
//! ([`Rotation`](larder_ssd::analytic::levelling::Rotation)), and swaps when a channel has erased a given number of
//! blocks since the last swap.
//!
//! ```text
//!   erases ──► Leveller ── a turn comes (Trigger) ──► SwapRule: which pair? ──► due()
//!                 ▲                                                                │
//!                 └── swapped(): rates go with their tenants ◄── the owner migrates ┘
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`wear`](UnitWear) | the state of a unit: erases, erases since its turn, rate of its tenant |
//! | [`trigger`](Trigger) | when one unit, or all units, have a turn |
//! | [`rule`](SwapRule) | which pair a turn swaps: the trait |
//! | [`literal`](LiteralRule) | the paper's rule unchanged |
//! | [`pair`](PairRule) | the pair with the largest gain, if the gain exceeds the cost of the migration |
//! | [`leveller`](Leveller) | the state of all units, with one trigger and one rule |
//! | [`dies`](DieLevelling) | levelling of dies, during a swap of channels or within a channel |
//! | [`state`](LevellingState) | what the catalogue stores of all that |
//! | [`forecast`](Forecast) | the life of a drive at given rates, and the gamma that makes it longest |
//! | [`pace`](AdaptivePace) | how fast an exchange copies, by the p99 of its tenants |
//!
//! A *unit* is a channel, or a die of a channel. A *tenant* here is whatever is on a unit: one vSSD, a part of one, or
//! nothing. Time is counted in erases, so nothing here has a clock; the caller passes the time for a trigger of fixed
//! periods.
//!
//! # Why not the paper's rule unchanged
//!
//! It swaps the most worn channel with the one with the lowest rate. After the first swap the most worn channel already
//! has the tenant with the lowest rate: the next turn swaps idle tenants with each other, at full cost. If migrations
//! cost nothing, the tie rule prevents this; with a migration cost of a hundredth of an erase, it no longer does. The
//! pair rule looks at both sides: `(s_i - s_j) (rate_i - rate_j)` is by how much a swap slows the growth of the sum of
//! the squared wear. For a swap with an idle tenant's channel it is positive only if the busy tenant is on the more
//! worn channel.
//!
//! # Turns one by one
//!
//! The paper clears all counters at a turn. With several busy channels that is one swap for all of them: twelve busy
//! channels of sixteen get 22 swaps in a life although they need a hundred. [`Turns::OneByOne`] clears only the counter
//! of the unit whose turn it was. The paper's bound still holds: one turn for each `gamma` blocks that are erased on
//! any unit.

mod dies;
mod forecast;
mod leveller;
mod literal;
mod pace;
mod pair;
mod rule;
mod state;
mod trigger;
mod wear;

pub use dies::{Carry, DieLevelling, DieSeats, partners};
pub use forecast::{Budget, Forecast};
pub use leveller::Leveller;
pub use literal::LiteralRule;
pub use pace::{AdaptivePace, HourMean, PaceLimits};
pub(crate) use pace::{next_due, time_of};
pub use pair::PairRule;
pub use rule::SwapRule;
pub use state::{DailyErases, DieState, Gamma, GammaSource, LevellingState, PausedBy, UnitState};
pub use trigger::{DEFAULT_DIVISOR, Taper, Trigger, Turns};
pub use wear::{Tenant, UnitWear};
