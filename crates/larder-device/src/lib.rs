//! The one storage interface of Larder, and its backends.
//!
//! A [`Device`] takes [`Io`]s that own their buffers and gives the buffers back when they are done.
//! Every write names the [`PlacementHandle`] of the bytes that it carries: where a byte is written
//! decides what it costs on flash.
//!
//! | module | what it is |
//! |---|---|
//! | [`device`] | the [`Device`] trait, what a device says of itself, its counters |
//! | [`io`] | requests, their checks (bounds, alignment), their completion |
//! | [`blocks`] | the [`BlockStore`] trait for whoever only appends, and its implementations |
//! | [`buffer`] | aligned, pooled buffers |
//! | [`placement`] | handles, and what a device says of them |
//! | [`claim`] | who has which bytes of which device |
//! | [`clock`] | real and virtual time |
//! | [`error`] | what can go wrong below the cache |
//! | [`identity`] | what tells a device from others, whatever its name is |
//! | `ladder` (Linux) | what a path offers to tenants who must not disturb each other |
//! | [`label`] | what Larder's formats begin with on a device |
//! | [`opening`] | from what a user names to a device, and how placement reaches it |
//! | [`mod@file`] | a plain file or a block device as device: io_uring or a thread pool |
//! | `mapped` (Linux) | persistent memory: a file that is mapped |
//! | [`memory`] | bytes in memory as device, for tests |
//! | [`model`] | the SSD model as device, payload in memory |
//! | [`model::virtual_time`] | devices whose requests take the time that a model says, by a virtual clock |
//! | [`nvme`] | NVMe drives of Linux and what they say of their placement |
//! | `ring` (Linux) | a ring of io_uring that a thread hosts for all its devices |
//! | [`steps`] | a request that consists of several in turn |
//! | [`striped`] | several devices as one |
//! | [`sockets`] | stream sockets of one thread, by io_uring or `epoll`, and sockets that listen (Linux) |
//! | [`mod@slice`] | a part of a device as a device: one tenant of a drive |
//! | [`zones`] | zoned devices: what they have beside a device |
//! | [`timeout`] | a device around any other whose requests end in time, well or not |
//! | [`fault`] | a device around any other that misbehaves to plan |

pub mod blocks;
pub mod buffer;
pub mod claim;
pub mod clock;
pub mod device;
pub mod error;
pub mod fault;
pub mod file;
mod fixed_index;
mod heap;
pub mod identity;
pub mod io;
pub mod label;
#[cfg(target_os = "linux")]
pub mod ladder;
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
#[cfg(target_os = "linux")]
pub mod sockets;
mod spares;
pub mod steps;
pub mod striped;
pub mod timeout;
pub mod zones;

pub use blocks::{
    BlockId, BlockState, BlockStore, BlocksOnDevice, DeviceOnBlocks, DeviceOnBlocksOptions,
    MemoryBlocks, StoreInfo, Stream, ZonedBlocks,
};
pub use buffer::{BufferPool, IoBuffer};
pub use claim::{Claim, DeviceIdentity, Extent};
pub use clock::{Clock, LoopClock, RealClock, Sleep, VirtualClock};
pub use device::{BLOCK_BYTES_MIN, Device, DeviceInfo, DeviceStats, VolatileCache};
pub use error::{Error, ErrorKind};
pub use fault::{Condition, DegradedDevice, Fault, FaultCounts, FaultDevice, FaultPlan, FaultRule};
pub use file::{DirectIo, FileDevice, FileOptions, IoEngine};
pub use heap::give_back_free_memory;
pub use identity::{Identifier, IdentifierKind, Identity};
pub use io::{
    CheckedIo, Completer, Durability, Ending, Io, IoFailure, IoFuture, IoResult, Observer,
    RequestKind,
};
#[cfg(target_os = "linux")]
pub use mapped::MappedDevice;
pub use memory::MemoryDevice;
pub use model::virtual_time::{ShapedStorage, SsdTiming, VirtualTimeDevice};
pub use model::{ModelDevice, Payload};
pub use observe::ObservedDevice;
pub use opening::{
    OpenOptions, Opened, PlacementMode, PlacementPath, PlacementStatus, Target, open, open_asking,
};
pub use park::block_on;
pub use placement::{Isolation, PlacementHandle, PlacementInfo};
pub use plug::plugged;
pub use private::{create_private_directory, create_private_file};
pub use slice::SliceDevice;
pub use striped::StripedDevice;
pub use timeout::TimeoutDevice;
#[cfg(target_os = "linux")]
pub use zones::ZonedFile;
pub use zones::{Zone, ZoneLimits, ZoneState, ZonedDevice};
