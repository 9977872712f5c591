//! The device of a tenant on a store of erase blocks: on a virtual SSD, or on the zones of a drive.

use std::sync::Arc;

use indicatif::BinaryBytes;
use larder::{Device, OnChange, Tenant, block_on};
use larder_blocks::{BlockStore, DeviceOnBlocks, DeviceOnBlocksOptions, StoreInfo, ZonedBlocks};
use larder_device::{ErrorKind, Target, TargetKind, ZoneState, ZonedDevice, ZonedFile};
use larder_workload::Error;

use super::settings::Settings;
use super::telling::say;
use super::words;
use crate::settings_file::TenantSettings;

/// A tenant and the device that it has for itself.
pub(crate) type OwnDevice = (Tenant, Arc<dyn Device>);

/// A tenant's device on `store`. If there is none, it is made.
pub(super) fn device_on(
    store: Arc<dyn BlockStore>,
    tenant: &TenantSettings,
    settings: &Settings,
) -> Result<OwnDevice, Error> {
    let failed = |error| failed(tenant, &error);
    let mut own = settings.tenant(tenant);
    // A region of the log is a block, which is erased as a whole.
    let block_bytes = u32::try_from(store.info().block_bytes).unwrap_or(u32::MAX);
    own.config.loc.region_bytes.get_or_insert(block_bytes);
    let options = own.config.on_blocks(store.info());
    let options = options.map_err(|error| refused(tenant, &words::of_serve(&error)))?;
    let made = block_on(DeviceOnBlocks::options_of(&store)).map_err(failed)?;
    let discards = settings.on_change.0 == OnChange::Discard;
    let device = match made {
        _ if store.list().is_empty() => block_on(DeviceOnBlocks::format(store, &options)),
        Some(made) if made != options && discards => {
            block_on(DeviceOnBlocks::format(store, &options))
        }
        Some(made) if made != options && has_grown(&own, &*store, &made) => {
            let all = store.info().blocks * store.info().block_bytes;
            say(format_args!(
                "{:<10} {} has grown to {}, and its cache has {} of it: on_change = \"discard\" gives it all, and \
                 empties it",
                "note",
                tenant.name,
                BinaryBytes(all),
                BinaryBytes(made.capacity_bytes)
            ));
            block_on(DeviceOnBlocks::open(store, &made))
        }
        _ => block_on(DeviceOnBlocks::open(store, &options)),
    };
    Ok((own, Arc::new(device.map_err(failed)?)))
}

/// A wish of a tenant that cannot be granted.
pub(super) fn refused(tenant: &TenantSettings, why: &str) -> Error {
    Error::usage(format!("tenant {:?}: {why}", tenant.name))
}

/// A failure of what a tenant's device is on.
pub(super) fn failed(tenant: &TenantSettings, error: &larder_device::Error) -> Error {
    match error.kind() {
        ErrorKind::Setup | ErrorKind::NoSpace => refused(tenant, &error.to_string()),
        _ => Error::run(format!("tenant {:?}: {error}", tenant.name)),
    }
}

/// Whether `made` is what the settings gave when the store had fewer blocks: the virtual SSD has grown since, and
/// nothing else has changed.
fn has_grown(own: &Tenant, store: &dyn BlockStore, made: &DeviceOnBlocksOptions) -> bool {
    let info = store.info();
    let before = made.blocks_needed(info).ok().filter(|blocks| *blocks < info.blocks);
    before.is_some_and(|blocks| {
        let then = StoreInfo { blocks, ..info.clone() };
        own.config.on_blocks(&then).is_ok_and(|options| options == *made)
    })
}

/// The zones of a drive as a store; `None` if `target` is no zoned block device. A drive whose zones are all empty gets
/// a new store; one with other data is refused.
pub(super) fn zones(target: &Target) -> Option<Result<Arc<dyn BlockStore>, Error>> {
    let may_be = matches!(target.kind, None | Some(TargetKind::Block));
    (may_be && ZonedFile::is_there(&target.path)).then(|| open_zones(target))
}

fn open_zones(target: &Target) -> Result<Arc<dyn BlockStore>, Error> {
    let failed = |error: larder_device::Error| Error::run(format!("file = \"{target}\": {error}"));
    let drive: Arc<dyn ZonedDevice> = Arc::new(ZonedFile::open(&target.path).map_err(failed)?);
    let zones = drive.report().map_err(failed)?;
    let store = match zones.iter().all(|zone| zone.state == ZoneState::Empty) {
        true => block_on(ZonedBlocks::format(drive)).map_err(failed)?,
        false => block_on(ZonedBlocks::open(drive)).map_err(|error| {
            Error::run(format!(
                "file = \"{target}\": {error}; if nothing on it is needed, reset its zones (blkzone reset {})",
                target.path.display()
            ))
        })?,
    };
    Ok(Arc::new(store))
}
