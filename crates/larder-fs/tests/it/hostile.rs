//! Damaged blocks: nothing panics or hangs, and data that fails its checksum is never returned.

use std::collections::{BTreeMap, BTreeSet};

use larder_fs::{ErrorKind, FileSystem, Ino, Options, fsck, fsck::Fsck};

use super::basics::store;
use super::driver::{Driver, Scale};
use super::image::Image;
use super::model::Model;
use super::visit::{walk, work};

const SCALE: Scale =
    Scale { names: 10, inodes: 40, file_bytes: 30_000, long_bytes: 1_600_000, sync_every: 10 };

/// Number of damages; set by `LARDER_FS_DAMAGES`.
fn damages() -> u64 {
    let told = std::env::var("LARDER_FS_DAMAGES").ok();
    told.map_or(400, |text| text.parse().expect("LARDER_FS_DAMAGES is a number"))
}

/// All contents that a file had at some time.
type Versions = BTreeMap<Ino, BTreeSet<Vec<u8>>>;

/// A file system after some changes, and the contents of its files at each sync.
fn lived(seed: u64) -> (Image, Versions) {
    let store = store(64, 32);
    let fs = FileSystem::format(store.clone(), false, Options::default()).unwrap();
    let mut driver = Driver::new(fs, Model::new(), seed, SCALE);
    let mut versions = Versions::new();
    let mut note = |model: &Model| {
        for (ino, node) in &model.nodes {
            versions.entry(*ino).or_default().insert(node.bytes.to_vec());
        }
    };
    for number in 0..600 {
        driver.step().unwrap();
        if number == 400 {
            driver.fs.close().unwrap();
        }
        note(&driver.model);
    }
    driver.fs.sync().unwrap();
    note(&driver.model);
    (Image::of(&store), versions)
}

#[test]
fn what_is_damaged_is_never_believed() {
    let worlds: Vec<(Image, Versions)> = (0..4).map(lived).collect();
    let mut outcomes = BTreeMap::new();
    for seed in 0..damages() {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (image, versions) = &worlds[rng.usize(..worlds.len())];
        let mut image = image.clone();
        let pages = image.pages();
        for _ in 0..rng.usize(1..4) {
            let page = image.page_mut(pages[rng.usize(..pages.len())]);
            match rng.u8(..3) {
                0 => page[rng.usize(..4096)] ^= 1 << rng.u8(..8),
                1 => page.fill(0),
                _ => page[..512].fill_with(|| rng.u8(..)),
            }
        }
        if rng.u8(..8) == 0 {
            let block = rng.usize(..image.blocks.len());
            image.blocks.remove(block);
        }
        let store = image.store();
        let report = fsck(store.clone(), Fsck { data: true });
        let clean = matches!(&report, Ok(report) if report.is_clean());
        let outcome = match FileSystem::open(store, Options::default()) {
            Ok(fs) => {
                walk(&fs, |ino, bytes| {
                    let known = versions.get(&ino).is_some_and(|known| known.contains(&bytes));
                    assert!(known, "seed {seed}: inode {ino} has bytes that it never had");
                });
                work(&fs, &mut rng);
                if clean { "clean" } else { "opens, and fsck knows better" }
            }
            Err(error) => {
                let known = matches!(error.kind(), ErrorKind::Damaged | ErrorKind::Setup);
                assert!(known && !clean, "seed {seed}: {error}");
                "refused"
            }
        };
        *outcomes.entry(outcome).or_insert(0) += 1;
    }
    println!("{outcomes:?}");
}

#[test]
fn what_lies_under_valid_checksums_does_no_harm() {
    let worlds: Vec<Image> = (0..4).map(|seed| lived(seed).0).collect();
    let mut outcomes = BTreeMap::new();
    for seed in 0..damages() {
        let mut rng = fastrand::Rng::with_seed(1_000_000 + seed);
        let mut image = worlds[rng.usize(..worlds.len())].clone();
        let marked = |image: &mut Image, at| image.page_mut(at).starts_with(b"LARDERF");
        let pages: Vec<_> = image.pages().into_iter().filter(|_| rng.bool()).collect();
        let pages: Vec<_> = pages.into_iter().filter(|at| marked(&mut image, *at)).collect();
        for _ in 0..rng.usize(1..3) {
            let Some(at) = rng.choice(&pages).copied() else { continue };
            let (place, value) = (rng.usize(16..600), rng.u64(..));
            let (few, how) = (rng.u64(..5), rng.u8(..5));
            image.change_sealed(at, |page| {
                let place = place / 4 * 4;
                match how {
                    0 => page[place] ^= 1,
                    1 => page[place..place + 8].copy_from_slice(&value.to_le_bytes()),
                    2 => page[place..place + 8].copy_from_slice(&few.to_le_bytes()),
                    3 => page[place..place + 8].copy_from_slice(&u64::MAX.to_le_bytes()),
                    _ => page.copy_within(place..place + 200, 3000),
                }
            });
        }
        let store = image.store();
        let report = fsck(store.clone(), Fsck { data: true });
        let clean = matches!(&report, Ok(report) if report.is_clean());
        let outcome = match FileSystem::open(store, Options::default()) {
            Ok(fs) => {
                walk(&fs, |_, _| {});
                work(&fs, &mut rng);
                if clean { "clean" } else { "opens, and fsck knows better" }
            }
            Err(_) => "refused",
        };
        *outcomes.entry(outcome).or_insert(0) += 1;
    }
    println!("{outcomes:?}");
    assert!(outcomes.len() == 3, "all of them happen");
}
