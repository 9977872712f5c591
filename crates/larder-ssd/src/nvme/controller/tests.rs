//! Tests of a drive with default settings, from a host's view: one reclaim group, blocks of 4096 bytes.

use super::super::command::{EVERY_NAMESPACE, encode_controllers, encode_range, log};
use super::super::event::{EventType, decode_events};
use super::super::fdp_log::{
    HandleType, HandleUsage, Statistics, decode_configurations, decode_usage,
};
use super::super::io_management::{decode_status, encode_update};
use super::super::namespace::{
    NamespaceRequest, cns, decode_formats, decode_namespace, decode_namespace_list, supports_fdp,
};
use super::super::smart::SmartLog;
use super::*;
use crate::managed::Geometry;

const BLOCK: usize = 4096;

fn drive_with(fdp: bool) -> Controller {
    let geometry = Geometry { logical_pages: 2000, pages_per_unit: 64, units: 60 };
    let firmware = ManagedConfig { fdp, ..ManagedConfig::new(geometry) };
    Controller::new(ControllerConfig::new(firmware)).unwrap()
}

fn create(drive: &mut Controller, blocks: u64, handles: &[u16]) -> Completion {
    let handles = handles.to_vec();
    let request = NamespaceRequest { blocks, format: 0, endurance_group: 1, handles };
    drive.admin(&Command::create_namespace(), &mut request.encode().unwrap())
}

fn drive() -> (Controller, u32) {
    let mut drive = drive_with(true);
    let created = create(&mut drive, 1500, &[0, 3, 5]);
    assert_eq!(created.status, Status::Success);
    (drive, created.result)
}

fn get_log(drive: &mut Controller, command: &Command, bytes: usize) -> Vec<u8> {
    let mut data = vec![0xee; bytes];
    let completion = drive.admin(command, &mut data);
    assert_eq!(completion.status, Status::Success, "{command:?}");
    data
}

fn write(drive: &mut Controller, nsid: u32, slba: u64, byte: u8, pid: Option<u16>) -> Status {
    drive.io(&Command::write(nsid, slba, 1, pid), &mut [byte; BLOCK]).status
}

fn read(drive: &mut Controller, nsid: u32, slba: u64) -> u8 {
    let mut data = [0xee; BLOCK];
    assert!(drive.io(&Command::read(nsid, slba, 1), &mut data).status.is_success());
    data.last().copied().unwrap()
}

#[test]
fn a_host_finds_out_what_the_drive_is() {
    let (mut drive, nsid) = drive();
    let mut page = vec![0; 4096];
    drive.admin(&Command::identify(0, 1), &mut page);
    assert_eq!(supports_fdp(&page), Some(true));
    drive.admin(&Command::identify(nsid, 0), &mut page);
    assert_eq!(decode_namespace(&page), Some((1500, 4096, 1)));
    assert_eq!(drive.admin(&Command::get_fdp(1), &mut []).result, 1);
    let log = get_log(&mut drive, &Command::get_log(log::FDP_CONFIGURATIONS, 1, 0, 256), 256);
    let configurations = decode_configurations(&log).unwrap();
    let configuration = configurations.first().unwrap();
    assert_eq!(configuration.handles, vec![HandleType::InitiallyIsolated; 8]);
    assert_eq!(configuration.unit_bytes, 64 * 4096);
    let log = get_log(&mut drive, &Command::get_log(log::HANDLE_USAGE, 1, 0, 72), 72);
    let used = decode_usage(&log).unwrap();
    let hosts = (0..8).map(|handle| [0, 3, 5].contains(&handle));
    let expected: Vec<_> =
        hosts.map(|host| if host { HandleUsage::Host } else { HandleUsage::Unused }).collect();
    assert_eq!(used, expected);
    drive.admin(&Command::identify_directives(nsid, 4096), &mut page);
    assert_eq!((page.first(), page.get(32), page.get(64)), (Some(&5), Some(&5), Some(&5)));
}

#[test]
fn placed_writes_go_to_the_handles_behind_their_identifiers() {
    let (mut drive, nsid) = drive();
    for (slba, pid) in [(0, None), (1, Some(0)), (2, Some(1)), (3, Some(2)), (4, Some(2))] {
        assert_eq!(write(&mut drive, nsid, slba, 9, pid), Status::Success);
    }
    assert_eq!(drive.ssd().stats().host_pages_by_handle, [2, 0, 0, 1, 0, 2, 0, 0]);
    let mut reply = vec![0; 16 + 3 * 32];
    let command = Command::handle_status(nsid, 16 + 3 * 32);
    assert_eq!(drive.io(&command, &mut reply).status, Status::Success);
    let status = decode_status(&reply).unwrap();
    let seen: Vec<_> = status.iter().map(|s| (s.placement_id, s.handle, s.blocks_left)).collect();
    assert_eq!(seen, [(0, 0, 62), (1, 3, 63), (2, 5, 62)]);
    let log = get_log(&mut drive, &Command::get_log(log::FDP_STATISTICS, 1, 0, 64), 64);
    let expected = Statistics { host_bytes: 5 * 4096, media_bytes: 5 * 4096, erased_bytes: 0 };
    assert_eq!(Statistics::decode(&log), Some(expected));
}

#[test]
fn data_is_read_back_until_it_is_deallocated() {
    let (mut drive, nsid) = drive();
    let other = create(&mut drive, 100, &[]).result;
    write(&mut drive, nsid, 7, 1, None);
    write(&mut drive, other, 7, 2, None);
    assert_eq!((read(&mut drive, nsid, 7), read(&mut drive, other, 7)), (1, 2));
    let mut ranges = [encode_range(7, 1), encode_range(9, 2)].concat();
    assert!(drive.io(&Command::deallocate(nsid, 2), &mut ranges).status.is_success());
    assert_eq!((read(&mut drive, nsid, 7), read(&mut drive, other, 7)), (0, 2));
    let mut beyond = [encode_range(8, 1), encode_range(1500, 1)].concat();
    write(&mut drive, nsid, 8, 3, None);
    let refused = drive.io(&Command::deallocate(nsid, 2), &mut beyond).status;
    assert_eq!(refused, Status::LbaOutOfRange);
    assert_eq!(read(&mut drive, nsid, 8), 3, "a refused command changes nothing");
}

#[test]
fn only_enabled_events_are_reported() {
    let (mut drive, nsid) = drive();
    write(&mut drive, nsid, 0, 1, Some(77));
    let types = [EventType::UnitNotFullyWritten, EventType::InvalidPlacementId];
    let mut bytes: Vec<u8> = types.iter().map(|kind| kind.to_byte()).collect();
    for handle in [0, 1] {
        let enable = Command::set_events(nsid, handle, 2, true);
        assert_eq!(drive.admin(&enable, &mut bytes).status, Status::Success);
    }
    let mut enabled = [0; 10];
    assert_eq!(drive.admin(&Command::get_events_enabled(nsid, 1, 5), &mut enabled).result, 5);
    assert_eq!(enabled, [0, 1, 2, 0, 3, 1, 0x80, 0, 0x81, 0]);
    write(&mut drive, nsid, 1, 1, Some(1));
    write(&mut drive, nsid, 2, 1, Some(78));
    let update = Command::handle_update(nsid, 2);
    assert!(drive.io(&update, &mut encode_update(&[1, 2])).status.is_success());
    let log = get_log(&mut drive, &Command::get_events(1, true, 1024), 1024);
    let events = decode_events(&log).unwrap();
    let seen: Vec<_> = events.iter().map(|event| (event.kind, event.placement_id)).collect();
    let invalid = (EventType::InvalidPlacementId, Some(78));
    assert_eq!(seen, [invalid, (EventType::UnitNotFullyWritten, Some(1))]);
    assert_eq!(drive.ssd().stats().padded_pages, 63);
    let log = get_log(&mut drive, &Command::get_events(1, false, 1024), 1024);
    assert_eq!(decode_events(&log), Some(Vec::new()));
}

#[test]
fn a_host_finds_the_namespaces_and_the_health() {
    let (mut drive, nsid) = drive();
    let other = create(&mut drive, 100, &[]).result;
    let mut page = vec![0; 4096];
    for structure in [cns::ACTIVE_NAMESPACES, cns::ALLOCATED_NAMESPACES] {
        drive.admin(&Command::identify(0, structure), &mut page);
        assert_eq!(decode_namespace_list(&page), [nsid, other]);
        drive.admin(&Command::identify(nsid, structure), &mut page);
        assert_eq!(decode_namespace_list(&page), [other], "those behind it");
    }
    drive.admin(&Command::identify(other, cns::ALLOCATED_NAMESPACE), &mut page);
    assert_eq!(decode_namespace(&page), Some((100, 4096, 1)));
    drive.admin(&Command::identify(EVERY_NAMESPACE, cns::NAMESPACE), &mut page);
    assert_eq!(decode_formats(&page), Some(vec![(0, 4096, 0), (1, 512, 0)]));
    let attach = Command::attach_namespace(other);
    let attached = drive.admin(&attach, &mut encode_controllers(&[0])).status;
    assert_eq!(attached, Status::NamespaceAttached);
    let nobody = Command::attach_namespace(77);
    assert_eq!(drive.admin(&nobody, &mut page).status, Status::InvalidNamespace);
    (0..200).for_each(|slba| _ = write(&mut drive, nsid, slba, 1, None));
    let log = get_log(&mut drive, &Command::get_smart(512), 512);
    let smart = SmartLog::decode(&log).unwrap();
    let units = (200_u128 * 4096).div_ceil(512_000);
    assert_eq!((smart.host_bytes, smart.available_spare_percent), (units * 512_000, 100));
}

#[test]
fn without_fdp_the_drive_says_so() {
    let mut drive = drive_with(false);
    assert_eq!(create(&mut drive, 100, &[0, 1]).status, Status::InvalidField);
    let nsid = create(&mut drive, 100, &[]).result;
    let mut data = vec![0; 4096];
    let statistics = Command::get_log(log::FDP_STATISTICS, 1, 0, 64);
    assert_eq!(drive.admin(&statistics, &mut data).status, Status::FdpDisabled);
    assert_eq!(drive.io(&Command::handle_status(nsid, 64), &mut data).status, Status::FdpDisabled);
    assert_eq!(write(&mut drive, nsid, 0, 1, Some(0)), Status::InvalidField);
    assert_eq!(write(&mut drive, nsid, 0, 1, None), Status::Success);
    let enable = Command::set_fdp(1, true, 0);
    assert_eq!(drive.admin(&enable, &mut []).status, Status::CommandSequenceError);
    drive.admin(&Command::delete_namespace(nsid), &mut []);
    assert_eq!(drive.admin(&enable, &mut []).status, Status::Success);
    assert_eq!(create(&mut drive, 100, &[0, 1]).status, Status::Success);
}

#[test]
fn handle_lists_are_checked() {
    let mut drive = drive_with(true);
    for list in [&[0, 8][..], &[1, 1]] {
        assert_eq!(create(&mut drive, 10, list).status, Status::InvalidPlacementHandleList);
    }
    assert_eq!(create(&mut drive, 2001, &[0]).status, Status::CapacityExceeded);
    assert_eq!(create(&mut drive, 0, &[0]).status, Status::InvalidField);
}
