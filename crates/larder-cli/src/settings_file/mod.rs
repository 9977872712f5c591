//! `larder.toml`: what the file may say about a server and about caches of block devices, and where a value comes from.
//!
//! `file` is the whole file; the other modules are its parts. `serve` and `block` read it.

pub(crate) mod array;
mod block;
pub(crate) mod cache;
pub(crate) mod cluster;
mod file;
mod log_level;
mod one_or_many;
pub(crate) mod places;
mod size;
mod source;
mod tenants;
pub(crate) mod tls;

pub(crate) use block::BlockEntry;
pub(crate) use cache::CacheSettings;
pub(crate) use file::SettingsFile;
pub(crate) use source::{From, Setting, Source, pick, pick_some};
pub(crate) use tenants::{IsolatedPlace, TenantSettings};
