//! Detects failed shards: by errors, by requests that do not end, and by reads that are far slower than those of the
//! peers (fail-slow: Gunawi et al., FAST'18).
//!
//! A pause of the host, or a time in which no shard answers, is no evidence against a shard: such time is subtracted
//! from requests that were in flight.
//!
//! The result depends only on the observations and on the time passed in.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use larder_device::{ErrorKind, RequestKind};

/// This number of failed requests in a row means a failed device; a device that is gone has failed at once.
const ERRORS_MAX: u32 = 3;
/// A request that takes longer has timed out.
const TIMEOUT: Duration = Duration::from_secs(1);
/// This number of timeouts in a row means that the device does not answer.
const TIMEOUTS_MAX: u32 = 3;
/// Requests of other kinds, which may cover many earlier writes (a flush), may take this number of timeouts.
const TIMEOUTS_OF_OTHER: u32 = 12;
/// Reads are slow if they take this number of times as long as the peers',
pub(super) const SLOWER_THAN_PEERS: u32 = 20;
/// and longer than this.
pub(super) const SLOW: Duration = Duration::from_millis(2);
/// A shard that was slow for this long has failed.
const SLOW_MAX: Duration = Duration::from_secs(2);
/// Window of reads for the comparison:
const WINDOW: Duration = Duration::from_secs(1);
/// maximum number of reads,
const READS_MAX: usize = 128;
/// minimum number of reads.
const READS_MIN: usize = 8;

/// Why a shard is suspected, or was taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Gone,
    Errors(u32),
    Unanswered(u32),
    Slow {
        median: Duration,
        peers: Duration,
    },
    /// No other shard answers either.
    AllSilent,
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
            Self::AllSilent => {
                f.write_str("it answers nothing, but no other shard does: it may be the host")
            }
        }
    }
}

/// The judgement about a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Well,
    Suspect(Cause),
    Failed(Cause),
}

/// Observations of a shard's device.
#[derive(Debug, Default)]
pub(super) struct Vitals {
    is_gone: bool,
    /// Errors in a row.
    errors: u32,
    timeouts: u32,
    /// Completed reads: the time of completion and the latency.
    reads: VecDeque<(Duration, Duration)>,
    in_flight: BTreeMap<u64, Flight>,
    next: u64,
    /// When it last completed a request, successfully or not.
    answered: Duration,
    /// Time of the last timeout: requests that were in flight together with it do not count as further timeouts.
    timed_out: Duration,
    /// Since when its reads are slow.
    slow_since: Option<Duration>,
}

/// A request in flight.
#[derive(Debug, Clone, Copy)]
struct Flight {
    begun: Duration,
    kind: RequestKind,
    /// Time in which the host slept, or no device answered, while it was in flight.
    excused: Duration,
}

impl Flight {
    fn took(self, now: Duration) -> Duration {
        now.saturating_sub(self.begun).saturating_sub(self.excused)
    }
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestEnd {
    Well,
    Failed(ErrorKind),
    /// The caller does not wait for it any more.
    GivenUp,
}

impl Vitals {
    /// Records a new request. Returns its number.
    pub(super) fn begins(&mut self, kind: RequestKind, now: Duration) -> u64 {
        self.next += 1;
        self.in_flight.insert(self.next, Flight { begun: now, kind, excused: Duration::ZERO });
        self.next
    }

    pub(super) fn ended(&mut self, number: u64, now: Duration, ended: RequestEnd) {
        let Some(flight) = self.in_flight.remove(&number) else { return };
        let (kind, took) = (flight.kind, flight.took(now));
        if ended == RequestEnd::GivenUp {
            // Its latency is at least this: only a long one says something.
            if kind == RequestKind::Read && took > SLOW {
                self.note_read(now, took);
            }
            return;
        }
        self.answered = self.answered.max(now);
        match ended {
            RequestEnd::Failed(ErrorKind::Gone) => self.is_gone = true,
            // The fault of the caller, or a temporary state.
            RequestEnd::Failed(ErrorKind::InvalidRequest | ErrorKind::Busy) => {}
            // The host slept for most of its time.
            RequestEnd::Failed(ErrorKind::TimedOut) if flight.excused > took => {}
            RequestEnd::Failed(ErrorKind::TimedOut) => self.note_timeout(flight, now),
            RequestEnd::Failed(_) => self.errors += 1,
            RequestEnd::Well | RequestEnd::GivenUp => {
                self.errors = 0;
                if took > allowance(kind) {
                    self.note_timeout(flight, now);
                } else {
                    self.timeouts = 0;
                }
                if kind == RequestKind::Read {
                    self.note_read(now, took);
                }
            }
        }
    }

    /// Requests in flight together count as one timeout: a device that stalled once has not failed.
    fn note_timeout(&mut self, flight: Flight, now: Duration) {
        if flight.begun >= self.timed_out {
            self.timeouts += 1;
            self.timed_out = now;
        }
    }

    /// Subtracts `time`, in which the host slept or none of its devices answered, from this device's requests.
    pub(super) fn excuse(&mut self, time: Duration) {
        self.in_flight.values_mut().for_each(|flight| flight.excused += time);
        self.slow_since = None;
    }

    /// The host has slept: discards timeouts and latencies, which may be caused by that.
    pub(super) fn host_slept(&mut self, time: Duration) {
        self.excuse(time);
        (self.timeouts, self.timed_out) = (0, Duration::ZERO);
        self.reads.clear();
    }

    /// Forgets all observations, for a device that is judged anew.
    pub(super) fn begin_anew(&mut self) {
        *self = Self { next: self.next, ..Self::default() };
    }

    fn note_read(&mut self, now: Duration, took: Duration) {
        if self.reads.len() == READS_MAX {
            self.reads.pop_front();
        }
        self.reads.push_back((now, took));
    }

    /// Median latency of its recent reads, including slow ones still in flight; `None` if there are too few.
    pub(super) fn median_read(&self, now: Duration) -> Option<Duration> {
        let since = now.saturating_sub(WINDOW);
        let ended = self.reads.iter().filter(|(at, _)| *at >= since).map(|(_, took)| *took);
        let waiting = self.in_flight.values().filter(|flight| flight.kind == RequestKind::Read);
        let waiting = waiting.map(|flight| flight.took(now)).filter(|took| *took > SLOW);
        let mut all: Vec<Duration> = ended.chain(waiting).collect();
        all.sort_unstable();
        (all.len() >= READS_MIN).then(|| all[all.len() / 2])
    }

    /// The time without any answer, in numbers of timeouts.
    fn unanswered(&self, now: Duration) -> u32 {
        let waits = self.in_flight.values().map(|flight| {
            let unheard = now.saturating_sub(self.answered);
            let silent = flight.took(now).min(unheard);
            silent.as_nanos() / allowance(flight.kind).as_nanos()
        });
        u32::try_from(waits.max().unwrap_or(0)).unwrap_or(u32::MAX)
    }

    /// Whether it has answered recently.
    fn answers(&self, now: Duration) -> bool {
        self.answered > Duration::ZERO && now.saturating_sub(self.answered) < TIMEOUT
    }

    /// `peers`: the median latency of the peers' reads.
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

/// Judges all shards at `now`. Each is compared with its peers: whether they answer, and the median of their reads.
/// `since`: time of the last judgement.
pub(super) fn judge(shards: &mut [&mut Vitals], since: Duration, now: Duration) -> Vec<Verdict> {
    let is_silent = |vitals: &Vitals| vitals.unanswered(now) > 0;
    let is_host = shards.len() > 1
        && shards.iter().any(|vitals| is_silent(vitals))
        && !shards.iter().any(|vitals| vitals.answers(now));
    if is_host {
        let silent: Vec<bool> = shards.iter().map(|vitals| is_silent(vitals)).collect();
        shards.iter_mut().for_each(|vitals| vitals.excuse(now.saturating_sub(since)));
        let of = |(vitals, silent): (&&mut Vitals, bool)| match silent {
            _ if vitals.is_gone => Verdict::Failed(Cause::Gone),
            true => Verdict::Suspect(Cause::AllSilent),
            false => Verdict::Well,
        };
        return shards.iter().zip(silent).map(of).collect();
    }
    let medians: Vec<_> = shards.iter().map(|vitals| vitals.median_read(now)).collect();
    let peers_of = |of: usize| {
        let others = medians.iter().enumerate().filter(|(number, _)| *number != of);
        let mut known: Vec<Duration> = others.filter_map(|(_, median)| *median).collect();
        known.sort_unstable();
        // Of two values take the lower one: a slow shard must not hide another.
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

    fn run(vitals: &mut Vitals, at: Duration, took: Duration, ended: RequestEnd) {
        let number = vitals.begins(RequestKind::Read, at);
        vitals.ended(number, at + took, ended);
    }

    fn verdict(vitals: &mut Vitals, now: Duration) -> Verdict {
        judge(&mut [vitals], now, now)[0]
    }

    #[test]
    fn errors_in_a_row_fail_it_and_one_that_ends_well_forgives() {
        let mut vitals = Vitals::default();
        let failed = RequestEnd::Failed(ErrorKind::Io);
        for (ended, expected) in [
            (failed, Verdict::Suspect(Cause::Errors(1))),
            (failed, Verdict::Suspect(Cause::Errors(2))),
            (RequestEnd::Well, Verdict::Well),
            (RequestEnd::Failed(ErrorKind::Busy), Verdict::Well),
            (failed, Verdict::Suspect(Cause::Errors(1))),
            (failed, Verdict::Suspect(Cause::Errors(2))),
            (failed, Verdict::Failed(Cause::Errors(3))),
        ] {
            run(&mut vitals, ms(5), ms(1), ended);
            assert_eq!(verdict(&mut vitals, ms(10)), expected);
        }
        let mut vitals = Vitals::default();
        run(&mut vitals, ms(5), ms(1), RequestEnd::Failed(ErrorKind::Gone));
        assert_eq!(verdict(&mut vitals, ms(10)), Verdict::Failed(Cause::Gone));
    }

    #[test]
    fn a_device_that_answers_nothing_fails_in_three_seconds() {
        let mut vitals = Vitals::default();
        let flush = vitals.begins(RequestKind::Other, ms(0));
        assert_eq!(verdict(&mut vitals, ms(11_000)), Verdict::Well, "a flush may take long");
        vitals.ended(flush, ms(11_000), RequestEnd::Well);
        let lost = vitals.begins(RequestKind::Write, ms(11_000));
        assert_eq!(verdict(&mut vitals, ms(11_900)), Verdict::Well);
        assert!(matches!(verdict(&mut vitals, ms(12_100)), Verdict::Suspect(_)));
        // It answers other requests: a single request may be lost.
        run(&mut vitals, ms(13_000), ms(1), RequestEnd::Well);
        assert_eq!(verdict(&mut vitals, ms(13_900)), Verdict::Well);
        assert!(matches!(verdict(&mut vitals, ms(16_100)), Verdict::Failed(Cause::Unanswered(3))));
        vitals.ended(lost, ms(16_200), RequestEnd::Well);
        assert!(matches!(verdict(&mut vitals, ms(16_300)), Verdict::Suspect(_)), "it took long");
        run(&mut vitals, ms(16_400), ms(1), RequestEnd::Well);
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
                run(vitals, now.saturating_sub(took), took, RequestEnd::Well);
            }
            let mut shards: Vec<&mut Vitals> = all.iter_mut().collect();
            let verdicts = judge(&mut shards, now, now);
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
            all.iter_mut().for_each(|it| run(it, now, ms(500), RequestEnd::Well));
            let mut shards: Vec<&mut Vitals> = all.iter_mut().collect();
            let verdicts = judge(&mut shards, now, now + ms(500));
            assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Well));
        }
    }

    #[test]
    fn abandoned_reads_count_if_they_took_long() {
        let mut all: Vec<Vitals> = (0..2).map(|_| Vitals::default()).collect();
        for step in 0..40_u64 {
            run(&mut all[0], ms(100 * step), ms(0), RequestEnd::Well);
            run(&mut all[0], ms(100 * step), ms(0), RequestEnd::Well);
            run(&mut all[1], ms(100 * step), ms(100), RequestEnd::GivenUp);
            run(&mut all[1], ms(100 * step), ms(1), RequestEnd::GivenUp);
        }
        let mut shards: Vec<&mut Vitals> = all.iter_mut().collect();
        let verdicts = judge(&mut shards, ms(4000), ms(4000));
        assert!(matches!(verdicts[1], Verdict::Suspect(Cause::Slow { .. })), "{verdicts:?}");
    }

    /// What stalls, from second 1 on.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Stands {
        /// The process: neither requests nor the detector run.
        Host,
        /// Every device, while the detector runs.
        AllDevices,
        /// One device.
        One(usize),
    }

    /// Four shards under load; something stalls for `time`. Returns the shards that were taken out.
    fn taken_out(stands: Stands, time: u64, (seed, busy): (u64, usize)) -> Vec<usize> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut all: Vec<Vitals> = (0..4).map(|_| Vitals::default()).collect();
        let mut under_way: Vec<(usize, u64, u64)> = Vec::new();
        let (begins, ends) = (1000, 1000 + time);
        let beat = super::super::awake::Beat::default();
        let (mut judged, mut next_look, mut out) = (0, 0, Vec::new());
        for step in 1..ends + 8000 {
            let now = ms(1_000_000 + step);
            let is_still = |shard| {
                (begins..ends).contains(&step)
                    && (stands == Stands::AllDevices || stands == Stands::One(shard))
            };
            if stands == Stands::Host && (begins..ends).contains(&step) {
                continue;
            }
            // Due requests end, before or after the detector runs.
            let looks_first = rng.bool();
            let look = |all: &mut Vec<Vitals>, judged: &mut u64, out: &mut Vec<usize>| {
                if let Some(slept) = beat.at(now, now + ms(250)) {
                    all.iter_mut().for_each(|vitals| vitals.host_slept(slept));
                }
                let mut shards: Vec<&mut Vitals> = all.iter_mut().collect();
                let verdicts = judge(&mut shards, ms(1_000_000 + *judged), now);
                *judged = step;
                for (shard, verdict) in verdicts.iter().enumerate() {
                    if matches!(verdict, Verdict::Failed(_)) && !out.contains(&shard) {
                        out.push(shard);
                    }
                }
            };
            let is_time = step >= next_look;
            if is_time {
                next_look = step + 250;
            }
            if is_time && looks_first {
                look(&mut all, &mut judged, &mut out);
            }
            under_way.retain(|(shard, number, due)| {
                let ends = *due <= step && !is_still(*shard);
                if ends {
                    all[*shard].ended(*number, now, RequestEnd::Well);
                }
                !ends
            });
            for (shard, vitals) in all.iter_mut().enumerate() {
                // Few requests at a time, because callers wait for them.
                let waiting = under_way.iter().filter(|(of, ..)| *of == shard).count();
                let is_probed = step % 250 == 0;
                if waiting < busy && (is_probed || rng.u8(..4) == 0) {
                    let number = vitals.begins(RequestKind::Read, now);
                    under_way.push((shard, number, step + rng.u64(0..2)));
                }
            }
            if is_time && !looks_first {
                look(&mut all, &mut judged, &mut out);
            }
        }
        out
    }

    #[test]
    fn neither_a_pause_of_the_host_nor_a_stall_of_all_takes_a_shard_out() {
        for seed in 0..40 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (time, busy) = (rng.u64(600..20_000), rng.usize(1..16));
            for stands in [Stands::Host, Stands::AllDevices] {
                let out = taken_out(stands, time, (seed, busy));
                assert!(out.is_empty(), "seed {seed}: {stands:?} for {time} ms: {out:?}");
            }
        }
    }

    #[test]
    fn a_shard_that_stands_still_is_taken_out_if_that_lasts_and_no_other() {
        for seed in 0..40 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (one, busy) = (rng.usize(..4), rng.usize(1..16));
            let short = rng.u64(100..1900);
            let out = taken_out(Stands::One(one), short, (seed, busy));
            assert!(out.is_empty(), "seed {seed}: {short} ms: {out:?}");
            let long = rng.u64(4000..10_000);
            let out = taken_out(Stands::One(one), long, (seed, busy));
            assert_eq!(out, [one], "seed {seed}: {long} ms");
        }
    }
}
