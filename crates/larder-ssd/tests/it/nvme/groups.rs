//! Several reclaim groups: a placement identifier selects one, the data is written there, and every log covers all of
//! them.

use larder_ssd::ErrorKind;
use larder_ssd::managed::{Geometry, ManagedConfig, Owner};
use larder_ssd::nvme::event::{Event, EventType};
use larder_ssd::nvme::{Command, Controller, ControllerConfig, PlacementId, Status};

use super::rig::{Host, PAGE, firmware, untimed};

const GROUPS: u16 = 3;
/// Three groups need two bits.
const RGIF: u8 = 2;

fn grouped() -> ManagedConfig {
    let geometry = Geometry { logical_pages: 640, pages_per_unit: 16, units: 90 };
    ManagedConfig { geometry, groups: GROUPS, ..firmware() }
}

fn pid(group: u16, handle: u16) -> u16 {
    PlacementId { group, handle }.encode(RGIF).unwrap()
}

/// Group and owner of the unit that holds page `page` of the drive.
fn place_of(drive: &Controller, page: u64) -> (u16, Owner) {
    let geometry = drive.ssd().config().geometry;
    let unit = drive.ssd().physical_page(page).unwrap() / geometry.pages_per_unit;
    let owner = drive.ssd().units().nth(unit as usize).unwrap().owner;
    (u16::try_from(unit / (geometry.units / u32::from(GROUPS))).unwrap(), owner)
}

#[test]
fn the_configuration_says_how_identifiers_are_made() {
    let mut host = Host::new(grouped());
    let configuration = host.configuration();
    assert_eq!((configuration.rgif, configuration.groups), (RGIF, 3));
    assert_eq!(configuration.placement_ids_max, 12);
    assert_eq!(configuration.handles.len(), 4);
    assert!(configuration.valid);
}

#[test]
fn a_write_lands_in_the_group_and_handle_that_it_names() {
    let mut host = Host::new(grouped());
    let nsid = host.create(600, &[1, 3]);
    let mut slba = 0;
    for group in 0..GROUPS {
        for (placement_handle, handle) in [(0, 1), (1, 3)] {
            host.write_page(nsid, slba, 1, Some(pid(group, placement_handle)));
            assert_eq!(place_of(&host.drive, slba), (group, Owner::Handle(handle)));
            slba += 1;
        }
    }
    assert_eq!(host.drive.ssd().stats().host_pages_by_handle, [0, 3, 0, 3]);
}

#[test]
fn status_has_a_descriptor_for_every_handle_in_every_group() {
    let mut host = Host::new(grouped());
    let nsid = host.create(600, &[1, 3]);
    for (count, group) in [(1, 0), (2, 1), (5, 2)] {
        (0..count).for_each(|slba| host.write_page(nsid, slba, 1, Some(pid(group, 1))));
    }
    let status = host.status(nsid);
    let seen: Vec<_> = status.iter().map(|s| (s.placement_id, s.handle, s.blocks_left)).collect();
    let untouched = (0..GROUPS).map(|group| (pid(group, 0), 1, 16));
    let written = [(pid(0, 1), 3, 15), (pid(1, 1), 3, 14), (pid(2, 1), 3, 11)];
    assert_eq!(seen, untouched.chain(written).collect::<Vec<_>>());
}

#[test]
fn an_update_moves_the_handle_in_the_named_group_only() {
    let mut host = Host::new(grouped());
    let nsid = host.create(600, &[1, 3]);
    assert_eq!(host.set_events(nsid, 1, &[EventType::UnitNotFullyWritten], true), Status::Success);
    (0..GROUPS).for_each(|group| host.write_page(nsid, 0, 1, Some(pid(group, 1))));
    assert_eq!(host.update(nsid, &[pid(2, 1)]), Status::Success);
    let left: Vec<_> = host.status(nsid).iter().skip(3).map(|s| s.blocks_left).collect();
    assert_eq!(left, [15, 15, 16]);
    assert_eq!(host.drive.ssd().stats().padded_pages, 15);
    let expected = Event {
        placement_id: Some(pid(2, 1)),
        nsid: Some(nsid),
        location: Some((2, 3)),
        ..Event::of(EventType::UnitNotFullyWritten)
    };
    assert_eq!(host.events(true).into_iter().map(untimed).collect::<Vec<_>>(), [expected]);
}

#[test]
fn an_update_is_refused_whole_if_an_identifier_is_invalid_or_there_are_too_many() {
    let mut host = Host::new(grouped());
    let nsid = host.create(600, &[1, 3]);
    host.write_page(nsid, 0, 1, Some(pid(0, 0)));
    for wrong in [pid(3, 0), pid(0, 2), 0xffff] {
        assert_eq!(host.update(nsid, &[pid(0, 0), wrong]), Status::InvalidField);
    }
    assert_eq!(host.update(nsid, &[pid(0, 0); 13]), Status::InvalidField);
    assert_eq!(host.drive.ssd().stats().padded_pages, 0);
    assert_eq!(host.update(nsid, &[pid(0, 0); 12]), Status::Success);
    assert_eq!(host.drive.ssd().stats().padded_pages, 15);
}

#[test]
fn an_invalid_identifier_goes_to_handle_0_of_a_group_that_the_drive_chooses() {
    let mut host = Host::new(grouped());
    let nsid = host.create(600, &[1, 3]);
    let kinds = [EventType::InvalidPlacementId];
    assert_eq!(host.set_events(nsid, 0, &kinds, true), Status::Success);
    host.write_page(nsid, 0, 1, Some(pid(0, 1)));
    let wrong = [pid(3, 0), pid(0, 2), 0xffff]; // no such group, no such handle, neither
    for (slba, wrong) in (1..).zip(wrong) {
        host.write_page(nsid, slba, 1, Some(wrong));
    }
    // The emptiest group is chosen each time; group 0 already has a page.
    let chosen = [1, 2, 0];
    for (slba, group) in (1..).zip(chosen) {
        assert_eq!(place_of(&host.drive, slba), (group, Owner::Handle(1)));
    }
    let expected = wrong.iter().zip(chosen).map(|(wrong, group)| Event {
        placement_id: Some(*wrong),
        nsid: Some(nsid),
        location: Some((group, 1)),
        ..Event::of(EventType::InvalidPlacementId)
    });
    let seen: Vec<_> = host.events(true).into_iter().map(untimed).collect();
    assert_eq!(seen, expected.collect::<Vec<_>>());
}

#[test]
fn a_strict_drive_refuses_invalid_identifiers() {
    let config = ControllerConfig { strict_placement: true, ..ControllerConfig::new(grouped()) };
    let mut host = Host::with(config);
    let nsid = host.create(600, &[1, 3]);
    for wrong in [pid(3, 0), pid(0, 2)] {
        let refused = host.drive.io(&Command::write(nsid, 0, 1, Some(wrong)), &mut [1; PAGE]);
        assert_eq!(refused.status, Status::InvalidField);
    }
    host.write_page(nsid, 0, 1, Some(pid(2, 1)));
    assert_eq!(host.drive.ssd().stats().host_pages, 1);
}

#[test]
fn what_the_host_does_not_place_fills_all_groups() {
    let mut host = Host::new(grouped());
    let nsid = host.create(640, &[1, 3]);
    let mut rng = fastrand::Rng::with_seed(1);
    (0..640).for_each(|slba| host.write_page(nsid, slba, 1, None));
    for _ in 0..5_000 {
        host.write_page(nsid, rng.u64(..640), 1, None);
    }
    let held: Vec<_> = (0..GROUPS).map(|g| host.drive.ssd().live_pages_of_group(g)).collect();
    assert!(held.iter().all(|pages| (212..=215).contains(pages)), "{held:?}");
    host.drive.ssd().audit().unwrap();
}

#[test]
fn a_full_group_answers_and_what_was_written_counts() {
    let mut host = Host::new(grouped());
    let nsid = host.create(640, &[1, 3]);
    let mut data = vec![7; 640 * PAGE];
    let refused = host.drive.io(&Command::write(nsid, 0, 640, Some(pid(1, 0))), &mut data);
    assert_eq!(refused.status, Status::CapacityExceeded);
    let written = host.drive.ssd().stats().host_pages;
    assert!((256..480).contains(&written), "{written} pages fit a group");
    assert_eq!(host.statistics().host_bytes, u128::from(written) * 4096);
    let mut read = vec![0; 640 * PAGE];
    host.io(&Command::read(nsid, 0, 640), &mut read);
    let kept = usize::try_from(written).unwrap() * PAGE;
    assert!(read[..kept].iter().all(|byte| *byte == 7) && read[kept..].iter().all(|b| *b == 0));
}

#[test]
fn groups_come_and_go_with_fdp() {
    let mut host = Host::new(grouped());
    host.admin(&Command::set_fdp(1, false, 0), &mut []);
    assert_eq!(host.drive.ssd().config().groups, 1);
    assert_eq!(host.configuration().groups, 3, "what it would be with FDP");
    let nsid = host.create(640, &[]);
    host.write_page(nsid, 0, 1, None);
    host.admin(&Command::delete_namespace(nsid), &mut []);
    host.admin(&Command::set_fdp(1, true, 0), &mut []);
    let nsid = host.create(640, &[0, 2]);
    host.write_page(nsid, 0, 1, Some(pid(2, 1)));
    assert_eq!(place_of(&host.drive, 0), (2, Owner::Handle(2)));
}

#[test]
fn more_groups_than_identifiers_can_name_are_refused() {
    let geometry = Geometry { logical_pages: 640, pages_per_unit: 2, units: 512 * 140 };
    let config = |groups| ManagedConfig { geometry, groups, handles: 128, ..firmware() };
    let refused = Controller::new(ControllerConfig::new(config(512))).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config);
    assert!(refused.to_string().contains("512 reclaim groups with 128 handles"), "{refused}");
    assert!(Controller::new(ControllerConfig::new(config(256))).is_ok());
}
