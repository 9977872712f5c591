//! Keys that are overwritten all the time have a value all the time: no look-up misses them, whatever the engine, and
//! no answer is older than what was acknowledged before the look-up began.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use larder::config::{CrashSafety, Demotions};
use larder::{ArrayConfig, Clock, Config, Larder, LocConfig, SetOptions, SocConfig, Tiers};
use larder_device::model::virtual_time::{ShapedStorage, VirtualTimeDevice, shapes};
use larder_device::{Payload, VirtualClock};
use larder_sim::executor::Executor;

/// Few keys, so that many clients change and ask for the same one.
const KEYS: usize = 40;
const CLIENTS: u64 = 48;

/// How a client looks a key up.
#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    Get,
    Many,
    Peek,
    Contains,
    Stream,
}

/// How a client changes a key.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    Set,
    Stream,
    Append,
}

struct Case {
    config: Config,
    value_bytes: usize,
    tiers: Tiers,
    change: Change,
    /// Operations of a client. All that they write has room on the drive: nothing is evicted.
    ops: usize,
}

/// The versions of a key. Sets in flight at the same time may take effect in any order: a batch of them.
#[derive(Clone, Copy, Default)]
struct Versions {
    newest: u64,
    in_flight: u32,
    /// First version of the last batch, and of the one before.
    last: u64,
    before: u64,
}

impl Versions {
    fn begin(&mut self) -> u64 {
        self.newest += 1;
        if self.in_flight == 0 {
            (self.before, self.last) = (self.last, self.newest);
        }
        self.in_flight += 1;
        self.newest
    }

    /// The oldest version that a look-up may find that begins now.
    fn oldest(&self) -> u64 {
        if self.in_flight == 0 { self.last } else { self.before }
    }
}

#[derive(Debug, Default)]
struct Seen {
    gets: usize,
    missed: usize,
    stale: usize,
}

fn alone(config: Config) -> Config {
    Config { demotions: Demotions::Callers, hash_seed: Some(7), start_empty: true, ..config }
}

fn value(version: u64, bytes: usize) -> Vec<u8> {
    let mut value = vec![0; bytes];
    value[..8].copy_from_slice(&version.to_le_bytes());
    value
}

fn version_of(value: &[u8]) -> u64 {
    value.get(..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The version of a key that a look-up sees; `None` is a miss. [`How::Contains`] sees any version.
async fn look(cache: &Larder, key: &[u8], how: How) -> Option<u64> {
    match how {
        How::Get => cache.get(key).await.unwrap().map(|value| version_of(&value)),
        How::Many => cache.get_many(&[key]).await.unwrap()[0].as_deref().map(version_of),
        How::Peek => cache.peek_with(key, |value, _| version_of(value)).await.unwrap(),
        How::Contains => cache.contains(key).await.unwrap().then_some(u64::MAX),
        How::Stream => {
            let mut stream = cache.get_stream(key).await.unwrap()?;
            // A value that is replaced while its parts are read is an error, not a miss.
            let first = stream.next().await.ok().flatten();
            Some(first.map_or(u64::MAX, |chunk| version_of(&chunk)))
        }
    }
}

async fn change(cache: &Larder, case: &Case, key: &[u8], version: u64) {
    let value = value(version, case.value_bytes);
    let options = SetOptions { tiers: case.tiers, ..SetOptions::default() };
    match case.change {
        Change::Set => cache.set_with(key, &value, options).await.unwrap(),
        Change::Stream => {
            let mut pieces = value.chunks(16 << 10);
            let source = async || Ok::<_, std::io::Error>(pieces.next().unwrap_or(&[]));
            cache.set_stream(key, value.len(), options, source).await.unwrap();
        }
        // The version stays; the value becomes longer, up to a bound.
        Change::Append => {
            cache.append(key, b"x").await.unwrap();
        }
    }
}

/// Runs clients of a few popular keys, half of whose operations are changes.
fn run(case: &Case, how: How) -> Seen {
    let clock = Arc::new(VirtualClock::default());
    let storage = ShapedStorage::new(shapes::NVME_TLC, 256 << 20).unwrap();
    let drive = VirtualTimeDevice::new(storage, Payload::Memory, Arc::clone(&clock)).unwrap();
    let cache = RefCell::new(None);
    let mut executor = Executor::new(Arc::clone(&clock));
    executor.spawn(async {
        let opened = Larder::open(case.config.clone(), Some(Arc::new(drive) as _), clock.clone());
        let opened = opened.await.unwrap();
        for key in 0..KEYS {
            let options = SetOptions { tiers: case.tiers, ..SetOptions::default() };
            opened
                .set_with(&key.to_le_bytes(), &value(0, case.value_bytes), options)
                .await
                .unwrap();
        }
        *cache.borrow_mut() = Some(opened);
    });
    executor.run().unwrap();
    drop(executor);
    let cache = cache.into_inner().unwrap();
    let versions = RefCell::new([Versions::default(); KEYS]);
    let seen = RefCell::new(Seen::default());
    let mut executor = Executor::new(Arc::clone(&clock));
    executor.spawn_background(cache.send_demotions());
    for client in 0..CLIENTS {
        let (cache, versions, seen, clock) = (&cache, &versions, &seen, &clock);
        executor.spawn(async move {
            let mut rng = fastrand::Rng::with_seed(client);
            for _ in 0..case.ops {
                clock.sleep_until(clock.now() + Duration::from_nanos(rng.u64(0..20_000))).await;
                // Steep popularity.
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                let key = (rng.f64().powi(4) * KEYS as f64) as usize;
                let name = key.to_le_bytes();
                if rng.bool() {
                    let version = versions.borrow_mut()[key].begin();
                    change(cache, case, &name, version).await;
                    versions.borrow_mut()[key].in_flight -= 1;
                } else {
                    let oldest = versions.borrow()[key].oldest();
                    let found = look(cache, &name, how).await;
                    let seen = &mut *seen.borrow_mut();
                    seen.gets += 1;
                    seen.missed += usize::from(found.is_none());
                    let is_old = found.is_some_and(|version| version < oldest);
                    seen.stale += usize::from(is_old && case.change != Change::Append);
                }
            }
        });
    }
    executor.run().unwrap();
    drop(executor);
    seen.into_inner()
}

fn soc() -> Config {
    alone(Config {
        dram_bytes: 0,
        soc: SocConfig { percent: Some(50.0), ..SocConfig::default() },
        ..Config::default()
    })
}

fn loc() -> Config {
    let soc = SocConfig { percent: Some(0.0), log_percent: Some(0.0), ..SocConfig::default() };
    alone(Config { dram_bytes: 0, soc, loc: LocConfig::default(), ..Config::default() })
}

fn array() -> Config {
    let region_bytes = Some(1 << 20);
    Config {
        array: ArrayConfig { percent: 100.0, region_bytes, ..ArrayConfig::default() },
        ..loc()
    }
}

fn assert_never_missed(name: &str, case: &Case, hows: &[How]) {
    for &how in hows {
        let seen = run(case, how);
        println!("{name}, {how:?}: {seen:?}");
        assert!(seen.gets > 800, "{name}, {how:?}: {seen:?}");
        assert_eq!((seen.missed, seen.stale), (0, 0), "{name}, {how:?}: {seen:?}");
    }
}

const ALL: [How; 5] = [How::Get, How::Many, How::Peek, How::Contains, How::Stream];

fn set(config: Config, value_bytes: usize) -> Case {
    Case { config, value_bytes, tiers: Tiers::default(), change: Change::Set, ops: 100 }
}

#[test]
fn no_engine_misses_a_key_that_is_overwritten() {
    for (name, config, bytes) in
        [("soc", soc(), 200), ("loc", loc(), 20_000), ("array", array(), 20_000)]
    {
        assert_never_missed(name, &set(config.clone(), bytes), &ALL);
        let unsafe_config = Config { crash_safety: CrashSafety::Off, ..config };
        let name = format!("{name} without crash safety");
        assert_never_missed(&name, &set(unsafe_config, bytes), &[How::Get, How::Contains]);
    }
}

#[test]
fn nor_one_for_flash_only() {
    let config = Config { dram_bytes: 4 << 20, ..array() };
    let flash_only = Case { tiers: Tiers::FlashOnly, ..set(config, 20_000) };
    assert_never_missed("for flash only", &flash_only, &ALL);
}

#[test]
fn nor_one_too_long_for_dram_or_demoted_from_a_full_dram() {
    let with_dram = |config: Config, dram_bytes| Config { dram_bytes, ..config };
    assert_never_missed("too long", &set(with_dram(array(), 64 << 10), 40_000), &ALL);
    assert_never_missed("full", &set(with_dram(loc(), 256 << 10), 20_000), &ALL);
}

#[test]
fn nor_one_that_is_replaced_in_parts() {
    let region_bytes = Some(64 << 10);
    let array = ArrayConfig { region_bytes, ..array().array };
    let config = Config { array, ..loc() };
    let parts = Case { change: Change::Stream, ops: 36, ..set(config, 150_000) };
    assert_never_missed("in parts", &parts, &[How::Get, How::Contains, How::Stream]);
}

/// An append needs DRAM that can hold the value.
#[test]
fn nor_one_that_is_appended_to() {
    let config = Config { dram_bytes: 256 << 10, ..loc() };
    let appended = Case { change: Change::Append, ..set(config, 20_000) };
    assert_never_missed("appended", &appended, &ALL);
}
