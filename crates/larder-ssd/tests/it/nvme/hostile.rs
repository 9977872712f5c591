//! The drive answers any command and stays consistent.

use std::collections::BTreeMap;

use larder_ssd::managed::{GcDestination, Geometry, ManagedConfig};
use larder_ssd::nvme::namespace::{LbaFormat, NamespaceRequest};
use larder_ssd::nvme::{Command, ControllerConfig, Status};

use super::rig::{Host, firmware};

const COMMANDS: u32 = 12_000;

#[test]
fn one_group_in_both_formats_answers() {
    hostile(ControllerConfig::new(firmware()), 11);
}

#[test]
fn several_groups_in_both_formats_answer() {
    let geometry = Geometry { logical_pages: 640, pages_per_unit: 16, units: 90 };
    let config = ManagedConfig { geometry, groups: 3, ..firmware() };
    hostile(ControllerConfig::new(config), 12);
}

#[test]
fn persistent_isolation_with_resets_that_modify_handles_answers() {
    let geometry = Geometry { logical_pages: 640, pages_per_unit: 16, units: 100 };
    let gc_destination = GcDestination::PerHandle;
    let firmware = ManagedConfig { geometry, groups: 2, gc_destination, ..firmware() };
    let config =
        ControllerConfig { reset_modifies_handles: true, ..ControllerConfig::new(firmware) };
    hostile(config, 13);
}

#[test]
fn a_drive_without_fdp_answers() {
    hostile(ControllerConfig::new(ManagedConfig { fdp: false, ..firmware() }), 14);
}

fn hostile(config: ControllerConfig, seed: u64) {
    let mut host = Host::with(config);
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut answers: BTreeMap<u16, u32> = BTreeMap::new();
    for _ in 0..COMMANDS {
        furnish(&mut host);
        let (mut command, mut data) = sensible(&mut rng);
        // One command in three is valid; the others have fields overwritten.
        for _ in 0..rng.usize(..3) {
            distort(&mut command, &mut data, &mut rng);
        }
        let completion = if rng.u8(..8) == 0 {
            // To a queue chosen at random, possibly the wrong one.
            if rng.bool() {
                host.drive.admin(&command, &mut data)
            } else {
                host.drive.io(&command, &mut data)
            }
        } else if is_io(&command) {
            host.drive.io(&command, &mut data)
        } else {
            host.drive.admin(&command, &mut data)
        };
        *answers.entry(completion.status.to_bits()).or_default() += 1;
        assert_ne!(completion.status, Status::InternalError, "{command:?}");
        if rng.u8(..100) == 0 {
            host.drive.reset();
        }
    }
    host.drive.ssd().audit().unwrap();
    assert_eq!(answers.values().sum::<u32>(), COMMANDS);
    assert!(answers.len() >= 7, "{answers:?}");
    assert!(answers.get(&0).is_some_and(|count| *count > COMMANDS / 10), "{answers:?}");
}

/// Creates namespaces if there are none: a hostile host also deletes them and switches FDP.
fn furnish(host: &mut Host) {
    let exists = |host: &mut Host, nsid| {
        host.drive.admin(&Command::identify(nsid, 0), &mut [0; 4096]).status.is_success()
    };
    if !(1..5).any(|nsid| exists(host, nsid)) {
        for (blocks, format, handles) in
            [(300, LbaFormat::Bytes4096, [0, 3]), (2_401, LbaFormat::Bytes512, [1, 2])]
        {
            if host.try_create(blocks, format, &handles).is_err() {
                let _ = host.try_create(blocks, format, &[]); // FDP is off
            }
        }
    }
}

/// Whether the command was made for an I/O queue; opcodes that both queues have count as I/O.
fn is_io(command: &Command) -> bool {
    matches!(command.opcode, 0x00 | 0x01 | 0x12 | 0x1d) || command.nsid != 0 && command.cdw[1] < 8
}

fn distort(command: &mut Command, data: &mut Vec<u8>, rng: &mut fastrand::Rng) {
    let value = match rng.u8(..3) {
        0 => rng.u32(..),
        1 => rng.u32(..64),
        _ => 1 << rng.u32(..32),
    };
    match rng.usize(..10) {
        6 => command.nsid = value,
        7 => command.opcode = rng.u8(..),
        8 => data.truncate(rng.usize(..=data.len())),
        9 => data.iter_mut().take(600).for_each(|byte| {
            if rng.u8(..8) == 0 {
                *byte = rng.u8(..);
            }
        }),
        dword => command.cdw[dword] = value,
    }
}

/// A valid command, with its data or a buffer for the reply.
fn sensible(rng: &mut fastrand::Rng) -> (Command, Vec<u8>) {
    let (nsid, slba) = (rng.u32(1..4), rng.u64(..300));
    let pid = rng.bool().then(|| rng.u16(..4) << [0, 14, 15][rng.usize(..3)]);
    let command = match rng.u8(..18) {
        0..5 => Command::write(nsid, slba, rng.u32(1..65), pid),
        5 => Command::read(nsid, slba, rng.u32(1..65)),
        6 => Command::flush(nsid),
        7 => Command::deallocate(nsid, rng.u8(1..4)),
        8 => Command::handle_status(nsid, 64),
        9 => Command::handle_update(nsid, rng.u16(1..3)),
        10 => Command::get_log([0x05, 0x09, 0x20, 0x21, 0x22, 0x23][rng.usize(..6)], 1, 0, 64),
        11 => Command::identify(nsid, rng.u8(..2)),
        12 => Command::get_fdp(1),
        13 => Command::set_fdp(1, rng.bool(), 0),
        14 => Command::set_events(nsid, rng.u16(..3), 1, rng.bool()),
        15 => Command::get_events_enabled(nsid, rng.u16(..3), 5),
        16 => Command::delete_namespace(nsid),
        _ => return (Command::create_namespace(), new_namespace(rng)),
    };
    let bytes = [0, 3, 64, 4096, 300_000][rng.usize(..5)];
    (command, vec![[0, 1, 2, 3, 0x80, rng.u8(..)][rng.usize(..6)]; bytes])
}

fn new_namespace(rng: &mut fastrand::Rng) -> Vec<u8> {
    let handles = (0..rng.u16(..4)).map(|_| rng.u16(..5)).collect();
    let (blocks, format) = (rng.u64(..500), rng.u8(..3));
    NamespaceRequest { blocks, format, endurance_group: 1, handles }.encode().unwrap()
}
