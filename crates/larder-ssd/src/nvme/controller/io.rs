//! I/O commands.

#![deny(clippy::indexing_slicing)]

use super::super::command::{
    Command, DIRECTIVE_DATA_PLACEMENT, decode_ranges, high, io as opcode, low,
};
use super::super::io_management::{self, HandleStatus};
use super::super::status::Status;
use super::extent::Extent;
use super::{Answer, Controller, answer};
use crate::error::ErrorKind;
use crate::managed::{PAGE_BYTES, Placement};

/// The only operation of I/O management: status for receive, update for send.
const OPERATION: u32 = 1;
/// Deallocate, in the attributes of dataset management.
const DEALLOCATE: u32 = 1 << 2;

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
        let namespace = self.namespaces.get(command.nsid)?;
        let extent = namespace.locate(command.slba(), u64::from(command.blocks()))?;
        let data = usize::try_from(extent.bytes()).ok().and_then(|bytes| data.get(..bytes));
        let data = data.ok_or(Status::DataTransferError)?;
        let placement = self.placement_of(command)?;
        self.write_extent(placement, extent, data)
    }

    /// Writes every page with at least one byte in the extent. If the write is refused half-way, the part that was
    /// written is counted.
    fn write_extent(&mut self, placement: Placement, extent: Extent, data: &[u8]) -> Answer {
        let (first, pages) = extent.touched_pages();
        let before = self.ssd.stats().host_pages;
        let written = self.ssd.write_placed(placement, first, pages);
        let reached = (first + self.ssd.stats().host_pages - before) * PAGE_BYTES;
        let bytes = reached.min(extent.end).saturating_sub(extent.start);
        self.host_bytes += u128::from(bytes);
        let kept = usize::try_from(bytes).ok().and_then(|bytes| data.get(..bytes));
        self.payload.write(extent.start, kept.unwrap_or(data));
        written.map(|()| 0).map_err(|error| status_of(error.kind()))
    }

    fn read(&mut self, command: &Command, data: &mut [u8]) -> Answer {
        let namespace = self.namespaces.get(command.nsid)?;
        let extent = namespace.locate(command.slba(), u64::from(command.blocks()))?;
        let room = usize::try_from(extent.bytes()).ok().and_then(|bytes| data.get_mut(..bytes));
        self.payload.read(extent.start, room.ok_or(Status::DataTransferError)?);
        Ok(0)
    }

    /// The placement of a write. Without a directive, or with an unknown identifier, it is placement handle 0 in a
    /// reclaim group that the drive chooses.
    fn placement_of(&mut self, command: &Command) -> Result<Placement, Status> {
        let (directive, pid) = command.directive();
        let namespace = self.namespaces.get(command.nsid)?;
        let default = namespace.handles.first().copied().unwrap_or(0);
        match directive {
            0 => Ok(Placement { group: self.emptiest_group(), handle: default }),
            DIRECTIVE_DATA_PLACEMENT if !self.fdp_enabled() => Err(Status::InvalidField),
            DIRECTIVE_DATA_PLACEMENT => {
                match namespace.placement(pid, self.rgif(), self.config.firmware.groups) {
                    Some(placement) => Ok(placement),
                    None if self.config.strict_placement => Err(Status::InvalidField),
                    None => {
                        let group = self.emptiest_group();
                        let chosen = Placement { group, handle: default };
                        self.log.report_invalid_pid(command.nsid, pid, chosen);
                        Ok(chosen)
                    }
                }
            }
            _ => Err(Status::InvalidField),
        }
    }

    /// The reclaim group with the least live data: writes without a placement must not fill one group while others have
    /// room.
    fn emptiest_group(&self) -> u16 {
        let groups = 0..self.ssd.config().groups;
        if groups.len() == 1 {
            return 0;
        }
        groups.min_by_key(|group| self.ssd.live_pages_of_group(*group)).unwrap_or(0)
    }

    /// Dataset management. All ranges are checked before the first is deallocated. A page that is only partly in a
    /// range keeps its data.
    fn manage_dataset(&mut self, command: &Command, data: &[u8]) -> Answer {
        let namespace = self.namespaces.get(command.nsid)?;
        if command.cdw11() & DEALLOCATE == 0 {
            return Ok(0); // the other attributes are hints
        }
        let count = usize::from(low(command.cdw10()) & 0xff) + 1;
        let listed = decode_ranges(data, count).ok_or(Status::DataTransferError)?;
        let mut ranges = Vec::with_capacity(count);
        for (slba, blocks) in listed {
            ranges.push(namespace.locate_to_free(slba, blocks.into())?.covered_pages());
        }
        for (first, pages) in ranges {
            self.ssd.deallocate(first, pages).map_err(|error| status_of(error.kind()))?;
            self.payload.discard(first, pages);
        }
        Ok(0)
    }

    /// One descriptor for every placement handle and, within it, for every reclaim group.
    fn receive_status(&mut self, command: &Command, data: &mut [u8]) -> Answer {
        let namespace = self.namespaces.get(command.nsid)?;
        if !self.asks_for_operation(command)? {
            return Ok(0);
        }
        let groups = 0..self.config.firmware.groups;
        let placements = namespace
            .handles
            .iter()
            .flat_map(|handle| groups.clone().map(|group| Placement { group, handle: *handle }));
        let status: Option<Vec<_>> = placements
            .map(|placement| {
                let pages = u64::from(self.ssd.available_pages_placed(placement));
                Some(HandleStatus {
                    placement_id: namespace.placement_id(placement, self.rgif())?,
                    handle: placement.handle,
                    time_left_s: 0,
                    blocks_left: pages * namespace.format.blocks_per_page(),
                })
            })
            .collect();
        let reply = status.as_deref().and_then(io_management::encode_status);
        let asked = (u64::from(command.cdw11()) + 1).saturating_mul(4);
        let room = usize::try_from(asked).unwrap_or(usize::MAX).min(data.len());
        let room = data.get_mut(..room).ok_or(Status::DataTransferError)?;
        answer(room, &reply.ok_or(Status::InternalError)?, 0)
    }

    /// Whether an I/O management command requests its only operation, or none.
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
        if count > usize::from(self.placement_ids_max()) {
            return Err(Status::InvalidField);
        }
        let pids = io_management::decode_update(data, count).ok_or(Status::DataTransferError)?;
        let (rgif, groups) = (self.rgif(), self.config.firmware.groups);
        let placements: Option<Vec<_>> =
            pids.into_iter().map(|pid| namespace.placement(pid, rgif, groups)).collect();
        for placement in placements.ok_or(Status::InvalidField)? {
            self.ssd.update_placed(placement).map_err(|error| status_of(error.kind()))?;
        }
        Ok(0)
    }

    /// Placement identifiers that one update can list: as many as the drive has.
    pub(super) fn placement_ids_max(&self) -> u16 {
        self.config.firmware.groups.saturating_mul(self.config.firmware.handles)
    }
}

/// The status of a command that the firmware refused.
pub(super) fn status_of(kind: ErrorKind) -> Status {
    match kind {
        ErrorKind::OutOfRange => Status::LbaOutOfRange,
        ErrorKind::NoSpace => Status::CapacityExceeded,
        ErrorKind::ReadOnly => Status::NamespaceWriteProtected,
        _ => Status::InternalError,
    }
}
