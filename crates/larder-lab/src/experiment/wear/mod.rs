//! Wear of channels and dies over the years of a drive's life, in erase counts alone.
//!
//! The rules are those of [`larder_ssd::vssd::levelling`]; here is a drive that lives by them: tenants
//! that erase at given rates, exchanges that cost erases too, and an end when the first die has erased
//! all that it is rated for.
//!
//! | module | what it is |
//! |---|---|
//! | `rated` | the drive, and what of it can be set |
//! | `load` | who erases how much |
//! | `policy` | when which exchange is made |
//! | `years` | a life, in steps of some hours |
//! | `analysis`, `adversary`, `mixes`, `dies` | the experiments |

mod adversary;
mod analysis;
mod dies;
mod load;
mod mixes;
mod policy;
mod rated;
mod years;

pub(super) use adversary::WEAR_ADVERSARY;
pub(super) use analysis::WEAR_ANALYSIS;
pub(super) use dies::DIE_WEAR;
pub(super) use mixes::WEAR_MIXES;
