//! Calibrates the devices of a cache, and stores the result in its label.

use std::sync::Arc;

use larder_device::label::{FRONT_BYTES, Found, Kind, Labeller};
use larder_device::{Clock, Device};

use super::Core;
use super::create::claim_all;
use super::front::{self, CacheLabel, look};
use crate::calibration::{CoreProfile, MeasureOptions, Profile, measure};
use crate::{Error, ErrorKind};

/// How to calibrate the devices of a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CalibrateOptions {
    /// How to measure each device. `range` and `writes` are set by this module.
    pub measure: MeasureOptions,
    /// Whether the cache device is also written, after its first 128 KiB. It must be blank: its content is lost.
    pub writes_cache: bool,
}

/// Measures `device` and `cores`, one after the other: only by reads, unless `options` ask for writes. The devices
/// must not be used during this.
///
/// # Errors
/// [`ErrorKind::Setup`] if a device cannot be measured so, or is to be written and has content; [`ErrorKind::Device`].
pub async fn calibrate(
    device: &Arc<dyn Device>,
    cores: &[Core],
    options: &CalibrateOptions,
    clock: &dyn Clock,
) -> Result<Profile, Error> {
    let _claims = claim_all(device, cores)?;
    if cores.is_empty() {
        return Err(Error::new(ErrorKind::Setup, "no cores: give at least one"));
    }
    let reads = MeasureOptions { range: None, writes: false, ..options.measure.clone() };
    let of_cache = match options.writes_cache {
        false => reads.clone(),
        true => {
            let found = front::found(device).await?;
            if found != Found::Blank {
                let message = format!(
                    "{}: it has {}: what is measured by writing must have nothing; calibrate it by reads alone",
                    device.info().name,
                    front::describe(&found)
                );
                return Err(Error::new(ErrorKind::Setup, message));
            }
            let range = Some(FRONT_BYTES..device.info().capacity_bytes);
            MeasureOptions { range, writes: true, ..reads.clone() }
        }
    };
    let cache = measure(device, &of_cache, clock).await?;
    let mut profiles = Vec::new();
    for core in cores {
        let device = measure(&core.device, &reads, clock).await?;
        profiles.push(CoreProfile { core: core.id, device });
    }
    profiles.sort_by_key(|core| core.core);
    Ok(Profile { cache, cores: profiles })
}

/// Stores `profile` in the label of the cache on `device`. The cache must not run.
///
/// # Errors
/// [`ErrorKind::Format`] if there is no cache, [`ErrorKind::Setup`] if the label has no room or the profile is of
/// other cores, [`ErrorKind::Device`].
pub async fn store_profile(device: &Arc<dyn Device>, profile: Profile) -> Result<(), Error> {
    let _claims = claim_all(device, &[])?;
    let CacheLabel { uuid, generation, mut stored } = look(device).await?;
    let measured = profile.cores.iter().map(|core| core.core);
    if !measured.eq(stored.cores.iter().map(|core| core.id)) {
        let message =
            "calibration of other cores than the cache has: calibrate it with all of its own";
        return Err(Error::new(ErrorKind::Setup, message));
    }
    stored.profile = Some(profile);
    let labeller = Labeller::new(Arc::clone(device), Kind::BlockCache, uuid, generation);
    let written = labeller.write(stored.encode()?).await;
    written.map_err(|error| Error::of_device("writing the label", &error))
}
