//! Get log page.

#![deny(clippy::indexing_slicing)]

use zerocopy::little_endian::U32;
use zerocopy::{FromZeros, Immutable, IntoBytes};

use super::super::command::{Command, admin, high, io, log, low};
use super::super::endurance_log::EnduranceLog;
use super::super::event;
use super::super::fdp_log::{self, Configuration, HandleType, Statistics};
use super::super::smart::SmartLog;
use super::super::status::Status;
use super::namespaces::NAMESPACES_MAX;
use super::{Answer, Controller, ENDURANCE_GROUP, answer, is_persistent};
use crate::managed::PAGE_BYTES;

const FRESH_SPARE_PERCENT: u8 = 100;

/// Commands supported and effects, by opcode.
#[derive(FromZeros, IntoBytes, Immutable)]
#[repr(C)]
struct EffectsLog {
    admin: [U32; 256],
    io: [U32; 256],
    reserved: [u8; 2048],
}
const _: () = assert!(size_of::<EffectsLog>() == 4096);

impl Controller {
    pub(super) fn get_log_page(&self, command: &Command, data: &mut [u8]) -> Answer {
        let [page, flags, ..] = command.cdw10().to_le_bytes();
        let dwords = u64::from(high(command.cdw10())) | u64::from(low(command.cdw11())) << 16;
        let asked = usize::try_from((dwords + 1) * 4).unwrap_or(usize::MAX);
        let data = data.get_mut(..asked).ok_or(Status::DataTransferError)?;
        let offset = u64::from(command.cdw12()) | u64::from(command.cdw13()) << 32;
        if page == log::EFFECTS {
            return answer(data, effects_log().as_bytes(), offset);
        }
        if page == log::SMART {
            return answer(data, &self.smart_log().encode(), offset);
        }
        if high(command.cdw11()) != ENDURANCE_GROUP {
            return Err(Status::InvalidField);
        }
        match page {
            log::ENDURANCE_GROUP => answer(data, &self.endurance_log().encode(), offset),
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
        let kind = if is_persistent(&self.config) {
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

    /// The model has no wear and no power-on hours in this log.
    fn smart_log(&self) -> SmartLog {
        let available_spare_percent = FRESH_SPARE_PERCENT;
        SmartLog { available_spare_percent, host_bytes: self.host_bytes, ..SmartLog::default() }
    }

    fn endurance_log(&self) -> EnduranceLog {
        let statistics = self.statistics();
        EnduranceLog {
            available_spare_percent: FRESH_SPARE_PERCENT,
            host_bytes: statistics.host_bytes,
            media_bytes: statistics.media_bytes,
            capacity_bytes: self.config.firmware.geometry.logical_bytes().into(),
            unallocated_bytes: u128::from(self.namespaces.unallocated_pages())
                * u128::from(PAGE_BYTES),
            ..EnduranceLog::default()
        }
    }
}

/// Linux refuses unprivileged passthrough of commands that are not in this log.
fn effects_log() -> EffectsLog {
    const SUPPORTED: u32 = 1;
    const CHANGES_DATA: u32 = 1 << 1;
    const CHANGES_NAMESPACES: u32 = 1 << 3;
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
    let mut log = EffectsLog::new_zeroed();
    let list = |of: &mut [U32; 256], commands: &[(u8, u32)]| {
        for (opcode, effects) in commands {
            of.iter_mut().skip(usize::from(*opcode)).take(1).for_each(|room| room.set(*effects));
        }
    };
    list(&mut log.admin, &admin_commands);
    list(&mut log.io, &io_commands);
    log
}
