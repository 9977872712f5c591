//! Cache workloads: streams of requests, recorded or generated, and what they look like.
//!
//! A request has a key, sizes, a lifetime and a time, no content: whoever replays it makes the bytes. Nothing
//! here knows a cache or a drive. A generator is a function of its parameters and its seed, and nothing reads a
//! clock.
//!
//! | module | what it is |
//! |---|---|
//! | `request` | [`Request`], [`Op`], and [`RequestSource`], where they come from |
//! | [`trace`] | readers of recorded traces |
//! | [`generate`] | generators fitted to published traces, by name |
//! | [`stats`] | what a workload looks like: sizes, repeats, miss ratios |
//! | [`machine`] | what numbers were measured on |
//! | `latencies`, `rounds` | [`Latencies`], how long requests took; [`Spread`], what rounds of a measurement say |
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
pub use request::{Op, Request, RequestSource};
pub use rounds::Spread;
