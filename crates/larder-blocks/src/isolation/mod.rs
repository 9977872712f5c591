//! How tenants of a drive are isolated from each other.
//!
//! | file | content |
//! |---|---|
//! | `level` | the levels: what tenants share |
//! | `shared` | a share of a device's time for each tenant |
//! | `report` (Linux) | the mechanisms that a drive offers, each with its level |

mod level;
#[cfg(target_os = "linux")]
mod report;
mod shared;

pub use level::IsolationLevel;
#[cfg(target_os = "linux")]
pub use report::{IsolationMechanism, IsolationReport, Opener};
pub use shared::{DeviceShare, DeviceSharing, REQUEST_BYTES, SharedDevice};
