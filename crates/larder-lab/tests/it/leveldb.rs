//! LevelDB on the blocks of a virtual SSD that loses power.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use larder_blocks::VssdArray;
use larder_blocks::vssd::MemoryKeeper;
use larder_lab::leveldb::{BlockEnv, Time};
use larder_ssd::nand::{DieArray, NandGeometry};
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_vssd::{Isolation, MemoryImages, Request, Throughputs, VssdId};
use rusty_leveldb::env::Env;
use rusty_leveldb::{DB, Options, WriteBatch};

struct NoTime;

impl Time for NoTime {
    fn micros(&self) -> u64 {
        0
    }

    fn sleep(&self, _: u32) {}
}

fn array() -> (VssdArray, VssdId) {
    let geometry = NandGeometry {
        array: DieArray { channels: 2, dies_per_channel: 2 },
        planes: 1,
        bits: 1,
        blocks_per_die: 80,
        pages_per_block: 4,
        page_bytes: 8 << 10,
        mapping_bytes: 4096,
    };
    let drive = RawSsd::new(RawConfig { page_words: true, ..RawConfig::new(geometry) }).unwrap();
    let rates = Throughputs { channel_mb_s: 1, die_mb_s: 1, soft_plane_mb_s: 1 };
    let (images, keeper) = (Box::new(MemoryImages::default()), Box::new(MemoryKeeper::default()));
    let array = VssdArray::create(vec![drive], images, keeper, [7; 16], rates).unwrap();
    let id = array.alloc(Request { isolation: Isolation::Channel, mb_s: 2, bytes: 1 }).unwrap();
    (array, id)
}

fn env(array: &VssdArray, id: VssdId) -> BlockEnv {
    BlockEnv::open(Arc::new(array.store(id).unwrap()), Box::new(NoTime)).unwrap()
}

fn open(array: &VssdArray, id: VssdId) -> Result<DB, rusty_leveldb::Status> {
    let env = BlockEnv::open(Arc::new(array.store(id).unwrap()), Box::new(NoTime))?;
    let options = Options {
        env: Rc::new(Box::new(env)),
        write_buffer_size: 32 << 10,
        max_file_size: 64 << 10,
        ..Options::default()
    };
    DB::open("db", options)
}

/// The values that a read of a key may return: the last write acknowledged with a sync, or any later one.
#[derive(Default)]
struct Shadow(std::collections::BTreeMap<u64, Vec<u64>>);

impl Shadow {
    fn asked(&mut self, key: u64, version: u64) {
        self.0.entry(key).or_default().push(version);
    }

    fn synced(&mut self) {
        self.0.values_mut().for_each(|versions| drop(versions.drain(..versions.len() - 1)));
    }

    fn check(&mut self, db: &mut DB, acknowledged: &std::collections::BTreeSet<u64>, text: &str) {
        for (&key, versions) in &mut self.0 {
            let found = db.get(&key.to_le_bytes()).map(|value| version_of(&value));
            match found {
                Some(version) => {
                    assert!(
                        versions.contains(&version),
                        "{text}: {key} is {version} of {versions:?}"
                    );
                    *versions = vec![version];
                }
                None => assert!(!acknowledged.contains(&key), "{text}: {key} is lost"),
            }
        }
        self.0.retain(|key, _| db.get(&key.to_le_bytes()).is_some());
    }
}

fn value(version: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(60)
}

fn version_of(value: &[u8]) -> u64 {
    assert_eq!(value.len(), 480);
    let version = u64::from_le_bytes(*value.first_chunk().unwrap());
    assert_eq!(value, self::value(version), "a value is whole");
    version
}

/// Number of seeds: the default, or `LARDER_LEVELDB_SEEDS`.
fn seeds() -> u64 {
    std::env::var("LARDER_LEVELDB_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

#[test]
fn what_was_synced_outlives_a_loss_of_power() {
    let (mut cuts, mut tables) = (0, 0);
    for seed in 0..seeds() {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (array, id) = array();
        let (mut shadow, mut version) = (Shadow::default(), 0);
        let mut acknowledged = std::collections::BTreeSet::new();
        for life in 0..8 {
            let text = format!("seed {seed} life {life}");
            let mut db = open(&array, id).unwrap_or_else(|error| panic!("{text}: {error}"));
            shadow.check(&mut db, &acknowledged, &text);
            array.cut_power_after(0, rng.u64(1..400));
            for _ in 0..600 {
                version += 1;
                let (key, sync) = (rng.u64(..150), rng.u8(..8) == 0);
                shadow.asked(key, version);
                let mut batch = WriteBatch::default();
                batch.put(&key.to_le_bytes(), &value(version));
                if db.write(batch, sync).is_err() {
                    cuts += 1;
                    break;
                }
                if sync {
                    shadow.synced();
                    acknowledged.extend(shadow.0.keys());
                }
            }
            drop(db);
            array.power_cycle().unwrap();
        }
        tables += env(&array, id).children(Path::new("db")).unwrap().len();
        assert!(array.verify().unwrap().wrong.is_empty());
    }
    assert!(cuts >= seeds() && tables as u64 > 4 * seeds(), "{cuts} cuts, {tables} files");
}

#[test]
fn names_and_lengths_are_found_again_and_blocks_of_files_that_are_gone_are_free() {
    let (array, id) = array();
    let before = array.look(|array| array.blocks(id).unwrap().len()).unwrap();
    {
        let env = env(&array, id);
        for (name, bytes) in [("d/a", 10), ("d/b", 100_000), ("d/c", 5000)] {
            let mut file = env.open_writable_file(Path::new(name)).unwrap();
            file.write_all(&vec![u8::try_from(bytes % 251).unwrap(); bytes]).unwrap();
        }
        let mut more = env.open_appendable_file(Path::new("d/a")).unwrap();
        more.write_all(b"and more").unwrap();
        more.flush().unwrap();
        env.rename(Path::new("d/c"), Path::new("d/b")).unwrap();
        assert!(env.size_of(Path::new("d/c")).is_err());
        // More changes than fit into a block of the directory.
        for n in 0..200 {
            let name = format!("d/{n}.tmp");
            drop(env.open_writable_file(Path::new(&name)).unwrap());
            env.delete(Path::new(&name)).unwrap();
        }
    }
    array.power_cycle().unwrap();
    let env = env(&array, id);
    let mut children = env.children(Path::new("d")).unwrap();
    children.sort();
    assert_eq!(children, [Path::new("a"), Path::new("b")]);
    assert_eq!(env.size_of(Path::new("d/b")).unwrap(), 5000);
    let mut bytes = [0; 18];
    let read = env.open_random_access_file(Path::new("d/a")).unwrap().read_at(0, &mut bytes);
    assert_eq!((read.unwrap(), &bytes[8..]), (18, &b"\x0a\x0aand more"[..]));
    assert!(env.lock(Path::new("d/LOCK")).is_ok() && env.lock(Path::new("d/LOCK")).is_err());
    // One of the directory, two of the reopened file, and one of the other file.
    let blocks = array.look(|array| array.blocks(id).unwrap().len()).unwrap();
    assert_eq!((before, blocks), (0, 4));
}

#[test]
fn blocks_of_something_else_are_refused() {
    use larder_blocks::{BlockStore, Stream};
    use larder_device::IoBuffer;
    let (array, id) = array();
    let store = Arc::new(array.store(id).unwrap());
    let block = store.alloc(Stream::DEFAULT, 9).wait().unwrap();
    store.append(block, 0, IoBuffer::zeroed(4096)).wait().unwrap();
    let refused = BlockEnv::open(Arc::clone(&store) as _, Box::new(NoTime)).unwrap_err();
    assert!(refused.to_string().contains("is of something else"), "{refused}");
    assert_eq!(store.list().len(), 1, "nothing was changed");
}
