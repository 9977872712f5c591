//! What a set asks of the owner of its content: how a device is divided, and which caches are on a shard.

use std::pin::Pin;
use std::sync::Arc;

use larder_device::{Claim, Device, DeviceInfo};

use crate::base::error::Error;
use crate::cache::Larder;
use crate::fleet::partition::{Division, Part, PartitionTable, ShardNumber};

/// Opens the caches of a shard.
pub(crate) type Opening<'a> = Pin<Box<dyn Future<Output = Result<Vec<Larder>, Error>> + 'a>>;

/// Divides the devices of a set, and opens the caches on them.
pub(crate) trait Tenancy: Send + Sync {
    /// Divides a device; `found` is its table, if there is a valid one.
    ///
    /// # Errors
    /// If that is impossible, or would cost a tenant its content without consent.
    fn divide(&self, info: &DeviceInfo, found: Option<&PartitionTable>) -> Result<Division, Error>;

    /// Opens the caches of a shard, always the same number in the same order, on parts of its device.
    ///
    /// # Errors
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) if the device fails; then none is open.
    fn open<'a>(&'a self, shard: ShardNumber, on: ShardDevice<'a>) -> Opening<'a>;
}

/// The device of a shard, with the parts for its caches.
#[derive(Clone, Copy)]
pub(crate) struct ShardDevice<'a> {
    pub(crate) device: &'a Arc<dyn Device>,
    pub(crate) claim: &'a Arc<Claim>,
    /// A part for each cache.
    pub(crate) parts: &'a [Part],
}
