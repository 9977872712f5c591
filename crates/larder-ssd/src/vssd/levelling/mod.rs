//! Wear levelling across channels and dies: who exchanges tenants with whom, and when.
//!
//! Where a tenant has channels of its own, its writes wear them and no others. Its channel lives as
//! long as the whole drive would only if tenants change places now and then; a change moves all that
//! is on two channels, and costs an erase of each of their blocks. The paper (section 4) bounds how
//! seldom that may be done ([`Rotation`](crate::analytic::levelling::Rotation)), and does it when a
//! channel has erased so much since the last time.
//!
//! ```text
//!   erases ──► Leveller ── a turn comes (Trigger) ──► SwapRule: which pair? ──► due()
//!                 ▲                                                                │
//!                 └── swapped(): rates go with their tenants ◄── the owner migrates ┘
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`wear`](UnitWear) | what is known of a unit: erases, erases since its turn, rate of its tenant |
//! | [`trigger`](Trigger) | when a unit, or all, have a turn |
//! | [`rule`](SwapRule) | whom a turn makes change places: the trait |
//! | [`literal`](LiteralRule) | the paper's rule as it stands |
//! | [`pair`](PairRule) | the pair that gains most, if it gains more than the migration costs |
//! | [`leveller`](Leveller) | the state of all units, one trigger and one rule |
//! | [`dies`](DieLevelling) | dies, carried along when channels migrate, or exchanged in a channel |
//!
//! A *unit* is a channel, or a die of a channel. A *tenant* here is whatever lies on a unit, one
//! vSSD, a part of one, or nothing. Time is counted in erases, so nothing here has a clock; a trigger
//! of fixed periods is told the time.
//!
//! # Why not the paper's rule as it stands
//!
//! It exchanges the most worn channel with the one of the lowest rate. After the first exchange the
//! most worn channel has the tenant of the lowest rate already: the next turn exchanges idle tenants
//! with each other, and pays for it. Where migrations cost nothing a tie saves it; where they cost a
//! hundredth of an erase, no more. The pair rule looks at both sides: `(s_i - s_j) (rate_i - rate_j)`
//! is by how much an exchange slows the growth of the sum of the squared wear, and no exchange with
//! an idle tenant's channel makes it positive unless the busy one sits on the more worn.
//!
//! # Turns one by one
//!
//! The paper clears all counters at a turn. With several busy channels that is one exchange for all
//! of them: twelve busy ones of sixteen get 22 exchanges in a life where they have need of a hundred.
//! [`Turns::OneByOne`] clears the counter of the unit whose turn it was. The bound stays the paper's:
//! a turn for each `gamma` blocks that are erased, whoever erases them.

mod dies;
mod leveller;
mod literal;
mod pair;
mod rule;
mod trigger;
mod wear;

pub use dies::{Carry, DieLevelling, DieSeats};
pub use leveller::Leveller;
pub use literal::LiteralRule;
pub use pair::PairRule;
pub use rule::SwapRule;
pub use trigger::{DEFAULT_DIVISOR, Taper, Trigger, Turns};
pub use wear::{Tenant, UnitWear};
