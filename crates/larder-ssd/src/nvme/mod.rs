//! NVMe as bytes: the commands, logs and structures of Flexible Data Placement, encoded and
//! decoded.
//!
//! The same code serves both sides. A host builds a [`Command`] and decodes the reply; the [`Controller`] decodes the
//! command, runs it on the firmware model, and encodes the reply as a drive would. So code for real hardware can be
//! tested against the model, and the model against third-party tools.
//!
//! All numbers are little-endian. "0's based" means that a field holds the count less one. Field
//! positions follow the NVMe Base Specification 2.1 and its Technical Proposal 4146 (FDP), as
//! public headers of libnvme, SPDK and QEMU agree on them.
//!
//! | module | content |
//! |---|---|
//! | [`command`] | submission queue entries: opcodes, fields, builders |
//! | [`status`] | the status of a completed command |
//! | [`placement_id`] | placement identifiers: reclaim group and placement handle in 16 bits |
//! | [`fdp_log`] | log pages 20h to 22h: configurations, handle usage, statistics |
//! | [`endurance_log`] | log page 09h: spare, life and capacity of an endurance group |
//! | [`event`] | log page 23h: FDP events |
//! | [`io_management`] | reclaim unit handle status and update |
//! | [`smart`] | log page 02h: health and wear of the drive |
//! | [`namespace`] | namespace creation with a handle list; Identify structures |
//! | [`controller`] | a drive that processes commands |

pub mod command;
pub mod controller;
pub mod endurance_log;
pub mod event;
pub mod fdp_log;
#[cfg(test)]
mod golden;
pub mod io_management;
pub mod namespace;
pub mod placement_id;
pub mod smart;
pub mod status;

pub use command::Command;
pub use controller::{Completion, Controller, ControllerConfig};
pub use placement_id::PlacementId;
pub use status::Status;
