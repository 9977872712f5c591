//! A run on a fresh drive whose length is given in drive writes, not in requests.
//!
//! Published results of real drives are plotted over drive writes. The workload is replayed repeatedly, as traces are,
//! until the drive has been written over the given number of times.

use std::time::Duration;

use larder::Clock;

use super::client::{Client, ClientCounts};
use super::stage::Stage;
use super::timeline::soc_bytes;
use super::{BREATH, Monitor, ReplayOptions, check_device, sample};
use crate::Error;

/// Requests between two checks of the bytes written.
const LOOK: u64 = 64;

/// The counters between two numbers of drive writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Leg {
    /// Bytes that the host wrote.
    pub host_bytes: u64,
    /// Bytes that the drive wrote to its media.
    pub media_bytes: u64,
    /// Host bytes that the small-object engine wrote.
    pub soc_bytes: u64,
    /// Objects admitted to flash.
    pub admitted_objects: u64,
    /// Bytes of their keys and values.
    pub admitted_bytes: u64,
    /// Number of GETs.
    pub gets: u64,
    /// GETs that were hits.
    pub hits: u64,
}

impl Leg {
    /// Both legs combined.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            host_bytes: self.host_bytes + other.host_bytes,
            media_bytes: self.media_bytes + other.media_bytes,
            soc_bytes: self.soc_bytes + other.soc_bytes,
            admitted_objects: self.admitted_objects + other.admitted_objects,
            admitted_bytes: self.admitted_bytes + other.admitted_bytes,
            gets: self.gets + other.gets,
            hits: self.hits + other.hits,
        }
    }

    /// Media bytes per host byte; NaN if the host wrote nothing.
    pub fn dlwa(&self) -> f64 {
        ratio(self.media_bytes, self.host_bytes)
    }

    /// Share of the host's bytes that the small-object engine wrote.
    pub fn soc_share(&self) -> f64 {
        ratio(self.soc_bytes, self.host_bytes)
    }

    /// Host bytes written per byte of keys and values admitted to flash.
    pub fn alwa(&self) -> f64 {
        ratio(self.host_bytes, self.admitted_bytes)
    }

    /// Mean bytes of key and value of an object admitted to flash: CacheLib's size of a put.
    pub fn put_bytes(&self) -> f64 {
        ratio(self.admitted_bytes, self.admitted_objects)
    }

    /// Share of the GETs that were hits.
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hits, self.gets)
    }
}

/// Replays the workload of `options` on a fresh drive until it has been written over `ends` times. `ends` is ascending,
/// and the result has a leg for each.
///
/// # Errors
/// The errors of a replay; [`Error::Run`] if it was interrupted, or if a whole pass over the workload writes nothing.
pub fn from_fresh(
    options: &ReplayOptions,
    placement: bool,
    ends: &[f64],
    monitor: &Monitor,
) -> Result<Vec<Leg>, Error> {
    options.check()?;
    let stage = Stage::set_up(options, placement)?;
    let mut client = Client::new(&stage.cache);
    let mut totals = Vec::with_capacity(ends.len());
    while totals.len() < ends.len() {
        let before = stage.device_stats().host_written_bytes;
        play_pass(options, &stage, &mut client, (ends, &mut totals), monitor)?;
        if stage.device_stats().host_written_bytes == before {
            return Err(Error::run("the workload writes nothing to flash; use more requests"));
        }
    }
    let mut last = Leg::default();
    let between = totals.into_iter().map(|total| {
        let leg = total.since(last);
        last = total;
        leg
    });
    Ok(between.collect())
}

/// Makes one pass over the workload, or a part of it if that is enough.
fn play_pass(
    options: &ReplayOptions,
    stage: &Stage,
    client: &mut Client<'_>,
    (ends, totals): (&[f64], &mut Vec<Leg>),
    monitor: &Monitor,
) -> Result<(), Error> {
    let mut source = options.open_workload()?;
    let begin = stage.clock.now();
    while let Some(request) = source.next_request()? {
        stage.clock.advance_to(begin + Duration::from_secs(u64::from(request.time_s)));
        client.make(&request)?;
        let requests = client.counts.requests;
        if requests.is_multiple_of(LOOK) {
            let written = ratio(stage.device_stats().host_written_bytes, options.flash_bytes);
            while ends.get(totals.len()).is_some_and(|&end| written >= end) {
                totals.push(Leg::up_to(stage, client));
            }
            if totals.len() == ends.len() {
                break;
            }
        }
        if requests.is_multiple_of(BREATH) {
            check_device(stage)?;
            if monitor.is_stopped() {
                return Err(Error::run("interrupted"));
            }
        }
    }
    check_device(stage)
}

impl Leg {
    /// The counters since the beginning.
    fn up_to(stage: &Stage, client: &Client<'_>) -> Self {
        let now = sample(stage, client.counts);
        let ClientCounts { gets, hits, .. } = now.client;
        Self {
            host_bytes: now.device.host_written_bytes,
            media_bytes: now.device.media_written_bytes.unwrap_or(0),
            soc_bytes: soc_bytes(&now),
            admitted_objects: now.cache.admitted_objects,
            admitted_bytes: now.cache.admitted_bytes,
            gets,
            hits,
        }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            host_bytes: self.host_bytes - earlier.host_bytes,
            media_bytes: self.media_bytes - earlier.media_bytes,
            soc_bytes: self.soc_bytes - earlier.soc_bytes,
            admitted_objects: self.admitted_objects - earlier.admitted_objects,
            admitted_bytes: self.admitted_bytes - earlier.admitted_bytes,
            gets: self.gets - earlier.gets,
            hits: self.hits - earlier.hits,
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> ReplayOptions {
        ReplayOptions {
            requests: Some(400_000),
            flash_bytes: 8 << 20,
            dram_bytes: 64 << 10,
            soc_percent: 60.0,
            ..ReplayOptions::of_preset("meta-kv", 1)
        }
    }

    #[test]
    fn a_run_is_as_long_as_its_drive_writes() {
        let legs = from_fresh(&options(), false, &[0.5, 2.0, 6.0], &Monitor::default()).unwrap();
        let written: Vec<f64> = legs.iter().map(|leg| ratio(leg.host_bytes, 8 << 20)).collect();
        for (written, wanted) in written.iter().zip([0.5, 1.5, 4.0]) {
            assert!((written - wanted).abs() < 0.15, "{written} {wanted}");
        }
        assert_eq!(
            legs[0].dlwa().to_bits(),
            1.0_f64.to_bits(),
            "nothing to collect on a fresh drive"
        );
        assert!(legs[2].dlwa() > 1.0 && legs[2].hit_ratio() > 0.5);
        assert!((0.0..=1.0).contains(&legs[2].soc_share()));
    }

    #[test]
    fn a_replay_that_writes_nothing_ends_with_an_error() {
        let options = ReplayOptions { requests: Some(10), dram_bytes: 4 << 20, ..options() };
        let error = from_fresh(&options, true, &[1.0], &Monitor::default()).unwrap_err();
        assert!(error.to_string().contains("more requests"), "{error}");
    }
}
