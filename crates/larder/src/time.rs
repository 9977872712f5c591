//! The cache's own time: the injected clock, but never earlier than it was.
//!
//! What has expired is forgotten, and what is forgotten needs no tombstone. So if time ran backwards,
//! a value that was deleted when it had expired would be alive again. Wall clocks do run backwards:
//! they are set. Where that happens, the difference is added to all that the clock says from then on,
//! and time goes on from where it was. The latest second is written to flash with whatever is written
//! there anyway, and the next opening begins no earlier.
//!
//! Steps forward cannot be told from time that has passed, and are believed.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use larder_device::{Clock, Sleep};

/// A clock whose seconds never decrease.
pub(crate) struct CacheClock {
    wall: Arc<dyn Clock>,
    /// How far the cache's time is ahead of the wall clock. Written under `stepping`.
    ahead_ns: AtomicU64,
    /// The latest second that was told.
    latest_s: AtomicU32,
    stepping: Mutex<()>,
}

impl CacheClock {
    pub(crate) fn new(wall: Arc<dyn Clock>) -> Self {
        let (ahead_ns, latest_s) = (AtomicU64::new(0), AtomicU32::new(0));
        Self { wall, ahead_ns, latest_s, stepping: Mutex::new(()) }
    }

    /// Now, in the cache's time.
    pub(crate) fn now(&self) -> Duration {
        let now = self.look();
        let (now_s, latest_s) = (seconds(now), self.latest_s.load(Ordering::Acquire));
        // Written once a second: whoever only asks shares the line.
        if now_s > latest_s {
            self.latest_s.fetch_max(now_s, Ordering::AcqRel);
        }
        if now_s >= latest_s { now } else { self.catch_up() }
    }

    /// Time since some moment, which nobody sets.
    pub(crate) fn monotonic(&self) -> Duration {
        self.wall.monotonic()
    }

    /// Ends when [`CacheClock::monotonic`] has come to `at`.
    pub(crate) fn sleep_until(&self, at: Duration) -> Sleep {
        self.wall.sleep_until(at)
    }

    /// Now, in whole seconds; stays at 2^32 - 1.
    pub(crate) fn now_s(&self) -> u32 {
        seconds(self.now())
    }

    /// Time goes on from this second at least: an earlier opening has seen it.
    pub(crate) fn begin_at(&self, second: u32) {
        self.latest_s.fetch_max(second, Ordering::AcqRel);
        self.now();
    }

    fn look(&self) -> Duration {
        let ahead = Duration::from_nanos(self.ahead_ns.load(Ordering::Acquire));
        self.wall.now().saturating_add(ahead)
    }

    /// The wall clock was set back, or somebody else was faster to tell the next second.
    fn catch_up(&self) -> Duration {
        let _alone = self.stepping.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = Duration::from_secs(self.latest_s.load(Ordering::Acquire).into());
        // Once more: the clock may have gone on since it was asked.
        let now = self.look();
        let behind = latest.saturating_sub(now);
        let behind_ns = u64::try_from(behind.as_nanos()).unwrap_or(u64::MAX);
        let ahead_ns = self.ahead_ns.load(Ordering::Acquire).saturating_add(behind_ns);
        self.ahead_ns.store(ahead_ns, Ordering::Release);
        // The clock may have gone on beyond what was told, and be back before the next look: what is told now counts.
        let told = now.max(latest);
        self.latest_s.fetch_max(seconds(told), Ordering::AcqRel);
        told
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

    /// A wall clock that says these seconds, one behind the other.
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
        // Behind 1000, and beyond it when it looks again; then back between the two.
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
