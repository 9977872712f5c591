//! The cache knows the file system of a core, even while it changes through the cache.

use larder_block::manage::{known_by, look};
use larder_device::IdentifierKind;

use super::*;

const FIRST: [u8; 16] = [0x11; 16];
const OTHER: [u8; 16] = [0x22; 16];

/// The first 4 KiB of an ext4 with this UUID.
fn ext4(uuid: [u8; 16]) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[1080..1082].copy_from_slice(&[0x53, 0xef]);
    bytes[1128..1144].copy_from_slice(&uuid);
    bytes
}

/// The 4 KiB at 64 KiB of a Btrfs with this UUID.
fn btrfs(uuid: [u8; 16]) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[64..72].copy_from_slice(b"_BHRfS_M");
    bytes[32..48].copy_from_slice(&uuid);
    bytes
}

fn text(uuid: [u8; 16]) -> Option<String> {
    Some(Uuid::from_bytes(uuid).to_string())
}

/// A rig with a file system on core 0.
fn rig() -> Rig {
    let rig = Rig::new();
    put(&rig.cores[0].device, 0, &ext4(FIRST));
    rig
}

/// The UUID stored on the cache device.
fn stored(rig: &Rig) -> Option<String> {
    let seen = block_on(look(&rig.device)).unwrap();
    let known = block_on(known_by(&rig.device, &seen));
    known[&core(0)].of_kind(IdentifierKind::FileSystem).map(|found| found.value.clone())
}

/// The UUID known to the running cache.
fn running(opened: &OpenCache) -> Option<String> {
    let known = opened.cache.known_by(core(0)).unwrap();
    known.of_kind(IdentifierKind::FileSystem).map(|found| found.value.clone())
}

#[test]
fn a_cache_knows_the_file_system_of_its_core() {
    let rig = rig();
    rig.create(&log());
    assert_eq!(stored(&rig), text(FIRST));
    let opened = rig.open();
    assert_eq!(running(&opened), text(FIRST));
    assert_eq!(opened.checked()[0].file_system, text(FIRST));
    assert_eq!(opened.checked()[1].file_system, None);
    write_to(&opened, 0, 1 << 20, 7, 65536);
    block_on(opened.stop(true)).unwrap();
    assert_eq!(stored(&rig), text(FIRST), "other blocks say nothing of it");
}

/// The core has the old file system until the dirty data is destaged, but its block may change at any time.
#[test]
fn a_file_system_that_is_made_behind_the_cache_is_the_one_that_is_known() {
    for create_options in layouts() {
        let rig = rig();
        rig.create(&create_options);
        let opened = rig.open();
        let exported = opened.cache.core(core(0)).unwrap();
        let to = |at: u64, bytes: &[u8]| {
            let mut buffer = IoBuffer::zeroed(bytes.len());
            buffer.copy_in(0, bytes);
            let write = Io::write(at, buffer, PlacementHandle::DEFAULT);
            exported.submit(write).wait().unwrap();
        };
        to(0, &ext4(OTHER));
        assert_eq!(running(&opened), text(FIRST), "it is dirty");
        block_on(opened.cache.clean()).unwrap();
        assert_eq!((running(&opened), stored(&rig)), (None, None), "it may be there or not");
        block_on(opened.note_fingerprints());
        assert_eq!((running(&opened), stored(&rig)), (text(OTHER), text(OTHER)));
        to(0, &[0; 4096]);
        to(65536, &btrfs(FIRST));
        block_on(opened.cache.clean()).unwrap();
        block_on(opened.note_fingerprints());
        assert_eq!((running(&opened), stored(&rig)), (text(FIRST), text(FIRST)));
        drop(exported);
        block_on(opened.stop(true)).unwrap();
        assert_eq!(rig.open().checked()[0].file_system, text(FIRST));
    }
}

#[test]
fn a_refusal_names_both_file_systems() {
    let rig = rig();
    fill(&rig.cores[0].device);
    put(&rig.cores[0].device, 0, &ext4(FIRST));
    rig.create(&log());
    let opened = rig.open();
    write_to(&opened, 0, 1 << 20, 7, 65536);
    block_on(opened.stop(false)).unwrap();
    let said = |uuid| format!("file-system UUID {}", text(uuid).unwrap());
    put(&rig.cores[0].device, 0, &ext4(OTHER));
    let (_, message) = rig.refusal(&options());
    let both = format!("it had {} and has {}", said(FIRST), text(OTHER).unwrap());
    assert!(message.contains(&both), "{message}");
    put(&rig.cores[0].device, 0, &[0; 4096]);
    let (_, message) = rig.refusal(&options());
    assert!(message.contains(&format!("it had {} and has none", said(FIRST))), "{message}");

    // Swapped cores: the message says which device belongs to which core.
    put(&rig.cores[0].device, 0, &ext4(FIRST));
    let [one, other] = [0, 1].map(|at| rig.cores[at].clone());
    let cores = vec![Core { id: one.id, ..other.clone() }, Core { id: other.id, ..one.clone() }];
    let swapped = Rig { device: Arc::clone(&rig.device), cores };
    let (_, message) = swapped.refusal(&options());
    let parts = [
        "core 5 (core-0): of".to_owned(),
        format!("they are 0=core-0 ({}); none is core 5 (core-5)", said(FIRST)),
    ];
    parts.iter().for_each(|part| assert!(message.contains(part), "no {part}: {message}"));
}

fn fill(device: &DynDevice) {
    let mut bytes = vec![0; usize::try_from(device.info().capacity_bytes).unwrap()];
    fastrand::Rng::with_seed(3).fill(&mut bytes);
    put(device, 0, &bytes);
}
