//! One cache on each device of a set.

use std::sync::Arc;

use larder_device::{Claim, Clock, Device, DeviceInfo, PlacementHandle, SliceDevice};

use super::opening::{ShardDevice, Tenancy};
use super::rendezvous::config_of;
use crate::cache::Larder;
use crate::config::Config;
use crate::error::{Error, ErrorKind};
use crate::layout::Layout;
use crate::partition::{Division, Part, PartitionTable, ShardNumber, grain_bytes};

/// The only part of a device without tenants is called so.
const PART_NAME: &str = "shard";
/// And it has all of the device.
const PART_PPM: u32 = 1_000_000;

/// Nobody shares the devices.
pub(super) struct Alone {
    /// Of one shard.
    config: Config,
    clock: Arc<dyn Clock>,
}

impl Alone {
    /// `config` is that of all shards together.
    pub(super) fn new(config: Config, count: usize, clock: Arc<dyn Clock>) -> Self {
        let part = |bytes: u64| bytes / count as u64;
        let config = Config {
            dram_bytes: part(config.dram_bytes),
            memory_bytes: config.memory_bytes.map(part),
            demoting_bytes_max: config.demoting_bytes_max.map(part),
            ..config
        };
        Self { config, clock }
    }
}

impl Tenancy for Alone {
    fn divide(&self, info: &DeviceInfo, found: Option<&PartitionTable>) -> Result<Division, Error> {
        match found.map(|table| &table.parts[..]) {
            Some([part]) if part.name == PART_NAME && part.share_ppm == PART_PPM => {
                Ok(Division { parts: vec![part.clone()], ..Division::default() })
            }
            Some(_) => Err(Error::new(
                ErrorKind::Foreign,
                format!(
                    "{} is divided among tenants; open the set with Tenants::open_sharded, or set start_empty",
                    info.name
                ),
            )),
            None => {
                let part = whole(info)?;
                // What cannot work is refused before anything is erased.
                let capacity_bytes = part.bytes;
                Layout::plan(&self.config, &DeviceInfo { capacity_bytes, ..info.clone() })?;
                let parts = vec![part];
                Ok(Division { new: parts.clone(), parts, is_changed: true, ..Division::default() })
            }
        }
    }

    async fn open(
        &self,
        shard: ShardNumber,
        on: Option<ShardDevice<'_>>,
    ) -> Result<Vec<Larder>, Error> {
        let slice = on.map(|on| slice(&on)).transpose()?;
        let config = config_of(&self.config, shard);
        let cache = Larder::open_placed(config, slice, Arc::clone(&self.clock), None).await?;
        Ok(vec![cache])
    }
}

/// All of a device but what its table takes.
fn whole(info: &DeviceInfo) -> Result<Part, Error> {
    let grain = grain_bytes(info);
    let bytes = (info.capacity_bytes / grain * grain).saturating_sub(grain);
    if bytes == 0 {
        let capacity = info.capacity_bytes;
        return Err(Error::config(format!("{} has {capacity} bytes: too few", info.name)));
    }
    Ok(Part { name: PART_NAME.to_owned(), share_ppm: PART_PPM, start: grain, bytes })
}

/// The part of a device that is its shard, with all handles, and the claim of the device.
fn slice(on: &ShardDevice<'_>) -> Result<(Arc<dyn Device>, Arc<Claim>), Error> {
    let [part] = on.parts else { unreachable!("it was divided so") };
    let handles = 1..on.device.info().placement.handles;
    let handles: Vec<_> = handles.map(PlacementHandle::new).collect();
    let slice = SliceDevice::new(Arc::clone(on.device), part.range(), &handles)
        .map_err(|error| Error::device("shard", error))?;
    Ok((Arc::new(slice), Arc::clone(on.claim)))
}
