//! The one storage interface of Larder, and its backends.
//!
//! A [`Device`] takes [`Io`]s that own their buffers and gives the buffers back when they are done. Every write names
//! the [`PlacementHandle`] of the bytes that it carries: where a byte is written decides what it costs on flash.
//!
//! | module | content |
//! |---|---|
//! | [`device`] | the [`Device`] trait, and where a device stores its bytes |
//! | [`io`] | requests, their checks (bounds, alignment), their completion |
//! | [`buffer`] | aligned, pooled buffers |
//! | [`placement`] | placement handles, and what a device reports of them |
//! | [`claim`] | claims on device bytes within a process |
//! | [`clock`] | real and virtual time |
//! | [`error`] | errors below the cache |
//! | [`identity`] | recognises a device under any name |
//! | [`label`] | the label at the start of our devices |
//! | [`opening`] | opens the device that a user names, with the best placement available |
//! | [`mod@file`] | a device on a plain file or a block device: io_uring or a thread pool |
//! | `mapped` (Linux) | persistent memory: a file that is mapped |
//! | [`memory`] | a device in memory, for tests |
//! | [`model`] | the SSD model as a device, payload in memory |
//! | [`model::virtual_time`] | devices whose requests take the time that a model says, by a virtual clock |
//! | [`nvme`] | NVMe drives on Linux and their placement |
//! | `ring` (Linux) | an io_uring that a thread hosts for all its devices |
//! | [`steps`] | a request that consists of several in turn |
//! | [`striped`] | several devices as one |
//! | [`mod@slice`] | a part of a device as a device, for one tenant of a drive |
//! | [`zones`] | zoned devices: their additions to a device |
//! | [`timeout`] | a device around any other whose requests end within a time limit |
//! | [`fault`] | a device around any other that misbehaves according to a plan |

pub mod buffer;
pub mod claim;
pub mod clock;
pub mod device;
mod drive_report;
mod driver;
pub mod error;
mod event_tally;
pub mod fault;
pub mod file;
mod file_options;
mod fixed_index;
mod heap;
pub mod identity;
mod info;
pub mod io;
pub mod label;
#[cfg(target_os = "linux")]
pub mod mapped;
pub mod memory;
pub mod model;
pub mod nvme;
pub mod observe;
pub mod opening;
mod park;
pub mod placement;
pub mod plan;
mod plug;
pub mod private;
#[cfg(target_os = "linux")]
pub mod ring;
pub mod slice;
mod spares;
pub mod steps;
pub mod striped;
mod sys;
pub mod timeout;
mod transfer;
pub mod zones;

pub use buffer::{BufferPool, IoBuffer};
pub use claim::Claim;
pub use clock::{Clock, LoopClock, RealClock, Sleep, VirtualClock};
pub use device::{Device, DeviceIdentity, Extent};
pub use driver::Advance;
pub use error::{Error, ErrorKind};
pub use fault::{
    Condition, DegradedDevice, Fault, FaultCounts, FaultDevice, FaultPlan, FaultRule, HeldDevice,
};
pub use file::FileDevice;
pub use file_options::{DirectIo, FileOptions, IoEngine};
pub use heap::give_back_free_memory;
pub use identity::{Identifier, IdentifierKind, Identity};
pub use info::{BLOCK_BYTES_MIN, DeviceInfo, DeviceStats, VolatileCache};
pub use io::{
    CheckedIo, Completer, Durability, Ending, Io, IoFailure, IoFuture, IoResult, Observer,
    RequestKind,
};
#[cfg(target_os = "linux")]
pub use mapped::MappedDevice;
pub use memory::MemoryDevice;
pub use model::virtual_time::{ShapedStorage, SsdTiming, VirtualTimeDevice};
pub use model::{ModelDevice, ModelSpec, Payload};
pub use observe::ObservedDevice;
pub use opening::{
    OpenOptions, Opened, PlacementMode, PlacementStatus, Target, TargetKind, open, open_asking,
};
pub use park::block_on;
pub use placement::{Isolation, PlacementHandle, PlacementInfo, PlacementPath};
pub use plug::plugged;
pub use private::{create_private_directory, create_private_file};
pub use slice::SliceDevice;
pub use striped::StripedDevice;
pub use timeout::TimeoutDevice;
#[cfg(target_os = "linux")]
pub use zones::ZonedFile;
pub use zones::{Zone, ZoneLimits, ZoneState, ZonedDevice};
