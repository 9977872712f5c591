//! Blocks of 512 and of 4096 bytes on pages of 4096.

use larder_ssd::managed::ManagedConfig;
use larder_ssd::nvme::namespace::{LbaFormat, NamespaceRequest, decode_namespace};
use larder_ssd::nvme::{Command, Status};
use proptest::prelude::*;

use super::rig::{Host, PAGE, firmware};

#[test]
fn identify_lists_both_formats_and_says_which() {
    let mut host = Host::new(firmware());
    for (format, handle) in [(LbaFormat::Bytes4096, 0), (LbaFormat::Bytes512, 1)] {
        let nsid = host.try_create(100, format, &[handle]).unwrap();
        let mut page = [0; 4096];
        host.admin(&Command::identify(nsid, 0), &mut page);
        let block_bytes = u32::try_from(format.block_bytes()).unwrap();
        assert_eq!(decode_namespace(&page), Some((100, block_bytes, 1)));
        assert_eq!((page[25], page[26], page[130], page[134]), (1, format.index(), 12, 9));
    }
}

#[test]
fn unknown_formats_and_two_formats_on_one_handle_are_refused() {
    let mut host = Host::new(firmware());
    host.create(100, &[0, 1]);
    let refused = host.try_create(100, LbaFormat::Bytes512, &[2, 1]);
    assert_eq!(refused, Err(Status::InvalidFormat));
    assert!(host.try_create(100, LbaFormat::Bytes512, &[2, 3]).is_ok());
    assert!(host.try_create(100, LbaFormat::Bytes4096, &[1, 0]).is_ok());
    let request = NamespaceRequest { blocks: 100, format: 2, endurance_group: 1, handles: vec![0] };
    let create = Command::create_namespace();
    let refused = host.drive.admin(&create, &mut request.encode().unwrap());
    assert_eq!(refused.status, Status::InvalidFormat);
}

#[test]
fn without_fdp_formats_can_be_mixed() {
    let mut host = Host::new(ManagedConfig { fdp: false, ..firmware() });
    assert!(host.try_create(100, LbaFormat::Bytes4096, &[]).is_ok());
    assert!(host.try_create(100, LbaFormat::Bytes512, &[]).is_ok());
}

#[test]
fn capacity_is_taken_in_whole_pages() {
    let mut host = Host::new(firmware());
    let small = host.try_create(9, LbaFormat::Bytes512, &[0]).unwrap();
    assert_eq!(host.try_create(639, LbaFormat::Bytes4096, &[1]), Err(Status::CapacityExceeded));
    let large = host.create(638, &[1]);
    host.io(&Command::write(large, 0, 1, None), &mut [1; PAGE]);
    host.io(&Command::write(small, 8, 1, None), &mut [2; 512]);
    let mut block = [0; PAGE];
    host.io(&Command::read(large, 0, 1), &mut block);
    assert_eq!(block, [1; PAGE]);
    let beyond = host.drive.io(&Command::read(small, 9, 1), &mut [0; 512]);
    assert_eq!(beyond.status, Status::LbaOutOfRange);
    assert_eq!(host.try_create(u64::MAX, LbaFormat::Bytes512, &[0]), Err(Status::CapacityExceeded));
}

#[test]
fn part_of_a_page_costs_a_page_and_counts_as_what_the_host_wrote() {
    let mut host = Host::new(firmware());
    let nsid = host.try_create(800, LbaFormat::Bytes512, &[0, 1]).unwrap();
    host.io(&Command::write(nsid, 3, 1, Some(1)), &mut [1; 512]);
    let statistics = host.statistics();
    assert_eq!((statistics.host_bytes, statistics.media_bytes), (512, 4096));
    // From the middle of one page across a whole one into a third.
    host.io(&Command::write(nsid, 12, 16, Some(1)), &mut [2; 16 * 512]);
    let statistics = host.statistics();
    assert_eq!((statistics.host_bytes, statistics.media_bytes), (17 * 512, 4 * 4096));
    host.io(&Command::write(nsid, 16, 8, Some(1)), &mut [3; 8 * 512]);
    assert_eq!(host.statistics().host_bytes, 25 * 512);
    let status = host.status(nsid);
    assert_eq!(status[0].blocks_left, 16 * 8);
    assert_eq!(status[1].blocks_left, (16 - 5) * 8, "in blocks of the namespace");
    let mut read = [0xee; 32 * 512];
    host.io(&Command::read(nsid, 0, 32), &mut read);
    let blocks: Vec<u8> = read.chunks_exact(512).map(|block| block[0]).collect();
    let mut expected = [0; 32];
    expected[3] = 1;
    expected[12..28].fill(2);
    expected[16..24].fill(3);
    assert_eq!(blocks, expected);
}

#[test]
fn a_page_is_freed_when_all_that_there_is_of_it_is() {
    let mut host = Host::new(firmware());
    let nsid = host.try_create(20, LbaFormat::Bytes512, &[0]).unwrap();
    host.io(&Command::write(nsid, 0, 20, None), &mut [1; 20 * 512]);
    host.deallocate(nsid, 4, 8); // half of two pages
    assert_eq!(host.drive.ssd().stats().deallocated_pages, 0);
    host.deallocate(nsid, 4, 12);
    assert_eq!(host.drive.ssd().stats().deallocated_pages, 1);
    host.deallocate(nsid, 16, 4); // the namespace ends in the middle of this page
    assert_eq!(host.drive.ssd().stats().deallocated_pages, 2);
    let mut read = [0xee; 20 * 512];
    host.io(&Command::read(nsid, 0, 20), &mut read);
    assert!(read[..8 * 512].iter().all(|byte| *byte == 1));
    assert!(read[8 * 512..].iter().all(|byte| *byte == 0));
}

#[derive(Debug, Clone)]
enum Op {
    Write { small: bool, at: u64, blocks: u64, pid: Option<u16>, byte: u8 },
    Read { small: bool, at: u64, blocks: u64 },
    Deallocate { small: bool, at: u64, blocks: u64 },
}

impl Op {
    fn is_on_small_blocks(&self) -> bool {
        match *self {
            Op::Write { small, .. } | Op::Read { small, .. } | Op::Deallocate { small, .. } => {
                small
            }
        }
    }
}

/// Number of blocks of the two namespaces; the last page of the small-block one is partial.
const SMALL: u64 = 1_003;
const LARGE: u64 = 400;

fn op() -> impl Strategy<Value = Op> {
    let range = any::<bool>().prop_flat_map(|small| {
        let end = if small { SMALL } else { LARGE };
        (Just(small), 0..end, 1..40_u64)
            .prop_map(move |(small, at, blocks)| (small, at, blocks.min(end - at)))
    });
    prop_oneof![
        4 => (range.clone(), prop::option::of(0..4_u16), any::<u8>()).prop_map(
            |((small, at, blocks), pid, byte)| Op::Write { small, at, blocks, pid, byte }
        ),
        1 => range.clone().prop_map(|(small, at, blocks)| Op::Read { small, at, blocks }),
        1 => range.prop_map(|(small, at, blocks)| Op::Deallocate { small, at, blocks }),
    ]
}

/// The expected content of a namespace.
struct Shadow {
    nsid: u32,
    block: usize,
    bytes: Vec<u8>,
}

impl Shadow {
    fn range(&self, at: u64, blocks: u64) -> std::ops::Range<usize> {
        let (at, blocks) = (usize::try_from(at).unwrap(), usize::try_from(blocks).unwrap());
        at * self.block..(at + blocks) * self.block
    }

    /// Zeros the pages that are entirely covered; the last page counts up to the end of the namespace.
    fn deallocate(&mut self, at: u64, blocks: u64) {
        let range = self.range(at, blocks);
        let whole_end =
            if range.end == self.bytes.len() { range.end } else { range.end / PAGE * PAGE };
        let start = range.start.next_multiple_of(PAGE);
        if start < whole_end {
            self.bytes[start..whole_end].fill(0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// T11 of the test list: for any history, reads return the content of the shadow copy.
    #[test]
    fn reads_return_the_shadow_copy_in_both_formats(ops in prop::collection::vec(op(), 1..300)) {
        let mut host = Host::new(firmware());
        let large = host.create(LARGE, &[0, 1]);
        let small = host.try_create(SMALL, LbaFormat::Bytes512, &[2, 3]).unwrap();
        let shadow = |nsid, block, blocks: u64| {
            Shadow { nsid, block, bytes: vec![0; block * usize::try_from(blocks).unwrap()] }
        };
        let mut shadows = [shadow(large, PAGE, LARGE), shadow(small, 512, SMALL)];
        for op in &ops {
            let shadow = &mut shadows[usize::from(op.is_on_small_blocks())];
            match *op {
                Op::Write { at, blocks, pid, byte, .. } => {
                    let range = shadow.range(at, blocks);
                    let pattern = (0..range.len()).map(|i| byte ^ (i / 512) as u8);
                    let mut data: Vec<u8> = pattern.collect();
                    let blocks = u32::try_from(blocks).unwrap();
                    host.io(&Command::write(shadow.nsid, at, blocks, pid), &mut data);
                    shadow.bytes[range].copy_from_slice(&data);
                }
                Op::Read { at, blocks, .. } => {
                    let range = shadow.range(at, blocks);
                    let mut data = vec![0xee; range.len()];
                    let blocks = u32::try_from(blocks).unwrap();
                    host.io(&Command::read(shadow.nsid, at, blocks), &mut data);
                    prop_assert_eq!(&data[..], &shadow.bytes[range]);
                }
                Op::Deallocate { at, blocks, .. } => {
                    host.deallocate(shadow.nsid, at, u32::try_from(blocks).unwrap());
                    shadow.deallocate(at, blocks);
                }
            }
        }
        for shadow in &shadows {
            let blocks = u32::try_from(shadow.bytes.len() / shadow.block).unwrap();
            let mut data = vec![0xee; shadow.bytes.len()];
            host.io(&Command::read(shadow.nsid, 0, blocks), &mut data);
            prop_assert!(data == shadow.bytes);
        }
        host.drive.ssd().audit().map_err(TestCaseError::fail)?;
        let statistics = host.statistics();
        prop_assert!(statistics.media_bytes >= statistics.host_bytes);
    }
}
