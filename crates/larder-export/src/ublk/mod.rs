//! Exports volumes as disks of the kernel, `/dev/ublkbN`, by its driver for block devices in user space (ublk, Linux
//! 6.5).
//!
//! ```text
//!   control device ── makes, starts, takes over, stops and deletes devices (control.rs)
//!   character device ─► worker 0   a thread over a queue: its ring to the driver, and its ring to the devices below
//!                    └► …          request ─► bytes copied ─► volume ─► bytes copied ─► answer
//! ```
//!
//! `wire.rs` has the messages between the driver and a server, `request.rs` the meaning of requests and the checks of
//! them, `shape.rs` the properties of a volume that the kernel is told. `queue.rs` carries requests to the volume and
//! back, and uses the driver through an interface (`driver.rs`) that `kernel.rs` implements. The server copies the
//! bytes of requests by reads and writes of the character device (`UBLK_F_USER_COPY`). This takes one more system call
//! than a copy by the driver, but the driver holds no memory while a device is idle, and each request owns its buffer
//! as everywhere else.
//!
//! A device outlives its server (`UBLK_F_USER_RECOVERY`). Then requests wait, including those that the server had
//! begun (`UBLK_F_USER_RECOVERY_REISSUE`), until a server of the same [`Owner`] takes the device over (`choice.rs`). A
//! device that will not be served again can be removed ([`remove`]).

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
