//! Handle lists of namespaces, and switching FDP on, which they require.

use larder_ssd::managed::{GcDestination, Geometry, ManagedConfig, SaveSequential};
use larder_ssd::nvme::command::log;
use larder_ssd::nvme::fdp_log::{HandleUsage, decode_usage};
use larder_ssd::nvme::namespace::{LbaFormat, NamespaceRequest};
use larder_ssd::nvme::{Command, Status};

use super::rig::{Host, firmware};

fn usage(host: &mut Host) -> Vec<HandleUsage> {
    let mut log = [0xee; 64];
    host.admin(&Command::get_log(log::HANDLE_USAGE, 1, 0, 64), &mut log);
    decode_usage(&log).unwrap()
}

#[test]
fn namespaces_without_a_list_share_a_handle_that_no_host_has_named() {
    use HandleUsage::{Controller, Host as Named, Unused};
    let mut host = Host::new(firmware());
    host.create(100, &[0, 2]);
    let first = host.create(100, &[]);
    let second = host.create(100, &[]);
    assert_eq!(usage(&mut host), [Named, Controller, Named, Unused]);
    for nsid in [first, second] {
        let handles: Vec<_> = host.status(nsid).iter().map(|status| status.handle).collect();
        assert_eq!(handles, [1]);
    }
    let format = LbaFormat::Bytes4096;
    assert_eq!(host.try_create(100, format, &[3, 1]), Err(Status::InvalidPlacementHandleList));
    host.admin(&Command::delete_namespace(first), &mut []);
    host.admin(&Command::delete_namespace(second), &mut []);
    host.create(100, &[3, 1]);
    assert_eq!(host.try_create(100, format, &[]), Err(Status::InvalidPlacementHandleList));
}

#[test]
fn lists_longer_than_a_namespace_can_have_are_invalid_lists() {
    let mut host = Host::new(firmware());
    let request =
        NamespaceRequest { blocks: 10, format: 0, endurance_group: 1, handles: vec![0, 1] };
    let mut data = request.encode().unwrap();
    data[392..394].copy_from_slice(&200_u16.to_le_bytes());
    let refused = host.drive.admin(&Command::create_namespace(), &mut data);
    assert_eq!(refused.status, Status::InvalidPlacementHandleList);
}

#[test]
fn a_configuration_that_could_not_work_is_listed_as_invalid_and_refused() {
    // Enough units for one frontier, but not for four.
    let geometry = Geometry { logical_pages: 640, pages_per_unit: 16, units: 46 };
    let mut host = Host::new(ManagedConfig { geometry, fdp: false, ..firmware() });
    assert!(!host.configuration().valid);
    let refused = host.drive.admin(&Command::set_fdp(1, true, 0), &mut []);
    assert_eq!(refused.status, Status::InvalidField);
    assert_eq!(host.admin(&Command::get_fdp(1), &mut []), 0);
    let refused = host.drive.admin(&Command::set_fdp(1, false, 1), &mut []);
    assert_eq!(refused.status, Status::InvalidField, "there is one configuration");
}

#[test]
fn habits_that_need_fdp_or_its_absence_do_not_stand_in_the_way_of_the_switch() {
    let gc_destination = GcDestination::Handle(2);
    let save_sequential = Some(SaveSequential { streams: 2, pages_min: 8 });
    let firmwares = [
        ManagedConfig { gc_destination, ..firmware() },
        ManagedConfig { fdp: false, save_sequential, ..firmware() },
    ];
    for firmware in firmwares {
        let enabled = firmware.fdp;
        let mut host = Host::new(firmware);
        for enable in [!enabled, enabled] {
            host.admin(&Command::set_fdp(1, enable, 0), &mut []);
            assert_eq!(host.admin(&Command::get_fdp(1), &mut []), u32::from(enable));
            let config = host.drive.ssd().config();
            assert_eq!(config.save_sequential.is_some(), !enable && !enabled);
        }
    }
}

#[test]
fn statistics_start_afresh_when_fdp_is_switched() {
    let mut host = Host::new(firmware());
    let nsid = host.create(100, &[0]);
    host.write_page(nsid, 0, 1, None);
    assert_eq!(host.statistics().host_bytes, 4096);
    host.admin(&Command::delete_namespace(nsid), &mut []);
    assert_eq!(host.statistics().host_bytes, 4096, "of all namespaces that there were");
    host.admin(&Command::set_fdp(1, false, 0), &mut []);
    host.admin(&Command::set_fdp(1, true, 0), &mut []);
    assert_eq!((host.statistics().host_bytes, host.statistics().media_bytes), (0, 0));
}
