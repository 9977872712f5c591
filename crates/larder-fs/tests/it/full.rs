//! A file system without room: calls that need some are refused and change nothing, all others work.

use std::sync::Arc;

use larder_blocks::{BlockStore, MemoryBlocks, StoreInfo};
use larder_fs::{ErrorKind, FileSystem, Ino, Options, ROOT, SetAttributes, fsck, fsck::Fsck};

use super::basics::owner;
use super::model::Model;

fn info(blocks: u64, block_pages: u64, streams: u16, open: Option<u32>) -> StoreInfo {
    StoreInfo {
        name: "full".to_owned(),
        block_bytes: block_pages * 4096,
        page_bytes: 4096,
        blocks,
        streams,
        open_blocks_max: open,
        isolation: larder_blocks::IsolationLevel::Unknown,
        kind: "memory",
    }
}

struct Trial {
    store: Arc<MemoryBlocks>,
    fs: FileSystem,
    rng: fastrand::Rng,
    files: Vec<(Ino, Vec<u8>, u64)>,
}

impl Trial {
    fn new(info: StoreInfo, seed: u64) -> Self {
        let store = Arc::new(MemoryBlocks::with_info(info).unwrap());
        let fs = FileSystem::format(store.clone(), false, Options::default()).unwrap();
        Self { store, fs, rng: fastrand::Rng::with_seed(seed), files: Vec::new() }
    }

    fn free(&self) -> u64 {
        self.fs.space().free_pages
    }

    /// Creates files of up to `pages` pages, until there is no more room.
    fn fill(&mut self, pages: u64) {
        loop {
            let name = format!("file {}", self.files.len()).into_bytes();
            let before = self.free();
            let made = match self.fs.create(ROOT, &name, owner()) {
                Ok(made) => made.ino,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NoSpace);
                    assert!(before <= 3, "{before} pages were free");
                    assert_eq!(self.free(), before, "nothing was done");
                    break;
                }
            };
            let wanted = self.rng.u64(1..=pages);
            let bytes = vec![self.rng.u8(1..); usize::try_from(wanted * 4096).unwrap()];
            let free = self.free();
            let written = match self.fs.write(made, 0, &bytes) {
                Ok(written) => written as u64 / 4096,
                Err(error) => {
                    assert_eq!((error.kind(), free), (ErrorKind::NoSpace, 0));
                    0
                }
            };
            assert!(written == wanted || self.free() == 0, "{} pages are free", self.free());
            self.files.push((made, name, written));
        }
    }

    /// Changes single pages of files, and syncs from time to time.
    fn overwrite(&mut self, times: u32) {
        for _ in 0..times {
            let index = self.rng.usize(..self.files.len());
            let (ino, _, pages) = self.files[index];
            if pages == 0 {
                continue;
            }
            let page = self.rng.u64(..pages);
            let bytes = [self.rng.u8(1..); 4096];
            assert_eq!(self.fs.write(ino, page * 4096, &bytes).unwrap(), 4096);
            if self.rng.u8(..12) == 0 {
                self.fs.sync().unwrap();
            }
        }
        self.fs.sync().unwrap();
    }

    fn open_again(&mut self) {
        let report = fsck(self.store.clone(), Fsck { data: true }).unwrap();
        assert!(report.is_clean(), "{report}");
        let before = Model::read_from(&self.fs);
        self.fs = FileSystem::open(self.store.clone(), Options::default()).unwrap();
        assert!(Model::read_from(&self.fs) == before);
    }
}

fn life(info: StoreInfo, pages: u64, seed: u64) {
    let mut trial = Trial::new(info, seed);
    let empty = trial.free();
    for round in 1..=3 {
        trial.fill(pages);
        trial.fs.sync().unwrap();
        trial.overwrite(600);
        let free = trial.free();
        trial.open_again();
        assert_eq!(trial.free(), free, "an opening counts the same");
        trial.overwrite(600);
        // Remove half of the files, in any order; then there is room for others.
        trial.rng.clone().shuffle(&mut trial.files);
        let kept = trial.files.len() / 2;
        for (_, name, _) in trial.files.split_off(kept) {
            trial.fs.unlink(ROOT, &name).unwrap();
        }
        assert!(trial.free() > empty / 4);
        // Use new names in each round, so that nothing is replaced.
        let names = 100_000 * round;
        for (index, (_, name, _)) in trial.files.iter_mut().enumerate() {
            let new = format!("kept {}", names + index).into_bytes();
            trial.fs.rename((ROOT, name), (ROOT, &new), larder_fs::Renaming::Replace).unwrap();
            *name = new;
        }
    }
    for (_, name, _) in std::mem::take(&mut trial.files) {
        trial.fs.unlink(ROOT, &name).unwrap();
    }
    trial.fs.sync().unwrap();
    assert_eq!(trial.free(), empty, "all of it came back");
    trial.open_again();
}

/// Blocks, pages per block, streams, and the limit of open blocks.
type Shape = (u64, u64, u16, Option<u32>);

/// Stores with few and many pages per block, with one stream and several, and limits of open blocks.
const STORES: [(Shape, u64); 6] = [
    ((64, 16, 4, None), 20),
    ((64, 16, 1, None), 2),
    ((80, 32, 4, Some(14)), 60),
    ((80, 32, 1, Some(14)), 2),
    ((48, 128, 4, None), 700),
    ((48, 128, 2, Some(12)), 1),
];

/// For more seeds: `LARDER_FS_SEEDS=10`.
#[test]
fn nothing_is_stuck_when_it_is_full() {
    let told = std::env::var("LARDER_FS_SEEDS").ok();
    let seeds = told.map_or(1, |told| told.parse().expect("a number of seeds"));
    for seed in 0..seeds {
        for ((blocks, block_pages, streams, open), pages) in STORES {
            println!("seed {seed}: {blocks} blocks of {block_pages} pages, files of up to {pages}");
            life(info(blocks, block_pages, streams, open), pages, seed);
        }
    }
}

/// A store that allows fewer open blocks than a batch needs is refused: it would get stuck eventually.
#[test]
fn too_few_open_blocks_are_refused() {
    for (most, good) in [(4, false), (13, false), (14, true), (100, true)] {
        let store = Arc::new(MemoryBlocks::with_info(info(80, 32, 4, Some(most))).unwrap());
        let made = FileSystem::format(store, false, Options::default());
        let text = made.as_ref().err().map(ToString::to_string).unwrap_or_default();
        assert_eq!(made.is_ok(), good, "{most} {text}");
        assert!(good || text.contains("14 are at a time"), "{text}");
    }
}

#[test]
fn every_free_page_can_be_written_and_no_more() {
    let mut trial = Trial::new(info(64, 16, 4, None), 1);
    let file = trial.fs.create(ROOT, b"a", owner()).unwrap().ino;
    let free = trial.free();
    for page in 0..free {
        // The 329th page of a file needs a leaf.
        if trial.free() == 0 {
            break;
        }
        assert_eq!(trial.fs.write(file, page * 4096, &[7; 4096]).unwrap(), 4096);
    }
    assert_eq!(trial.free(), 0);
    let size = trial.fs.attributes(file).unwrap().size;
    let before = trial.fs.attributes(file).unwrap();
    let beyond = trial.fs.write(file, size, &[7]);
    assert_eq!(beyond.unwrap_err().kind(), ErrorKind::NoSpace);
    assert_eq!(trial.fs.attributes(file).unwrap(), before);
    let made = trial.fs.mkdir(ROOT, b"d", owner());
    assert_eq!(made.unwrap_err().kind(), ErrorKind::NoSpace);
    assert_eq!(trial.fs.allocate(file, 0..size + 1, false).unwrap_err().kind(), ErrorKind::NoSpace);
    // A hole needs no room.
    let longer = SetAttributes { size: Some(size * 9), ..Default::default() };
    trial.fs.set_attributes(file, longer).unwrap();
    trial.fs.sync().unwrap();
    trial.files.push((file, b"a".to_vec(), size / 4096));
    trial.overwrite(2000);
    let blocks = trial.store.list().len();
    assert!(blocks as u64 <= trial.store.info().blocks);
    let shorter = SetAttributes { size: Some(4096), ..Default::default() };
    trial.fs.set_attributes(file, shorter).unwrap();
    assert_eq!(trial.free(), free - 1);
}
