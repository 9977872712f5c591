//! Tenants beside one another on virtual SSDs of every kind, in a drive's time.
//!
//! The array of [`larder_ssd::vssd`] does what tenants ask for; dies and channels take their time for it
//! ([`larder_ssd::vssd::timed`]).
//!
//! | module | what it is |
//! |---|---|
//! | `drive` | the drive, and vSSDs of each kind on it |
//! | `log`, `store`, `tenant`, `search` | what a tenant has and asks for |
//! | `run` | tenants beside one another |
//! | `managed_pair` | two tenants on a drive that maps pages itself |
//! | `latency`, `hardware`, `websearch`, `migration`, `placement`, `ycsb` | the experiments |

mod drive;
mod hardware;
mod latency;
mod log;
mod managed_pair;
mod migration;
mod placement;
mod run;
mod search;
mod store;
mod tenant;
mod websearch;
mod ycsb;

pub(super) use hardware::HARDWARE_VS_SOFTWARE;
pub(super) use latency::ISOLATION_LATENCY;
pub(super) use migration::MIGRATION;
pub(super) use placement::PLACEMENT_AND_ISOLATION;
pub(super) use websearch::WEBSEARCH_MAPREDUCE;
pub(super) use ycsb::YCSB;

use crate::Error;

/// What the array refused.
#[allow(clippy::needless_pass_by_value)] // for map_err
fn failed(error: larder_ssd::Error) -> Error {
    Error::run(error.to_string())
}
