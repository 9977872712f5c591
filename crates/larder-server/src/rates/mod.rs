//! Rate limits of a tenant: tokens for requests and for bytes, shared by all workers.
//!
//! ```text
//!   Bucket ── of a tenant: one number, written when a worker takes a lot (128 a second at the rate)
//!     └─► Purse ── of a tenant at a worker: a request takes a token; bytes are taken when they have come or gone
//! ```
//!
//! A tenant without a limit costs one read of a flag that is rarely written. Nothing here waits: the caller learns when
//! its request may begin, and waiting requests keep the order in which they asked.

mod bucket;
mod purse;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use self::bucket::Bucket;
pub(crate) use self::purse::{Admission, DELAY_MAX, Purse};
use crate::policy::{OverLimit, TenantPolicy};

/// The rate limits of a tenant.
#[derive(Default)]
pub(crate) struct Rates {
    is_limited: AtomicBool,
    refuses_at_once: AtomicBool,
    requests: Bucket,
    bytes: Bucket,
    delayed: AtomicU64,
    refused: AtomicU64,
}

impl Rates {
    /// Takes over the rates of `policy`.
    pub(crate) fn set(&self, policy: &TenantPolicy) {
        let burst_ns = u64::try_from(policy.burst.as_nanos()).unwrap_or(u64::MAX);
        self.requests.set(policy.requests_per_second, burst_ns);
        self.bytes.set(policy.bytes_per_second, burst_ns);
        self.refuses_at_once.store(policy.over_limit == OverLimit::Error, Ordering::Relaxed);
        let is_limited = self.requests.has_limit() || self.bytes.has_limit();
        self.is_limited.store(is_limited, Ordering::Relaxed);
    }

    /// Whether there is any limit.
    #[inline]
    pub(crate) fn are_limited(&self) -> bool {
        self.is_limited.load(Ordering::Relaxed)
    }

    pub(crate) fn refuses_at_once(&self) -> bool {
        self.refuses_at_once.load(Ordering::Relaxed)
    }

    pub(crate) fn count_delayed(&self) {
        self.delayed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests that waited for their turn, and then began.
    pub(crate) fn delayed(&self) -> u64 {
        self.delayed.load(Ordering::Relaxed)
    }

    /// Requests that were answered as busy.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}
