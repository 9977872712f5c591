//! A block cache in front of a slow device.
//!
//! A *core* device is large and slow. A *cache* device in front of it is small and fast. The cache keeps parts of a
//! core in cache lines. A *layout* decides where on the cache device the lines are stored, and which metadata is
//! written with them so that they are found again after a crash.
//!
//! A cached core is a [`Volume`](larder_export::volume::Volume) ([`CachedVolume`](volume::CachedVolume)), which
//! `larder-export` exports to the system.
//!
//! A cache of 8 MiB in front of a core of 16 MiB, both in memory:
//!
//! ```
//! use std::sync::Arc;
//! use larder_block::cache::Mode;
//! use larder_block::layout::CoreId;
//! use larder_block::layout::log::LogOptions;
//! use larder_block::manage::{Core, CreateOptions, LayoutOptions, OpenOptions, create, open};
//! use larder_block::volume::CachedVolume;
//! use larder_device::{Device, Durability, IoBuffer, MemoryDevice, block_on};
//! use larder_export::volume::Volume;
//!
//! let memory = |bytes| Arc::new(MemoryDevice::holding(vec![0; bytes])) as Arc<dyn Device>;
//! let cache_device = memory(8 << 20);
//! let id = CoreId::new(0).unwrap();
//! let cores = [Core { id, name: "slow".to_owned(), device: memory(16 << 20) }];
//! block_on(async {
//!     // A log needs at least eight segments.
//!     let log = LogOptions { segment_bytes: 256 << 10, ..LogOptions::default() };
//!     let layout = LayoutOptions::Log(log);
//!     let mode = Mode::WriteBack;
//!     let options = CreateOptions { layout, mode, ..CreateOptions::default() };
//!     create(&cache_device, &cores, &options).await?;
//!     let opened = open(&cache_device, &cores, &OpenOptions::default()).await?;
//!     let volume = CachedVolume::new(opened.cache.core(id).unwrap());
//!     volume.write(0, IoBuffer::zeroed(4096), Durability::Device).await.unwrap();
//!     drop(volume);
//!     opened.stop(true).await?; // writes dirty data to the core first
//!     Ok::<(), larder_block::Error>(())
//! })?;
//! # Ok::<(), larder_block::Error>(())
//! ```

pub mod accounting;
pub mod cache;
pub mod calibration;
mod error;
pub mod fingerprint;
pub mod layout;
pub mod manage;
mod mode;
pub mod policy;
pub mod running;
mod span;
mod streams;
pub mod volume;

pub use error::{Error, ErrorKind};
