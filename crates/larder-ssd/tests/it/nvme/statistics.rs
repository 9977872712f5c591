//! Log page 22h: deallocated data is reclaimed without copies.

use larder_ssd::managed::PAGE_BYTES;
use larder_ssd::nvme::Command;
use larder_ssd::nvme::command::log;

use super::rig::{Host, PAGE, firmware};

/// T7 of the test list.
#[test]
fn a_deallocated_unit_is_erased_without_copies_and_counts_whole() {
    let mut host = Host::new(firmware());
    let nsid = host.create(640, &[0, 1]);
    let unit_bytes = u128::from(host.configuration().unit_bytes);
    let mut data = vec![1; 160 * PAGE];
    for round in 0..20 {
        let slba = round % 4 * 160;
        host.io(&Command::write(nsid, slba, 160, Some(1)), &mut data);
        host.deallocate(nsid, slba, 160);
    }
    let statistics = host.statistics();
    assert_eq!(statistics.media_bytes, statistics.host_bytes);
    let erased = host.drive.ssd().stats().erased_units;
    assert!(erased > 100);
    assert_eq!(statistics.erased_bytes, u128::from(erased) * unit_bytes);
    assert_eq!(host.drive.ssd().stats().copied_pages, 0);
}

/// T8 of the test list, through the logs: media bytes beyond the host's are copies and padding.
#[test]
fn media_bytes_are_host_bytes_copies_and_padding() {
    let mut host = Host::new(firmware());
    let nsid = host.create(600, &[0, 1]);
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..4_000 {
        let pid = rng.u16(..2);
        host.write_page(nsid, rng.u64(..600), 1, Some(pid));
        if rng.u8(..50) == 0 {
            host.update(nsid, &[pid]);
        }
    }
    let statistics = host.statistics();
    let stats = host.drive.ssd().stats().clone();
    assert!(stats.copied_pages > 0 && stats.padded_pages > 0);
    let more = u128::from((stats.copied_pages + stats.padded_pages) * PAGE_BYTES);
    assert_eq!(statistics.media_bytes - statistics.host_bytes, more);
    let mut endurance = [0; 512];
    host.admin(&Command::get_log(log::ENDURANCE_GROUP, 1, 0, 512), &mut endurance);
    let at = |at: usize| u128::from_le_bytes(endurance[at..at + 16].try_into().unwrap());
    assert_eq!(at(64), statistics.host_bytes.div_ceil(1_000_000_000));
    assert_eq!(at(80), statistics.media_bytes.div_ceil(1_000_000_000));
    assert_eq!((at(160), at(176)), (640 * 4096, 40 * 4096), "capacity and what is unallocated");
}

#[test]
fn linux_finds_the_commands_of_fdp_in_the_effects_log() {
    let mut host = Host::new(firmware());
    let mut effects = [0xee; 4096];
    host.admin(&Command::get_log(log::EFFECTS, 0, 0, 4096), &mut effects);
    let io = |opcode: usize| effects[1024 + 4 * opcode];
    assert_eq!((io(0x12), io(0x1d), io(0x7d)), (1, 3, 0));
    assert_eq!((effects[4 * 0x09], effects[4 * 0x0d], effects[4 * 0x0c]), (1, 9, 0));
}
