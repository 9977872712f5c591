//! The cache's own time: the injected clock, made monotonic.
//!
//! The cache forgets expired values without a tombstone. So if time ran backwards, a value that was deleted after it
//! had expired would be alive again. Wall clocks do run backwards when they are set. Then the cache's time continues
//! from where it was: the difference is added to all later readings of the wall clock. The latest second is written
//! to flash with other metadata, and the next opening begins no earlier.
//!
//! A step forward cannot be told from time that has passed, and is believed unless it is longer than [`STEP_MAX_S`].
//! A clock that says the year 2150 is wrong, and the cache's seconds end in 2106. In that case too, the cache's time
//! continues from where it was.
//!
//! So the cache's time may differ from the wall clock. Points in time that users pass in or get back are wall-clock
//! times: [`Moment`] knows both.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use larder_device::{Clock, Sleep};

/// Ten years; a host does not sleep that long.
const STEP_MAX_S: u32 = 10 * 365 * 86_400;
/// A clock whose first reading is later than this is wrong. The rest leaves room for lifetimes of ten years.
const FIRST_MAX_S: u32 = u32::MAX - 2 * STEP_MAX_S;

/// A clock whose seconds never decrease.
pub(crate) struct CacheClock {
    wall: Arc<dyn Clock>,
    /// How far the cache's time is ahead of the wall clock; negative if it is behind. Written under `stepping`.
    ahead_ns: AtomicI64,
    /// The latest second that was returned; 0 before the first.
    latest_s: AtomicU32,
    stepping: Mutex<()>,
}

/// Tells the current second of the cache's time to those that need it: reading a clock costs as much as a look-up.
pub(crate) trait Seconds {
    /// The current time in whole seconds.
    fn now_s(&self) -> u32;
}

impl Seconds for CacheClock {
    fn now_s(&self) -> u32 {
        Self::now_s(self)
    }
}

/// A second that is known already.
impl Seconds for u32 {
    fn now_s(&self) -> u32 {
        *self
    }
}

/// A moment by both clocks. Values expire by the cache's time ([`Larder::now`](crate::Larder::now)), which never runs
/// backwards. Points in time that users name are wall-clock times, which run backwards when the clock is set.
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use larder::{Larder, block_on};
/// # use larder_device::VirtualClock;
/// let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(5000)));
/// let cache = block_on(Larder::open(Default::default(), None, clock.clone()))?;
/// assert_eq!(cache.moment().wall(), cache.now());
/// clock.set(Duration::from_secs(1400));
/// let moment = cache.moment();
/// assert_eq!((moment.now().as_secs(), moment.wall().as_secs()), (5000, 1400));
/// let end = moment.now() + Duration::from_secs(60);
/// assert_eq!(moment.wall_time_of(end).as_secs(), 1460);
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    now: Duration,
    /// How far the cache's time is ahead of the wall clock.
    ahead_ns: i64,
}

impl Moment {
    /// The cache's time.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// The wall-clock time, since the Unix epoch.
    pub fn wall(&self) -> Duration {
        self.wall_time_of(self.now)
    }

    /// Converts `at` from the cache's time, as in [`ValueMeta::expires_at`](crate::ValueMeta::expires_at), to
    /// wall-clock time.
    pub fn wall_time_of(&self, at: Duration) -> Duration {
        moved(at, self.ahead_ns.saturating_neg())
    }
}

impl CacheClock {
    pub(crate) fn new(wall: Arc<dyn Clock>) -> Self {
        let (ahead_ns, latest_s) = (AtomicI64::new(0), AtomicU32::new(0));
        Self { wall, ahead_ns, latest_s, stepping: Mutex::new(()) }
    }

    /// Now, in the cache's time.
    pub(crate) fn now(&self) -> Duration {
        let now = self.look();
        let (now_s, latest_s) = (seconds(now), self.latest_s.load(Ordering::Acquire));
        if !follows(now_s, latest_s) {
            return self.step();
        }
        // Written once a second; otherwise threads only read and share the cache line.
        if now_s > latest_s {
            self.latest_s.fetch_max(now_s, Ordering::AcqRel);
        }
        now
    }

    /// The current time, by the cache's clock and by the wall clock.
    pub(crate) fn moment(&self) -> Moment {
        let now = self.now();
        Moment { now, ahead_ns: self.ahead_ns.load(Ordering::Acquire) }
    }

    /// Time since a fixed but unspecified moment; setting the wall clock does not change it.
    pub(crate) fn monotonic(&self) -> Duration {
        self.wall.monotonic()
    }

    /// Completes when [`CacheClock::monotonic`] reaches `at`.
    pub(crate) fn sleep_until(&self, at: Duration) -> Sleep {
        self.wall.sleep_until(at)
    }

    /// The current time in whole seconds; stays at 2^32 - 1.
    pub(crate) fn now_s(&self) -> u32 {
        seconds(self.now())
    }

    /// The current time in whole milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.now().as_millis()).unwrap_or(u64::MAX)
    }

    /// Makes time continue from this second at least, because an earlier opening has reached it.
    pub(crate) fn begin_at(&self, second: u32) {
        self.latest_s.fetch_max(second, Ordering::AcqRel);
        self.now();
    }

    fn look(&self) -> Duration {
        moved(self.wall.now(), self.ahead_ns.load(Ordering::Acquire))
    }

    /// Called if the wall clock was set, or if another thread was first to return the next second.
    fn step(&self) -> Duration {
        let _alone = self.stepping.lock().unwrap_or_else(PoisonError::into_inner);
        let latest_s = self.latest_s.load(Ordering::Acquire);
        // Read the clock again: it may have moved since.
        let wall = self.wall.now();
        let now = moved(wall, self.ahead_ns.load(Ordering::Acquire));
        let told = if follows(seconds(now), latest_s) {
            now
        } else {
            // At least 1, because 0 means that no second was returned yet.
            let ahead_ns = difference_ns(wall, Duration::from_secs(latest_s.max(1).into()));
            self.ahead_ns.store(ahead_ns, Ordering::Release);
            moved(wall, ahead_ns)
        };
        // The wall clock may have passed this value and go back before the next reading: record what is returned now.
        self.latest_s.fetch_max(seconds(told), Ordering::AcqRel);
        told
    }
}

/// `time` plus `by_ns` nanoseconds, which may be negative.
fn moved(time: Duration, by_ns: i64) -> Duration {
    let difference = Duration::from_nanos(by_ns.unsigned_abs());
    if by_ns < 0 { time.saturating_sub(difference) } else { time.saturating_add(difference) }
}

/// Whether a second may follow the latest one that was returned.
fn follows(now_s: u32, latest_s: u32) -> bool {
    match latest_s {
        0 => now_s <= FIRST_MAX_S,
        _ => now_s >= latest_s && now_s - latest_s <= STEP_MAX_S,
    }
}

/// The difference between two times, possibly rounded up: in nanoseconds, but in whole milliseconds, so that the
/// milliseconds of both clocks change together. At most 292 years.
fn difference_ns(from: Duration, to: Duration) -> i64 {
    const MILLI_NS: u128 = 1_000_000;
    let ns = |ms: u128| i64::try_from(ms * MILLI_NS).unwrap_or(i64::MAX);
    match to.checked_sub(from) {
        Some(later) => ns(later.as_nanos().div_ceil(MILLI_NS)),
        None => -ns((from - to).as_millis()),
    }
}

fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_device::VirtualClock;

    fn at(seconds: u64) -> (Arc<VirtualClock>, CacheClock) {
        let wall = Arc::new(VirtualClock::starting_at(Duration::from_secs(seconds)));
        (Arc::clone(&wall), CacheClock::new(wall))
    }

    #[test]
    fn a_step_back_costs_no_second_and_time_goes_on() {
        let (wall, clock) = at(1000);
        assert_eq!(clock.now_s(), 1000);
        wall.set(Duration::from_secs(910));
        assert_eq!(clock.now_s(), 1000);
        wall.set(Duration::from_secs(915));
        assert_eq!(clock.now_s(), 1005, "it does not stand still for 90 s");
        wall.set(Duration::from_secs(5));
        assert_eq!(clock.now_s(), 1005);
        wall.set(Duration::from_secs(2000));
        assert_eq!(clock.now_s(), 3000, "what went forward is believed");
    }

    #[test]
    fn it_begins_where_an_earlier_life_ended() {
        let (wall, clock) = at(100);
        clock.begin_at(500);
        assert_eq!(clock.now_s(), 500);
        wall.set(Duration::from_secs(101));
        assert_eq!(clock.now_s(), 501);
        clock.begin_at(400);
        assert_eq!(clock.now_s(), 501);
    }

    #[test]
    fn a_year_that_cannot_be_costs_nothing_when_the_clock_is_set_back() {
        for wrong in
            [1_800_000_000 + u64::from(STEP_MAX_S) + 1, 5_000_000_000, u64::MAX / 2_000_000_000]
        {
            let (wall, clock) = at(1_800_000_000);
            assert_eq!(clock.now_s(), 1_800_000_000);
            wall.set(Duration::from_secs(wrong));
            assert_eq!(clock.now_s(), 1_800_000_000, "{wrong}");
            wall.set(Duration::from_secs(wrong + 7));
            assert_eq!(clock.now_s(), 1_800_000_007, "time goes on");
            wall.set(Duration::from_secs(1_800_000_010));
            assert_eq!(clock.now_s(), 1_800_000_007);
            wall.set(Duration::from_secs(1_800_000_011));
            assert_eq!(clock.now_s(), 1_800_000_008);
        }
        // Also if the clock is wrong from the start.
        let (wall, clock) = at(5_000_000_000);
        assert_eq!(clock.now_s(), 1);
        wall.set(Duration::from_secs(1_800_000_000));
        assert_eq!(clock.now_s(), 1);
        clock.begin_at(1_700_000_000);
        assert_eq!(clock.now_s(), 1_700_000_000);
    }

    #[test]
    fn points_in_time_are_of_the_wall_clock() {
        let (wall, clock) = at(10_000);
        assert_eq!(clock.now_s(), 10_000);
        wall.set(Duration::from_secs(13_600));
        assert_eq!(clock.now_s(), 13_600);
        wall.set(Duration::from_secs(10_001));
        let moment = clock.moment();
        assert_eq!((moment.now().as_secs(), moment.wall().as_secs()), (13_600, 10_001));
        let of = |at: u64| moment.wall_time_of(Duration::from_secs(at)).as_secs();
        assert_eq!((of(13_700), of(13_600), of(13_000), of(0)), (10_101, 10_001, 9_401, 0));
    }

    /// A wall clock that returns these seconds in turn.
    struct Says(Mutex<std::vec::IntoIter<u64>>);

    impl Clock for Says {
        fn now(&self) -> Duration {
            Duration::from_secs(self.0.lock().unwrap().next().unwrap())
        }

        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }
    }

    #[test]
    fn a_second_that_was_told_while_it_caught_up_counts() {
        // Before 1000, then beyond it on the second reading; then between the two.
        let wall = Says(Mutex::new(vec![1000, 999, 1005, 1003, 1003].into_iter()));
        let clock = CacheClock::new(Arc::new(wall));
        assert_eq!([clock.now_s(), clock.now_s(), clock.now_s()], [1000, 1005, 1005]);
    }

    #[test]
    fn many_threads_see_no_second_twice_in_the_wrong_order() {
        let (wall, clock) = at(1000);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for second in (0..2000_u64).map(|n| 1000 + n / 2 - n % 7) {
                    wall.set(Duration::from_secs(second));
                }
            });
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut latest = 0;
                    for _ in 0..2000 {
                        let now_s = clock.now_s();
                        assert!(now_s >= latest, "{now_s} after {latest}");
                        latest = now_s;
                    }
                });
            }
        });
    }
}
