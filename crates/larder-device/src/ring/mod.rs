//! An io_uring that a thread hosts for all its devices. Linux only.
//!
//! A thread that hosts no ring shares a device's own rings with other threads: one of the waiting threads, or a thread
//! of the device (a reaper), fetches the completions for all and wakes the waiters. A thread with a loop of its own,
//! such as a worker of a server, can do better: it *hosts* a ring ([`host`]), and all its requests, to any
//! [`FileDevice`](crate::FileDevice) or [`PassthroughDevice`](crate::nvme::PassthroughDevice), travel through that
//! ring. One call hands the kernel all requests of a turn. The thread sleeps once for all devices and fetches its
//! completions itself; no other thread wakes for them, and it waits for no lock. Devices need no set-up for this: they
//! join the ring with their first request from this thread, and keep serving other threads as before.
//!
//! Such a thread must keep its ring turning:
//!
//! - with one future: [`HostedRing::block_on`] does everything;
//! - with a loop of its own that sleeps for drives: [`HostedRing::turn`];
//! - with `epoll` or a runtime: in each turn [`HostedRing::reap`], the tasks, [`HostedRing::submit`], and the sleep,
//!   for [`HostedRing::poll_fd`] among others. The example `ring_server` has both.
//!
//! Requests that the host has begun do not end while it does not turn its ring. Their futures can be polled, waited for
//! and dropped on any thread. But if the host blocks until another thread has got the result of such a request, both
//! threads block forever. Where the kernel grants no ring, or the ring cannot carry what a device needs, requests go
//! through the device's own rings or threads as if no ring were hosted.
//!
//! # Examples
//! ```
//! use larder_device::{Device, FileDevice, Io, IoBuffer, IoResult, ring};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let directory = tempfile::tempdir()?;
//! let devices = [0, 1].map(|n| FileDevice::create(directory.path().join(n.to_string()), 1 << 20));
//! let [one, other] = devices.map(Result::unwrap);
//! let read = |device: &FileDevice| {
//!     device.submit(Io::Read { offset: 0, buffer: IoBuffer::zeroed(4096) })
//! };
//! match ring::host() {
//!     Ok(ring) => ring.block_on(async {
//!         // One call tells the kernel of both, and one sleep waits for both.
//!         let (first, second) = (read(&one), read(&other));
//!         assert_eq!(first.await?.len() + second.await?.len(), 8192);
//!         IoResult::Ok(IoBuffer::empty())
//!     })?,
//!     Err(why) => return Ok(println!("{why}; requests work all the same")),
//! };
//! # Ok(())
//! # }
//! ```

#[cfg(test)]
#[cfg(not(shuttle))]
mod asleep_tests;
mod core;
pub(crate) mod fixed;
mod host;
mod hosted;
#[cfg(test)]
#[cfg(shuttle)]
mod interleavings;
mod kernel;
mod linux;
pub(crate) mod member;
#[cfg(test)]
pub(crate) mod pipe;
mod queues;
mod registration;
mod sync;
#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
pub(crate) mod wire;

pub(crate) use host::is_hosted;
pub use host::{HostedRing, RingOptions, RingStats, host, host_with, reap, submit};
