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

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A struct of counters, one of their values, and their names.
macro_rules! counters {
    ($($(#[$about:meta])* $name:ident),* $(,)?) => {
        /// See the module.
        #[derive(Default)]
        pub(crate) struct Counters {
            $($(#[$about])* pub(crate) $name: Counter,)*
        }

        /// What [`Counters`] said at some moment, of one worker or of several together.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Counted {
            $($(#[$about])* pub(crate) $name: u64,)*
        }

        impl Counters {
            pub(crate) fn read(&self) -> Counted {
                Counted { $($name: self.$name.read(),)* }
            }
        }

        impl Counted {
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
    get_hits,
    get_misses,
    delete_hits,
    delete_misses,
    incr_hits,
    incr_misses,
    decr_hits,
    decr_misses,
    cas_hits,
    cas_misses,
    /// Comparisons of versions that failed.
    cas_badval,
    touch_hits,
    touch_misses,
    /// Values that were longer than they may be.
    store_too_large,
    /// Attempts to log in.
    auth_cmds,
    /// Those of them that failed.
    auth_errors,
    /// Requests refused since too many bytes are under way.
    refused_busy,
}
