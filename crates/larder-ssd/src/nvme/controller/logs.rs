//! Get log page.

#![deny(clippy::indexing_slicing)]

use super::super::command::{Command, admin, high, io, log, low};
use super::super::event;
use super::super::fdp_log::{self, Configuration, HandleType, Statistics};
use super::super::le::put;
use super::super::smart::SmartLog;
use super::super::status::Status;
use super::namespaces::NAMESPACES_MAX;
use super::{Answer, Controller, ENDURANCE_GROUP, answer};
use crate::managed::PAGE_BYTES;

const ENDURANCE_LOG_BYTES: usize = 512;
const FRESH_SPARE_PERCENT: u8 = 100;
const EFFECTS_LOG_BYTES: usize = 4096;

impl Controller {
    pub(super) fn get_log_page(&self, command: &Command, data: &mut [u8]) -> Answer {
        let [page, flags, ..] = command.cdw10().to_le_bytes();
        let dwords = u64::from(high(command.cdw10())) | u64::from(low(command.cdw11())) << 16;
        let asked = usize::try_from((dwords + 1) * 4).unwrap_or(usize::MAX);
        let data = data.get_mut(..asked).ok_or(Status::DataTransferError)?;
        let offset = u64::from(command.cdw12()) | u64::from(command.cdw13()) << 32;
        if page == log::EFFECTS {
            return answer(data, &effects_log(), offset);
        }
        if page == log::SMART {
            return answer(data, &self.smart_log().encode(), offset);
        }
        if high(command.cdw11()) != ENDURANCE_GROUP {
            return Err(Status::InvalidField);
        }
        match page {
            log::ENDURANCE_GROUP => answer(data, &self.endurance_log(), offset),
            log::FDP_CONFIGURATIONS => {
                let reply = fdp_log::encode_configurations(&[self.configuration()]);
                answer(data, &reply.ok_or(Status::InternalError)?, offset)
            }
            log::HANDLE_USAGE | log::FDP_STATISTICS | log::FDP_EVENTS if !self.fdp_enabled() => {
                Err(Status::FdpDisabled)
            }
            log::HANDLE_USAGE => {
                let usage = self.namespaces.usage(self.config.firmware.handles);
                answer(data, &fdp_log::encode_usage(&usage).ok_or(Status::InternalError)?, offset)
            }
            log::FDP_STATISTICS => answer(data, &self.statistics().encode(), offset),
            log::FDP_EVENTS => {
                let events = self.log.events(flags & 1 == 1);
                answer(data, &event::encode_events(&events), offset)
            }
            _ => Err(Status::InvalidLogPage),
        }
    }

    fn configuration(&self) -> Configuration {
        let firmware = &self.config.firmware;
        let kind = if self.is_persistent() {
            HandleType::PersistentlyIsolated
        } else {
            HandleType::InitiallyIsolated
        };
        Configuration {
            rgif: self.rgif(),
            volatile_write_cache: false,
            valid: self.config.firmware_with(true).check().is_ok(),
            groups: u32::from(firmware.groups),
            placement_ids_max: u32::from(self.placement_ids_max()),
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
            host_bytes: self.host_bytes,
            media_bytes: u128::from(stats.media_bytes()),
            erased_bytes: u128::from(stats.erased_units) * unit_bytes,
        }
    }

    /// The model neither ages nor counts hours here.
    fn smart_log(&self) -> SmartLog {
        let available_spare_percent = FRESH_SPARE_PERCENT;
        SmartLog { available_spare_percent, host_bytes: self.host_bytes, ..SmartLog::default() }
    }

    /// Endurance group information: bytes are counted in billions, rounded up.
    fn endurance_log(&self) -> Vec<u8> {
        const DATA_UNIT_BYTES: u128 = 1_000_000_000;
        let statistics = self.statistics();
        let mut log = vec![0; ENDURANCE_LOG_BYTES];
        put(&mut log, 3, &[FRESH_SPARE_PERCENT]);
        put(&mut log, 64, &statistics.host_bytes.div_ceil(DATA_UNIT_BYTES).to_le_bytes());
        put(&mut log, 80, &statistics.media_bytes.div_ceil(DATA_UNIT_BYTES).to_le_bytes());
        let capacity = u128::from(self.config.firmware.geometry.logical_bytes());
        put(&mut log, 160, &capacity.to_le_bytes());
        let unallocated = u128::from(self.namespaces.unallocated_pages()) * u128::from(PAGE_BYTES);
        put(&mut log, 176, &unallocated.to_le_bytes());
        log
    }
}

/// Commands supported and effects: four bytes each, those of the admin queue first, those of I/O
/// queues from 1024 on. Linux refuses unprivileged passthrough of what is not in it.
fn effects_log() -> Vec<u8> {
    const SUPPORTED: u8 = 1;
    const CHANGES_DATA: u8 = 1 << 1;
    const CHANGES_NAMESPACES: u8 = 1 << 3;
    const IO_AT: usize = 1024;
    let admin_commands = [
        (admin::GET_LOG_PAGE, SUPPORTED),
        (admin::IDENTIFY, SUPPORTED),
        (admin::SET_FEATURES, SUPPORTED),
        (admin::GET_FEATURES, SUPPORTED),
        (admin::NAMESPACE_MANAGEMENT, SUPPORTED | CHANGES_NAMESPACES),
        (admin::NAMESPACE_ATTACHMENT, SUPPORTED | CHANGES_NAMESPACES),
        (admin::DIRECTIVE_RECEIVE, SUPPORTED),
    ];
    let io_commands = [
        (io::FLUSH, SUPPORTED),
        (io::WRITE, SUPPORTED | CHANGES_DATA),
        (io::READ, SUPPORTED),
        (io::DATASET_MANAGEMENT, SUPPORTED | CHANGES_DATA),
        (io::MANAGEMENT_RECEIVE, SUPPORTED),
        (io::MANAGEMENT_SEND, SUPPORTED | CHANGES_DATA),
    ];
    let mut log = vec![0; EFFECTS_LOG_BYTES];
    for (opcode, effects) in admin_commands {
        put(&mut log, 4 * usize::from(opcode), &[effects]);
    }
    for (opcode, effects) in io_commands {
        put(&mut log, IO_AT + 4 * usize::from(opcode), &[effects]);
    }
    log
}
