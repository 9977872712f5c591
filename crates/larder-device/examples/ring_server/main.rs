//! What it costs to answer a request from flash, by who fetches the drive's completions:
//!
//! ```sh
//! cargo run --release -p larder-device --example ring_server -- --help
//! ```
//!
//! Servers that answer with the first 64 bytes of a block of 4 KiB, which they read from a file each time:
//! a loop over `epoll` and a `current_thread` runtime of tokio, each on a ring that its thread hosts and on
//! the rings of the device, whose reaper wakes it. Each connection has `--depth` requests under way. All run in
//! turn in each round, in another order each time, the server with its reapers pinned to the first core and the clients
//! to the last, unless it is said otherwise. Processor time is that of all threads but the clients' (`schedstat`).
//!
//! | file | what it is |
//! |---|---|
//! | `epoll.rs` | a server with a loop of its own: how a ring is hosted beside sockets |
//! | `runtime.rs` | the same in tasks of tokio |
//! | `clients.rs` | who asks |
//! | `measure.rs` | rounds, medians, what they were measured on |

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
