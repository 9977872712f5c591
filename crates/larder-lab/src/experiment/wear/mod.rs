//! Wear of channels and dies over the years of a drive's life, in erase counts only.
//!
//! The rules are those of [`larder_vssd::levelling`]. This module simulates a drive under them: tenants erase at
//! given rates, exchanges cost erases too, and the drive ends when the first die has used up its rated erases.
//!
//! | module | what it is |
//! |---|---|
//! | `rated` | the drive and its parameters |
//! | `load` | the erases of the tenants |
//! | `policy` | when exchanges are made |
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
