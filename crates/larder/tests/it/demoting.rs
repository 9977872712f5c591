//! Items that move from DRAM to flash: sent by the cache's thread or by a task, in order, and bounded.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use larder::config::Demotions;
use larder::{
    Change, Config, CrashSafety, ErrorKind, Larder, RealClock, SetOptions, SocConfig, Tiers,
    VirtualClock, block_on,
};
use larder_device::{Device, Fault, FaultDevice, FaultPlan, FaultRule, MemoryDevice, ModelDevice};

use crate::faults::faulty;
use crate::rig::{Rig, by_thread, config, drive, key_of, logged, value_of, version_in};

/// A wait that has not ended after this time counts as endless, even on a busy machine.
const EVER: Duration = Duration::from_secs(60);
const FLASH_ONLY: SetOptions = SetOptions {
    ttl: None,
    flags: 0,
    version: None,
    stale: false,
    won: false,
    tiers: Tiers::FlashOnly,
    binary_key: false,
};

type Drive = Arc<FaultDevice<ModelDevice>>;

fn open(config: Config, drive: &Drive) -> Larder {
    let drive: Arc<dyn Device> = Arc::clone(drive) as _;
    block_on(Larder::open(config, Some(drive), Arc::new(RealClock))).unwrap()
}

fn stall(drive: &Drive) {
    drive.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Stall)));
}

/// The same, only for writes of buckets and regions.
fn stall_places(drive: &Drive, cache: &Larder) {
    let layout = cache.layout().unwrap();
    let places = layout.soc_offset.min(layout.loc_offset)..u64::MAX;
    let writes = FaultRule::new(Fault::Stall).on_writes().within(places);
    drive.set_plan(&FaultPlan::new(1).with(writes));
}

fn answer(drive: &Drive) {
    drive.set_plan(&FaultPlan::new(1));
    drive.release_delayed();
}

/// No timeout: a request that waits for the device waits without limit.
fn patient(config: Config) -> Config {
    Config { flash_wait: None, ..config }
}

fn poll<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// A future that the test polls by hand, until it has ended.
struct Task<'a, T>(Option<Pin<Box<dyn Future<Output = T> + 'a>>>);

impl<'a, T> Task<'a, T> {
    fn new(future: impl Future<Output = T> + 'a) -> Self {
        Self(Some(Box::pin(future)))
    }

    fn is_over(&self) -> bool {
        self.0.is_none()
    }

    /// Polls it. Returns whether it has ended.
    fn go_on(&mut self) -> bool {
        if let Some(future) = &mut self.0
            && poll(future.as_mut()).is_some()
        {
            self.0 = None;
        }
        self.is_over()
    }
}

fn set(cache: &Larder, key: u32, version: u32, bytes: usize) {
    block_on(cache.set(&key_of(key), &value_of(key, version, bytes), None)).unwrap();
}

fn get(cache: &Larder, key: u32) -> Option<u32> {
    let found = block_on(cache.get(&key_of(key))).unwrap();
    found.map(|value| version_in(key, &value))
}

/// Waits until a condition that other threads bring about holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < EVER, "waited in vain: {what}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// A task has begun to send many keys of few buckets, and the device does not answer yet: a change of one of these keys
/// waits, and what it stores is newer.
#[test]
fn a_change_waits_for_a_demotion_that_is_under_way_and_beats_it() {
    for base in [config(), logged()] {
        // Few buckets, so that many keys are sent together.
        let crash_safety = CrashSafety::Off;
        let base = Config {
            soc: SocConfig { percent: Some(1.0), log_percent: Some(0.0), ..base.soc },
            crash_safety,
            ..base
        };
        let drive = faulty(&FaultPlan::new(1));
        let cache = open(patient(base), &drive);
        (0..40).for_each(|key| set(&cache, key, 1, 200));
        stall(&drive);
        let mut sending = Task::new(cache.send_demotions());
        assert!(!sending.go_on());
        // DRAM is full, so these sets cause demotions.
        let mut pushing = Task::new(async {
            for key in 100..160 {
                cache.set(&key_of(key), &value_of(key, 1, 200), None).await.unwrap();
            }
        });
        pushing.go_on();
        assert!(!sending.go_on());
        let change = |key: u32| {
            let cache = &cache;
            Task::new(async move {
                if key.is_multiple_of(2) {
                    cache.set(&key_of(key), &value_of(key, 2, 200), None).await.unwrap();
                } else {
                    cache.delete(&key_of(key)).await.unwrap();
                }
            })
        };
        let mut changing: Vec<_> = (0..40).map(change).collect();
        let waiting = changing.iter_mut().map(|change| u32::from(!change.go_on())).sum::<u32>();
        assert!(waiting > 5, "{waiting} wait");
        answer(&drive);
        while changing.iter_mut().map(Task::go_on).filter(|over| !over).count() > 0 {
            sending.go_on();
            pushing.go_on();
        }
        while !pushing.go_on() || cache.stats().demoting_bytes > 0 {
            sending.go_on();
        }
        for key in 0..40 {
            let found = get(&cache, key);
            let newest = (key % 2 == 0).then_some(2);
            assert!(found.is_none() || found == newest, "{found:?} of key {key}");
        }
    }
}

/// All keys of a group are locked while it is sent, not only the first.
#[test]
fn the_keys_of_what_is_sent_together_are_locked() {
    let drive = faulty(&FaultPlan::new(1));
    // Some 20 buckets.
    let crash_safety = CrashSafety::Off;
    let base = Config {
        dram_bytes: 256 << 10,
        soc: SocConfig { percent: Some(1.0), ..config().soc },
        crash_safety,
        ..config()
    };
    let cache = open(patient(base), &drive);
    (0..2000).for_each(|key| set(&cache, key, 1, 100));
    let mut sending = Task::new(cache.send_demotions());
    assert!(!sending.go_on());
    stall(&drive);
    let mut pushing = Task::new(async {
        for key in 5000..5060 {
            cache.set(&key_of(key), &value_of(key, 1, 100), None).await.unwrap();
        }
    });
    pushing.go_on();
    assert!(!sending.go_on());
    let (mut in_dram, mut locked) = (0, 0);
    for key in 0..2000 {
        let name = key_of(key);
        let mut looking = Task::new(cache.get(&name));
        if looking.go_on() {
            let mut changing = Task::new(cache.update(&name, |_| Change::Keep));
            in_dram += 1;
            locked += u32::from(!changing.go_on());
        }
    }
    answer(&drive);
    while !pushing.go_on() {
        sending.go_on();
    }
    assert!(in_dram > 500 && locked > 120, "{locked} of {in_dram} are locked");
}

/// While flash is slow, items of a bucket accumulate, and are written with one write of the bucket.
#[test]
fn what_waits_for_a_bucket_is_written_together() {
    let drive = faulty(&FaultPlan::new(1));
    // Some 20 buckets.
    let (crash_safety, demotion_wait) = (CrashSafety::Off, EVER);
    let base = Config {
        dram_bytes: 256 << 10,
        soc: SocConfig { percent: Some(1.0), ..config().soc },
        crash_safety,
        ..config()
    };
    let cache = open(patient(by_thread(Config { demotion_wait, ..base })), &drive);
    (0..2500).for_each(|key| set(&cache, key, 1, 100));
    until("flash has what left", || cache.stats().demoting_bytes == 0);
    let before = cache.stats();
    stall_places(&drive, &cache);
    std::thread::scope(|scope| {
        scope.spawn(|| (5000..5600).for_each(|key| set(&cache, key, 1, 100)));
        until("much waits", || cache.stats().demoting_bytes > 32 << 10);
        answer(&drive);
    });
    until("flash has what left", || cache.stats().demoting_bytes == 0);
    let after = cache.stats();
    let writes = after.soc_bucket_writes - before.soc_bucket_writes;
    let left = before.dram_items + 600 - after.dram_items;
    assert!(left > 200 && writes * 3 < left, "{writes} writes for {left} objects");
}

/// The same with threads, which run next to the cache's own thread.
#[test]
fn nothing_older_comes_back_while_the_thread_demotes() {
    for base in [config(), logged()] {
        let cache = open(by_thread(base), &faulty(&FaultPlan::new(1)));
        std::thread::scope(|scope| {
            for client in 0..3_u32 {
                let cache = &cache;
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(client.into());
                    let mut newest = [0_u32; 100];
                    for version in 1..8_000 {
                        let at = rng.usize(..newest.len());
                        let key = client * 1000 + u32::try_from(at).unwrap();
                        match rng.u32(..10) {
                            0..5 => {
                                newest[at] = version;
                                set(cache, key, version, 300);
                            }
                            5 => {
                                newest[at] = 0;
                                block_on(cache.delete(&key_of(key))).unwrap();
                            }
                            _ => {
                                let found = get(cache, key);
                                let is_newest = found.is_none_or(|found| found == newest[at]);
                                assert!(is_newest, "{found:?} of key {key}, not {}", newest[at]);
                            }
                        }
                    }
                });
            }
        });
        let stats = cache.stats();
        assert!(stats.soc_bucket_writes + stats.soc_log_objects > 1000, "{stats:?}");
        assert!(stats.soc_hits > 100, "{stats:?}");
    }
}

/// Items that many callers bring and abandon take no more memory than the limit.
#[test]
fn callers_that_give_up_leave_no_more_on_its_way_than_there_may_be() {
    const MOST: u64 = 300_000;
    for demotions in [Demotions::Thread, Demotions::Callers] {
        let drive = faulty(&FaultPlan::new(1));
        let demoting_bytes_max = Some(MOST);
        let cache = open(patient(Config { demotions, demoting_bytes_max, ..config() }), &drive);
        stall(&drive);
        let mut peak = 0;
        for key in 0..200 {
            let (key, value) = (key_of(key), value_of(key, 1, 50_000));
            let mut setting = Task::new(cache.set(&key, &value, None)); // DRAM cannot hold it
            (0..3).for_each(|_| _ = setting.go_on());
            drop(setting);
            peak = cache.stats().demoting_bytes.max(peak);
        }
        assert!((200_000..=MOST).contains(&peak), "{demotions}: {peak} bytes were on their way");
        answer(&drive);
        until("what was on its way is on flash", || {
            set(&cache, 900, 1, 300);
            block_on(cache.set_with(&key_of(901), &value_of(901, 1, 300), FLASH_ONLY)).unwrap();
            cache.stats().demoting_bytes < 20_000
        });
    }
}

/// A device that is too slow for the load: callers get an error in time, and nothing older is left behind.
#[test]
fn what_finds_no_room_in_time_is_refused_and_counted() {
    let drive = faulty(&FaultPlan::new(1));
    let demotion_wait = Duration::from_millis(30);
    let demoting_bytes_max = Some(10_000);
    let base = Config { demotion_wait, demoting_bytes_max, ..config() };
    let cache = open(patient(by_thread(base)), &drive);
    stall_places(&drive, &cache);
    let begun = Instant::now();
    let mut last = 100;
    while cache.stats().rejected_demotions_objects == 0 {
        assert!(begun.elapsed() < EVER, "{:?}", cache.stats());
        assert!(get(&cache, last).is_some() || last == 100, "what was not refused is there");
        last += 1;
        set(&cache, last, 1, 300);
    }
    assert_eq!(get(&cache, last), None, "it was refused");
    let again = (100..last).rev().find(|&key| get(&cache, key) == Some(1)).unwrap();
    let mut version = 1;
    while cache.stats().rejected_demotions_objects == 1 {
        assert_eq!(get(&cache, again), Some(version));
        version += 1;
        set(&cache, again, version, 300 + usize::try_from(version).unwrap() * 8);
    }
    assert_eq!(get(&cache, again), None, "nor is the older one there");
    assert_eq!(cache.stats().rejected_demotions_objects, 2);
    let add = block_on(cache.add(&key_of(1), &value_of(1, 1, 300), SetOptions::default()));
    assert_eq!(add.unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(cache.stats().rejected_demotions_objects, 3);
    assert_eq!(cache.stats().rejected_dram_pinned_objects, 0);
    answer(&drive);
    until("flash takes again what comes", || {
        let before = cache.stats().rejected_demotions_objects;
        set(&cache, 3, 3, 300);
        before == cache.stats().rejected_demotions_objects
    });
    assert_eq!(get(&cache, 3), Some(3));
}

/// If DRAM is full of items on their way to flash, changes that depend on the value wait like sets.
#[test]
fn changes_that_depend_on_the_value_wait_for_room() {
    for demotions in [Demotions::Thread, Demotions::Callers] {
        let drive = faulty(&FaultPlan::new(1));
        let cache = open(patient(Config { demotions, demotion_wait: EVER, ..config() }), &drive);
        let counter = |key: u32| [&b"n"[..], &key_of(key)].concat();
        (0..10).for_each(|key| block_on(cache.set(&counter(key), b"0", None)).unwrap());
        stall(&drive);
        let (waiting, is_over) = (&AtomicBool::new(true), &AtomicBool::new(false));
        std::thread::scope(|scope| {
            for client in 1..=8_u32 {
                let (cache, counter) = (&cache, &counter);
                scope.spawn(move || {
                    for key in client * 1000..client * 1000 + 100 {
                        let (name, value) = (key_of(key), value_of(key, 1, 300));
                        let added = block_on(cache.add(&name, &value, SetOptions::default()));
                        assert!(added.unwrap(), "{key}");
                        block_on(cache.append(&name, b"")).unwrap();
                        let version =
                            block_on(cache.get(&name)).unwrap().map_or(1, |v| v.version());
                        let cas = cache.cas(&name, &value, version, SetOptions::default());
                        block_on(cas).unwrap();
                    }
                    block_on(cache.incr(&counter(client), 1)).unwrap();
                    assert!(!waiting.load(Ordering::SeqCst), "DRAM cannot hold all of it");
                    is_over.store(true, Ordering::SeqCst);
                });
            }
            std::thread::sleep(Duration::from_millis(100));
            waiting.store(false, Ordering::SeqCst);
            answer(&drive);
        });
        assert!(is_over.load(Ordering::SeqCst));
        let stats = cache.stats();
        assert_eq!((stats.rejected_dram_pinned_objects, stats.rejected_demotions_objects), (0, 0));
    }
}

#[test]
fn a_drop_ends_the_thread_whatever_is_under_way() {
    for stalls in [false, true] {
        let drive = faulty(&FaultPlan::new(1));
        let cache = open(patient(by_thread(config())), &drive);
        (0..60).for_each(|key| set(&cache, key, 1, 300));
        if stalls {
            stall(&drive);
        }
        let mut setting = Task::new(async {
            for key in 100..400 {
                cache.set(&key_of(key), &value_of(key, 1, 300), None).await.unwrap();
            }
        });
        setting.go_on();
        until("something is on its way", || !stalls || cache.stats().demoting_bytes > 0);
        drop(setting);
        let begun = Instant::now();
        drop(cache);
        assert!(begun.elapsed() < EVER);
        answer(&drive);
        assert_eq!(Arc::strong_count(&drive), 1, "the cache no longer holds the device");
    }
}

/// A clear and a close complete all demotions. There is no deadlock, although other callers inside the cache wait for
/// room.
#[test]
fn clears_and_closes_end_while_callers_wait_for_room() {
    for base in [config(), logged()] {
        let drive = faulty(&FaultPlan::new(1));
        let demoting_bytes_max = Some(4_000);
        let demotion_wait = 10 * EVER;
        let base = Config { demoting_bytes_max, demotion_wait, ..base };
        let cache = open(patient(by_thread(base)), &drive);
        (0..60).for_each(|key| set(&cache, key, 1, 300));
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for client in 1..=4_u32 {
                let cache = &cache;
                scope.spawn(move || {
                    for key in client * 10_000.. {
                        let options = if key % 5 == 0 { FLASH_ONLY } else { SetOptions::default() };
                        let value = value_of(key, 1, 300);
                        match block_on(cache.set_with(&key_of(key), &value, options)) {
                            Ok(()) => {}
                            Err(error) => return assert_eq!(error.kind(), ErrorKind::Closed),
                        }
                    }
                });
            }
            for _ in 0..20 {
                stall(&drive);
                std::thread::sleep(Duration::from_millis(3));
                let clearing = scope.spawn(|| block_on(cache.clear()).unwrap());
                std::thread::sleep(Duration::from_millis(3));
                answer(&drive);
                clearing.join().unwrap();
                assert!((0..60).all(|key| get(&cache, key).is_none()), "they were cleared");
            }
            stall(&drive);
            std::thread::sleep(Duration::from_millis(3));
            let closing = scope.spawn(|| block_on(cache.close()).unwrap());
            std::thread::sleep(Duration::from_millis(3));
            answer(&drive);
            closing.join().unwrap();
        });
        assert!(begun.elapsed() < EVER, "{:?}", begun.elapsed());
        assert_eq!(cache.stats().demoting_bytes, 0, "all of it went to flash");
    }
}

/// Items that the thread was sending when the cache was closed are found again.
#[test]
fn a_close_keeps_what_was_on_its_way() {
    for base in [config(), logged()] {
        let drive = drive();
        let rig = Rig::open(by_thread(base.clone()), &drive);
        (0..500).for_each(|key| rig.set(key, 1, 300));
        block_on(rig.cache.close()).unwrap();
        drop(rig);
        let rig = Rig::open(base, &drive);
        let found = (0..500).filter(|&key| rig.get(key) == Some(1)).count();
        assert!(found > 480, "{found}");
    }
}

/// A virtual clock, so that nothing times out, and a sending task that is dropped and started again.
#[test]
fn a_task_that_is_dropped_leaves_everything_to_callers() {
    let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
    let device: Arc<dyn Device> = drive();
    let cache = block_on(Larder::open(config(), Some(device), clock as _)).unwrap();
    for round in 0..50 {
        let mut sending = Box::pin(cache.send_demotions());
        (0..40).for_each(|key| {
            set(&cache, key + round * 7, round + 1, 300);
            if key % 8 == 0 {
                let _ = poll(sending.as_mut());
            }
        });
    }
    assert!(cache.stats().soc_bucket_writes > 500);
    assert_eq!(cache.stats().rejected_demotions_objects, 0);
    block_on(cache.close()).unwrap();
    block_on(cache.send_demotions());
}

/// Runs in a process of its own, where no other test has threads.
#[test]
#[ignore = "it is run by the next one"]
fn alone() {
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
        names.filter(|name| name.as_ref().is_ok_and(|name| name.trim() == "larder-flash")).count()
    };
    let fill = |cache: &Larder| (0..500).for_each(|key| set(cache, key, 1, 300));
    let in_dram = Config { dram_bytes: 20 << 10, ..Config::default() };
    let cache = block_on(Larder::open(in_dram, None, Arc::new(RealClock))).unwrap();
    fill(&cache);
    assert_eq!(threads(), 0, "there is no flash");
    let cache = open(config(), &faulty(&FaultPlan::new(1)));
    fill(&cache);
    assert_eq!(threads(), 0, "callers send");
    let cache = open(by_thread(config()), &faulty(&FaultPlan::new(1)));
    set(&cache, 0, 1, 300);
    assert_eq!(threads(), 0, "nothing has left DRAM");
    fill(&cache);
    assert_eq!(threads(), 1);
    drop(cache);
    assert_eq!(threads(), 0, "it ends with the cache");
}

#[test]
#[cfg(target_os = "linux")]
fn there_is_a_thread_where_something_leaves_dram_for_flash_and_nowhere_else() {
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    let ended = alone.args(["--exact", "demoting::alone", "--ignored"]).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    assert!(String::from_utf8_lossy(&ended.stdout).contains("1 passed"));
}

/// Flash has the old version. It comes to DRAM to be read, and must leave DRAM for the new version: in an endless loop,
/// if the old one had to stay in DRAM.
#[test]
fn an_object_is_touched_of_which_dram_holds_one_version_but_not_two() {
    let drive = MemoryDevice::holding(vec![0; 64 << 20]);
    let config = Config {
        dram_bytes: 256 << 10,
        demotions: Demotions::Callers,
        soc: SocConfig { percent: Some(0.0), ..SocConfig::default() },
        ..Config::default()
    };
    let cache = block_on(Larder::open(config, Some(Arc::new(drive)), Arc::new(RealClock))).unwrap();
    let value = vec![7; 150 << 10];
    for key in [b"bread", b"cheek"] {
        block_on(cache.set(key, &value, None)).unwrap();
    }
    let _all = block_on(cache.flush()).unwrap();
    for round in 1..10 {
        for key in [b"bread", b"cheek"] {
            let ttl = Some(Duration::from_secs(1000 * round));
            assert!(block_on(cache.touch(key, ttl)).unwrap(), "round {round}");
            assert_eq!(block_on(cache.get(key)).unwrap().as_deref(), Some(&value[..]));
        }
    }
}
