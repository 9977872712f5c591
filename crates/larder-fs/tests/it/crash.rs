//! Power loss at any time: synced changes are present, and the state is one between two calls.

use std::sync::Arc;

use larder_fs::{FileSystem, Options, fsck, fsck::Fsck};

use super::basics::store;
use super::driver::{Driver, Scale};
use super::model::Model;
use super::power::Mains;

const SCALE: Scale =
    Scale { names: 8, inodes: 24, file_bytes: 20_000, long_bytes: 1_600_000, sync_every: 12 };

/// Number of power losses; set by `LARDER_CRASH_POINTS`.
fn points() -> u64 {
    let told = std::env::var("LARDER_CRASH_POINTS").ok();
    told.map_or(500, |text| text.parse().expect("LARDER_CRASH_POINTS is a number"))
}

/// One store, which loses power again and again.
fn life(seed: u64, losses: u64, fails_one_in: Option<u32>) -> u64 {
    let mut rng = fastrand::Rng::with_seed(seed);
    let below = if rng.bool() { store(96, 16) } else { store(48, 64) };
    let fs = FileSystem::format(below.clone(), false, Options::default()).unwrap();
    drop(fs);
    let mut model = Model::new();
    let mut opened = 0;
    for loss in 0..losses {
        let requests = if rng.bool() { rng.u64(..30) } else { rng.u64(..600) };
        let mut mains = Mains::on(below.clone(), requests, rng.u64(..));
        if let Some(one_in) = fails_one_in {
            mains = mains.failing(one_in);
        }
        let mains = Arc::new(mains);
        let Ok(fs) = FileSystem::open(mains.clone(), Options::default()) else {
            assert!(mains.is_off(), "seed {seed} loss {loss}: it does not open");
            continue;
        };
        opened += 1;
        let mut driver = Driver::new(fs, model.clone(), rng.u64(..), SCALE);
        // The states that may be found afterwards: that of the last sync, and all since.
        let mut allowed = vec![model.after_power_loss()];
        loop {
            let done = driver.step();
            if driver.synced {
                allowed.clear();
            }
            allowed.push(driver.model.after_power_loss());
            if let Err(error) = done {
                assert!(mains.is_off(), "seed {seed} loss {loss}: {error}");
                break;
            }
        }
        drop(driver);
        let report = fsck(below.clone(), Fsck { data: true }).unwrap();
        assert!(report.is_clean(), "seed {seed} loss {loss}: {report}\n{}", replay(seed));
        let fs = FileSystem::open(below.clone(), Options { read_only: true, ..Options::default() });
        let fs = fs.unwrap_or_else(|error| panic!("seed {seed} loss {loss}: {error}"));
        let read = Model::read_from(&fs);
        if !allowed.contains(&read) {
            let nearest = allowed.last().map(|it| read.difference(it)).unwrap_or_default();
            let first = allowed.first().map(|it| read.difference(it)).unwrap_or_default();
            panic!(
                "seed {seed} loss {loss}: none of {} states:\n{nearest}\nnor\n{first}\n{}",
                allowed.len(),
                replay(seed)
            );
        }
        model = read;
    }
    opened
}

fn replay(seed: u64) -> String {
    format!("replay: LARDER_CRASH_SEED={seed} cargo test -p larder-fs --test it crash")
}

/// Seeds of the runs: all, or the one to replay.
fn seeds(count: u64) -> std::ops::Range<u64> {
    match std::env::var("LARDER_CRASH_SEED").ok() {
        Some(text) => {
            let seed: u64 = text.parse().expect("LARDER_CRASH_SEED is a number");
            seed..seed + 1
        }
        None => 0..count,
    }
}

#[test]
fn a_loss_of_power_leaves_the_state_between_two_calls() {
    let losses = 10;
    let opened: u64 = seeds(points().div_ceil(losses)).map(|seed| life(seed, losses, None)).sum();
    println!("{opened} openings of {} lost power at work", points());
}

#[test]
fn appends_that_fail_are_written_elsewhere() {
    let losses = 5;
    for seed in seeds(points().div_ceil(10 * losses)) {
        life(1_000_000 + seed, losses, Some(40));
    }
}
