//! Options of cleaning. Ranges and defaults are those of Open CAS, where it has the same option.

use std::fmt;
use std::time::Duration;

use crate::{Error, ErrorKind};

/// How dirty data gets to its core. Use `..Default::default()` for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleaningOptions {
    /// The policy. Default ALRU.
    pub policy: CleaningPolicy,
    /// Most bytes of dirty data that are destaged per second, for whatever reason; 0, the default: no limit.
    pub bytes_per_second: u64,
    /// From this dirty share of the cache on, in percent, data is destaged whatever the policy says: 1 to 100, default
    /// 80. The remaining fifth takes in bursts of writes, and reads. A lower mark would destage data that will be
    /// written again: under skewed writes, that is most of the dirty data.
    ///
    /// While above the mark, at least 4 MiB of dirty data are in flight, whatever `flush_max_buffers` says. Streams
    /// pass a full cache by, and a disk serves them better between few long pieces than between many short ones.
    ///
    /// Open CAS has this for ALRU only: `dirty-ratio-threshold`, 100 (off) by default.
    pub dirty_high_percent: u8,
    /// Destaging for the high mark ends at this dirty share: 0 to `dirty_high_percent - 1`, default 75. The distance
    /// of a twentieth of the cache lets cleaning begin rarely, with much data to choose from.
    pub dirty_low_percent: u8,
}

impl Default for CleaningOptions {
    fn default() -> Self {
        let policy = CleaningPolicy::default();
        Self { policy, bytes_per_second: 0, dirty_high_percent: 80, dirty_low_percent: 75 }
    }
}

/// What is destaged when, below the watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleaningPolicy {
    /// Nothing, not even for IO classes that are full of dirty data.
    Nop,
    /// Data that has not been written for long, while clients are idle.
    Alru(AlruOptions),
    /// The regions with the most dirty data, in order of address, all the time.
    Acp(AcpOptions),
}

impl Default for CleaningPolicy {
    fn default() -> Self {
        Self::Alru(AlruOptions::default())
    }
}

/// Parameters of ALRU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlruOptions {
    /// Time between two checks for work: 0 to 3600 s, default 20 s. 0: a thousand times per second.
    pub wake_up: Duration,
    /// Time since the last write of a chunk: 1 to 3600 s, default 120 s.
    pub staleness: Duration,
    /// Most lines of dirty data in flight: 1 to 10,000, default 100. See the [module](super).
    pub flush_max_buffers: u32,
    /// Time since the last client request: 0 to 1000 s, default 10 s.
    pub activity_threshold: Duration,
}

impl Default for AlruOptions {
    fn default() -> Self {
        Self {
            wake_up: Duration::from_secs(20),
            staleness: Duration::from_secs(120),
            flush_max_buffers: 100,
            activity_threshold: Duration::from_secs(10),
        }
    }
}

/// Parameters of ACP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcpOptions {
    /// Time between two batches: 0 to 10 s, default 10 ms. 0: a millisecond.
    pub wake_up: Duration,
    /// Most lines of dirty data in flight: 1 to 10,000, default 128. See the [module](super).
    pub flush_max_buffers: u32,
}

impl Default for AcpOptions {
    fn default() -> Self {
        Self { wake_up: Duration::from_millis(10), flush_max_buffers: 128 }
    }
}

impl CleaningOptions {
    /// Checks that each option is within its range.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`], naming the option, its value and its range.
    pub fn check(&self) -> Result<(), Error> {
        let Self { policy, dirty_high_percent: high, dirty_low_percent: low, .. } = *self;
        let complaint = if !(1..=100).contains(&high) {
            Some(format!("dirty_high_percent of {high}: give 1 to 100"))
        } else if low >= high {
            Some(format!("dirty_low_percent of {low}: give less than dirty_high_percent, {high}"))
        } else {
            policy.complaint()
        };
        match complaint {
            None => Ok(()),
            Some(complaint) => Err(Error::new(ErrorKind::Setup, format!("cleaning: {complaint}"))),
        }
    }
}

impl CleaningPolicy {
    fn complaint(self) -> Option<String> {
        let seconds = Duration::from_secs;
        match self {
            Self::Nop => None,
            Self::Alru(it) => out_of_range("wake_up", it.wake_up, seconds(0), seconds(3600))
                .or_else(|| out_of_range("staleness", it.staleness, seconds(1), seconds(3600)))
                .or_else(|| out_of_range("flush_max_buffers", it.flush_max_buffers, 1, 10_000))
                .or_else(|| {
                    let threshold = it.activity_threshold;
                    out_of_range("activity_threshold", threshold, seconds(0), seconds(1000))
                }),
            Self::Acp(it) => out_of_range("wake_up", it.wake_up, seconds(0), seconds(10))
                .or_else(|| out_of_range("flush_max_buffers", it.flush_max_buffers, 1, 10_000)),
        }
    }

    /// Most lines of dirty data in flight.
    pub(super) fn flush_max_buffers(self) -> u32 {
        match self {
            // Only data above the watermark is destaged.
            Self::Nop => AcpOptions::default().flush_max_buffers,
            Self::Alru(it) => it.flush_max_buffers,
            Self::Acp(it) => it.flush_max_buffers,
        }
    }
}

fn out_of_range<T: PartialOrd + fmt::Debug>(
    name: &str,
    value: T,
    min: T,
    max: T,
) -> Option<String> {
    let is_within = (&min..=&max).contains(&&value);
    (!is_within).then(|| format!("{name} of {value:?}: give {min:?} to {max:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(options: CleaningOptions) -> String {
        options.check().unwrap_err().to_string()
    }

    #[test]
    fn defaults_are_within_their_ranges_and_what_is_not_is_named() {
        let options = CleaningOptions::default();
        options.check().unwrap();
        CleaningOptions { policy: CleaningPolicy::Nop, ..options }.check().unwrap();
        let acp = |it| CleaningOptions { policy: CleaningPolicy::Acp(it), ..options };
        let alru = |it| CleaningOptions { policy: CleaningPolicy::Alru(it), ..options };
        acp(AcpOptions::default()).check().unwrap();

        let high = CleaningOptions { dirty_high_percent: 0, ..options };
        assert_eq!(message(high), "cleaning: dirty_high_percent of 0: give 1 to 100");
        let low = CleaningOptions { dirty_low_percent: 80, ..options };
        assert_eq!(
            message(low),
            "cleaning: dirty_low_percent of 80: give less than dirty_high_percent, 80"
        );
        let long = Duration::from_secs(3601);
        let late = message(alru(AlruOptions { wake_up: long, ..Default::default() }));
        assert_eq!(late, "cleaning: wake_up of 3601s: give 0ns to 3600s");
        let stale = message(alru(AlruOptions { staleness: Duration::ZERO, ..Default::default() }));
        assert_eq!(stale, "cleaning: staleness of 0ns: give 1s to 3600s");
        let none = message(acp(AcpOptions { flush_max_buffers: 0, ..Default::default() }));
        assert_eq!(none, "cleaning: flush_max_buffers of 0: give 1 to 10000");
        let idle = message(alru(AlruOptions { activity_threshold: long, ..Default::default() }));
        assert_eq!(idle, "cleaning: activity_threshold of 3601s: give 0ns to 1000s");
    }
}
