//! What the cache tells about itself: counters, latencies, events for a log, and the outcome of an opening.
//!
//! Uses `base`.
//!
//! Invariants:
//!
//! 1. Each item that is rejected or lost has a counter with the reason.
//! 2. Counting takes no lock. Threads count in different cache lines, as far as there are stripes ([`stats`]).
//! 3. A number is declared once, with its help; all lists and sums of numbers are generated from that.
//!
//! | file | what it is |
//! |---|---|
//! | `endurance` | what the drive is rated for, and how long it will last |
//! | `events` | events for the operator's log (feature `tracing`) |
//! | `latency` | histograms of the latency of calls |
//! | `load` | sizes and lifetimes of the objects on their way to flash |
//! | `metrics` | name, kind, unit and help of a number |
//! | `open_metrics` | the numbers as text for monitoring systems |
//! | `recovery` | what an opening found |
//! | `stats` | the counters; `moves`: data that the drive moved; `sum`: sums over several caches |

pub mod endurance;
pub(crate) mod events;
pub(crate) mod latency;
pub mod load;
pub(crate) mod metrics;
pub(crate) mod open_metrics;
pub(crate) mod recovery;
pub mod stats;
