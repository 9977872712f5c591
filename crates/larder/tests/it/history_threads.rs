//! Real threads on one cache, checked against the history of each key.
//!
//! Every key has one owner, a thread that sets, deletes, and compares and swaps, with ascending versions; so the right
//! order of its changes is known without a search. All other threads only look up. For each key three numbers are
//! public:
//!
//! - `begun`: the newest version whose change has begun;
//! - `done`: the newest version whose change was complete;
//! - `seen`: the newest version that any thread has seen, or that was deleted.
//!
//! Take a look-up that began when `done` was d and `seen` was s, and ended when `begun` was b. It is right if it found
//! nothing, or a version from max(d, s) to b that is not a deletion: then, and only then, all operations on the key can
//! be put in one order (evictions may come anywhere).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use larder::{
    Cas, Config, Device, ErrorKind, LocConfig, RealClock, Reinsertion, Route, Routed, SetOptions,
    SocConfig, Stats, Tenant, Tenants, TenantsConfig, block_on,
};

use crate::rig::{Rig, by_thread, config, drive, drive_of, logged};

const THREADS: u64 = 4;
const KEYS: u64 = 64;
/// Operations in the normal run.
const OPERATIONS: u64 = 300_000;
/// Operations of the long run, unless configured otherwise.
const OPERATIONS_LONG: u64 = 100_000_000;
/// Environment variable with the number of operations of the long run; set by `cargo xtask soak --threads-ops`.
const OPERATIONS_VARIABLE: &str = "LARDER_HISTORY_OPS";
/// Lengths of values: DRAM only, small and large objects.
const LENGTHS: [usize; 4] = [24, 100, 300, 2500];

/// The public numbers of a key.
#[derive(Default)]
struct Known {
    begun: AtomicU64,
    done: AtomicU64,
    seen: AtomicU64,
}

/// What the owner of a key remembers.
#[derive(Clone, Copy, Default)]
struct Owned {
    version: u64,
    is_deleted: bool,
}

#[derive(Default)]
struct Counts {
    operations: AtomicU64,
    hits: AtomicU64,
    swaps: AtomicU64,
}

fn name_of(key: u64) -> Vec<u8> {
    format!("thread-{key:04}").into_bytes()
}

fn at(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// Key, version, and bytes that depend on both.
fn value_of(key: u64, version: u64, bytes: usize) -> Vec<u8> {
    let mut value = Vec::with_capacity(bytes);
    value.extend_from_slice(&key.to_le_bytes());
    value.extend_from_slice(&version.to_le_bytes());
    value.resize(bytes, filler(key, version));
    value
}

fn filler(key: u64, version: u64) -> u8 {
    (key.wrapping_mul(31).wrapping_add(version) % 251).to_le_bytes()[0]
}

fn version_in(key: u64, value: &[u8]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().unwrap());
    let version = word(8);
    assert_eq!(word(0), key, "a value of another key");
    assert!(LENGTHS.contains(&value.len()), "a value of {} bytes", value.len());
    assert!(value[16..].iter().all(|&byte| byte == filler(key, version)), "a torn value");
    version
}

/// Looks `key` up. Returns the version in the value, and the version for `cas`.
fn look(cache: &Routed<impl Route>, known: &Known, key: u64) -> Option<(u64, u64)> {
    let oldest = known.done.load(SeqCst).max(known.seen.load(SeqCst));
    let value = block_on(cache.get(&name_of(key))).unwrap()?;
    let newest = known.begun.load(SeqCst);
    let found = version_in(key, &value);
    assert!(found >= oldest, "key {key}: {found} after {oldest}: it was replaced or deleted");
    assert!(found <= newest, "key {key}: {found} before {newest}: no thread has set it");
    known.seen.fetch_max(found, SeqCst);
    Some((found, value.version()))
}

/// Makes one change of a key that this thread owns: a set, a delete, or a compare-and-swap.
fn change(
    cache: &Routed<impl Route>,
    known: &Known,
    key: u64,
    owned: &mut Owned,
    rng: &mut fastrand::Rng,
    counts: &Counts,
) {
    let name = name_of(key);
    let version = owned.version + 1;
    let value = value_of(key, version, LENGTHS[rng.usize(..LENGTHS.len())]);
    match rng.u32(..16) {
        0 => {
            // A deletion's version is never seen; when it is done, all earlier versions are gone.
            owned.version = version;
            known.begun.store(version, SeqCst);
            block_on(cache.delete(&name)).unwrap();
            owned.is_deleted = true;
        }
        1..5 => {
            let seen = look(cache, known, key);
            let Some((found, token)) = seen.filter(|(_, token)| *token != 0) else { return };
            assert_eq!((found, owned.is_deleted), (owned.version, false), "key {key}");
            known.begun.store(version, SeqCst);
            let swap = cache.cas(&name, &value, token, SetOptions::default());
            // The value may have been evicted and have come back with another version, or there is no room.
            match block_on(swap) {
                Ok(Cas::Stored) => {}
                Err(error) if error.kind() != ErrorKind::Busy => panic!("{error}"),
                Ok(_) | Err(_) => return,
            }
            counts.swaps.fetch_add(1, SeqCst);
            owned.version = version;
            // The previous version is no longer valid.
            let spent = block_on(cache.cas(&name, &value, token, SetOptions::default()));
            assert!(!matches!(spent, Ok(Cas::Stored)), "key {key}: two swaps on one version");
        }
        _ => {
            owned.version = version;
            known.begun.store(version, SeqCst);
            block_on(cache.set(&name, &value, None)).unwrap();
            owned.is_deleted = false;
        }
    }
    known.done.store(owned.version, SeqCst);
}

fn work(
    cache: &Routed<impl Route>,
    all: &[Known],
    (thread, threads): (u64, u64),
    operations: u64,
    counts: &Counts,
) {
    let mut rng = fastrand::Rng::with_seed(thread);
    let mut owned = vec![Owned::default(); at(KEYS / threads)];
    let mut hits = 0;
    for _ in 0..operations {
        if rng.u32(..4) == 0 {
            let mine = rng.u64(..KEYS / threads);
            let key = mine * threads + thread;
            let (known, owned) = (&all[at(key)], &mut owned[at(mine)]);
            change(cache, known, key, owned, &mut rng, counts);
        } else {
            let key = rng.u64(..KEYS / threads * threads);
            hits += u64::from(look(cache, &all[at(key)], key).is_some());
        }
    }
    counts.operations.fetch_add(operations, SeqCst);
    counts.hits.fetch_add(hits, SeqCst);
}

fn run(threads: u64, operations: u64, config: Config) {
    // Little DRAM, so that keys move to flash and back all the time.
    let drive = drive();
    let rig = Rig::open(
        Config {
            dram_bytes: 24 << 10,
            loc: LocConfig { reinsertion: Reinsertion::Hits(1), ..config.loc },
            ..config
        },
        &drive,
    );
    work_together(&[Routed::new(&rig.cache)], threads, operations, || rig.cache.stats());
    drive.with_ssd(|ssd| ssd.audit()).unwrap();
}

/// Runs threads on each of several caches, which have the same keys and nothing else in common.
fn work_together<R: Route>(
    caches: &[Routed<R>],
    threads: u64,
    operations: u64,
    stats: impl Fn() -> Stats,
) {
    let known = || (0..KEYS).map(|_| Known::default()).collect();
    let all: Vec<Vec<Known>> = caches.iter().map(|_| known()).collect();
    let counts = Counts::default();
    std::thread::scope(|scope| {
        for (cache, all) in caches.iter().zip(&all) {
            for thread in 0..threads {
                let counts = &counts;
                let of_each = operations / threads;
                scope.spawn(move || work(cache, all, (thread, threads), of_each, counts));
            }
        }
    });
    let stats = stats();
    let [operations, hits, swaps] =
        [&counts.operations, &counts.hits, &counts.swaps].map(|count| count.load(SeqCst));
    println!(
        "{operations} operations, {hits} hits ({} of flash), {swaps} swaps: no wrong answer",
        stats.soc_hits + stats.loc_hits
    );
    assert!(hits > operations / 4 && swaps > operations / 1000, "{hits} {swaps} {stats:?}");
    assert!(stats.soc_hits > operations / 1000 && stats.loc_hits > operations / 1000, "{stats:?}");
}

#[test]
fn every_key_has_one_order() {
    run(THREADS, OPERATIONS, by_thread(config()));
    run(THREADS, OPERATIONS / 4, config());
}

/// With few buckets and a log that goes round all the time.
#[test]
fn every_key_has_one_order_with_a_log() {
    run(
        THREADS,
        OPERATIONS,
        Config {
            soc: SocConfig { percent: Some(0.5), log_threshold: 2, ..logged().soc },
            ..logged()
        },
    );
}

/// Far more threads than cores, so that each thread is preempted at arbitrary points.
#[test]
fn every_key_has_one_order_with_more_threads_than_cores() {
    for threads in [16, 64] {
        run(threads, OPERATIONS / 4, by_thread(config()));
        run(threads, OPERATIONS / 4, logged());
    }
}

/// Two tenants on three devices, with threads that change the same keys.
#[test]
fn every_key_of_every_tenant_on_shards_has_one_order() {
    let own = Config {
        loc: LocConfig { reinsertion: Reinsertion::Hits(1), ..by_thread(config()).loc },
        hash_seed: None,
        ..by_thread(config())
    };
    let tenants = ["a", "b"].map(|name| Tenant { config: own.clone(), ..Tenant::new(name, 50.0) });
    let dram_bytes = 6 * (8 << 10);
    let config =
        TenantsConfig { dram_bytes, tenants: tenants.to_vec(), ..TenantsConfig::default() };
    let drives: Vec<_> = (0..3).map(|_| drive_of(16 << 20, true)).collect();
    let devices = drives.iter().map(|drive| Some(Arc::clone(drive) as Arc<dyn Device>)).collect();
    let tenants = block_on(Tenants::open_sharded(config, devices, Arc::new(RealClock))).unwrap();
    let caches: Vec<_> = tenants.iter().map(|(_, tenant)| Routed::new(tenant)).collect();
    work_together(&caches, 2, OPERATIONS / 4, || tenants.stats());
    drives.iter().for_each(|drive| drive.with_ssd(|ssd| ssd.audit()).unwrap());
}

/// `cargo xtask soak --threads-ops N`.
#[test]
#[ignore = "minutes"]
fn as_long_as_one_likes() {
    let told = std::env::var(OPERATIONS_VARIABLE).ok();
    let told = told.map(|number| number.parse().expect("a number of operations"));
    let half = told.unwrap_or(OPERATIONS_LONG) / 2;
    [config(), logged()].into_iter().for_each(|config| run(THREADS, half, by_thread(config)));
}
