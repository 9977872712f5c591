//! The operating system's clock, with timers that a loop runs.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::agenda::Agenda;
use super::{Clock, RealClock, Sleep, nanoseconds, sleeper};

/// Tells the time as [`RealClock`] does, but a loop of the caller runs the timers. So there is no timer thread, and
/// tasks are woken on the loop's own thread.
///
/// ```
/// use std::time::Duration;
/// use larder_device::{Clock, LoopClock};
///
/// let clock = LoopClock::new(std::task::Waker::noop().clone());
/// let begin = clock.monotonic();
/// let sleep = clock.sleep_until(begin + Duration::from_millis(5));
/// assert_eq!(clock.work(begin), Some(Duration::from_millis(5)), "what the loop may sleep at most");
/// assert_eq!(clock.work(begin + Duration::from_millis(5)), None, "it was woken");
/// # drop(sleep);
/// ```
pub struct LoopClock {
    agenda: Arc<Agenda>,
    waker: Waker,
}

impl LoopClock {
    /// A clock for a loop. `waker` ends the loop's current or next sleep
    /// ([`HostedRing::waker`](crate::ring::HostedRing::waker)). It is woken when a new timer is due before all others.
    pub fn new(waker: Waker) -> Self {
        Self { agenda: Arc::default(), waker }
    }

    /// Wakes all tasks that sleep until `now` ([`Clock::monotonic`]) or earlier, in the order of their times. Returns
    /// the time after which it must be called again at the latest; `None`: only when the waker was woken. The loop
    /// calls it in each turn, before it looks for woken tasks.
    pub fn work(&self, now: Duration) -> Option<Duration> {
        let now_ns = nanoseconds(now);
        while let Some((_, event)) = self.agenda.take_due(now_ns) {
            event();
        }
        let due = self.agenda.next_due_ns().map(Duration::from_nanos)?;
        Some(due.saturating_sub(now))
    }
}

impl Clock for LoopClock {
    fn now(&self) -> Duration {
        RealClock.now()
    }

    fn monotonic(&self) -> Duration {
        RealClock.monotonic()
    }

    fn sleep_until(&self, at: Duration) -> Sleep {
        let due_ns = nanoseconds(at);
        let sleep = sleeper::sleep_until(&self.agenda, due_ns);
        // Check after adding the timer: the earlier timers may have ended since, and the loop may sleep as if there
        // were none. If an earlier timer still exists, the loop will reach both.
        if self.agenda.next_due_ns() == Some(due_ns) {
            self.waker.wake_by_ref();
        }
        sleep
    }
}

impl fmt::Debug for LoopClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopClock").field("agenda", &self.agenda).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::park::block_on;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Wake};

    #[derive(Default)]
    struct CallCount(AtomicU32);

    impl Wake for CallCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A loop that waits for messages.
    struct Sends(std::sync::mpsc::Sender<()>);

    impl Wake for Sends {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }

    #[test]
    fn a_loop_is_called_only_for_what_is_due_before_all_else() {
        let calls = Arc::new(CallCount::default());
        let clock = LoopClock::new(Waker::from(Arc::clone(&calls)));
        let at = |seconds| clock.sleep_until(Duration::from_secs(seconds));
        let sleeps = [at(30), at(20), at(40), at(10)];
        assert_eq!(calls.0.load(Ordering::SeqCst), 3);
        assert_eq!(clock.work(Duration::from_secs(5)), Some(Duration::from_secs(5)));
        assert_eq!(clock.work(Duration::from_secs(25)), Some(Duration::from_secs(5)));
        let polled = sleeps.map(|mut sleep| {
            sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
        });
        assert_eq!(polled, [false, true, false, true]);
        assert_eq!(clock.work(Duration::from_secs(26)), None, "dropped sleeps leave nothing");
    }

    #[test]
    fn a_thread_that_sleeps_elsewhere_is_woken_by_the_loop() {
        let (calls, called) = std::sync::mpsc::channel();
        let clock = Arc::new(LoopClock::new(Waker::from(Arc::new(Sends(calls)))));
        let beside = Arc::clone(&clock);
        let sleeper = std::thread::spawn(move || {
            let end = beside.monotonic() + Duration::from_millis(3);
            block_on(beside.sleep_until(end));
            assert!(beside.monotonic() >= end);
        });
        while !sleeper.is_finished() {
            let wait = clock.work(clock.monotonic()).unwrap_or(Duration::from_millis(50));
            let _ = called.recv_timeout(wait);
        }
        sleeper.join().unwrap();
    }

    /// A timer may be added just when all earlier ones have ended.
    #[test]
    fn no_sleep_is_forgotten_between_two_turns_of_the_loop() {
        let (calls, called) = std::sync::mpsc::channel();
        let clock = Arc::new(LoopClock::new(Waker::from(Arc::new(Sends(calls)))));
        let sleeps = |seed: u64| {
            let clock = Arc::clone(&clock);
            let mut rng = fastrand::Rng::with_seed(seed);
            std::thread::spawn(move || {
                for _ in 0..20_000 {
                    let more = Duration::from_micros(rng.u64(..3));
                    block_on(clock.sleep_until(clock.monotonic() + more));
                }
                clock.waker.wake_by_ref();
            })
        };
        let sleepers = [1, 2, 3].map(sleeps);
        while !sleepers.iter().all(std::thread::JoinHandle::is_finished) {
            let wait = clock.work(clock.monotonic());
            let is_told = called.recv_timeout(wait.unwrap_or(Duration::from_secs(5))).is_ok();
            let all_over = || sleepers.iter().all(std::thread::JoinHandle::is_finished);
            assert!(is_told || wait.is_some() || all_over(), "a thread sleeps for ever");
        }
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    }

    #[cfg(all(target_os = "linux", not(shuttle)))]
    #[test]
    fn the_host_of_a_ring_sleeps_for_requests_and_timers_at_once() {
        let Ok(ring) = crate::ring::host() else { return println!("skipped: io_uring is refused") };
        let clock = Arc::new(LoopClock::new(ring.waker()));
        let end = clock.monotonic() + Duration::from_millis(3);
        let mut sleep = clock.sleep_until(end);
        let mut turns = 0;
        loop {
            assert!(
                clock.monotonic() < end + Duration::from_secs(5),
                "the clock did not end this sleep"
            );
            let wait = clock.work(clock.monotonic());
            if sleep.as_mut().poll(&mut Context::from_waker(&ring.waker())).is_ready() {
                break;
            }
            ring.turn(wait);
            turns += 1;
        }
        assert!(turns < 20, "{turns}: it does not sleep");
        // Another thread has the timer that is due first.
        let far = clock.sleep_until(clock.monotonic() + Duration::from_secs(10));
        let (beside, ended) = (Arc::clone(&clock), ring.waker());
        let woken = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let tells = Arc::clone(&woken);
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(2));
            block_on(beside.sleep_until(beside.monotonic() + Duration::from_millis(1)));
            tells.store(true, Ordering::SeqCst);
            ended.wake();
        });
        while !woken.load(Ordering::SeqCst) {
            let wait = clock.work(clock.monotonic());
            assert!(wait.is_some(), "it was not called until all was due");
            ring.turn(wait);
        }
        drop(far);
        other.join().unwrap();
    }
}
