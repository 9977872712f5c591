//! Exports volumes to the system: by NBD over sockets, and as disks of the kernel by ublk.
//!
//! A [`Volume`](volume::Volume) is a range of bytes. Any device is one ([`DeviceVolume`](volume::DeviceVolume));
//! `larder-block` makes one of a core behind its cache. The protocols know only volumes. Sockets, TLS
//! and the loop of a thread come from `larder-net`.
//!
//! ```text
//!   NBD clients ──► nbd ──┐
//!                         ├──► Volume ──► a device, or a cache before one
//!   /dev/ublkbN ──► ublk ─┘
//! ```
//!
//! A client reads and writes through checked requests only. A hostile client uses a bounded amount of memory and delays
//! no other client.
//!
//! A volume without a server:
//!
//! ```
//! use std::sync::Arc;
//! use larder_device::{Durability, IoBuffer, MemoryDevice};
//! use larder_export::volume::{DeviceVolume, Volume};
//!
//! let volume = DeviceVolume::new(Arc::new(MemoryDevice::holding(vec![0; 1 << 20])));
//! let mut bytes = IoBuffer::zeroed(5);
//! bytes.as_mut_slice().copy_from_slice(b"bread");
//! volume.write(1021, bytes, Durability::Device).wait()?; // of any length, at any offset
//! assert_eq!(volume.read(1021, IoBuffer::zeroed(5)).wait()?.as_slice(), b"bread");
//! # Ok::<(), larder_device::IoFailure>(())
//! ```
//!
//! | file | content |
//! |---|---|
//! | `volume` | what is exported: the trait, and devices as volumes |
//! | `nbd` (Linux) | a server of NBD |
//! | `ublk` (Linux) | disks of the kernel |

#[cfg(target_os = "linux")]
pub mod nbd;
#[cfg(target_os = "linux")]
pub mod ublk;
pub mod volume;
