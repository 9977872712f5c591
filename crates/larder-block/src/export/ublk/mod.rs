//! Volumes as disks of the kernel's, `/dev/ublkbN`, by its driver for block devices in user space (ublk, Linux 6.5).
//!
//! ```text
//!   control device ── makes, starts, takes over, stops and deletes devices (control.rs)
//!   character device ─► worker 0   a thread over a queue: its ring to the driver, and its ring to the devices below
//!                    └► …          request ─► bytes copied ─► volume ─► bytes copied ─► answer
//! ```
//!
//! `wire.rs` is what the driver and a server tell each other, `request.rs` what a request means and which are refused,
//! `shape.rs` what the kernel is told of a volume. `queue.rs` carries requests to the volume and back, and knows the
//! driver by a seam (`driver.rs`); `kernel.rs` is the kernel's side of it. The server copies the bytes of requests by
//! reads and writes of the character device (`UBLK_F_USER_COPY`): a system call more than where the driver copies, but
//! no memory is the driver's while a device is idle, and each request owns its buffer as everywhere else.
//!
//! A device outlives its server (`UBLK_F_USER_RECOVERY`). Then requests wait, what the server had begun too
//! (`UBLK_F_USER_RECOVERY_REISSUE`), until a server of the same [`Owner`] takes it over (`choice.rs`); one that nobody
//! will serve any more is removed ([`remove`]).

mod choice;
mod control;
mod driver;
#[doc(hidden)]
pub mod fuzzing;
mod kernel;
mod listing;
mod owner;
mod queue;
#[cfg(test)]
mod queue_tests;
mod request;
mod server;
mod shape;
mod wire;
mod worker;

pub use choice::UblkId;
pub use listing::{UblkService, UblkStatus, devices, remove};
pub use owner::Owner;
pub use server::{OnEnd, UblkConfig, UblkDevice};
