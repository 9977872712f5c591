//! The cost of answering a request from flash, depending on which thread fetches the drive's completions:
//!
//! ```sh
//! cargo run --release -p larder-device --example ring_server -- --help
//! ```
//!
//! Each server answers with the first 64 bytes of a 4 KiB block, which it reads from a file each time. There are two
//! kinds, a loop over `epoll` and a `current_thread` runtime of tokio. Each kind runs on a ring that its thread hosts,
//! and on the rings of the device, whose reaper wakes it. Each connection has `--depth` requests in flight. All servers
//! run in turn in each round, and the order alternates. Unless `--unpinned` is given, the server and its reapers are
//! pinned to the first core and the clients to the last. Processor time is that of all threads except the clients'
//! (`schedstat`).
//!
//! | file | content |
//! |---|---|
//! | `epoll.rs` | a server with an event loop of its own: how to host a ring next to sockets |
//! | `runtime.rs` | the same in tasks of tokio |
//! | `clients.rs` | the clients |
//! | `measure.rs` | rounds, medians, the measured machine |

#[cfg(target_os = "linux")]
mod clients;
#[cfg(target_os = "linux")]
mod epoll;
#[cfg(target_os = "linux")]
mod measure;
#[cfg(target_os = "linux")]
mod runtime;

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    measure::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("rings are hosted on Linux only");
}
