//! A file system on blocks with arbitrary changes: it opens or is refused, it is read and written, and a check reports
//! its errors.
//!
//! The lowest bit of the first byte says whether checksums are corrected, both of the page and of everything that
//! refers to it. If they are not, no file may contain bytes that it never had.
#![no_main]

#[path = "../../crates/larder-fs/tests/it/image.rs"]
mod image;
#[path = "../../crates/larder-fs/tests/it/visit.rs"]
mod visit;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use image::Image;
use larder_blocks::MemoryBlocks;
use larder_fs::fsck::Fsck;
use larder_fs::{FileSystem, Ino, Options, Owner, ROOT, fsck};
use larder_fuzz::patches;
use libfuzzer_sys::fuzz_target;

struct Left {
    image: Image,
    /// All contents that each file has had.
    versions: BTreeMap<Ino, Vec<Vec<u8>>>,
}

static LEFT: LazyLock<Left> = LazyLock::new(left);

/// Some directories and files. A part of them was written after the last checkpoint.
fn left() -> Left {
    let store = Arc::new(MemoryBlocks::new(64, 16 * 4096, 4096).unwrap());
    let fs = FileSystem::format(store.clone(), false, Options::default()).unwrap();
    let owner = Owner { uid: 1, gid: 2, permissions: 0o644 };
    let mut versions: BTreeMap<Ino, Vec<Vec<u8>>> = BTreeMap::new();
    for number in 0..12_u8 {
        let directory = match number % 3 {
            0 => fs.mkdir(ROOT, &[b'd', b'a' + number], owner).unwrap().ino,
            _ => ROOT,
        };
        let file = fs.create(directory, &[b'f', b'a' + number], owner).unwrap().ino;
        fs.write(file, 0, &vec![number + 1; 3000 * usize::from(number)]).unwrap();
        fs.link(file, ROOT, &[b'l', b'a' + number]).unwrap();
        let link = fs.symlink(directory, &[b's', b'a' + number], b"somewhere", owner).unwrap().ino;
        versions.insert(link, vec![b"somewhere".to_vec()]);
        let had = vec![vec![], vec![number + 1; 3000 * usize::from(number)]];
        versions.insert(file, had);
        match number {
            6 => fs.close().unwrap(),
            3 | 9 => fs.sync().unwrap(),
            _ => {}
        }
    }
    fs.sync().unwrap();
    Left { image: Image::of(&store), versions }
}

fuzz_target!(|input: &[u8]| {
    let Some((how, input)) = input.split_first() else { return };
    let sealed = how & 1 == 1;
    let mut image = LEFT.image.clone();
    let pages = image.pages();
    for patch in patches::of(input).take(8) {
        let at = pages[patch.place / 4096 % pages.len()];
        if sealed {
            image.change_sealed(at, |page| patch.apply(page));
        } else {
            patch.apply(image.page_mut(at));
        }
    }
    let store = image.store();
    let report = fsck(store.clone(), Fsck { data: true });
    let clean = matches!(&report, Ok(report) if report.is_clean());
    match FileSystem::open(store.clone(), Options::default()) {
        Ok(fs) => {
            visit::walk(&fs, |ino, bytes| {
                let known = LEFT.versions.get(&ino).is_some_and(|known| known.contains(&bytes));
                assert!(sealed || known, "inode {ino} has bytes that it never had");
            });
            visit::work(&fs, &mut fastrand::Rng::with_seed(1));
        }
        Err(error) => assert!(!clean, "{error}, and whoever checks it finds nothing"),
    }
    if clean {
        let after = fsck(store, Fsck { data: true }).unwrap();
        assert!(after.is_clean(), "{after:?} after work on what was clean");
    }
});
