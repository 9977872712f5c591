//! Log page 23h and feature 1Eh: events of the firmware are reported if they are enabled.

use larder_ssd::managed::{GcDestination, ManagedConfig};
use larder_ssd::nvme::event::{Event, EventType};
use larder_ssd::nvme::namespace::LbaFormat;
use larder_ssd::nvme::{Command, ControllerConfig, Status};

use super::rig::{Host, firmware, untimed};

fn all_untimed(events: Vec<Event>) -> Vec<Event> {
    events.into_iter().map(untimed).collect()
}

/// Overwrites random pages of namespaces of 512-byte or 4096-byte blocks with each of their identifiers, and passes
/// every new controller event after a write to `each`.
fn churn(
    host: &mut Host,
    targets: &[(u32, u64, u32, u16)],
    writes: u32,
    mut each: impl FnMut(&Event),
) {
    let mut rng = fastrand::Rng::with_seed(3);
    let mut newest = 0;
    for _ in 0..writes {
        let (nsid, pages, blocks_per_page, pids) = targets[rng.usize(..targets.len())];
        let slba = rng.u64(..pages) * u64::from(blocks_per_page);
        host.write_page(nsid, slba, blocks_per_page, Some(rng.u16(..pids)));
        for event in host.events(false) {
            if event.timestamp_ms > newest {
                each(&event);
            }
        }
        newest = host.events(false).last().map_or(newest, |event| event.timestamp_ms);
    }
}

#[test]
fn moved_blocks_add_up_to_the_copies_in_both_formats() {
    let mut host = Host::new(firmware());
    let large = host.create(300, &[0, 1]);
    let small = host.try_create(2_400, LbaFormat::Bytes512, &[2, 3]).unwrap();
    for (nsid, handle) in [(large, 0), (large, 1), (small, 0), (small, 1)] {
        let kinds = [EventType::MediaReallocated];
        assert_eq!(host.set_events(nsid, handle, &kinds, true), Status::Success);
    }
    let (mut bytes, mut with_handle, mut without, mut small_events) = (0, 0, 0, 0);
    churn(&mut host, &[(large, 300, 1, 2), (small, 300, 8, 2)], 6_000, |event| {
        assert_eq!(event.kind, EventType::MediaReallocated);
        let (blocks, lba) = event.moved.unwrap();
        let in_small = event.nsid == Some(small);
        assert!(in_small || event.nsid == Some(large));
        assert!(lba.unwrap() < if in_small { 2_400 } else { 300 });
        bytes += u64::from(blocks) * if in_small { 512 } else { 4096 };
        small_events += u32::from(in_small);
        match (event.placement_id, event.location) {
            (Some(pid), Some((group, handle))) => {
                with_handle += 1;
                assert_eq!((group, handle), (0, pid + if in_small { 2 } else { 0 }));
            }
            (None, None) => without += 1,
            other => panic!("either all is known or nothing: {other:?}"),
        }
    });
    let stats = host.drive.ssd().stats();
    assert!(stats.copied_pages > 1_000);
    assert_eq!(bytes, stats.copied_pages * 4096);
    assert!(with_handle > 10 && without > 10 && small_events > 10);
}

#[test]
fn persistently_isolated_handles_do_not_report_moves() {
    let gc_destination = GcDestination::PerHandle;
    let mut host = Host::new(ManagedConfig { gc_destination, ..firmware() });
    let nsid = host.create(600, &[0, 1]);
    let kinds = [EventType::MediaReallocated];
    assert_eq!(host.set_events(nsid, 0, &kinds, true), Status::InvalidField);
    churn(&mut host, &[(nsid, 600, 1, 2)], 3_000, |event| panic!("{event:?}"));
    assert!(host.drive.ssd().stats().copied_pages > 100);
}

#[test]
fn a_handle_that_collection_moves_on_is_reported_and_others_are_not() {
    let kinds = [EventType::ImplicitlyModified];
    let run = |gc_destination| {
        let mut host = Host::new(ManagedConfig { gc_destination, ..firmware() });
        let nsid = host.create(600, &[2, 1]);
        for handle in [0, 1] {
            assert_eq!(host.set_events(nsid, handle, &kinds, true), Status::Success);
        }
        let mut seen = Vec::new();
        churn(&mut host, &[(nsid, 600, 1, 2)], 3_000, |event| seen.push(untimed(*event)));
        (nsid, seen)
    };
    let (nsid, seen) = run(GcDestination::Handle(1));
    let expected = Event {
        placement_id: Some(1),
        nsid: Some(nsid),
        location: Some((0, 1)),
        ..Event::of(EventType::ImplicitlyModified)
    };
    assert!(seen.len() > 10 && seen.iter().all(|event| *event == expected), "{seen:?}");
    // If moved data has separate units, handles move on only when the host fills theirs.
    assert_eq!(run(GcDestination::Shared).1, []);
}

#[test]
fn a_reset_that_modifies_handles_says_so_once() {
    let run = |reset_modifies_handles| {
        let config =
            ControllerConfig { reset_modifies_handles, ..ControllerConfig::new(firmware()) };
        let mut host = Host::with(config);
        let nsid = host.create(600, &[0, 1]);
        for handle in [0, 1] {
            let kinds = [EventType::ControllerReset, EventType::UnitNotFullyWritten];
            assert_eq!(host.set_events(nsid, handle, &kinds, true), Status::Success);
            host.write_page(nsid, u64::from(handle), 1, Some(handle));
        }
        host.drive.reset();
        host.drive.reset(); // now there is nothing to modify
        let left: Vec<_> = host.status(nsid).iter().map(|status| status.blocks_left).collect();
        (all_untimed(host.events(true)), left)
    };
    let reset = Event::of(EventType::ControllerReset);
    assert_eq!(run(true), (vec![reset], vec![16, 16]));
    assert_eq!(run(false), (vec![], vec![15, 15]));
}

#[test]
fn a_reset_reports_no_handle_that_it_did_not_modify_or_that_the_host_did_not_enable() {
    let config =
        ControllerConfig { reset_modifies_handles: true, ..ControllerConfig::new(firmware()) };
    let mut host = Host::with(config);
    let nsid = host.create(600, &[0, 1]);
    assert_eq!(host.set_events(nsid, 0, &[EventType::ControllerReset], true), Status::Success);
    host.write_page(nsid, 0, 1, Some(1));
    host.drive.reset();
    assert_eq!(host.drive.ssd().stats().padded_pages, 15);
    assert_eq!(host.events(true), []);
}

#[test]
fn what_the_model_cannot_know_is_not_supported() {
    let mut host = Host::new(firmware());
    let nsid = host.create(600, &[0, 1]);
    let kinds = host.event_types(nsid, 0).into_iter().map(|(kind, enabled)| {
        assert!(!enabled);
        kind.to_byte()
    });
    assert_eq!(kinds.collect::<Vec<_>>(), [0x00, 0x02, 0x03, 0x80, 0x81]);
    let refused = [EventType::UnitTimeLimitExceeded, EventType::Other(0x70)];
    for kind in refused {
        let kinds = [EventType::InvalidPlacementId, kind];
        assert_eq!(host.set_events(nsid, 0, &kinds, true), Status::InvalidField);
    }
    assert!(host.event_types(nsid, 0).iter().all(|(_, on)| !on), "refused whole");
    assert_eq!(host.configuration().unit_time_limit_s, 0);
    assert_eq!(host.set_events(nsid, 2, &[], true), Status::InvalidField, "no such handle");
    assert_eq!(host.set_events(nsid + 1, 0, &[], true), Status::InvalidNamespace);
}

#[test]
fn events_are_enabled_by_reclaim_unit_handle_and_type() {
    let mut host = Host::new(firmware());
    let first = host.create(300, &[0, 1]);
    let second = host.create(300, &[1, 2]);
    let kinds = [EventType::UnitNotFullyWritten];
    assert_eq!(host.set_events(first, 1, &kinds, true), Status::Success);
    let on = (EventType::UnitNotFullyWritten, true);
    assert!(host.event_types(second, 0).contains(&on), "the handle is shared, so is its setting");
    assert!(
        !host.event_types(second, 1).contains(&on) && !host.event_types(first, 0).contains(&on)
    );
    for (nsid, pid) in [(first, 0), (second, 0), (second, 1)] {
        host.write_page(nsid, 0, 1, Some(pid));
        assert_eq!(host.update(nsid, &[pid]), Status::Success);
    }
    let event = Event {
        placement_id: Some(0),
        nsid: Some(second),
        location: Some((0, 1)),
        ..Event::of(EventType::UnitNotFullyWritten)
    };
    assert_eq!(all_untimed(host.events(true)), [event]);
    assert_eq!(host.set_events(second, 0, &kinds, false), Status::Success);
    host.write_page(first, 0, 1, Some(1));
    assert_eq!(host.update(first, &[1]), Status::Success);
    assert_eq!(host.events(true).len(), 1, "disabled through the other namespace");
}

#[test]
fn handles_that_no_namespace_uses_lose_their_settings() {
    let mut host = Host::new(firmware());
    let nsid = host.create(300, &[0, 1]);
    assert_eq!(host.set_events(nsid, 1, &[EventType::InvalidPlacementId], true), Status::Success);
    host.admin(&Command::delete_namespace(nsid), &mut []);
    let nsid = host.create(300, &[1]);
    assert!(host.event_types(nsid, 0).iter().all(|(_, enabled)| !enabled));
}

#[test]
fn the_log_keeps_63_events_in_order_until_fdp_is_switched() {
    let mut host = Host::new(firmware());
    let nsid = host.create(300, &[0]);
    let kinds = [EventType::InvalidPlacementId];
    assert_eq!(host.set_events(nsid, 0, &kinds, true), Status::Success);
    (100..200).for_each(|pid| host.write_page(nsid, 0, 1, Some(pid)));
    let events = host.events(true);
    let pids: Vec<_> = events.iter().filter_map(|event| event.placement_id).collect();
    assert_eq!(pids, (137..200).collect::<Vec<_>>(), "the newest, oldest first");
    assert!(events.is_sorted_by_key(|event| event.timestamp_ms));
    assert_eq!(host.events(true), events, "reading does not clear");
    host.drive.reset();
    assert_eq!(host.events(true), events, "nor does a reset");
    host.admin(&Command::delete_namespace(nsid), &mut []);
    assert_eq!(host.events(true), events);
    host.admin(&Command::set_fdp(1, false, 0), &mut []);
    host.admin(&Command::set_fdp(1, true, 0), &mut []);
    assert_eq!(host.events(true), []);
}

#[test]
fn without_fdp_there_are_no_events_to_set() {
    let mut host = Host::new(ManagedConfig { fdp: false, ..firmware() });
    let nsid = host.create(300, &[]);
    assert_eq!(host.set_events(nsid, 0, &[], true), Status::FdpDisabled);
    let get = Command::get_events_enabled(nsid, 0, 5);
    assert_eq!(host.drive.admin(&get, &mut [0; 10]).status, Status::FdpDisabled);
}
