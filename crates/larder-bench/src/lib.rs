//! A load generator for servers that speak memcached's protocol or Redis'.
//!
//! It answers three questions. How long do requests take at a given rate ([`Pace::Open`])? Arrivals do not wait for
//! answers, and a request's time counts from when it should have been sent; otherwise a stalled server would get fewer
//! requests, which is called coordinated omission. How many requests does a server answer ([`Pace::Closed`])? And which
//! rate can it keep under a latency limit ([`saturation`])? Several servers are measured in one run, in turns, and each
//! result includes the CPU time of the server's threads. Every value that comes back is checked: it contains its key,
//! and its bytes follow from that.
//!
//! | module | what it is |
//! |---|---|
//! | [`target`] | the server: protocol, address, credentials |
//! | `tls`, `stream` | the socket below the protocol |
//! | [`workload`] | the requests: keys by popularity, sizes, sets; or one of larder-workload's streams |
//! | `value` | the bytes of values, and how they are checked |
//! | `protocol` | requests and replies as bytes |
//! | `connection`, `worker` | a socket, and a thread's loop over its sockets |
//! | [`run`] | one measurement of one target; and how its keys are stored first |
//! | [`compare`] | rounds of several targets in turns |
//! | [`saturation`] | the highest rate under a latency limit |
//! | `server_cpu` | the process that serves an address, and the CPU time of its threads |

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
pub use run::{Load, Measurement, Pace};
pub use target::{Protocol, Target};
pub use tls::Tls;
pub use workload::{Popularity, Workload};
