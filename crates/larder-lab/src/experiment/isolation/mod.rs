//! Concurrent tenants on virtual SSDs of every kind, in a drive's time.
//!
//! The array of [`larder_vssd`] executes the tenants' requests; [`larder_vssd::timed`] gives dies and
//! channels their timing.
//!
//! | module | what it is |
//! |---|---|
//! | `drive` | the drive, and vSSDs of each kind on it |
//! | `log`, `harvest`, `store`, `tenant`, `search`, `mixed` | the data and the load of a tenant |
//! | `run` | concurrent tenants |
//! | `managed_pair` | two tenants on a drive with its own page map |
//! | `latency`, `hardware`, `websearch`, `migration`, `exchange`, `placement`, `harvesting`, `ycsb` | the experiments |

mod drive;
mod exchange;
mod hardware;
mod harvest;
mod harvesting;
mod latency;
mod log;
mod managed_pair;
mod migration;
mod mixed;
mod placement;
mod run;
mod search;
mod store;
mod tenant;
mod websearch;
mod window;
mod ycsb;

pub(super) use exchange::EXCHANGE;
pub(super) use hardware::HARDWARE_VS_SOFTWARE;
pub(super) use harvesting::HARVESTING;
pub(super) use latency::ISOLATION_LATENCY;
pub(super) use migration::MIGRATION;
pub(super) use placement::PLACEMENT_AND_ISOLATION;
pub(super) use websearch::WEBSEARCH_MAPREDUCE;
pub(super) use ycsb::YCSB;

use crate::Error;

/// Converts an error of the vSSD array.
#[allow(clippy::needless_pass_by_value)] // for map_err
fn failed(error: larder_ssd::Error) -> Error {
    Error::run(error.to_string())
}
