//! A set without tenants: one cache on each device.

use std::sync::Arc;

use larder_device::{Claim, Clock, Device, DeviceInfo, PlacementHandle, SliceDevice};

use super::name::key_of_name;
use super::places::mix;
use super::tenancy::{Opening, ShardDevice, Tenancy};
use crate::base::error::{Error, ErrorKind};
use crate::base::layout::Layout;
use crate::cache::Larder;
use crate::cache::memory::check_before;
use crate::config::Config;
use crate::dram::versions::Versions;
use crate::fleet::partition::{Division, Part, PartitionTable, ShardNumber, grain_bytes};

/// Name of the only part of a device without tenants.
const PART_NAME: &str = "shard";
/// That part has all of the device.
const PART_PPM: u32 = 1_000_000;

/// The devices have no tenants.
pub(crate) struct Alone {
    /// Configuration of all shards together.
    config: Config,
    /// Number of devices when the set was opened.
    count: u64,
    clock: Arc<dyn Clock>,
    /// Version counters of all shards, because a key may move between shards.
    versions: Arc<Versions>,
}

impl Alone {
    /// `config` is that of all shards together.
    pub(crate) fn new(config: Config, count: usize, clock: Arc<dyn Clock>) -> Self {
        let versions = Arc::new(Versions::of_names(key_of_name));
        Self { config, count: count as u64, clock, versions }
    }

    /// The configuration of one of `count` shards.
    fn config_of_each(&self, count: u64) -> Config {
        let part = |bytes: u64| bytes / count;
        Config {
            dram_bytes: part(self.config.dram_bytes),
            memory_bytes: self.config.memory_bytes.map(part),
            demoting_bytes_max: self.config.demoting_bytes_max.map(part),
            ..self.config.clone()
        }
    }

    /// Checks whether a shard can be on this part of a device.
    fn check(&self, info: &DeviceInfo, part: &Part) -> Result<(), Error> {
        let config = self.config_of_each(self.count);
        let info = DeviceInfo { capacity_bytes: part.bytes, ..info.clone() };
        Layout::plan(&config, &info)?;
        check_before(config.memory_bytes, [(&config, info)].into_iter(), "flash")
    }
}

impl Tenancy for Alone {
    fn divide(&self, info: &DeviceInfo, found: Option<&PartitionTable>) -> Result<Division, Error> {
        match found.map(|table| &table.parts[..]) {
            Some([part]) if part.name == PART_NAME && part.share_ppm == PART_PPM => {
                self.check(info, part)?;
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
                // Refuse settings that cannot work before anything is erased.
                self.check(info, &part)?;
                let parts = vec![part];
                Ok(Division { new: parts.clone(), parts, is_changed: true, ..Division::default() })
            }
        }
    }

    fn open<'a>(&'a self, shard: ShardNumber, on: ShardDevice<'a>) -> Opening<'a> {
        Box::pin(async move {
            let config = config_of(&self.config_of_each(self.count), shard);
            let slice = Some(slice(&on)?);
            let (clock, versions) = (Arc::clone(&self.clock), Arc::clone(&self.versions));
            let cache = Larder::open_placed(config, slice, clock, None, Some(versions)).await?;
            Ok(vec![cache])
        })
    }
}

/// The configuration of a shard's cache; a given hash seed becomes a different one for each shard.
pub(crate) fn config_of(config: &Config, shard: ShardNumber) -> Config {
    let hash_seed = config.hash_seed.map(|seed| mix(seed, shard.index()));
    Config { hash_seed, ..config.clone() }
}

/// All of a device except its partition table.
fn whole(info: &DeviceInfo) -> Result<Part, Error> {
    let grain = grain_bytes(info);
    let bytes = (info.capacity_bytes / grain * grain).saturating_sub(grain);
    if bytes == 0 {
        let capacity = info.capacity_bytes;
        return Err(Error::config(format!("{} has {capacity} bytes: too few", info.name)));
    }
    Ok(Part { name: PART_NAME.to_owned(), share_ppm: PART_PPM, start: grain, bytes })
}

/// The shard's part of its device, with all placement handles, and the claim of the device.
fn slice(on: &ShardDevice<'_>) -> Result<(Arc<dyn Device>, Arc<Claim>), Error> {
    let [part] = on.parts else { unreachable!("it was divided so") };
    let handles = 1..on.device.info().placement.handles;
    let handles: Vec<_> = handles.map(PlacementHandle::new).collect();
    let slice = SliceDevice::new(Arc::clone(on.device), part.range(), &handles)
        .map_err(|error| Error::device("shard", error))?;
    Ok((Arc::new(slice), Arc::clone(on.claim)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::partition::SHARDS_MAX;

    #[test]
    fn a_seed_that_is_given_is_another_one_for_each_shard() {
        let config = Config { hash_seed: Some(7), ..Config::default() };
        let seeds: Vec<_> =
            ShardNumber::all(SHARDS_MAX).map(|n| config_of(&config, n).hash_seed).collect();
        assert!((0..seeds.len()).all(|n| seeds[n].is_some() && !seeds[..n].contains(&seeds[n])));
        assert_eq!(config_of(&Config::default(), ShardNumber::new(3).unwrap()).hash_seed, None);
    }
}
