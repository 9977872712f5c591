//! Counters of a worker. Only the worker writes them, without a lock or a locked instruction.

use std::iter::Sum;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread counts up and others read.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `more`. Only the owning thread may call it.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Takes over a number that another component has counted. Only the owning thread may call it.
    pub(crate) fn set(&self, all: u64) {
        self.0.store(all, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a worker has seen of its flash ring.
#[derive(Default)]
pub(crate) struct RingCounters {
    /// `io_uring_enter` calls.
    pub(crate) enters: Counter,
    /// Calls among them that slept.
    pub(crate) sleeps: Counter,
    /// Pieces of requests that have ended.
    pub(crate) ended_pieces: Counter,
    /// Pieces of requests in flight.
    pub(crate) pending_pieces: Counter,
}

impl Counters {
    /// Counts a key that was looked up, and whether it was found.
    pub(crate) fn count_get(&self, is_hit: bool) {
        self.cmd_get.add(1);
        if is_hit { &self.get_hits } else { &self.get_misses }.add(1);
    }

    /// Counts a key whose lifetime was to change, and whether it was found.
    pub(crate) fn count_touch(&self, is_hit: bool) {
        self.cmd_touch.add(1);
        if is_hit { &self.touch_hits } else { &self.touch_misses }.add(1);
    }
}

/// A struct of counters, a struct of their values, and their names.
macro_rules! counters {
    ($($(#[doc = $about:literal])* $name:ident),* $(,)?) => {
        /// The counters of one worker.
        #[derive(Default)]
        pub(crate) struct Counters {
            $($(#[doc = $about])* pub(crate) $name: Counter,)*
        }

        /// Values of [`Counters`] at one moment, of one worker or of several together.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct CounterValues {
            $($(#[doc = $about])* pub(crate) $name: u64,)*
        }

        impl Counters {
            pub(crate) fn read(&self) -> CounterValues {
                CounterValues { $($name: self.$name.read(),)* }
            }
        }

        impl CounterValues {
            /// Each number with its name and its description.
            pub(crate) fn each(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($name), concat!($($about),*).trim_ascii(), self.$name),)*].into_iter()
            }

            /// What was counted after `before` was taken.
            pub(crate) fn since(&self, before: &Self) -> Self {
                CounterValues { $($name: self.$name.saturating_sub(before.$name),)* }
            }
        }

        impl Sum for CounterValues {
            fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
                all.fold(Self::default(), |sum, one| CounterValues { $($name: sum.$name + one.$name,)* })
            }
        }
    };
}

counters! {
    /// Bytes received from clients.
    bytes_read,
    /// Bytes sent to clients.
    bytes_written,
    /// RESP requests of any kind.
    resp_commands,
    /// Keys looked up, by any request that returns values.
    cmd_get,
    /// Requests that bring a value.
    cmd_set,
    /// Requests to forget everything.
    cmd_flush,
    /// Requests that give a key another lifetime.
    cmd_touch,
    /// Meta requests.
    cmd_meta,
    /// Keys looked up and found.
    get_hits,
    /// Keys looked up and not found.
    get_misses,
    /// Keys deleted.
    delete_hits,
    /// Keys to delete that were not found.
    delete_misses,
    /// Numbers incremented.
    incr_hits,
    /// Numbers to increment that were not found.
    incr_misses,
    /// Numbers decremented.
    decr_hits,
    /// Numbers to decrement that were not found.
    decr_misses,
    /// Values stored over the version that the request names.
    cas_hits,
    /// Values to store over a version where there was no value.
    cas_misses,
    /// Comparisons of versions that failed.
    cas_badval,
    /// Keys given another lifetime.
    touch_hits,
    /// Keys to give another lifetime that were not found.
    touch_misses,
    /// Values refused because they are too long.
    store_too_large,
    /// Messages given to subscribers.
    pubsub_delivered,
    /// Scripts run.
    scripts_run,
    /// Scripts stopped: over their limit of time or memory, or by a client.
    scripts_stopped,
    /// Microseconds that scripts took, with what they waited for.
    script_micros,
    /// Requests that waited for a script, transaction or request of several keys of another client, which held the key.
    waited_for_steps,
    /// Attempts to log in.
    auth_cmds,
    /// Attempts to log in that failed.
    auth_errors,
    /// Attempts to log in answered as busy, since too many passwords wait to be compared.
    auth_busy,
    /// Requests answered with an error since they waited for flash too long.
    request_timeouts,
    /// TLS handshakes made.
    tls_handshakes,
    /// TLS handshakes that failed: no TLS, no certificate that is trusted, too slow.
    tls_failures,
    /// Connections closed since they took nothing while others needed the memory.
    closed_slow,
    /// Requests refused since clients hold all the memory that they may.
    refused_busy,
    /// Times that a connection was not read for a while, since waiting requests of its tenant hold all their memory.
    waited_for_memory,
}
