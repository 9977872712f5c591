//! Tests the controller against two devices in closed form: a closed network of queues, solved by mean-value analysis.

use super::*;

const WINDOW: Duration = Duration::from_millis(10);
/// One second, in windows.
const SECOND: u32 = 100;
const REQUEST_BYTES: f64 = 4096.0;

const NO_QUEUES: RoutingWindow = RoutingWindow {
    length: WINDOW,
    bytes: 0,
    cache_latency: Duration::ZERO,
    miss_percent: 0,
    core_queue: 0,
    cache_queue: 0,
};

/// A device is a delay followed by a queue: `latency + bytes / bandwidth` for a single request.
#[derive(Clone, Copy, Debug)]
struct Device {
    bytes_per_second: f64,
    latency_s: f64,
}

/// A load of `requests` concurrent requests.
#[derive(Clone, Copy, Debug)]
struct Model {
    cache: Device,
    core: Device,
    requests: u32,
    /// Shares of the requests that go to the cache device in any case (dirty hits, writes), and to the core (misses).
    bound_to_cache: f64,
    misses: f64,
}

impl Model {
    /// Requests per second, and the latency of the cache device, if `share` of the clean hits goes to the core.
    fn solve(&self, share: f64) -> (f64, f64) {
        let hits = 1.0 - self.bound_to_cache - self.misses;
        let visits = [self.bound_to_cache + hits * (1.0 - share), self.misses + hits * share];
        let devices = [self.cache, self.core];
        let service = devices.map(|it| REQUEST_BYTES / it.bytes_per_second);
        let delay: f64 = visits.iter().zip(devices).map(|(visits, it)| visits * it.latency_s).sum();
        let (mut queues, mut rate, mut residence) = ([0.0; 2], 0.0, [0.0; 2]);
        for requests in 1..=self.requests {
            residence = [0, 1].map(|at| service[at] * (1.0 + queues[at]));
            let total = delay + visits[0] * residence[0] + visits[1] * residence[1];
            rate = f64::from(requests) / total;
            queues = [0, 1].map(|at| rate * visits[at] * residence[at]);
        }
        (rate, self.cache.latency_s + residence[0])
    }

    fn classic(&self) -> f64 {
        self.solve(0.0).0
    }

    fn best(&self) -> f64 {
        (0..=100).map(|percent| self.solve(f64::from(percent) / 100.0).0).fold(0.0, f64::max)
    }

    fn calibration(&self, error: f64) -> RoutingCalibration {
        let alone = Self { requests: 1, bound_to_cache: 1.0, misses: 0.0, ..*self };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        RoutingCalibration {
            cache_bytes_per_second: self.cache.bytes_per_second as u64,
            core_bytes_per_second: (self.core.bytes_per_second * error) as u64,
            cache_latency: Duration::from_secs_f64(alone.solve(0.0).1),
        }
    }
}

struct Run {
    routing: Routing,
    rng: fastrand::Rng,
    /// The share in the previous window.
    core_permille: u16,
}

impl Run {
    fn new(model: &Model, error: f64, seed: u64) -> Self {
        Self {
            routing: Routing::new(model.calibration(error)),
            rng: fastrand::Rng::with_seed(seed),
            core_permille: 0,
        }
    }

    /// Mean requests per second over these windows; each is measured with an error of up to 2 %.
    fn go(&mut self, model: &Model, windows: u32) -> f64 {
        let mut sum = 0.0;
        for _ in 0..windows {
            // Half of the requests that end in a window began before it.
            let permille = [self.core_permille, self.routing.core_permille()];
            let after = model.solve(f64::from(permille[1]) / 1000.0);
            let is_same = permille[0] == permille[1];
            let before = if is_same { after } else { model.solve(f64::from(permille[0]) / 1000.0) };
            let (rate, latency) =
                (f64::midpoint(before.0, after.0), f64::midpoint(before.1, after.1));
            self.core_permille = permille[1];
            let mut noise = || 0.98 + 0.04 * self.rng.f64();
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let window = RoutingWindow {
                length: WINDOW,
                bytes: (rate * REQUEST_BYTES * WINDOW.as_secs_f64() * noise()) as u64,
                cache_latency: Duration::from_secs_f64(latency * noise()),
                miss_percent: (model.misses * 100.0) as u8,
                ..NO_QUEUES
            };
            self.routing.window(&window);
            sum += rate;
        }
        sum / f64::from(windows)
    }
}

/// From Optane in front of NVMe to NVMe in front of SATA.
fn model(rng: &mut fastrand::Rng, core_part: f64) -> Model {
    let cache = Device {
        bytes_per_second: 1e9 * (0.5 + 5.0 * rng.f64()),
        latency_s: 1e-6 * (5.0 + 80.0 * rng.f64()),
    };
    let core = Device {
        bytes_per_second: cache.bytes_per_second * core_part,
        latency_s: cache.latency_s * (1.0 + 4.0 * rng.f64()),
    };
    let (bound_to_cache, misses) = (0.1 * rng.f64(), 0.05 * rng.f64());
    Model { cache, core, requests: 1 << rng.u32(0..9), bound_to_cache, misses }
}

/// Parameters around those of the published systems, by seed.
fn seeds() -> std::ops::Range<u64> {
    let seeds = std::env::var("LARDER_ROUTING_SEEDS").ok().and_then(|it| it.parse().ok());
    0..seeds.unwrap_or(30)
}

fn error_of(rng: &mut fastrand::Rng) -> f64 {
    0.5 * 4f64.powf(rng.f64())
}

#[test]
fn a_saturated_cache_gains_what_the_core_has() {
    for seed in seeds() {
        let mut rng = fastrand::Rng::with_seed(seed);
        let core_part = 0.4 + 0.8 * rng.f64();
        let mut model = model(&mut rng, core_part);
        // Deep enough to keep both devices busy, and all requests may be routed.
        let alone = model.core.latency_s.max(model.cache.latency_s);
        let depth = 12.0 * alone * model.cache.bytes_per_second / REQUEST_BYTES;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let depth = depth as u32;
        model =
            Model { requests: depth.clamp(64, 4096), bound_to_cache: 0.0, misses: 0.0, ..model };
        let mut run = Run::new(&model, error_of(&mut rng), seed);
        run.go(&model, SECOND);
        let (rate, best, classic) = (run.go(&model, SECOND), model.best(), model.classic());
        assert_eq!(run.routing.state(), RoutingState::Saturated, "{seed}: {model:?}");
        assert!(
            rate >= 1.3 * classic,
            "{seed}: {} x classic, best {}",
            rate / classic,
            best / classic
        );
        assert!(rate >= 0.95 * best, "{seed}: {} x best", rate / best);
    }
}

#[test]
fn whatever_the_devices_and_the_load_it_is_never_worse() {
    for seed in seeds() {
        let mut rng = fastrand::Rng::with_seed(seed);
        let core_part = 0.01 * 120f64.powf(rng.f64());
        let model = model(&mut rng, core_part);
        let mut run = Run::new(&model, error_of(&mut rng), seed);
        let (classic, best) = (model.classic(), model.best());
        let first = run.go(&model, SECOND);
        assert!(
            first >= 0.975 * classic,
            "{seed}: {} x classic in the first second {model:?}",
            first / classic
        );
        for second in 1..6 {
            let rate = run.go(&model, SECOND);
            assert!(
                rate >= 0.97 * classic,
                "{seed}, {second}: {} x classic {model:?}",
                rate / classic
            );
            assert!(rate >= 0.85 * best, "{seed}, {second}: {} x best {model:?}", rate / best);
        }
    }
}

#[test]
fn a_second_after_a_change_it_is_there_again() {
    for seed in seeds() {
        let mut rng = fastrand::Rng::with_seed(seed);
        let core_part = 0.4 + 0.6 * rng.f64();
        let deep = Model { requests: 256, ..model(&mut rng, core_part) };
        let slow = Device { bytes_per_second: deep.core.bytes_per_second / 4.0, ..deep.core };
        let mut run = Run::new(&deep, 1.0, seed);
        let few = |requests| Model { requests, ..deep };
        let other = [few(2), deep, few(8), deep, Model { core: slow, ..deep }, deep];
        for (at, model) in std::iter::once(deep).chain(other).enumerate() {
            run.go(&model, SECOND);
            let (rate, best, classic) = (run.go(&model, SECOND), model.best(), model.classic());
            assert!(rate >= 0.97 * classic, "{seed}, {at}: {} x classic {model:?}", rate / classic);
            assert!(rate >= 0.85 * best, "{seed}, {at}: {} x best {model:?}", rate / best);
        }
    }
}

#[test]
fn a_share_that_is_much_too_large_since_the_load_has_changed_is_left_by_wide_steps() {
    let mut climb = Climb::new(81, 1_000_000, 0);
    let mut share = 81;
    let mut go = |windows: u32, rate_of: &dyn Fn(u64) -> u64| {
        for _ in 0..windows {
            let bytes = rate_of(u64::from(share)) / u64::from(SECOND);
            let cache_latency = Duration::from_millis(1);
            let window = RoutingWindow { length: WINDOW, bytes, cache_latency, ..NO_QUEUES };
            let Next::Share(next) = climb.window(&window, WINDOW / 1000) else { break };
            share = next;
        }
        share
    };
    go(4 * SECOND, &|share| 1_000_000 - share.abs_diff(81) * 4000);
    // The smallest step, two thousandths, gains less than one hundredth.
    let left = go(SECOND, &|share| 400_000 + 200_u64.saturating_sub(share) * 1500);
    assert!(left < 40, "{left}");
}

#[test]
fn a_share_that_writes_to_the_core_leave_no_room_for_is_given_up() {
    for (core_queue, is_left) in [(5000, true), (0, false)] {
        let mut climb = Climb::new(60, 1_000_000, 0);
        let mut share = Some(60);
        let mut go = |core_queue, rate_of: &dyn Fn(u64) -> u64| {
            for _ in 0..2 * SECOND {
                let Some(at) = share else { break };
                let (bytes, cache_latency) =
                    (rate_of(at) / u64::from(SECOND), Duration::from_millis(1));
                let queues = RoutingWindow { core_queue, cache_queue: 1000, ..NO_QUEUES };
                let window = RoutingWindow { bytes, cache_latency, ..queues };
                share = match climb.window(&window, WINDOW / 1000) {
                    Next::Share(next) => Some(u64::from(next)),
                    Next::NoGain | Next::OtherLoad => None,
                };
            }
            share
        };
        // At rest; then each smallest step costs a fifth of a hundredth.
        assert!(go(0, &|_| 1_000_000).is_some());
        let share = go(core_queue, &|share| 1_000_000 - share * 1000);
        assert_eq!(share.is_none(), is_left, "{core_queue}: {share:?}");
    }
}

#[test]
fn a_share_in_the_way_of_writes_is_left_soon_though_windows_differ_by_more_than_a_step() {
    const RUNS: u64 = 300;
    let mut windows = 0;
    for seed in 0..RUNS {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut climb = Climb::new(120, 1_000_000, 0);
        let mut share = 120;
        for _ in 0..SECOND {
            // The core has a fifth of the speed of the cache device: a fraction of all requests already keeps it busy.
            let rate = (660_000.0 - 600.0 * f64::from(share)) * (0.85 + 0.3 * rng.f64());
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let bytes = rate as u64 / u64::from(SECOND);
            let cache_latency = Duration::from_millis(1);
            let queues = RoutingWindow { core_queue: 3300, cache_queue: 900, ..NO_QUEUES };
            let window = RoutingWindow { bytes, cache_latency, ..queues };
            match climb.window(&window, WINDOW / 1000) {
                Next::Share(next) => share = next,
                Next::NoGain | Next::OtherLoad => break,
            }
            windows += 1;
        }
    }
    assert!(windows <= 12 * RUNS, "{windows} windows in {RUNS} runs");
}

#[test]
fn a_large_share_is_not_given_up_for_the_queue_that_it_makes() {
    let mut climb = Climb::new(400, 1_000_000, 0);
    let mut share = 400;
    for _ in 0..SECOND {
        let bytes = (1_000_000 - u64::abs_diff(share, 400) * 300) / u64::from(SECOND);
        let queues = RoutingWindow { core_queue: 3300, cache_queue: 900, ..NO_QUEUES };
        let window = RoutingWindow { bytes, cache_latency: Duration::from_millis(1), ..queues };
        let Next::Share(next) = climb.window(&window, WINDOW / 1000) else { break };
        share = u64::from(next);
        assert!(share >= 280, "{share}");
    }
}

/// A window without queues of cores, with this latency.
fn plain(bytes: u64, latency_us: u64) -> RoutingWindow {
    RoutingWindow { bytes, cache_latency: Duration::from_micros(latency_us), ..NO_QUEUES }
}

const KNOWN: RoutingCalibration = RoutingCalibration {
    cache_bytes_per_second: 400_000_000,
    core_bytes_per_second: 200_000_000,
    cache_latency: Duration::from_micros(100),
};

#[test]
fn queues_and_a_gain_are_what_a_share_is_tried_and_kept_for() {
    let state = |latency_us, trial_bytes| {
        let mut routing = Routing::new(KNOWN);
        let begun = (0..STABLE + 5).any(|_| {
            routing.window(&plain(1_000_000, latency_us));
            routing.state() == RoutingState::Pressure
        });
        (0..=Trial::COUNTED).for_each(|_| routing.window(&plain(trial_bytes, latency_us)));
        (begun, routing.state())
    };
    assert_eq!(state(149, 1_040_000), (false, RoutingState::Absorb));
    assert_eq!(state(150, 1_040_000), (true, RoutingState::Saturated));
    assert_eq!(state(150, 1_020_000), (true, RoutingState::Pressure), "noise is no gain");
}

#[test]
fn a_share_stays_until_load_and_queues_are_gone_for_two_windows() {
    let next = |windows: &[RoutingWindow]| {
        let mut climb = Climb::new(200, 100_000_000, 0);
        // No step helps, so the best share is measured again.
        let mut share = Next::Share(0);
        for _ in 0..SECOND {
            let bytes = if share == Next::Share(200) { 1_000_000 } else { 800_000 };
            share = climb.window(&plain(bytes, 300), Duration::from_micros(100));
            if climb.rate.is_none() {
                break;
            }
        }
        assert!(climb.rate.is_none(), "{climb:?}");
        let mut go = |window| climb.window(window, Duration::from_micros(100));
        windows.iter().map(&mut go).last().unwrap() == Next::OtherLoad
    };
    let (gone, less, short) = (plain(500_000, 110), plain(500_000, 130), plain(900_000, 110));
    assert!(next(&[gone, gone]));
    for stays in [&[gone][..], &[gone, less], &[less, gone], &[less, less], &[short, short]] {
        assert!(!next(stays), "{stays:?}");
    }
}

#[test]
fn a_light_load_is_left_to_the_cache() {
    let mut rng = fastrand::Rng::with_seed(1);
    let model = Model { requests: 1, ..model(&mut rng, 1.0) };
    let mut run = Run::new(&model, 1.0, 1);
    for _ in 0..500 {
        run.go(&model, 1);
        assert_eq!((run.routing.state(), run.routing.core_permille()), (RoutingState::Absorb, 0));
        assert!(run.routing.admits());
    }
}

#[test]
fn a_core_that_adds_nothing_is_not_even_tried() {
    let mut rng = fastrand::Rng::with_seed(1);
    let cache = model(&mut rng, 1.0);
    let disk = Device { bytes_per_second: cache.cache.bytes_per_second / 100.0, latency_s: 0.005 };
    let model = Model { core: disk, requests: 256, misses: 0.0, ..cache };
    let mut run = Run::new(&model, 1.0, 1);
    for _ in 0..500 {
        run.go(&model, 1);
        assert_eq!(run.routing.state(), RoutingState::Absorb);
    }
}

#[test]
fn a_core_for_which_writes_wait_gets_no_hits_too() {
    let known = RoutingCalibration {
        cache_bytes_per_second: 400_000_000,
        core_bytes_per_second: 200_000_000,
        cache_latency: Duration::from_micros(80),
    };
    for (core_queue, expected) in [(3300, RoutingState::Absorb), (3100, RoutingState::Pressure)] {
        let mut routing = Routing::new(known);
        let window = RoutingWindow {
            bytes: 1 << 20,
            cache_latency: Duration::from_micros(300),
            core_queue,
            cache_queue: 3200,
            ..NO_QUEUES
        };
        (0..STABLE + 5).for_each(|_| routing.window(&window));
        assert_eq!(routing.state(), expected, "{core_queue}");
    }
}

#[test]
fn other_data_are_taken_in_again() {
    let mut rng = fastrand::Rng::with_seed(1);
    let hits = Model { requests: 256, misses: 0.02, ..model(&mut rng, 0.8) };
    let mut run = Run::new(&hits, 1.0, 1);
    run.go(&hits, SECOND);
    assert!(!run.routing.admits());
    for percent in (4..=30).rev().step_by(2) {
        run.go(&Model { misses: f64::from(percent) / 100.0, ..hits }, 5);
        assert!(run.routing.admits(), "at {percent} % misses there is still something to take in");
    }
    run.go(&Model { misses: 0.04, ..hits }, SECOND / 2);
    assert!(!run.routing.admits());
}

#[test]
fn requests_go_to_the_core_by_the_share_and_in_runs() {
    for permille in [0, 10, 285, 500, 999, 1000] {
        let mut split = RequestSplitter::new(permille);
        let taken: Vec<bool> = (0..10_000).map(|_| split.goes_to_core()).collect();
        let count = taken.iter().filter(|it| **it).count();
        assert!(count.abs_diff(usize::from(permille) * 10) <= 8, "{permille}: {count}");
        let runs = taken.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        assert!(runs * 4 <= count + 4, "{permille}: {runs} runs");
    }
}

#[test]
fn no_measurement_makes_it_panic() {
    for seed in 0..50 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let number =
            |rng: &mut fastrand::Rng| [0, 1, rng.u64(..1 << 40), u64::MAX][rng.usize(0..4)];
        let duration = |rng: &mut fastrand::Rng| {
            [Duration::from_nanos(number(rng)), Duration::MAX][rng.usize(0..2)]
        };
        let mut routing = Routing::new(RoutingCalibration {
            cache_bytes_per_second: number(&mut rng),
            core_bytes_per_second: number(&mut rng),
            cache_latency: duration(&mut rng),
        });
        for _ in 0..2000 {
            routing.window(&RoutingWindow {
                length: duration(&mut rng),
                bytes: number(&mut rng),
                cache_latency: duration(&mut rng),
                miss_percent: rng.u8(0..4),
                core_queue: rng.u32(..),
                cache_queue: rng.u32(..),
            });
            assert!(routing.core_permille() <= 1000);
            routing.goes_to_core();
        }
    }
}
