//! The commands of the admin queue.

#![deny(clippy::indexing_slicing)]

use super::super::command::{Command, FEATURE_FDP, FEATURE_FDP_EVENTS, high, log, low};
use super::super::event::{self, EventType};
use super::super::fdp_log::{self, Configuration, HandleType, HandleUsage, Statistics};
use super::super::le::put;
use super::super::namespace::{self, NamespaceRequest, cns};
use super::super::status::Status;
use super::io::RGIF;
use super::namespaces::NAMESPACES_MAX;
use super::{Answer, BLOCK_BYTES, Controller, ENDURANCE_GROUP, ManagedSsd, answer};
use crate::managed::PAGE_BYTES;

/// Events that the drive can report.
const SUPPORTED_EVENTS: [EventType; 3] =
    [EventType::UnitNotFullyWritten, EventType::InvalidPlacementId, EventType::MediaReallocated];
const DIRECTIVES_BYTES: usize = 4096;
const ENDURANCE_LOG_BYTES: usize = 512;

impl Controller {
    pub(super) fn identify(&self, command: &Command, data: &mut [u8]) -> Answer {
        match low(command.cdw10()).to_le_bytes() {
            [cns::CONTROLLER, _] => answer(data, &namespace::encode_controller(), 0),
            [cns::NAMESPACE, _] => {
                let namespace = self.namespaces.get(command.nsid)?;
                let blocks = namespace.blocks;
                answer(data, &namespace::encode_namespace(blocks, BLOCK_BYTES, ENDURANCE_GROUP), 0)
            }
            _ => Err(Status::InvalidField),
        }
    }

    pub(super) fn get_log_page(&self, command: &Command, data: &mut [u8]) -> Answer {
        let [page, flags, ..] = command.cdw10().to_le_bytes();
        let dwords = u64::from(high(command.cdw10())) | u64::from(low(command.cdw11())) << 16;
        let asked = usize::try_from((dwords + 1) * 4).unwrap_or(usize::MAX);
        let data = data.get_mut(..asked).ok_or(Status::DataTransferError)?;
        let offset = u64::from(command.cdw12()) | u64::from(command.cdw13()) << 32;
        if high(command.cdw11()) != ENDURANCE_GROUP {
            return Err(Status::InvalidField);
        }
        let disabled = || if self.fdp_enabled() { Ok(()) } else { Err(Status::FdpDisabled) };
        match page {
            log::ENDURANCE_GROUP => answer(data, &self.endurance_log(), offset),
            log::FDP_CONFIGURATIONS => {
                let reply = fdp_log::encode_configurations(&[self.configuration()]);
                answer(data, &reply.ok_or(Status::InternalError)?, offset)
            }
            log::HANDLE_USAGE => {
                disabled()?;
                let usage = self.namespaces.usage(self.config.firmware.handles);
                answer(data, &fdp_log::encode_usage(&usage).ok_or(Status::InternalError)?, offset)
            }
            log::FDP_STATISTICS => {
                disabled()?;
                answer(data, &self.statistics().encode(), offset)
            }
            log::FDP_EVENTS => {
                disabled()?;
                let host = flags & 1 != 0;
                let wanted = self.events.iter().filter(|e| e.kind.is_host_event() == host);
                let wanted: Vec<_> = wanted.rev().take(event::EVENTS_MAX).copied().collect();
                let oldest_first: Vec<_> = wanted.into_iter().rev().collect();
                answer(data, &event::encode_events(&oldest_first), offset)
            }
            _ => Err(Status::InvalidLogPage),
        }
    }

    pub(super) fn get_features(&self, command: &Command, data: &mut [u8]) -> Answer {
        match feature(command) {
            FEATURE_FDP => {
                check_group(command)?;
                Ok(u32::from(self.fdp_enabled()))
            }
            FEATURE_FDP_EVENTS => self.get_event_types(command, data),
            _ => Err(Status::InvalidField),
        }
    }

    pub(super) fn set_features(&mut self, command: &Command, data: &[u8]) -> Answer {
        match feature(command) {
            FEATURE_FDP => self.set_fdp(command),
            FEATURE_FDP_EVENTS => {
                let (handle, count) = event_selection(command);
                let kinds = data.get(..count).ok_or(Status::DataTransferError)?;
                let supported = |kind: &u8| SUPPORTED_EVENTS.iter().any(|s| s.to_byte() == *kind);
                if !kinds.iter().all(supported) {
                    return Err(Status::InvalidField);
                }
                let namespace = self.namespaces.get_mut(command.nsid)?;
                if usize::from(handle) >= namespace.handles.len() {
                    return Err(Status::InvalidField);
                }
                namespace.enable_events(handle, kinds, command.cdw12() & 1 == 1);
                Ok(0)
            }
            _ => Err(Status::InvalidField),
        }
    }

    pub(super) fn manage_namespaces(&mut self, command: &Command, data: &[u8]) -> Answer {
        match command.cdw10() & 0xf {
            0 => self.create_namespace(data),
            1 => {
                let gone = self.namespaces.delete(command.nsid)?;
                self.payload.discard(gone.start, gone.blocks);
                let freed = self.ssd.deallocate(gone.start, gone.blocks);
                freed.map(|()| 0).map_err(|_| Status::InternalError)
            }
            _ => Err(Status::InvalidField),
        }
    }

    /// Directive receive, identify: which directives are supported and enabled.
    pub(super) fn receive_directive(&self, command: &Command, data: &mut [u8]) -> Answer {
        self.namespaces.get(command.nsid)?;
        if command.cdw11() & 0xffff != 1 {
            return Err(Status::InvalidField); // another operation or another directive type
        }
        // Bit 0: identify; bit 2: data placement. Supported at 0, enabled at 32, persistent at 64.
        let bits = 1 | u8::from(self.fdp_enabled()) << 2;
        let mut reply = vec![0; DIRECTIVES_BYTES];
        [0, 32, 64].into_iter().for_each(|at| put(&mut reply, at, &[bits]));
        answer(data, &reply, 0)
    }

    /// FDP is switched only while there is no namespace; the drive starts afresh.
    fn set_fdp(&mut self, command: &Command) -> Answer {
        check_group(command)?;
        let [flags, configuration, ..] = command.cdw12().to_le_bytes();
        if configuration != 0 {
            return Err(Status::InvalidField); // there is one configuration
        }
        let enable = flags & 1 == 1;
        if enable == self.fdp_enabled() {
            return Ok(0);
        }
        if !self.namespaces.is_empty() {
            return Err(Status::CommandSequenceError);
        }
        self.config.firmware.fdp = enable;
        let fresh = ManagedSsd::new(self.config.firmware.clone());
        self.ssd = fresh.map_err(|_| Status::InternalError)?;
        self.payload.clear();
        self.events.clear();
        Ok(0)
    }

    fn create_namespace(&mut self, data: &[u8]) -> Answer {
        let data = data.get(..namespace::PAGE_BYTES).ok_or(Status::DataTransferError)?;
        let request = NamespaceRequest::decode(data).ok_or(Status::InvalidField)?;
        if request.endurance_group != ENDURANCE_GROUP {
            return Err(Status::InvalidField);
        }
        let named = !request.handles.is_empty();
        let handles = match (self.fdp_enabled(), named) {
            (true, true) => {
                let mut seen = request.handles.clone();
                seen.sort_unstable();
                seen.dedup();
                let known = seen.iter().all(|handle| *handle < self.config.firmware.handles);
                if !known || seen.len() != request.handles.len() {
                    return Err(Status::InvalidPlacementHandleList);
                }
                request.handles
            }
            (true, false) => vec![self.unused_handle()],
            (false, true) => return Err(Status::InvalidField),
            (false, false) => vec![0],
        };
        self.namespaces.create(request.blocks, handles, named)
    }

    /// A handle for a namespace that named none: one that nobody uses, if there is one.
    fn unused_handle(&self) -> u16 {
        let usage = self.namespaces.usage(self.config.firmware.handles);
        let unused = usage.iter().position(|usage| *usage == HandleUsage::Unused);
        unused.and_then(|handle| u16::try_from(handle).ok()).unwrap_or(0)
    }

    fn get_event_types(&self, command: &Command, data: &mut [u8]) -> Answer {
        let (handle, room) = event_selection(command);
        let namespace = self.namespaces.get(command.nsid)?;
        if usize::from(handle) >= namespace.handles.len() {
            return Err(Status::InvalidField);
        }
        let entries = SUPPORTED_EVENTS.iter().take(room).flat_map(|kind| {
            let kind = kind.to_byte();
            [kind, u8::from(namespace.is_enabled(handle, kind))]
        });
        let reply: Vec<u8> = entries.collect();
        answer(data, &reply, 0)?;
        u32::try_from(SUPPORTED_EVENTS.len()).map_err(|_| Status::InternalError)
    }

    fn configuration(&self) -> Configuration {
        let firmware = &self.config.firmware;
        let kind = if self.is_persistent() {
            HandleType::PersistentlyIsolated
        } else {
            HandleType::InitiallyIsolated
        };
        Configuration {
            rgif: RGIF,
            volatile_write_cache: false,
            valid: true,
            groups: 1,
            placement_ids_max: u32::from(firmware.handles),
            namespaces_max: NAMESPACES_MAX,
            unit_bytes: firmware.geometry.unit_bytes(),
            unit_time_limit_s: 0,
            handles: vec![kind; usize::from(firmware.handles)],
        }
    }

    fn statistics(&self) -> Statistics {
        let stats = self.ssd.stats();
        let unit_bytes = u128::from(self.config.firmware.geometry.unit_bytes());
        Statistics {
            host_bytes: u128::from(stats.host_bytes()),
            media_bytes: u128::from(stats.media_bytes()),
            erased_bytes: u128::from(stats.erased_units) * unit_bytes,
        }
    }

    /// Endurance group information: data units are 1000 blocks of 512 bytes.
    fn endurance_log(&self) -> Vec<u8> {
        const DATA_UNIT_BYTES: u128 = 512_000;
        let statistics = self.statistics();
        let mut log = vec![0; ENDURANCE_LOG_BYTES];
        put(&mut log, 3, &[100]);
        put(&mut log, 64, &statistics.host_bytes.div_ceil(DATA_UNIT_BYTES).to_le_bytes());
        put(&mut log, 80, &statistics.media_bytes.div_ceil(DATA_UNIT_BYTES).to_le_bytes());
        let capacity = u128::from(self.config.firmware.geometry.logical_bytes());
        put(&mut log, 160, &capacity.to_le_bytes());
        let unallocated = u128::from(self.namespaces.unallocated_blocks()) * u128::from(PAGE_BYTES);
        put(&mut log, 176, &unallocated.to_le_bytes());
        log
    }
}

fn feature(command: &Command) -> u8 {
    let [feature, ..] = command.cdw10().to_le_bytes();
    feature
}

fn check_group(command: &Command) -> Result<(), Status> {
    if low(command.cdw11()) == ENDURANCE_GROUP { Ok(()) } else { Err(Status::InvalidField) }
}

/// Placement handle and number of event types, as feature 1Eh has them.
fn event_selection(command: &Command) -> (u16, usize) {
    let [types, _] = high(command.cdw11()).to_le_bytes();
    (low(command.cdw11()), usize::from(types))
}
