//! Events for the operator's log, as `tracing` events with the target `larder`. Each event is a function, so the code
//! that reports it needs one line. Without the feature `tracing` all of these functions are empty.
//!
//! | message | level | fields | when |
//! |---|---|---|---|
//! | `opened` | info | `device`, `recovery` | a cache on a device was opened and serves |
//! | `discarded` | warn | `device`, `reason` | the same, but the content of an earlier cache was given up |
//! | `opening refused` | error | `error` | an opening failed; with the target `larder::open`, for the caller knows |
//! | `shard down` | error | `shard`, `reason` | a shard was opened in DRAM, without its device |
//! | `shard suspected` | warn | `shard`, `reason` | a shard may be failing |
//! | `shard well` | info | `shard` | the shard is not suspected any more |
//! | `shard stays away` | info | `shard`, `reason` | the device of a shard that was taken out is still not well |
//! | `shard back` | info | `shard` | its device is well: the shard serves again, and is refilled |
//! | `shard is a spare now` | info | `shard` | its device is well, but another device has its place |
//! | `host paused` | warn | `time` | the process was stopped, or the host slept: that time counts against no shard |
//! | `device error` | warn | `error` | a request failed; the cache goes on |
//! | `retired` | warn | `what`, `number`, `lost_objects` | a bucket, segment or region is out of use for a while |
//! | `revived` | info | `what`, `count` | retired buckets, segments or regions are in use again |
//! | `array given up: …` | error | `region` | an opening after a crash gave up the array: this region cannot be read |
//! | `writes suspended` | warn | `seconds` | the circuit breaker opened: no writes for this number of seconds |
//! | `writes resumed` | info | | a write succeeded: the circuit breaker closed |
//! | `tombstone log given up` | error | | a crash from now on empties flash |
//! | `tombstone log regained` | info | | a crash does not empty flash any more |
//!
//! A subscriber runs on the thread that reports the event, which may hold locks of the cache: it must not call the
//! cache.

#![cfg_attr(not(feature = "tracing"), allow(unused_variables))]

use crate::base::error::Error;
use crate::observe::recovery::Recovery;

/// Emits an event, if the feature `tracing` is on.
macro_rules! event {
    ($level:ident, $($what:tt)*) => {
        #[cfg(feature = "tracing")]
        tracing::$level!(target: "larder", $($what)*);
    };
}

/// What goes out of use after a failed write.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    Bucket,
    Segment,
    Region,
}

impl Place {
    #[cfg(feature = "tracing")]
    fn name(self) -> &'static str {
        match self {
            Self::Bucket => "bucket",
            Self::Segment => "segment",
            Self::Region => "region",
        }
    }
}

pub(crate) fn opened(device: &str, recovery: &Recovery) {
    match recovery {
        Recovery::Discarded { reason } => {
            event!(warn, device, reason = reason.as_str(), "discarded");
        }
        recovery => {
            event!(info, device, ?recovery, "opened");
        }
    }
}

/// The caller of the opening gets the error too: with a separate target a subscriber can leave one of them out.
pub(crate) fn opening_refused(error: &Error) {
    #[cfg(feature = "tracing")]
    tracing::error!(target: "larder::open", %error, "opening refused");
}

pub(crate) fn shard_down(shard: usize, reason: &str) {
    event!(error, shard, reason, "shard down");
}

/// Keys got another home, so that the drives wear alike: `parts` of 10,000 of the keys of `from`.
pub(crate) fn keys_moved(from: usize, to: usize, parts: u16, ratio: f64) {
    event!(info, from, to, parts, ratio, "keys moved");
}

pub(crate) fn shard_suspected(shard: usize, reason: &str) {
    event!(warn, shard, reason, "shard suspected");
}

pub(crate) fn shard_is_well(shard: usize) {
    event!(info, shard, "shard well");
}

pub(crate) fn shard_back(shard: usize) {
    event!(info, shard, "shard back");
}

pub(crate) fn shard_is_spare(shard: usize) {
    event!(info, shard, "shard is a spare now");
}

pub(crate) fn shard_stays_away(shard: usize, reason: &str) {
    event!(info, shard, reason, "shard stays away");
}

pub(crate) fn host_paused(time: std::time::Duration) {
    event!(warn, ?time, "host paused");
}

pub(crate) fn device_error(error: &larder_device::Error) {
    event!(warn, %error, "device error");
}

pub(crate) fn retired(what: Place, number: u64, lost_objects: u64) {
    event!(warn, what = what.name(), number, lost_objects, "retired");
}

pub(crate) fn revived(what: Place, count: u64) {
    if count > 0 {
        event!(info, what = what.name(), count, "revived");
    }
}

pub(crate) fn array_given_up(region: u32) {
    event!(error, region, "array given up: a region that may have tables cannot be read");
}

pub(crate) fn writes_suspended(seconds: u32) {
    event!(warn, seconds, "writes suspended");
}

pub(crate) fn writes_resumed() {
    event!(info, "writes resumed");
}

pub(crate) fn tombstone_log_given_up() {
    event!(error, "tombstone log given up");
}

pub(crate) fn tombstone_log_regained() {
    event!(info, "tombstone log regained");
}
