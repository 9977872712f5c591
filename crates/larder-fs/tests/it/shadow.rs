//! Long runs against the model.

use std::time::Instant;

use larder_fs::{FileSystem, Options, fsck, fsck::Fsck};

use super::basics::store;
use super::driver::{Driver, Scale};
use super::model::Model;

const SCALE: Scale =
    Scale { names: 24, inodes: 300, file_bytes: 60_000, long_bytes: 2_500_000, sync_every: 60 };

/// Number of calls per run; set by `LARDER_FS_OPS`.
fn operations() -> u64 {
    let told = std::env::var("LARDER_FS_OPS").ok();
    told.map_or(100_000, |text| text.parse().expect("LARDER_FS_OPS is a number"))
}

fn run(seed: u64, blocks: u64, block_pages: u64, operations: u64) {
    let store = store(blocks, block_pages);
    let fs = FileSystem::format(store.clone(), false, Options::default()).unwrap();
    let mut driver = Driver::new(fs, Model::new(), seed, SCALE);
    for number in 0..operations {
        if let Err(error) = driver.step() {
            panic!("call {number} of seed {seed}: {error}");
        }
        if number % (operations / 8).max(1) == 0 {
            driver.fs.sync().unwrap();
            let read = Model::read_from(&driver.fs);
            let expected = driver.model.after_power_loss();
            let mut seen = driver.model.clone();
            seen.nodes.retain(|_, node| node.links > 0);
            assert!(
                read == expected,
                "seed {seed}, call {number}:\n{}",
                read.difference(&expected)
            );
            driver.model = expected;
            drop(driver.fs);
            let report = fsck(store.clone(), Fsck { data: true }).unwrap();
            assert!(report.is_clean(), "seed {seed}, call {number}: {report}");
            driver.fs = FileSystem::open(store.clone(), Options::default()).unwrap();
        }
    }
    println!("seed {seed}: {:?}", driver.fs.counts());
}

#[test]
fn a_shadow_has_the_same_answers() {
    let begun = Instant::now();
    let (each, first) = (operations() / 4, 1);
    run(first, 160, 64, each);
    run(first + 1, 700, 16, each);
    run(first + 2, 60, 256, each);
    run(first + 3, 4000, 32, each);
    println!("{} calls in {:?}", 4 * each, begun.elapsed());
}
