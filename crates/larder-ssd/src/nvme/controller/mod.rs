//! A drive at the level of NVMe commands: it takes a command and a buffer and answers like hardware.
//!
//! It has one endurance group (number 1) with Flexible Data Placement, one configuration and any number of reclaim
//! groups. Namespaces are created with lists of reclaim unit handles, in LBA formats of 4096 and of 512 bytes. No field
//! of a command is trusted: for any value the answer is a completion with a status.
//!
//! ```
//! use larder_ssd::managed::{Geometry, ManagedConfig};
//! use larder_ssd::nvme::{Command, Controller, ControllerConfig};
//! use larder_ssd::nvme::namespace::NamespaceRequest;
//!
//! # fn main() -> Result<(), larder_ssd::Error> {
//! let geometry = Geometry::with_overprovisioning(64 << 20, 256 << 10, 17.0)?;
//! let mut drive = Controller::new(ControllerConfig::new(ManagedConfig::new(geometry)))?;
//! let handles = vec![0, 1, 2];
//! let request = NamespaceRequest { blocks: 1000, format: 0, endurance_group: 1, handles };
//! let mut data = request.encode().expect("three handles");
//! let created = drive.admin(&Command::create_namespace(), &mut data);
//! let nsid = created.result;
//! let written = drive.io(&Command::write(nsid, 0, 1, Some(2)), &mut [7; 4096]);
//! assert!(written.status.is_success());
//! # Ok(())
//! # }
//! ```
//!
//! | file | content |
//! |---|---|
//! | `admin`, `features`, `logs`, `io` | the commands, by group |
//! | `namespaces`, `extent` | namespaces: location, LBA format, handles; ranges in bytes |
//! | `payload` | the written data |
//! | `event_log`, `reporting` | stored events, and their conversion from those of the firmware |

#![deny(clippy::indexing_slicing)]

mod admin;
mod event_log;
mod extent;
mod features;
mod io;
mod logs;
mod namespaces;
mod payload;
mod reporting;

use super::command::{Command, admin as opcode};
use super::placement_id::{PlacementId, rgif_for};
use super::status::Status;
use crate::error::{Error, ErrorKind};
use crate::managed::{GcDestination, ManagedConfig, ManagedSsd};
use event_log::EventLog;
use namespaces::Namespaces;
use payload::Payload;

/// The one endurance group.
pub const ENDURANCE_GROUP: u16 = 1;

/// Configuration of a command-level drive.
#[derive(Debug, Clone)]
pub struct ControllerConfig {
    /// The firmware. Its `fdp` says whether FDP is enabled at first; the other fields apply while it is enabled.
    pub firmware: ManagedConfig,
    /// Whether the drive stores written data. If not, reads return zeros.
    pub keep_data: bool,
    /// Whether a write with an unknown placement identifier fails. If not, it goes to the default handle and records an
    /// event, as the specification requires.
    pub strict_placement: bool,
    /// Whether a controller level reset closes the units that the handles are filling. If not, a reset does not change
    /// the handles.
    pub reset_modifies_handles: bool,
}

impl ControllerConfig {
    /// A drive that stores its data, accepts unknown placement identifiers, and does not change its handles at a reset.
    pub fn new(firmware: ManagedConfig) -> Self {
        Self { firmware, keep_data: true, strict_placement: false, reset_modifies_handles: false }
    }

    /// The firmware with FDP on or off. Reclaim groups and noisy handles exist only with FDP, detection of sequential
    /// streams only without.
    fn firmware_with(&self, fdp: bool) -> ManagedConfig {
        let mut firmware = ManagedConfig { fdp, ..self.firmware.clone() };
        if fdp {
            firmware.save_sequential = None;
        } else {
            firmware.groups = 1;
            if let GcDestination::Handle(handle) = &mut firmware.gc_destination {
                *handle = 0;
            }
        }
        firmware
    }

    /// Checks that placement identifiers of 16 bits can address every handle in every group, and that their number fits
    /// the count field of the status.
    fn check(&self) -> Result<(), Error> {
        let ManagedConfig { groups, handles, .. } = self.firmware;
        let last =
            PlacementId { group: groups.saturating_sub(1), handle: handles.saturating_sub(1) };
        if groups.checked_mul(handles).is_none() || last.encode(rgif_for(groups)).is_none() {
            let message = format!(
                "{groups} reclaim groups with {handles} handles each: placement identifiers have \
                 16 bits, use fewer groups or handles"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        Ok(())
    }
}

/// The result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The status.
    pub status: Status,
    /// Command-specific result (dword 0 of the completion queue entry).
    pub result: u32,
}

impl Completion {
    fn success(result: u32) -> Self {
        Self { status: Status::Success, result }
    }

    fn failed(status: Status) -> Self {
        Self { status, result: 0 }
    }
}

/// The result of a command handler, or the error status.
type Answer = Result<u32, Status>;

/// A drive.
#[derive(Debug)]
pub struct Controller {
    config: ControllerConfig,
    ssd: ManagedSsd,
    namespaces: Namespaces,
    payload: Payload,
    log: EventLog,
    /// Bytes that the host has written; less than the pages it wrote if it wrote some of them only in part.
    host_bytes: u128,
    /// Commands processed. It serves as the drive's clock.
    commands: u64,
}

impl Controller {
    /// A new drive without namespaces.
    ///
    /// # Errors
    /// As [`ManagedSsd::new`]; also [`ErrorKind::Config`] for more groups and handles than placement identifiers can
    /// address.
    pub fn new(config: ControllerConfig) -> Result<Self, Error> {
        config.check()?;
        Ok(Self {
            ssd: recorded(config.firmware.clone())?,
            namespaces: Namespaces::new(config.firmware.geometry.logical_pages),
            payload: Payload::new(config.keep_data),
            log: EventLog::new(rgif_for(config.firmware.groups), is_persistent(&config)),
            host_bytes: 0,
            commands: 0,
            config,
        })
    }

    /// Read access to the firmware.
    pub fn ssd(&self) -> &ManagedSsd {
        &self.ssd
    }

    /// Processes a command of the admin queue. `data` is the data that the command sends, or the buffer for its reply.
    pub fn admin(&mut self, command: &Command, data: &mut [u8]) -> Completion {
        self.commands += 1;
        self.log.set_now(self.commands);
        complete(match command.opcode {
            opcode::IDENTIFY => self.identify(command, data),
            opcode::GET_LOG_PAGE => self.get_log_page(command, data),
            opcode::GET_FEATURES => self.get_features(command, data),
            opcode::SET_FEATURES => self.set_features(command, data),
            opcode::NAMESPACE_MANAGEMENT => self.manage_namespaces(command, data),
            opcode::NAMESPACE_ATTACHMENT => self.attach_namespace(command),
            opcode::DIRECTIVE_RECEIVE => self.receive_directive(command, data),
            _ => Err(Status::InvalidOpcode),
        })
    }

    /// Processes a command of an I/O queue.
    pub fn io(&mut self, command: &Command, data: &mut [u8]) -> Completion {
        self.commands += 1;
        self.log.set_now(self.commands);
        let answer = self.io_command(command, data);
        self.report_events(command.nsid);
        complete(answer)
    }

    /// A controller level reset. Data, namespaces, features and events survive. The units that the handles are filling
    /// are closed if the configuration says so.
    pub fn reset(&mut self) {
        if self.config.reset_modifies_handles {
            // A drive at the end of its life refuses: it has no handles to modify.
            let _ = self.ssd.reset_handles();
            self.report_events(0);
        }
    }

    fn fdp_enabled(&self) -> bool {
        self.ssd.config().fdp
    }

    /// Reports the firmware's events during a command for namespace `nsid`.
    fn report_events(&mut self, nsid: u32) {
        self.log.report(self.ssd.take_event_record(), nsid, &self.namespaces);
    }

    /// Reclaim group identifier format of the one configuration.
    fn rgif(&self) -> u8 {
        rgif_for(self.config.firmware.groups)
    }

    /// Switches FDP. The drive is reset to its initial state.
    fn switch_fdp(&mut self, enable: bool) -> Result<(), Error> {
        self.ssd = recorded(self.config.firmware_with(enable))?;
        self.payload.clear();
        self.log = EventLog::new(self.rgif(), is_persistent(&self.config));
        self.log.set_now(self.commands);
        self.host_bytes = 0;
        Ok(())
    }
}

/// Firmware that records every event.
fn recorded(firmware: ManagedConfig) -> Result<ManagedSsd, Error> {
    let mut ssd = ManagedSsd::new(firmware)?;
    ssd.keep_event_record(true);
    Ok(ssd)
}

fn is_persistent(config: &ControllerConfig) -> bool {
    config.firmware.gc_destination == GcDestination::PerHandle
}

fn complete(answer: Answer) -> Completion {
    answer.map_or_else(Completion::failed, Completion::success)
}

/// Copies `reply` from `offset` on to `data`, as much as fits, and clears the rest.
fn answer(data: &mut [u8], reply: &[u8], offset: u64) -> Answer {
    let offset = usize::try_from(offset).map_err(|_| Status::InvalidField)?;
    let reply = reply.get(offset..).ok_or(Status::InvalidField)?;
    let count = reply.len().min(data.len());
    data.fill(0);
    if let (Some(room), Some(bytes)) = (data.get_mut(..count), reply.get(..count)) {
        room.copy_from_slice(bytes);
    }
    Ok(0)
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::unwrap_used)]
mod tests;
