//! The commands of an I/O queue.

#![deny(clippy::indexing_slicing)]

use super::super::command::{
    Command, DIRECTIVE_DATA_PLACEMENT, RANGE_BYTES, high, io as opcode, low,
};
use super::super::event::EventType;
use super::super::io_management::{self, HandleStatus};
use super::super::le::{u32_at, u64_at};
use super::super::placement_id::PlacementId;
use super::super::status::Status;
use super::{Answer, BLOCK_BYTES, Controller, Event, answer, event};
use crate::error::ErrorKind;

/// The one operation of I/O management: status when receiving, update when sending.
const OPERATION: u32 = 1;
/// Deallocate, in the attributes of dataset management.
const DEALLOCATE: u32 = 1 << 2;
/// Reclaim group identifier format of the one configuration.
pub(super) const RGIF: u8 = 0;

impl Controller {
    pub(super) fn io_command(&mut self, command: &Command, data: &mut [u8]) -> Answer {
        match command.opcode {
            opcode::WRITE => self.write(command, data),
            opcode::READ => self.read(command, data),
            opcode::FLUSH => self.namespaces.get(command.nsid).map(|_| 0),
            opcode::DATASET_MANAGEMENT => self.manage_dataset(command, data),
            opcode::MANAGEMENT_RECEIVE => self.receive_status(command, data),
            opcode::MANAGEMENT_SEND => self.update_handles(command, data),
            _ => Err(Status::InvalidOpcode),
        }
    }

    fn write(&mut self, command: &Command, data: &[u8]) -> Answer {
        let blocks = u64::from(command.blocks());
        let block = self.namespaces.get(command.nsid)?.locate(command.slba(), blocks)?;
        let data = sized(data.len(), blocks).and_then(|bytes| data.get(..bytes));
        let data = data.ok_or(Status::DataTransferError)?;
        let handle = self.handle_for(command)?;
        let copied = self.ssd.stats().copied_pages;
        self.ssd.write(block, blocks, handle).map_err(|error| status_of(error.kind()))?;
        self.payload.write(block, data);
        let moved = self.ssd.stats().copied_pages - copied;
        if moved > 0 {
            // The log counts in 16 bits; the rest of a larger move goes unreported, as on drives.
            let moved = Some((u16::try_from(moved).unwrap_or(u16::MAX), None));
            self.record(Event { moved, ..event(EventType::MediaReallocated) });
        }
        Ok(0)
    }

    fn read(&mut self, command: &Command, data: &mut [u8]) -> Answer {
        let blocks = u64::from(command.blocks());
        let block = self.namespaces.get(command.nsid)?.locate(command.slba(), blocks)?;
        let room = sized(data.len(), blocks).and_then(|bytes| data.get_mut(..bytes));
        self.payload.read(block, room.ok_or(Status::DataTransferError)?);
        Ok(0)
    }

    /// The reclaim unit handle that a write goes to.
    fn handle_for(&mut self, command: &Command) -> Result<u16, Status> {
        let (directive, pid) = command.directive();
        let handles = &self.namespaces.get(command.nsid)?.handles;
        let default = handles.first().copied().unwrap_or(0);
        match directive {
            0 => Ok(default),
            DIRECTIVE_DATA_PLACEMENT if !self.fdp_enabled() => Err(Status::InvalidField),
            DIRECTIVE_DATA_PLACEMENT => {
                let decoded = PlacementId::decode(pid, RGIF).filter(|pid| pid.group == 0);
                let named = decoded.and_then(|pid| handles.get(usize::from(pid.handle)).copied());
                match named {
                    Some(handle) => Ok(handle),
                    None if self.config.strict_placement => Err(Status::InvalidField),
                    None => {
                        let (placement_id, nsid) = (Some(pid), Some(command.nsid));
                        let kind = EventType::InvalidPlacementId;
                        self.record(Event { placement_id, nsid, ..event(kind) });
                        Ok(default)
                    }
                }
            }
            _ => Err(Status::InvalidField),
        }
    }

    /// Dataset management. All ranges are checked before the first is carried out.
    fn manage_dataset(&mut self, command: &Command, data: &[u8]) -> Answer {
        let namespace = self.namespaces.get(command.nsid)?;
        if command.cdw11() & DEALLOCATE == 0 {
            return Ok(0); // the other attributes are hints
        }
        let count = usize::from(low(command.cdw10()) & 0xff) + 1;
        let listed = data.get(..count * RANGE_BYTES).ok_or(Status::DataTransferError)?;
        let mut ranges = Vec::with_capacity(count);
        for range in listed.chunks_exact(RANGE_BYTES) {
            let blocks = u64::from(u32_at(range, 4).ok_or(Status::InvalidField)?);
            let slba = u64_at(range, 8).ok_or(Status::InvalidField)?;
            ranges.push((namespace.locate(slba, blocks)?, blocks));
        }
        for (block, blocks) in ranges {
            self.ssd.deallocate(block, blocks).map_err(|error| status_of(error.kind()))?;
            self.payload.discard(block, blocks);
        }
        Ok(0)
    }

    fn receive_status(&mut self, command: &Command, data: &mut [u8]) -> Answer {
        let namespace = self.namespaces.get(command.nsid)?;
        if !self.asks_for_operation(command)? {
            return Ok(0);
        }
        let handles = (0..).zip(&namespace.handles);
        let status = handles.map(|(placement_id, handle)| HandleStatus {
            placement_id,
            handle: *handle,
            time_left_s: 0,
            blocks_left: u64::from(self.ssd.available_pages(*handle)),
        });
        let reply = io_management::encode_status(&status.collect::<Vec<_>>());
        let asked = (u64::from(command.cdw11()) + 1).saturating_mul(4);
        let room = usize::try_from(asked).unwrap_or(usize::MAX).min(data.len());
        let room = data.get_mut(..room).ok_or(Status::DataTransferError)?;
        answer(room, &reply.ok_or(Status::InternalError)?, 0)
    }

    /// Whether an I/O management command asks for its one operation, or for none.
    fn asks_for_operation(&self, command: &Command) -> Result<bool, Status> {
        match command.cdw10() & 0xff {
            0 => Ok(false),
            OPERATION if self.fdp_enabled() => Ok(true),
            OPERATION => Err(Status::FdpDisabled),
            _ => Err(Status::InvalidField),
        }
    }

    fn update_handles(&mut self, command: &Command, data: &[u8]) -> Answer {
        let namespace = self.namespaces.get(command.nsid)?;
        if !self.asks_for_operation(command)? {
            return Ok(0);
        }
        let count = usize::from(high(command.cdw10())) + 1;
        let pids = io_management::decode_update(data, count).ok_or(Status::DataTransferError)?;
        let mut updates = Vec::with_capacity(count);
        for pid in pids {
            let decoded = PlacementId::decode(pid, RGIF).filter(|pid| pid.group == 0);
            let handle = decoded.and_then(|pid| namespace.handles.get(usize::from(pid.handle)));
            updates.push((pid, *handle.ok_or(Status::InvalidField)?));
        }
        for (pid, handle) in updates {
            let padded = self.ssd.stats().padded_pages;
            self.ssd.update_handle(handle).map_err(|error| status_of(error.kind()))?;
            if self.ssd.stats().padded_pages > padded {
                let (placement_id, nsid) = (Some(pid), Some(command.nsid));
                let kind = EventType::UnitNotFullyWritten;
                let location = Some((0, handle));
                self.record(Event { placement_id, nsid, location, ..event(kind) });
            }
        }
        Ok(0)
    }
}

/// Bytes of that many blocks, if a buffer of `room` bytes holds them.
fn sized(room: usize, blocks: u64) -> Option<usize> {
    let bytes = usize::try_from(blocks.checked_mul(u64::from(BLOCK_BYTES))?).ok()?;
    (bytes <= room).then_some(bytes)
}

fn status_of(kind: ErrorKind) -> Status {
    match kind {
        ErrorKind::OutOfRange => Status::LbaOutOfRange,
        ErrorKind::NoSpace => Status::CapacityExceeded,
        ErrorKind::ReadOnly => Status::NamespaceWriteProtected,
        _ => Status::InternalError,
    }
}
