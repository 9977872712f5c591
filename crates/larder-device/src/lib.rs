//! The one storage interface of Larder, and its backends.
//!
//! A [`Device`] takes [`Io`]s that own their buffers and gives the buffers back when they are done. Every write names
//! the [`PlacementHandle`] of the bytes that it carries: where a byte is written decides what it costs on flash.
//!
//! | module | what it is |
//! |---|---|
//! | [`device`] | the [`Device`] trait, what a device says of itself, its counters |
//! | [`io`] | requests, their checks (bounds, alignment), their completion |
//! | [`buffer`] | aligned, pooled buffers |
//! | [`placement`] | handles and how they are given out |
//! | [`clock`] | real and virtual time |

pub mod buffer;
pub mod clock;
pub mod device;
pub mod error;
pub mod io;
pub mod placement;

pub use buffer::{BufferPool, IoBuffer};
pub use clock::{Clock, RealClock, VirtualClock};
pub use device::{Device, DeviceInfo, DeviceStats};
pub use error::{Error, ErrorKind};
pub use io::{CheckedIo, Io, IoFailure, IoFuture, IoResult};
pub use placement::{Assignment, HandleAllocator, Isolation, PlacementHandle, PlacementInfo};
