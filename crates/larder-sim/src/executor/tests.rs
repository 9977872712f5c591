//! The order of tasks, and the real cache under the executor.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::Poll;

use larder::config::Demotions;
use larder::{Config, CrashSafety, Larder};
use larder_device::model::virtual_time::{SsdTiming, VirtualTimeDevice};
use larder_device::{Device, Payload, block_on};
use larder_ssd::managed::{Geometry, ManagedConfig};
use larder_ssd::timed;

use super::*;

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

#[test]
fn tasks_go_on_in_the_order_of_time_and_then_as_they_were_woken() {
    let clock = Arc::new(VirtualClock::default());
    let seen = RefCell::new(Vec::new());
    let mut executor = Executor::new(Arc::clone(&clock));
    for (number, at) in [(0, 30), (1, 10), (2, 30), (3, 0), (4, 10)] {
        let (clock, seen) = (&clock, &seen);
        executor.spawn(async move {
            clock.sleep_until(us(at)).await;
            seen.borrow_mut().push((clock.now(), number));
        });
    }
    executor.run().unwrap();
    let wanted = [(0, 3), (10, 1), (10, 4), (30, 0), (30, 2)].map(|(at, n)| (us(at), n));
    assert_eq!(*seen.borrow(), wanted);
    assert_eq!(executor.running(), 0);
}

#[test]
fn the_error_about_tasks_that_never_wake_gives_their_number() {
    let clock = Arc::new(VirtualClock::default());
    let mut executor = Executor::new(Arc::clone(&clock));
    executor.spawn(clock.sleep_until(us(7)));
    (0..3).for_each(|_| executor.spawn(std::future::pending()));
    executor.spawn_background(std::future::pending());
    let stalled = executor.run().unwrap_err();
    assert_eq!(stalled, Stalled { waiting: 3, in_background: 1, at: us(7) });
    let told = stalled.to_string();
    assert!(told.starts_with("3 tasks wait, and 1 in the background"), "{told}");
    // A sleep until the end of time is not an event.
    let mut executor = Executor::new(Arc::clone(&clock));
    executor.spawn(clock.sleep_until(Duration::MAX));
    assert_eq!(executor.run().unwrap_err().waiting, 1);
    assert_eq!(clock.now(), us(7));
}

#[test]
fn a_run_does_not_wait_for_background_tasks() {
    let clock = Arc::new(VirtualClock::default());
    let turns = RefCell::new(0);
    let mut executor = Executor::new(Arc::clone(&clock));
    executor.spawn_background(async {
        loop {
            *turns.borrow_mut() += 1;
            clock.sleep_until(clock.now() + us(10)).await;
        }
    });
    executor.spawn(clock.sleep_until(us(35)));
    executor.run().unwrap();
    assert_eq!((*turns.borrow(), clock.now()), (4, us(35)));
    executor.spawn(clock.sleep_until(us(55)));
    executor.run().unwrap();
    assert_eq!((*turns.borrow(), executor.running()), (6, 1));
}

#[test]
fn a_task_may_wake_itself_and_lets_others_go_first() {
    let seen = RefCell::new(Vec::new());
    let mut executor = Executor::new(Arc::default());
    for number in 0..2 {
        let (seen, mut turn) = (&seen, 0);
        executor.spawn(std::future::poll_fn(move |context| {
            seen.borrow_mut().push((turn, number));
            turn += 1;
            context.waker().wake_by_ref();
            if turn < 3 { Poll::Pending } else { Poll::Ready(()) }
        }));
    }
    executor.run().unwrap();
    drop(executor);
    assert_eq!(seen.into_inner(), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]);
}

/// The real cache on the timed SSD, with a thousand clients: returns the end and result of each call, and all counters.
fn play(seed: u64) -> (String, String) {
    let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(1)));
    let geometry = Geometry { logical_pages: 19_200, pages_per_unit: 192, units: 120 };
    let model = SsdTiming::new(ManagedConfig::new(geometry), timed::small()).unwrap();
    let device = VirtualTimeDevice::new(model, Payload::Memory, Arc::clone(&clock)).unwrap();
    let device: Arc<dyn Device> = Arc::new(device);
    let config = Config {
        dram_bytes: 256 << 10,
        demotions: Demotions::Callers,
        crash_safety: CrashSafety::Process,
        seed,
        hash_seed: Some(seed),
        ..Config::default()
    };
    let opening = Larder::open(config, Some(Arc::clone(&device)), Arc::clone(&clock) as _);
    let cache = block_on(opening).unwrap();
    let trace = Rc::new(RefCell::new(String::new()));
    let mut executor = Executor::new(Arc::clone(&clock));
    executor.spawn_background(cache.send_demotions());
    for client in 0..1000_u64 {
        let (cache, clock, trace) = (&cache, &clock, Rc::clone(&trace));
        executor.spawn(async move {
            let mut rng = fastrand::Rng::with_seed(seed ^ client << 32);
            for _ in 0..30 {
                clock.sleep_until(clock.now() + Duration::from_nanos(rng.u64(..5_000_000))).await;
                let key = rng.u64(..4000).to_le_bytes();
                let bytes = [100, 100, 100, 5000][rng.usize(..4)];
                let said = match rng.u32(..4) {
                    0 => u64::from(cache.set(&key, &vec![rng.u8(..); bytes], None).await.is_ok()),
                    1 => u64::from(cache.delete(&key).await.unwrap()),
                    _ => cache.get(&key).await.unwrap().map_or(2, |value| 3 + u64::from(value[0])),
                };
                let now = clock.now().as_nanos();
                trace.borrow_mut().push_str(&format!("{now} {client} {said}\n"));
            }
        });
    }
    executor.run().unwrap();
    drop(executor);
    let closed = block_on(cache.close()).unwrap();
    (trace.take(), format!("{closed:?} {:?}", device.stats()))
}

#[test]
fn the_real_cache_runs_the_same_each_time_to_the_byte() {
    let (trace, counters) = play(3);
    assert_eq!(trace.lines().count(), 30_000);
    let (again, counters_again) = play(3);
    assert!(trace == again, "traces differ");
    assert_eq!(counters, counters_again);
    assert!(trace != play(4).0);
}
