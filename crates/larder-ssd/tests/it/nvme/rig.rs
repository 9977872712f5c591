//! A host that sends commands and expects them to succeed.

use larder_ssd::managed::{Geometry, ManagedConfig};
use larder_ssd::nvme::command::{encode_range, log};
use larder_ssd::nvme::event::{Event, EventType, decode_events};
use larder_ssd::nvme::fdp_log::{Configuration, Statistics, decode_configurations};
use larder_ssd::nvme::io_management::{HandleStatus, decode_status, encode_update};
use larder_ssd::nvme::namespace::{LbaFormat, NamespaceRequest};
use larder_ssd::nvme::{Command, Controller, ControllerConfig, Status};

pub(super) const PAGE: usize = 4096;

pub(super) struct Host {
    pub(super) drive: Controller,
}

/// A small drive with FDP: units of 16 pages, 4 handles, 640 logical pages.
pub(super) fn firmware() -> ManagedConfig {
    let geometry = Geometry { logical_pages: 640, pages_per_unit: 16, units: 60 };
    ManagedConfig { handles: 4, ..ManagedConfig::new(geometry) }
}

impl Host {
    pub(super) fn new(firmware: ManagedConfig) -> Self {
        Self::with(ControllerConfig::new(firmware))
    }

    pub(super) fn with(config: ControllerConfig) -> Self {
        Self { drive: Controller::new(config).unwrap() }
    }

    pub(super) fn try_create(
        &mut self,
        blocks: u64,
        format: LbaFormat,
        handles: &[u16],
    ) -> Result<u32, Status> {
        let handles = handles.to_vec();
        let request =
            NamespaceRequest { blocks, format: format.index(), endurance_group: 1, handles };
        let created =
            self.drive.admin(&Command::create_namespace(), &mut request.encode().unwrap());
        if created.status.is_success() { Ok(created.result) } else { Err(created.status) }
    }

    pub(super) fn create(&mut self, blocks: u64, handles: &[u16]) -> u32 {
        self.try_create(blocks, LbaFormat::Bytes4096, handles).unwrap()
    }

    pub(super) fn io(&mut self, command: &Command, data: &mut [u8]) {
        assert_eq!(self.drive.io(command, data).status, Status::Success, "{command:?}");
    }

    pub(super) fn admin(&mut self, command: &Command, data: &mut [u8]) -> u32 {
        let completion = self.drive.admin(command, data);
        assert_eq!(completion.status, Status::Success, "{command:?}");
        completion.result
    }

    /// Writes 4096 bytes, which is one page, from block `slba` on.
    pub(super) fn write_page(&mut self, nsid: u32, slba: u64, blocks: u32, pid: Option<u16>) {
        self.io(&Command::write(nsid, slba, blocks, pid), &mut [1; PAGE]);
    }

    pub(super) fn deallocate(&mut self, nsid: u32, slba: u64, blocks: u32) {
        self.io(&Command::deallocate(nsid, 1), &mut encode_range(slba, blocks));
    }

    pub(super) fn update(&mut self, nsid: u32, pids: &[u16]) -> Status {
        let count = u16::try_from(pids.len()).unwrap();
        self.drive.io(&Command::handle_update(nsid, count), &mut encode_update(pids)).status
    }

    pub(super) fn status(&mut self, nsid: u32) -> Vec<HandleStatus> {
        let mut reply = vec![0xee; 16 + 32 * 32];
        let command = Command::handle_status(nsid, u32::try_from(reply.len()).unwrap());
        self.io(&command, &mut reply);
        decode_status(&reply).unwrap()
    }

    pub(super) fn statistics(&mut self) -> Statistics {
        let mut log = [0xee; 64];
        self.admin(&Command::get_log(log::FDP_STATISTICS, 1, 0, 64), &mut log);
        Statistics::decode(&log).unwrap()
    }

    pub(super) fn configuration(&mut self) -> Configuration {
        let mut log = [0xee; 256];
        self.admin(&Command::get_log(log::FDP_CONFIGURATIONS, 1, 0, 256), &mut log);
        decode_configurations(&log).unwrap().remove(0)
    }

    pub(super) fn set_events(
        &mut self,
        nsid: u32,
        handle: u16,
        kinds: &[EventType],
        enabled: bool,
    ) -> Status {
        let count = u8::try_from(kinds.len()).unwrap();
        let mut list: Vec<u8> = kinds.iter().map(|kind| kind.to_byte()).collect();
        self.drive.admin(&Command::set_events(nsid, handle, count, enabled), &mut list).status
    }

    /// Event types of a placement handle, and whether each is enabled.
    pub(super) fn event_types(&mut self, nsid: u32, handle: u16) -> Vec<(EventType, bool)> {
        let mut reply = [0xee; 512];
        let count = self.admin(&Command::get_events_enabled(nsid, handle, 255), &mut reply);
        let entries = reply.chunks_exact(2).take(usize::try_from(count).unwrap());
        entries.map(|entry| (EventType::from_byte(entry[0]), entry[1] & 1 == 1)).collect()
    }

    /// The events of the host or of the controller.
    pub(super) fn events(&mut self, of_host: bool) -> Vec<Event> {
        let mut log = [0xee; 4096];
        self.admin(&Command::get_events(1, of_host, 4096), &mut log);
        decode_events(&log).unwrap()
    }
}

/// The event without its time.
pub(super) fn untimed(event: Event) -> Event {
    Event { timestamp_ms: 0, ..event }
}
