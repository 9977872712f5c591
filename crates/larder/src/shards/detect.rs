//! When a shard is taken for failed: by errors, by requests that do not end, by reads that are far slower than those
//! of its peers (fail-slow: Gunawi et al., FAST'18).
//!
//! A function of what was seen and of the time that it is told.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use larder_device::{ErrorKind, RequestKind};

/// So many failed requests in a row are a device that fails; one that is gone is one at once.
const ERRORS_MAX: u32 = 3;
/// A request that takes longer has timed out.
const TIMEOUT: Duration = Duration::from_secs(1);
/// So many in a row are a device that does not answer.
const TIMEOUTS_MAX: u32 = 3;
/// What may stand for much that was written before has so many timeouts.
const TIMEOUTS_OF_OTHER: u32 = 12;
/// Reads that take so many times as long as the peers' are slow,
const SLOWER_THAN_PEERS: u32 = 20;
/// if they take longer than this.
const SLOW: Duration = Duration::from_millis(2);
/// A shard that was slow for so long has failed.
const SLOW_MAX: Duration = Duration::from_secs(2);
/// What is looked at: reads of so long,
const WINDOW: Duration = Duration::from_secs(1);
/// at most so many,
const READS_MAX: usize = 128;
/// and no fewer.
const READS_MIN: usize = 8;

/// Why a shard is suspected, or was taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Gone,
    Errors(u32),
    Unanswered(u32),
    Slow { median: Duration, peers: Duration },
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("its device is gone"),
            Self::Errors(count) => write!(f, "{count} requests in a row failed"),
            Self::Unanswered(count) => {
                write!(f, "{count} requests in a row, or one for so long, took over {TIMEOUT:?}")
            }
            Self::Slow { median, peers } => {
                write!(f, "half of its reads take over {median:?}, those of its peers {peers:?}")
            }
        }
    }
}

/// What a shard is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Well,
    Suspect(Cause),
    Failed(Cause),
}

/// What was seen of a shard's device.
#[derive(Debug, Default)]
pub(super) struct Vitals {
    is_gone: bool,
    /// In a row.
    errors: u32,
    timeouts: u32,
    /// Reads that ended: when, and how long they took.
    reads: VecDeque<(Duration, Duration)>,
    in_flight: BTreeMap<u64, (Duration, RequestKind)>,
    next: u64,
    /// When it last ended a request, well or not.
    answered: Duration,
    /// Since when its reads are slow.
    slow_since: Option<Duration>,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Well,
    Failed(ErrorKind),
    /// Nobody waits for it any more.
    GivenUp,
}

impl Vitals {
    /// A request is sent. Returns its number.
    pub(super) fn begins(&mut self, kind: RequestKind, now: Duration) -> u64 {
        self.next += 1;
        self.in_flight.insert(self.next, (now, kind));
        self.next
    }

    pub(super) fn ended(&mut self, number: u64, now: Duration, ended: Ended) {
        let Some((begun, kind)) = self.in_flight.remove(&number) else { return };
        let took = now.saturating_sub(begun);
        if ended == Ended::GivenUp {
            // It takes at least so long: that says something only if it is long.
            if kind == RequestKind::Read && took > SLOW {
                self.note_read(now, took);
            }
            return;
        }
        self.answered = self.answered.max(now);
        match ended {
            Ended::Failed(ErrorKind::Gone) => self.is_gone = true,
            // Of who sent it, or of the moment.
            Ended::Failed(ErrorKind::InvalidRequest | ErrorKind::Busy) => {}
            Ended::Failed(ErrorKind::TimedOut) => self.timeouts += 1,
            Ended::Failed(_) => self.errors += 1,
            Ended::Well | Ended::GivenUp => {
                self.errors = 0;
                self.timeouts = if took > allowance(kind) { self.timeouts + 1 } else { 0 };
                if kind == RequestKind::Read {
                    self.note_read(now, took);
                }
            }
        }
    }

    fn note_read(&mut self, now: Duration, took: Duration) {
        if self.reads.len() == READS_MAX {
            self.reads.pop_front();
        }
        self.reads.push_back((now, took));
    }

    /// Median of its latest reads, those that are under way among them if they take long; `None` if there are few.
    fn median_read(&self, now: Duration) -> Option<Duration> {
        let since = now.saturating_sub(WINDOW);
        let ended = self.reads.iter().filter(|(at, _)| *at >= since).map(|(_, took)| *took);
        let waiting = self.in_flight.values().filter(|(_, kind)| *kind == RequestKind::Read);
        let waiting = waiting.map(|(begun, _)| now.saturating_sub(*begun)).filter(|it| *it > SLOW);
        let mut all: Vec<Duration> = ended.chain(waiting).collect();
        all.sort_unstable();
        (all.len() >= READS_MIN).then(|| all[all.len() / 2])
    }

    /// For how many timeouts it has answered nothing though it should.
    fn unanswered(&self, now: Duration) -> u32 {
        let waits = self.in_flight.values().map(|(begun, kind)| {
            let silent = now.saturating_sub((*begun).max(self.answered));
            silent.as_nanos() / allowance(*kind).as_nanos()
        });
        u32::try_from(waits.max().unwrap_or(0)).unwrap_or(u32::MAX)
    }

    fn judge(&mut self, now: Duration, peers: Option<Duration>) -> Verdict {
        let slow = self.median_read(now).zip(peers).filter(|(median, peers)| {
            *median > SLOW && *median > peers.saturating_mul(SLOWER_THAN_PEERS)
        });
        self.slow_since = slow.and(self.slow_since.or(Some(now)));
        let unanswered = self.timeouts + self.unanswered(now);
        if self.is_gone {
            Verdict::Failed(Cause::Gone)
        } else if self.errors >= ERRORS_MAX {
            Verdict::Failed(Cause::Errors(self.errors))
        } else if unanswered >= TIMEOUTS_MAX {
            Verdict::Failed(Cause::Unanswered(unanswered))
        } else if let (Some((median, peers)), Some(since)) = (slow, self.slow_since) {
            let cause = Cause::Slow { median, peers };
            let is_over = now.saturating_sub(since) >= SLOW_MAX;
            if is_over { Verdict::Failed(cause) } else { Verdict::Suspect(cause) }
        } else if self.errors > 0 {
            Verdict::Suspect(Cause::Errors(self.errors))
        } else if unanswered > 0 {
            Verdict::Suspect(Cause::Unanswered(unanswered))
        } else {
            Verdict::Well
        }
    }
}

fn allowance(kind: RequestKind) -> Duration {
    match kind {
        RequestKind::Read | RequestKind::Write => TIMEOUT,
        RequestKind::Other => TIMEOUT * TIMEOUTS_OF_OTHER,
    }
}

/// What all shards are taken for at `now`, each beside the median of its peers.
pub(super) fn judge(shards: &mut [&mut Vitals], now: Duration) -> Vec<Verdict> {
    let medians: Vec<_> = shards.iter().map(|vitals| vitals.median_read(now)).collect();
    let peers_of = |of: usize| {
        let others = medians.iter().enumerate().filter(|(number, _)| *number != of);
        let mut known: Vec<Duration> = others.filter_map(|(_, median)| *median).collect();
        known.sort_unstable();
        // Of two the lower one: a slow shard must not hide another.
        known.get(known.len().saturating_sub(1) / 2).copied()
    };
    let peers: Vec<_> = (0..shards.len()).map(peers_of).collect();
    shards.iter_mut().zip(peers).map(|(vitals, peers)| vitals.judge(now, peers)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn run(vitals: &mut Vitals, at: Duration, took: Duration, ended: Ended) {
        let number = vitals.begins(RequestKind::Read, at);
        vitals.ended(number, at + took, ended);
    }

    fn verdict(vitals: &mut Vitals, now: Duration) -> Verdict {
        judge(&mut [vitals], now)[0]
    }

    #[test]
    fn errors_in_a_row_fail_it_and_one_that_ends_well_forgives() {
        let mut vitals = Vitals::default();
        let failed = Ended::Failed(ErrorKind::Io);
        for (ended, expected) in [
            (failed, Verdict::Suspect(Cause::Errors(1))),
            (failed, Verdict::Suspect(Cause::Errors(2))),
            (Ended::Well, Verdict::Well),
            (Ended::Failed(ErrorKind::Busy), Verdict::Well),
            (failed, Verdict::Suspect(Cause::Errors(1))),
            (failed, Verdict::Suspect(Cause::Errors(2))),
            (failed, Verdict::Failed(Cause::Errors(3))),
        ] {
            run(&mut vitals, ms(5), ms(1), ended);
            assert_eq!(verdict(&mut vitals, ms(10)), expected);
        }
        let mut vitals = Vitals::default();
        run(&mut vitals, ms(5), ms(1), Ended::Failed(ErrorKind::Gone));
        assert_eq!(verdict(&mut vitals, ms(10)), Verdict::Failed(Cause::Gone));
    }

    #[test]
    fn a_device_that_answers_nothing_fails_in_three_seconds() {
        let mut vitals = Vitals::default();
        let flush = vitals.begins(RequestKind::Other, ms(0));
        assert_eq!(verdict(&mut vitals, ms(11_000)), Verdict::Well, "a flush may take long");
        vitals.ended(flush, ms(11_000), Ended::Well);
        let lost = vitals.begins(RequestKind::Write, ms(11_000));
        assert_eq!(verdict(&mut vitals, ms(11_900)), Verdict::Well);
        assert!(matches!(verdict(&mut vitals, ms(12_100)), Verdict::Suspect(_)));
        // It answers others: one request may be lost.
        run(&mut vitals, ms(13_000), ms(1), Ended::Well);
        assert_eq!(verdict(&mut vitals, ms(13_900)), Verdict::Well);
        assert!(matches!(verdict(&mut vitals, ms(16_100)), Verdict::Failed(Cause::Unanswered(3))));
        vitals.ended(lost, ms(16_200), Ended::Well);
        assert!(matches!(verdict(&mut vitals, ms(16_300)), Verdict::Suspect(_)), "it took long");
        run(&mut vitals, ms(16_400), ms(1), Ended::Well);
        assert_eq!(verdict(&mut vitals, ms(16_500)), Verdict::Well);
    }

    #[test]
    fn a_shard_far_slower_than_its_peers_fails_within_five_seconds() {
        let mut all: Vec<Vitals> = (0..4).map(|_| Vitals::default()).collect();
        let mut suspected = None;
        for step in 0..5000_u64 {
            let now = ms(step);
            for (number, vitals) in all.iter_mut().enumerate() {
                let slow = number == 2 && step > 1000;
                let took = if slow { ms(10) } else { Duration::from_micros(100) };
                run(vitals, now.saturating_sub(took), took, Ended::Well);
            }
            let mut shards: Vec<&mut Vitals> = all.iter_mut().collect();
            let verdicts = judge(&mut shards, now);
            let others = [0, 1, 3].map(|number| verdicts[number]);
            assert_eq!(others, [Verdict::Well; 3]);
            match verdicts[2] {
                Verdict::Well => assert!(step < 1500, "{step}"),
                Verdict::Suspect(_) => suspected = suspected.or(Some(step)),
                Verdict::Failed(cause) => {
                    assert!(matches!(cause, Cause::Slow { .. }), "{cause}");
                    assert!(suspected.is_some_and(|at| step - at >= 2000) && step < 4000);
                    return;
                }
            }
        }
        panic!("it was never taken out");
    }

    #[test]
    fn a_set_that_is_slow_as_a_whole_stays() {
        let mut all: Vec<Vitals> = (0..3).map(|_| Vitals::default()).collect();
        for step in 0..400_u64 {
            let now = ms(10 * step);
            all.iter_mut().for_each(|it| run(it, now, ms(500), Ended::Well));
            let mut shards: Vec<&mut Vitals> = all.iter_mut().collect();
            let verdicts = judge(&mut shards, now + ms(500));
            assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Well));
        }
    }

    #[test]
    fn reads_that_nobody_waits_for_tell_if_they_took_long() {
        let mut all: Vec<Vitals> = (0..2).map(|_| Vitals::default()).collect();
        for step in 0..40_u64 {
            run(&mut all[0], ms(100 * step), ms(0), Ended::Well);
            run(&mut all[0], ms(100 * step), ms(0), Ended::Well);
            run(&mut all[1], ms(100 * step), ms(100), Ended::GivenUp);
            run(&mut all[1], ms(100 * step), ms(1), Ended::GivenUp);
        }
        let mut shards: Vec<&mut Vitals> = all.iter_mut().collect();
        let verdicts = judge(&mut shards, ms(4000));
        assert!(matches!(verdicts[1], Verdict::Suspect(Cause::Slow { .. })), "{verdicts:?}");
    }
}
