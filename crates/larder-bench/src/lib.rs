//! A load generator for servers that speak memcached's protocol or Redis'.
//!
//! It answers three questions: how long requests take at a given rate ([`Pace::Open`]: arrivals do not wait for
//! answers, and a request's time counts from when it should have been sent, so that a server that stalls is not
//! asked less meanwhile, which is called coordinated omission); how many requests a server answers
//! ([`Pace::Closed`]); and which rate it can keep under a limit of latency ([`saturation`]). Several servers are
//! measured in one run, in turns, and beside each number stands what the server's threads used of the processor.
//! Every value that comes back is checked: it says whose it is, and its bytes follow from that.
//!
//! | module | what it is |
//! |---|---|
//! | [`target`] | whom to ask: protocol, address, credentials |
//! | `tls`, `stream` | what a socket speaks below the protocol |
//! | [`workload`] | what is asked: keys by popularity, sizes, sets; or one of larder-workload's streams |
//! | `value` | the bytes of values, and whether they are right |
//! | `protocol` | requests and replies as bytes |
//! | `connection`, `worker` | a socket, and a thread's loop over its sockets |
//! | [`run`] | one measurement of one target; and how its keys are put there first |
//! | [`compare`] | rounds of several targets in turns |
//! | [`saturation`] | the highest rate under a limit of latency |
//! | `server_cpu` | which process serves an address, and the processor's time of its threads |

#![cfg(target_os = "linux")]

pub mod compare;
mod connection;
mod protocol;
pub mod run;
pub mod saturation;
mod server_cpu;
mod stream;
pub mod target;
mod tls;
mod value;
mod worker;
pub mod workload;

pub use larder_workload::Error;
pub use run::{Load, Measured, Pace};
pub use target::{Protocol, Target};
pub use tls::Tls;
pub use workload::{Popularity, Workload};
