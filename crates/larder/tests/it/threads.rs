//! Many threads on one cache: the versions of a key only ascend.

use std::sync::atomic::{AtomicU32, Ordering};

use larder::{Config, LocConfig, Reinsertion};

use crate::rig::{Rig, by_thread, config, drive};

const KEYS: u32 = 64;
const THREADS: u32 = 4;

/// Each key has one writer thread, which sets ascending versions or deletes; all threads read. A reader must never see
/// a version older than the last one that was complete when it began to read.
#[test]
fn no_reader_sees_a_version_that_was_replaced_before() {
    let drive = drive();
    let config = Config {
        dram_bytes: 12 << 10,
        loc: LocConfig { reinsertion: Reinsertion::Hits(1), ..config().loc },
        ..config()
    };
    let rig = Rig::open(by_thread(config), &drive);
    let finished: Vec<AtomicU32> = (0..KEYS).map(|_| AtomicU32::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (rig, finished) = (&rig, &finished);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(u64::from(thread));
                for version in 1..4000 {
                    let key = rng.u32(..KEYS / THREADS) * THREADS + thread;
                    if rng.u32(..20) == 0 {
                        rig.delete(key);
                    } else {
                        let bytes = if rng.bool() { 100 } else { 2500 };
                        rig.set(key, version, bytes);
                    }
                    finished[key as usize].store(version, Ordering::SeqCst);
                    for _ in 0..3 {
                        let key = rng.u32(..KEYS);
                        let oldest = finished[key as usize].load(Ordering::SeqCst);
                        if let Some(found) = rig.get(key) {
                            assert!(found >= oldest, "key {key}: {found} after {oldest}");
                        }
                    }
                }
            });
        }
    });
    let stats = rig.cache.stats();
    assert!(stats.soc_hits > 100 && stats.loc_hits > 100, "{stats:?}");
}
