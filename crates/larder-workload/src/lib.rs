//! Cache workloads: streams of requests, recorded or generated, and statistics of them.
//!
//! A request has a key, sizes, a lifetime and a time, but no content: the replayer makes the bytes. Nothing in this
//! crate knows a cache or a drive. A generator is a function of its parameters and its seed, and nothing reads a clock.
//!
//! | module | what it is |
//! |---|---|
//! | `request` | [`Request`], [`Op`], and [`RequestSource`], a stream of them; [`RecordedRequests`], in memory |
//! | [`trace`] | readers of recorded traces |
//! | [`generate`] | generators fitted to published traces, by name |
//! | [`stats`] | statistics of a workload: sizes, repeats, miss ratios |
//! | [`machine`] | the machine on which numbers were measured |
//! | `latencies`, `rounds` | [`Latencies`], durations of requests; [`Spread`], the spread of measured rounds |
//! | `hash` | numbers mixed into keys, and keys into their properties |
//! | [`error`] | what can go wrong |

pub mod error;
pub mod generate;
mod hash;
mod latencies;
pub mod machine;
mod request;
mod rounds;
pub mod stats;
pub mod trace;

pub use error::Error;
pub use latencies::Latencies;
pub use request::{Op, RecordedRequests, Request, RequestSource};
pub use rounds::Spread;
