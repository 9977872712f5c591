//! What a worker counts of requests: numbers that it alone writes, without a lock or a locked instruction.

use std::iter::Sum;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread counts up and others read.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// For the thread that counts alone.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// For the thread that counts alone, of what somebody else has counted.
    pub(crate) fn set(&self, all: u64) {
        self.0.store(all, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a worker has seen of its ring to flash.
#[derive(Default)]
pub(crate) struct RingCounters {
    /// Calls of the kernel.
    pub(crate) enters: Counter,
    /// Those of them that slept.
    pub(crate) sleeps: Counter,
    /// Pieces of requests that have ended.
    pub(crate) ended_pieces: Counter,
    /// Pieces of requests that are under way.
    pub(crate) pending_pieces: Counter,
}

impl Counters {
    /// A key was asked for, and found or not.
    pub(crate) fn count_get(&self, is_hit: bool) {
        self.cmd_get.add(1);
        if is_hit { &self.get_hits } else { &self.get_misses }.add(1);
    }

    /// A key was to be given another lifetime, and was found or not.
    pub(crate) fn count_touch(&self, is_hit: bool) {
        self.cmd_touch.add(1);
        if is_hit { &self.touch_hits } else { &self.touch_misses }.add(1);
    }
}

/// A struct of counters, one of their values, and their names.
macro_rules! counters {
    ($($(#[doc = $about:literal])* $name:ident),* $(,)?) => {
        /// See the module.
        #[derive(Default)]
        pub(crate) struct Counters {
            $($(#[doc = $about])* pub(crate) $name: Counter,)*
        }

        /// What [`Counters`] said at some moment, of one worker or of several together.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Counted {
            $($(#[doc = $about])* pub(crate) $name: u64,)*
        }

        impl Counters {
            pub(crate) fn read(&self) -> Counted {
                Counted { $($name: self.$name.read(),)* }
            }
        }

        impl Counted {
            /// Each number with its name, and what it counts.
            pub(crate) fn each(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($name), concat!($($about),*).trim_ascii(), self.$name),)*].into_iter()
            }

            /// What was counted since it was `before`.
            pub(crate) fn since(&self, before: &Self) -> Self {
                Counted { $($name: self.$name.saturating_sub(before.$name),)* }
            }
        }

        impl Sum for Counted {
            fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
                all.fold(Self::default(), |sum, one| Counted { $($name: sum.$name + one.$name,)* })
            }
        }
    };
}

counters! {
    /// Bytes that came from clients.
    bytes_read,
    /// Bytes that went to clients.
    bytes_written,
    /// Requests of RESP, whichever.
    resp_commands,
    /// Keys that were asked for, by whichever request that returns values.
    cmd_get,
    /// Requests that bring a value.
    cmd_set,
    /// Requests to forget everything.
    cmd_flush,
    /// Requests that give a key another lifetime.
    cmd_touch,
    /// Meta requests.
    cmd_meta,
    /// Keys that were asked for and found.
    get_hits,
    /// Keys that were asked for and not found.
    get_misses,
    /// Keys that were deleted.
    delete_hits,
    /// Keys that were to be deleted and not found.
    delete_misses,
    /// Numbers that were counted up.
    incr_hits,
    /// Numbers that were to be counted up and not found.
    incr_misses,
    /// Numbers that were counted down.
    decr_hits,
    /// Numbers that were to be counted down and not found.
    decr_misses,
    /// Values that were stored over the version that was named.
    cas_hits,
    /// Values that were to be stored over a version, where there was no value.
    cas_misses,
    /// Comparisons of versions that failed.
    cas_badval,
    /// Keys that were given another lifetime.
    touch_hits,
    /// Keys that were to be given another lifetime and not found.
    touch_misses,
    /// Values that were longer than they may be.
    store_too_large,
    /// Attempts to log in.
    auth_cmds,
    /// Those of them that failed.
    auth_errors,
    /// Those that were answered as busy, since too many passwords wait to be compared.
    auth_busy,
    /// Requests that were answered with an error since they waited for flash too long.
    request_timeouts,
    /// TLS handshakes that were made.
    tls_handshakes,
    /// TLS handshakes that failed: no TLS, no certificate that is trusted, too slow.
    tls_failures,
    /// Connections that were closed since they took nothing while others needed the memory.
    closed_slow,
    /// Requests refused since clients hold all the memory that they may.
    refused_busy,
    /// Times that a connection was not read for a while, since requests of its tenant that wait hold all their memory.
    waited_for_memory,
}
