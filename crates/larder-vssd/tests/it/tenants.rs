//! The allocation of channels, dies and soft planes, and recovery from damaged images.

use std::collections::{BTreeMap, BTreeSet};

use larder_ssd::ErrorKind;
use larder_ssd::nand::{ChannelIndex, DieArray, DieIndex, NandGeometry};
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_vssd::{
    Isolation, MemoryImages, Pages, Request, Swap, Throughputs, VssdId, VssdInfo, Vssds,
    channel_pairs,
};
use proptest::prelude::*;

use super::rig::{self, BLOCK_BYTES, CAPACITY, GEOMETRY, IDENTITY, PowerImages, RATES, request};

const SOFT: Isolation = Isolation::Software { weight: 2 };

fn dies(info: &VssdInfo) -> Vec<u32> {
    info.dies.iter().map(|(_, die)| die.0).collect()
}

fn made(array: &mut Vssds<PowerImages>, isolation: Isolation, units: u64) -> VssdInfo {
    let bytes = array.unit_bytes(isolation) * units;
    let id = array.alloc(request(isolation, bytes)).unwrap();
    array.info(id).unwrap()
}

#[test]
fn a_tenant_gets_what_throughput_or_capacity_takes() {
    let mut array = rig::array(2);
    let die_bytes = CAPACITY * BLOCK_BYTES;
    assert_eq!(array.unit_bytes(Isolation::Channel), 2 * die_bytes);
    assert_eq!(array.unit_bytes(SOFT), 2 * BLOCK_BYTES, "a quarter of ten blocks");
    let mut units = |isolation, mb_s, bytes| {
        let id = array.alloc(Request { isolation, mb_s, bytes }).unwrap();
        let units = array.info(id).unwrap().units;
        array.dealloc(id).unwrap();
        units
    };
    assert_eq!(units(Isolation::Channel, 0, 1), 1);
    assert_eq!(units(Isolation::Channel, 400, 1), 1);
    assert_eq!(units(Isolation::Channel, 401, 1), 2);
    assert_eq!(units(Isolation::Channel, 401, 4 * die_bytes + 1), 3);
    assert_eq!(units(Isolation::Die, 400, 3 * die_bytes), 3);
    assert_eq!(units(Isolation::Die, 801, 3 * die_bytes), 5);
    assert_eq!(units(SOFT, 149, 1), 3);
    assert_eq!(units(Isolation::None, 0, 9 * BLOCK_BYTES), 5);
}

#[test]
fn an_owner_has_one_vssd_and_is_known_after_a_power_loss() {
    let mut array = rig::array(1);
    let one = request(Isolation::Channel, 1);
    let photos = array.alloc_named("photos", one).unwrap();
    let nameless = array.alloc(one).unwrap();
    assert_eq!(array.info(nameless).unwrap().name, "");
    for (name, says) in [
        ("photos", "vSSD 0 has this name"),
        (&*"x".repeat(65), "at most 64"),
        ("a\0", "none of them 0"),
    ] {
        let refused = array.alloc_named(name, one).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Config);
        assert!(refused.to_string().contains(says), "{refused}");
    }
    let (drives, images) = array.into_parts();
    let (array, _) =
        Vssds::open(drives, images).unwrap_or_else(|failed| panic!("{}", failed.error()));
    assert_eq!(array.info(photos).unwrap().name, "photos");
}

#[test]
fn what_does_not_fit_is_told_what_would() {
    let mut array = rig::array(1);
    let channels = made(&mut array, Isolation::Channel, 3);
    assert_eq!(dies(&channels), [0, 1, 2, 4, 5, 6]);
    let refused = array.alloc(Request { isolation: Isolation::Die, mb_s: 500, bytes: 1 });
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoResources);
    let message = error.to_string();
    assert!(message.contains("take 3 dies of 200 MB/s and 245760 bytes"), "{message}");
    assert!(message.contains("2 are free, enough for 400 MB/s and 491520 bytes"), "{message}");
    made(&mut array, Isolation::Die, 2);
    let error = array.alloc(request(Isolation::None, 1)).unwrap_err();
    assert!(error.to_string().contains("0 are free"), "{error}");
    let config = |isolation, bytes| {
        let error = rig::array(1).alloc(request(isolation, bytes)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    };
    assert!(config(Isolation::Software { weight: 0 }, 1).contains("a weight of 0"));
    assert!(config(Isolation::Die, 0).contains("0 bytes"));
    let huge = array.alloc(request(Isolation::Die, u64::MAX)).unwrap_err();
    assert_eq!(huge.kind(), ErrorKind::NoResources);
}

#[test]
fn dies_are_spread_over_channels_and_whole_channels_kept() {
    let mut array = rig::array(1);
    let first = made(&mut array, Isolation::Die, 1);
    assert_eq!(dies(&first), [0]);
    let second = made(&mut array, Isolation::Die, 1);
    assert_eq!(dies(&second), [4], "on the channel that is broken up");
    let third = made(&mut array, Isolation::Die, 3);
    assert_eq!(dies(&third), [1, 2, 3], "on a channel each");
    assert_eq!(array.free_units(Isolation::Channel), 0);
    array.dealloc(third.id).unwrap();
    assert_eq!(array.free_units(Isolation::Channel), 3, "they coalesce");
    let soft = made(&mut array, SOFT, 3);
    assert_eq!(dies(&soft), [1, 2, 3], "soft planes are spread too");
    let beside = made(&mut array, Isolation::None, 3);
    assert_eq!(dies(&beside), [1, 2, 3], "on dies that are broken up");
    assert_eq!((soft.block_pages, beside.blocks), (3 * 6, 2));
    assert_eq!(array.free_units(Isolation::Die), 3);
    assert_eq!(array.free_units(SOFT), 3 * 4 + 3 * 2);
}

#[test]
fn a_vssd_grows_by_the_units_that_it_was_made_with_and_keeps_its_blocks() {
    let mut array = rig::array(2);
    let one = made(&mut array, Isolation::Channel, 1);
    let two = made(&mut array, Isolation::Die, 2);
    let (before, tags) = (one.blocks, 0..u64::from(one.blocks));
    let first: Vec<_> = tags.map(|tag| array.alloc_block(one.id, tag).unwrap()).collect();
    array.append(one.id, first[3], 0, Pages::Words(&[7; 6])).unwrap();
    assert_eq!(array.alloc_block(one.id, 0).unwrap_err().kind(), ErrorKind::NoSpace);
    array.grow(one.id, 2).unwrap();
    let grown = array.info(one.id).unwrap();
    assert_eq!((grown.units, grown.blocks, grown.block_pages), (3, 3 * before, one.block_pages));
    let block = array.alloc_block(one.id, 1).unwrap();
    assert!(block > first[before as usize - 1], "the next number");
    array.append(one.id, block, 0, Pages::Words(&[9; 12])).unwrap();
    assert_eq!(array.audit(), Ok(()));
    // Its units are taken, and stay so.
    let (drives, images) = array.into_parts();
    let (mut array, found) =
        Vssds::open(drives, images).unwrap_or_else(|failed| panic!("{}", failed.error()));
    assert_eq!((found.erased, found.cut_off), (0, 0));
    assert_eq!(array.info(one.id).unwrap(), VssdInfo { allocated: before + 1, ..grown });
    assert_eq!(array.word(one.id, first[3], 5).unwrap(), Some(7));
    assert_eq!(array.word(one.id, block, 11).unwrap(), Some(9));
    assert_eq!(array.free_units(Isolation::Channel), 3);
    let mut refused = |id, units| {
        let error = array.grow(id, units).unwrap_err();
        (error.kind(), error.to_string())
    };
    let (kind, says) = refused(two.id, 3);
    assert_eq!(kind, ErrorKind::Config);
    assert!(
        says.contains("3 more dies for vSSD 1: it was made with 2, and grows by 2, 4"),
        "{says}"
    );
    let (kind, says) = refused(one.id, 4);
    assert_eq!(kind, ErrorKind::NoResources);
    assert!(says.contains("3 are free"), "{says}");
    let (kind, says) = refused(one.id, 6);
    assert_eq!(kind, ErrorKind::NoResources);
    assert!(says.contains("it can grow by 5 more"), "{says}");
    assert_eq!(refused(VssdId(9), 1).0, ErrorKind::NotOwned);
    array.destroy(one.id).unwrap();
    assert_eq!(array.free_units(Isolation::Channel), 6, "all of its units are free");
}

#[test]
fn the_least_worn_come_first() {
    let mut array = rig::array(1);
    let hot = made(&mut array, Isolation::Channel, 1);
    for tag in 0..30 {
        let block = array.alloc_block(hot.id, tag).unwrap();
        array.append(hot.id, block, 0, Pages::Count(12)).unwrap();
        array.free_block(hot.id, block).unwrap();
    }
    assert_eq!(array.channel_wear(0)[0].erases, 60);
    assert_eq!(array.channel_wear(0)[0].erased_bytes, 60 * BLOCK_BYTES);
    array.dealloc(hot.id).unwrap();
    let next = made(&mut array, Isolation::Channel, 1);
    assert_eq!(dies(&next), [1, 5]);
    let next = made(&mut array, Isolation::Die, 3);
    assert_eq!(dies(&next), [0, 2, 3], "spread comes before wear");
    let next = made(&mut array, Isolation::Die, 2);
    assert_eq!(dies(&next), [6, 7], "wear before number");
}

#[test]
fn tenants_with_blocks_stay_until_they_are_destroyed() {
    let mut array = rig::array(1);
    let tenant = made(&mut array, Isolation::Channel, 1);
    let block = array.alloc_block(tenant.id, 7).unwrap();
    array.append(tenant.id, block, 0, Pages::Words(&[1; 12])).unwrap();
    let refused = array.dealloc(tenant.id).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InUse);
    assert!(refused.to_string().contains("has 1 blocks"), "{refused}");
    array.destroy(tenant.id).unwrap();
    let written = array.drive(0).unwrap().blocks().map(|block| block.written_pages).sum::<u32>();
    assert_eq!(written, 0, "nothing is left for the next tenant");
    for refused in [
        array.destroy(tenant.id).unwrap_err(),
        array.alloc_block(tenant.id, 1).unwrap_err(),
        array.read(tenant.id, block, 0, 1).unwrap_err(),
        array.info(VssdId(u32::MAX)).unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::NotOwned);
    }
    let next = made(&mut array, Isolation::Channel, 1);
    assert_ne!(next.id, tenant.id, "numbers are not used again");
    assert_eq!(array.read(next.id, block, 0, 1).unwrap_err().kind(), ErrorKind::NotOwned);
}

/// If bits flip in one image, in its catalogue or its journal, the other one is used.
#[test]
fn either_image_serves_and_without_both_nothing_is_touched() {
    let mut array = rig::array(1);
    let tenant = made(&mut array, Isolation::Die, 2);
    for tag in 0..3 {
        let block = array.alloc_block(tenant.id, tag).unwrap();
        array.append(tenant.id, block, 0, Pages::Words(&[tag + 1; 4])).unwrap();
    }
    let expected = array.blocks(tenant.id).unwrap();
    let (mut drives, images) = array.into_parts();
    let bytes = images.bytes[0].len();
    assert_eq!(images.bytes[0], images.bytes[1]);
    for (image, at) in [0, 1].into_iter().flat_map(|image| (0..bytes).map(move |at| (image, at))) {
        let mut damaged = images.clone();
        damaged.bytes[image][at] ^= 1 << (at % 8);
        let (array, found) = Vssds::open(drives, damaged).unwrap();
        assert_eq!(array.blocks(tenant.id).unwrap(), expected, "byte {at} of image {image}");
        assert_eq!((found.blocks, found.erased), (3, 0));
        let mended;
        (drives, mended) = array.into_parts();
        assert_eq!(mended.bytes[0], mended.bytes[1], "both are whole again");
    }
    let mut damaged = images.clone();
    damaged.bytes[0][20] ^= 1;
    damaged.bytes[1][60] ^= 1;
    let before: Vec<_> = drives[0].blocks().collect();
    drives[0].record_ops(true);
    let refused = Vssds::open(drives, damaged.clone()).unwrap_err();
    assert_eq!(refused.error().kind(), ErrorKind::Catalogue);
    assert!(refused.to_string().contains("image 1: its checksum is another"), "{refused}");
    let (mut drives, kept) = refused.into_parts();
    assert_eq!((kept.bytes, kept.writes), (damaged.bytes, damaged.writes));
    assert_eq!(drives[0].blocks().collect::<Vec<_>>(), before);
    let mut ops = Vec::new();
    drives[0].take_ops(&mut ops);
    assert_eq!(ops, []);
    let refused = Vssds::open(drives, PowerImages::default()).unwrap_err();
    assert!(refused.to_string().contains("0 bytes are no catalogue"), "{refused}");
}

#[test]
fn images_of_others_are_refused() {
    let drives = |blocks_per_die| {
        let geometry = NandGeometry { blocks_per_die, ..GEOMETRY };
        vec![RawSsd::new(RawConfig { geometry, ..rig::config() }).unwrap()]
    };
    let (one, images) = rig::array(1).into_parts();
    let refused = Vssds::open(drives(13), images).unwrap_err();
    assert_eq!(refused.error().kind(), ErrorKind::Catalogue);
    assert!(refused.to_string().contains("it is of drives of"), "{refused}");
    let (_, images) = refused.into_parts();
    let refused = Vssds::create(one, images.clone(), IDENTITY, RATES).unwrap_err();
    assert_eq!(refused.error().kind(), ErrorKind::InUse);
    let other = Vssds::create(drives(12), PowerImages::default(), [9; 16], RATES).unwrap();
    let (drive, others) = other.into_parts();
    let mixed = PowerImages { bytes: [images.bytes[0].clone(), others.bytes[0].clone()], ..images };
    let refused = Vssds::open(drive, mixed).unwrap_err();
    assert!(refused.to_string().contains("of two arrays"), "{refused}");
    let mut unlike = drives(12);
    unlike.extend(drives(13));
    let refused = Vssds::create(unlike, PowerImages::default(), IDENTITY, RATES).unwrap_err();
    assert!(refused.to_string().contains("different geometry"), "{refused}");
    let rates = Throughputs { die_mb_s: 0, ..RATES };
    let refused = Vssds::create(drives(12), PowerImages::default(), IDENTITY, rates).unwrap_err();
    assert!(refused.to_string().contains("at least 1 MB/s"), "{refused}");
    let refused = Vssds::create(vec![], PowerImages::default(), IDENTITY, RATES).unwrap_err();
    assert!(refused.to_string().contains("no drives"), "{refused}");
}

/// With a catalogue from before a swap, a tenant would get the data on its neighbour's dies.
#[test]
fn images_of_another_time_are_refused() {
    let mut array = rig::array(1);
    let tenant = made(&mut array, Isolation::Channel, 1);
    let block = array.alloc_block(tenant.id, 7).unwrap();
    array.append(tenant.id, block, 0, Pages::Words(&[1; 12])).unwrap();
    let before = array.images_mut().clone();
    let pairs = channel_pairs(GEOMETRY.array, ChannelIndex(0), ChannelIndex(1), None).unwrap();
    array.swap_begin(0, &pairs).unwrap();
    while !matches!(array.swap_step().unwrap(), Swap::Done) {}
    let expected = array.blocks(tenant.id).unwrap();
    let (drives, images) = array.into_parts();
    let refused = Vssds::open(drives, before).unwrap_err();
    assert_eq!(refused.error().kind(), ErrorKind::Catalogue);
    assert!(refused.to_string().contains("of another time"), "{refused}");
    let (drives, _) = refused.into_parts();
    let (array, found) = Vssds::open(drives, images).unwrap();
    array.audit().unwrap();
    assert_eq!((array.blocks(tenant.id).unwrap(), found.erased), (expected, 0));
}

/// 1,024 tenants with a die each: 8 drives of 16 channels of 8 dies.
#[test]
fn a_thousand_tenants_are_made_listed_and_found_again() {
    let array = DieArray { channels: 16, dies_per_channel: 8 };
    let geometry = NandGeometry { array, blocks_per_die: 6, ..GEOMETRY };
    let drives: Vec<_> = (0..8).map(|_| RawSsd::new(RawConfig::new(geometry)).unwrap()).collect();
    let mut array = Vssds::create(drives, MemoryImages::default(), IDENTITY, RATES).unwrap();
    for tag in 0..1024 {
        let id = array.alloc(request(Isolation::Die, 1)).unwrap();
        let block = array.alloc_block(id, tag).unwrap();
        array.append(id, block, 0, Pages::Count(2)).unwrap();
    }
    assert_eq!(array.alloc(request(SOFT, 1)).unwrap_err().kind(), ErrorKind::NoResources);
    let all: Vec<_> = array.list().collect();
    assert_eq!(all.iter().map(|info| info.id.0).collect::<Vec<_>>(), (0..1024).collect::<Vec<_>>());
    let places: BTreeSet<_> = all.iter().flat_map(|info| info.dies.clone()).collect();
    assert_eq!(places.len(), 1024, "a die each");
    let (mut drives, images) = array.into_parts();
    drives.iter_mut().for_each(RawSsd::power_loss);
    let (array, found) = Vssds::open(drives, images).unwrap();
    assert_eq!((found.vssds, found.blocks, found.parts, found.erased), (1024, 1024, 1024, 0));
    array.audit().unwrap();
    assert_eq!(array.list().collect::<Vec<_>>(), all);
    for (info, tag) in all.iter().zip(0..) {
        let [block] = array.blocks(info.id).unwrap()[..] else { panic!("a block each") };
        assert_eq!((block.tag, block.written_pages), (tag, 2));
    }
    // According to the format: header and front, erases of each die, and tenants of one die, with a generation for each
    // of five slots and a tag for the block; levelling of each drive, of its 16 channels and 128 dies.
    let levelling_bytes = 8 * (56 + 16 * 24 + 128 * 40);
    let catalogue_bytes = 48 + 68 + 1024 * 8 + 8 + 1024 * (104 + 16 + 5 * 4 + 8) + levelling_bytes;
    let (_, MemoryImages(images)) = array.into_parts();
    assert_eq!(images.map(|image| image.len()), [catalogue_bytes; 2], "no record is left behind");
}

/// 1 TB of blocks of 2 MiB, with tenants of one die each: this gives the largest possible number of entries.
#[test]
fn the_map_of_a_terabyte_takes_eight_megabytes() {
    let geometry = NandGeometry {
        array: DieArray { channels: 16, dies_per_channel: 4 },
        planes: 4,
        bits: 1,
        blocks_per_die: 7451,
        pages_per_block: 32,
        page_bytes: 16 << 10,
        mapping_bytes: 16 << 10,
    };
    let block_bytes = u64::from(geometry.block_pages()) * u64::from(geometry.mapping_bytes);
    assert_eq!(block_bytes, 2 << 20);
    let bytes = u64::from(geometry.blocks()) * block_bytes;
    assert!(bytes >= 1_000_000_000_000);
    let drive = RawSsd::new(RawConfig::new(geometry)).unwrap();
    let mut array = Vssds::create(vec![drive], MemoryImages::default(), IDENTITY, RATES).unwrap();
    for _ in 0..64 {
        array.alloc(request(Isolation::Die, 1)).unwrap();
    }
    assert!(array.map_bytes() <= 8_000_000 * bytes.div_ceil(1_000_000_000_000), "{bytes}");
    assert!(array.map_bytes() >= 7_000_000, "all of it is mapped");
}

/// A request of a tenant, or the index of the tenant to remove.
#[derive(Debug, Clone)]
enum Step {
    Alloc(Isolation, u64),
    Dealloc(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let isolation = prop_oneof![
        Just(Isolation::Channel),
        Just(Isolation::Die),
        Just(SOFT),
        Just(Isolation::None)
    ];
    prop_oneof![
        3 => (isolation, 1..6u64).prop_map(|(isolation, units)| Step::Alloc(isolation, units)),
        2 => (0..20usize).prop_map(Step::Dealloc),
    ]
}

/// Tenants of each die, one entry per soft plane or die.
type Taken = BTreeMap<(u32, DieIndex), Vec<(VssdId, Isolation)>>;

fn taken(array: &Vssds<PowerImages>) -> Taken {
    let mut taken = Taken::new();
    for info in array.list() {
        for place in &info.dies {
            taken.entry(*place).or_default().push((info.id, info.request.isolation));
        }
    }
    taken
}

fn check_isolation(array: &Vssds<PowerImages>) -> Result<(), TestCaseError> {
    let taken = taken(array);
    for ((drive, die), tenants) in &taken {
        let whole = |isolation| matches!(isolation, Isolation::Channel | Isolation::Die);
        if tenants.iter().any(|(_, isolation)| whole(*isolation)) {
            prop_assert_eq!(tenants.len(), 1, "die {:?} has one tenant", die);
        }
        prop_assert!(tenants.len() <= 4, "a die has four soft planes");
        if let [(id, Isolation::Channel)] = tenants[..] {
            for other in GEOMETRY.array.dies_of(GEOMETRY.array.channel_of(*die)) {
                let owner = taken.get(&(*drive, other)).map(|tenants| tenants[0].0);
                prop_assert_eq!(owner, Some(id), "the channel of {:?} has one tenant", die);
            }
        }
    }
    let free_dies = 16 - taken.len() as u32;
    prop_assert_eq!(array.free_units(Isolation::Die), free_dies);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn units_split_and_coalesce_and_no_tenant_shares_what_is_its_own(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let mut array = rig::array(2);
        let mut tenants: Vec<VssdId> = Vec::new();
        for step in steps {
            match step {
                Step::Alloc(isolation, units) => {
                    let bytes = array.unit_bytes(isolation) * units;
                    let free = u64::from(array.free_units(isolation));
                    match array.alloc(request(isolation, bytes)) {
                        Ok(id) => {
                            prop_assert!(units <= free);
                            prop_assert_eq!(u64::from(array.info(id).unwrap().units), units);
                            tenants.push(id);
                        }
                        Err(error) => {
                            prop_assert_eq!(error.kind(), ErrorKind::NoResources);
                            prop_assert!(units > free);
                        }
                    }
                }
                Step::Dealloc(at) if at < tenants.len() => {
                    array.dealloc(tenants.swap_remove(at)).unwrap();
                }
                Step::Dealloc(_) => {}
            }
            check_isolation(&array)?;
        }
        let all: Vec<_> = array.list().collect();
        array = rig::reopened(array);
        prop_assert_eq!(array.list().collect::<Vec<_>>(), all);
        tenants.iter().for_each(|&id| array.dealloc(id).unwrap());
        prop_assert_eq!(array.free_units(Isolation::Channel), 8);
        prop_assert_eq!(array.free_units(SOFT), 64);
    }
}
