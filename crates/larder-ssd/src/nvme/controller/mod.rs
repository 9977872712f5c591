//! A drive at the level of commands: it takes a command and a buffer and answers as hardware would.
//!
//! One endurance group (number 1) with Flexible Data Placement, one configuration, namespaces
//! created with lists of reclaim unit handles. Every field of a command is hostile: whatever it
//! says, the answer is a completion with a status.
//!
//! ```
//! use larder_ssd::managed::{Geometry, ManagedConfig};
//! use larder_ssd::nvme::{Command, Controller, ControllerConfig};
//! use larder_ssd::nvme::namespace::NamespaceRequest;
//!
//! # fn main() -> Result<(), larder_ssd::Error> {
//! let geometry = Geometry::with_overprovisioning(64 << 20, 256 << 10, 17.0)?;
//! let mut drive = Controller::new(ControllerConfig::new(ManagedConfig::new(geometry)))?;
//! let request = NamespaceRequest { blocks: 1000, endurance_group: 1, handles: vec![0, 1, 2] };
//! let mut data = request.encode().expect("three handles");
//! let created = drive.admin(&Command::create_namespace(), &mut data);
//! let nsid = created.result;
//! let written = drive.io(&Command::write(nsid, 0, 1, Some(2)), &mut [7; 4096]);
//! assert!(written.status.is_success());
//! # Ok(())
//! # }
//! ```

#![deny(clippy::indexing_slicing)]

mod admin;
mod io;
mod namespaces;
mod payload;

use std::collections::VecDeque;

use super::command::{Command, admin as opcode};
use super::event::{Event, EventType};
use super::status::Status;
use crate::error::Error;
use crate::managed::{GcDestination, ManagedConfig, ManagedSsd};
use namespaces::Namespaces;
use payload::Payload;

/// Bytes of a logical block: one mapped page of the firmware.
pub const BLOCK_BYTES: u32 = 4096;
/// The one endurance group.
pub const ENDURANCE_GROUP: u16 = 1;
/// Events kept for the log; the oldest are dropped first.
const EVENTS_KEPT: usize = 1024;

/// What a command-level drive is made of.
#[derive(Debug, Clone)]
pub struct ControllerConfig {
    /// The firmware. Its `fdp` says whether FDP is enabled at first.
    pub firmware: ManagedConfig,
    /// Whether the drive keeps what is written to it. If not, reads return zeros.
    pub keep_data: bool,
    /// Whether a write with an unknown placement identifier fails. If not, it goes to the default
    /// handle and leaves an event, as the specification has it.
    pub strict_placement: bool,
}

impl ControllerConfig {
    /// A drive that keeps its data and forgives unknown placement identifiers.
    pub fn new(firmware: ManagedConfig) -> Self {
        Self { firmware, keep_data: true, strict_placement: false }
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// How.
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

/// What the handlers of commands return: the result, or why not.
type Answer = Result<u32, Status>;

/// A drive.
#[derive(Debug)]
pub struct Controller {
    config: ControllerConfig,
    ssd: ManagedSsd,
    namespaces: Namespaces,
    payload: Payload,
    events: VecDeque<Event>,
    /// Commands carried out: the drive's clock, for want of another.
    commands: u64,
}

impl Controller {
    /// A fresh drive without namespaces.
    ///
    /// # Errors
    /// As [`ManagedSsd::new`].
    pub fn new(config: ControllerConfig) -> Result<Self, Error> {
        let ssd = ManagedSsd::new(config.firmware.clone())?;
        Ok(Self {
            namespaces: Namespaces::new(config.firmware.geometry.logical_pages),
            payload: Payload::new(config.keep_data),
            events: VecDeque::new(),
            commands: 0,
            ssd,
            config,
        })
    }

    /// The firmware, to look at.
    pub fn ssd(&self) -> &ManagedSsd {
        &self.ssd
    }

    /// Carries out a command of the admin queue. `data` is what the command sends, or room for what
    /// it asks for.
    pub fn admin(&mut self, command: &Command, data: &mut [u8]) -> Completion {
        self.commands += 1;
        complete(match command.opcode {
            opcode::IDENTIFY => self.identify(command, data),
            opcode::GET_LOG_PAGE => self.get_log_page(command, data),
            opcode::GET_FEATURES => self.get_features(command, data),
            opcode::SET_FEATURES => self.set_features(command, data),
            opcode::NAMESPACE_MANAGEMENT => self.manage_namespaces(command, data),
            opcode::DIRECTIVE_RECEIVE => self.receive_directive(command, data),
            _ => Err(Status::InvalidOpcode),
        })
    }

    /// Carries out a command of an I/O queue.
    pub fn io(&mut self, command: &Command, data: &mut [u8]) -> Completion {
        self.commands += 1;
        complete(self.io_command(command, data))
    }

    fn fdp_enabled(&self) -> bool {
        self.config.firmware.fdp
    }

    fn is_persistent(&self) -> bool {
        self.config.firmware.gc_destination == GcDestination::PerHandle
    }

    fn record(&mut self, event: Event) {
        if !self.namespaces.wants(&event) {
            return;
        }
        if self.events.len() == EVENTS_KEPT {
            self.events.pop_front();
        }
        self.events.push_back(Event { timestamp_ms: self.commands, ..event });
    }
}

fn complete(answer: Answer) -> Completion {
    answer.map_or_else(Completion::failed, Completion::success)
}

/// An event of this type about nothing in particular.
fn event(kind: EventType) -> Event {
    Event { kind, placement_id: None, nsid: None, location: None, timestamp_ms: 0, moved: None }
}

/// Copies as much of `reply` as the host has asked for, from `offset` on.
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
