//! Write amplification while it happens: counters of a drive, read at an interval.
//!
//! This module has no thread and no clock. The caller passes the time, as often as it likes, and the drive is read when
//! the interval has passed.
//!
//! ```
//! # use std::time::Duration;
//! # use larder_device::nvme::{CommandError, Commands, Watch};
//! # fn each_tick(watch: &mut Watch, now: Duration, drive: &dyn Commands) -> Result<(), CommandError> {
//! if watch.poll(now, drive)?.is_some() {
//!     let live = watch.dlwa_over(Duration::from_secs(300));
//!     let since_start = watch.dlwa_since_start();
//! #   let _ = (live, since_start);
//! }
//! # Ok(())
//! # }
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use super::commands::{CommandError, Commands};
use crate::drive_report::{FdpCounters, Written, dlwa};

/// The counters at a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The time, by the caller's clock.
    pub at: Duration,
    /// The drive's counters.
    pub counters: FdpCounters,
}

impl Sample {
    /// The interval from this sample to a later one; `None` if the counters went back.
    pub(crate) fn to(&self, later: &Self) -> Option<Interval> {
        Interval::between(self, later)
    }
}

/// What happened between two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// When it began.
    pub from: Duration,
    /// When it ended.
    pub to: Duration,
    /// Bytes written by hosts.
    pub host_bytes: u128,
    /// Bytes written to media.
    pub media_bytes: u128,
    /// Bytes of media erased, where the drive reports them.
    pub erased_bytes: Option<u128>,
}

impl Interval {
    fn between(before: &Sample, after: &Sample) -> Option<Self> {
        let (old, new) = (&before.counters, &after.counters);
        Some(Self {
            from: before.at,
            to: after.at,
            host_bytes: new.host_bytes.checked_sub(old.host_bytes)?,
            media_bytes: new.media_bytes.checked_sub(old.media_bytes)?,
            erased_bytes: match (old.erased_bytes, new.erased_bytes) {
                (Some(old), Some(new)) => Some(new.checked_sub(old)?),
                _ => None,
            },
        })
    }

    /// Media bytes per host byte; `None` if no host wrote.
    pub fn dlwa(&self) -> Option<f64> {
        dlwa(self.host_bytes, self.media_bytes)
    }

    /// The bytes of the interval, for a report.
    pub(crate) fn written(&self) -> Written {
        let clamped = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
        Written {
            host_bytes: clamped(self.host_bytes),
            media_bytes: clamped(self.media_bytes),
            span: self.to.saturating_sub(self.from),
        }
    }
}

/// A bounded history of an endurance group's counters.
///
/// Drives count in steps of their own (a write buffer, a reclaim unit), so that a short interval may show an
/// amplification of 0 or 10 although all is well: look at minutes, not at seconds.
#[derive(Debug)]
pub struct Watch {
    endurance_group: u16,
    interval: Duration,
    samples_max: usize,
    start: Option<Sample>,
    samples: VecDeque<Sample>,
    restarts: u32,
}

impl Watch {
    /// Watches endurance group `endurance_group`: reads the drive once per `interval` (at least a millisecond) and
    /// keeps the samples of the last `keep`, at least two.
    pub fn new(endurance_group: u16, interval: Duration, keep: Duration) -> Self {
        let interval = interval.max(Duration::from_millis(1));
        let intervals = keep.as_nanos().div_ceil(interval.as_nanos());
        Self {
            endurance_group,
            interval,
            samples_max: usize::try_from(intervals).unwrap_or(usize::MAX).saturating_add(1).max(2),
            start: None,
            samples: VecDeque::new(),
            restarts: 0,
        }
    }

    /// Reads the drive if the interval has passed, and returns the new sample. After an error the next call tries
    /// again.
    ///
    /// # Errors
    /// As [`FdpCounters::read`].
    pub fn poll(
        &mut self,
        now: Duration,
        drive: &dyn Commands,
    ) -> Result<Option<Sample>, CommandError> {
        if self.next_at().is_some_and(|next| now < next) {
            return Ok(None);
        }
        let counters = FdpCounters::read(drive, self.endurance_group)?;
        Ok(Some(self.add(now, counters)))
    }

    /// Adds counters that the caller has read, at any time.
    pub fn add(&mut self, now: Duration, counters: FdpCounters) -> Sample {
        let sample = Sample { at: now, counters };
        self.record(sample);
        sample
    }

    /// When the drive is to be read next; `None` before the first time.
    pub fn next_at(&self) -> Option<Duration> {
        self.samples.back().map(|sample| sample.at.saturating_add(self.interval))
    }

    fn record(&mut self, sample: Sample) {
        let went_back =
            self.samples.back().is_some_and(|before| Interval::between(before, &sample).is_none());
        if went_back {
            // Another drive, or one that was set up anew: the earlier samples do not apply to it.
            self.samples.clear();
            self.start = None;
            self.restarts = self.restarts.saturating_add(1);
        }
        self.start.get_or_insert(sample);
        if self.samples.len() == self.samples_max {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The newest sample.
    pub fn latest(&self) -> Option<Sample> {
        self.samples.back().copied()
    }

    /// The interval from the first sample to the newest.
    pub fn since_start(&self) -> Option<Interval> {
        Interval::between(self.start.as_ref()?, self.samples.back()?)
    }

    /// The interval between the two newest samples.
    pub fn last_interval(&self) -> Option<Interval> {
        self.intervals().last()
    }

    /// The interval from the newest sample that is at least `window` old, or the oldest that is kept, to the newest.
    pub fn over(&self, window: Duration) -> Option<Interval> {
        self.until(self.samples.back()?, window)
    }

    /// The same to `newest`, which may be newer than all samples that are kept.
    pub(crate) fn until(&self, newest: &Sample, window: Duration) -> Option<Interval> {
        let from = newest.at.saturating_sub(window);
        let older = self.samples.iter().rev().find(|sample| sample.at <= from);
        Interval::between(older.or(self.samples.front())?, newest)
    }

    /// Write amplification since the first sample; `None` if no host has written since.
    pub fn dlwa_since_start(&self) -> Option<f64> {
        self.since_start()?.dlwa()
    }

    /// Write amplification over the last `window`; see [`Self::over`].
    pub fn dlwa_over(&self, window: Duration) -> Option<f64> {
        self.over(window)?.dlwa()
    }

    /// The intervals between kept samples, oldest first.
    pub fn intervals(&self) -> impl DoubleEndedIterator<Item = Interval> + '_ {
        let pairs = self.samples.iter().zip(self.samples.iter().skip(1));
        pairs.filter_map(|(before, after)| Interval::between(before, after))
    }

    /// How often the counters went back, which restarts the history.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, VirtualClock};
    use crate::nvme::ModelDrive;
    use larder_ssd::nvme::Command;

    const SECOND: Duration = Duration::from_secs(1);

    fn write(drive: &ModelDrive, nsid: u32, blocks: impl Iterator<Item = u64>) {
        for block in blocks {
            drive.io(&Command::write(nsid, block, 1, None), &mut [1; 4096]).unwrap();
        }
    }

    #[test]
    fn dlwa_is_seen_as_it_rises() {
        let (drive, nsid) = ModelDrive::cramped(true);
        let clock = VirtualClock::starting_at(SECOND * 1000);
        let mut watch = Watch::new(1, SECOND * 10, SECOND * 60);
        write(&drive, nsid, 0..1000);
        assert!(watch.poll(clock.now(), &drive).unwrap().is_some());
        assert_eq!((watch.dlwa_since_start(), watch.last_interval()), (None, None));
        let mut random = fastrand::Rng::with_seed(1);
        for round in 1..=20_u64 {
            clock.advance_to(SECOND * u32::try_from(1000 + 5 * round).unwrap());
            if round > 4 {
                write(&drive, nsid, (0..500).map(|_| random.u64(0..1000)));
            }
            let asked = watch.poll(clock.now(), &drive).unwrap().is_some();
            assert_eq!(asked, round % 2 == 0, "the interval is two rounds");
        }
        let live = watch.dlwa_over(SECOND * 20).unwrap();
        let all = watch.dlwa_since_start().unwrap();
        assert!(live > all && all > 1.5, "{live} {all}");
        let stats = watch.since_start().unwrap();
        assert_eq!(stats.host_bytes, 16 * 500 * 4096);
        assert_eq!(watch.over(SECOND * 20).unwrap().host_bytes, 4 * 500 * 4096);
        assert_eq!(watch.last_interval().unwrap().host_bytes, 2 * 500 * 4096);
        // The drive's own counters must agree with the watch.
        let counted = FdpCounters::read(&drive, 1).unwrap();
        assert_eq!(counted, watch.latest().unwrap().counters);
        assert_eq!(stats.media_bytes, counted.media_bytes - 1000 * 4096);
    }

    #[test]
    fn the_history_is_bounded_and_the_start_is_kept() {
        let (drive, nsid) = ModelDrive::cramped(true);
        let mut watch = Watch::new(1, SECOND, SECOND * 10);
        for second in 0..100 {
            write(&drive, nsid, 0..1);
            watch.poll(SECOND * second, &drive).unwrap().unwrap();
        }
        assert_eq!(watch.intervals().count(), 10);
        assert_eq!(watch.since_start().unwrap().host_bytes, 99 * 4096);
        assert_eq!(watch.over(SECOND * 1000).unwrap().host_bytes, 10 * 4096);
        assert!((watch.intervals().next().unwrap().from) == SECOND * 89);
    }

    #[test]
    fn counters_that_went_back_begin_anew() {
        let counters = |host_bytes| FdpCounters { host_bytes, media_bytes: 0, erased_bytes: None };
        let mut watch = Watch::new(1, SECOND, SECOND * 10);
        for (second, host_bytes) in [(0, 50), (1, 70), (2, 10), (3, 15)] {
            watch.record(Sample { at: SECOND * second, counters: counters(host_bytes) });
        }
        assert_eq!(watch.restarts(), 1);
        assert_eq!(watch.since_start().unwrap().host_bytes, 5);
        assert_eq!(watch.since_start().unwrap().from, SECOND * 2);
    }

    #[test]
    fn a_drive_that_does_not_answer_is_asked_again() {
        let (drive, _) = ModelDrive::cramped(true);
        let mut watch = Watch::new(9, SECOND, SECOND);
        assert!(watch.poll(SECOND, &drive).is_err(), "there is no such group");
        assert_eq!(watch.next_at(), None);
    }
}
