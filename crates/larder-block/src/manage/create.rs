//! Formats a cache device.

use std::collections::BTreeMap;
use std::sync::Arc;

use larder_device::label::{Found, Kind, Labeller, Uuid};
use larder_device::{Claim, Device, Io};

use super::Core;
use super::checked::watches;
use super::front;
use super::stored::{StoredCache, StoredCore, StoredLayout, data_offset};
use crate::cache::Mode;
use crate::fingerprint;
use crate::layout::log::{self, LogOptions, LogSuperblock};
use crate::layout::ocf::{self, OcfOptions, OcfSuperblock};
use crate::{Error, ErrorKind};

/// Most lines of a core: Open CAS's 46 bits.
const CORE_LINES_MAX: u64 = 1 << 46;

/// The layout of a cache device; fixed at format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutOptions {
    /// A log of segments: the default.
    Log(LogOptions),
    /// Lines, as in Open CAS: for comparison.
    Ocf(OcfOptions),
}

impl Default for LayoutOptions {
    fn default() -> Self {
        Self::Log(LogOptions::default())
    }
}

impl LayoutOptions {
    fn line_bytes(&self) -> u32 {
        match self {
            Self::Log(options) => options.line_bytes,
            Self::Ocf(options) => options.line_bytes,
        }
    }
}

/// What may be overwritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Over {
    /// Only zeros.
    #[default]
    Blank,
    /// Also the block cache with this UUID, whatever it contains.
    Cache(Uuid),
    /// Anything except a block cache: that must be named.
    Other,
}

/// Options of a new cache.
#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    /// The layout of the cache device.
    pub layout: LayoutOptions,
    /// The mode in which the cache first starts.
    pub mode: Mode,
    /// What may be overwritten.
    pub over: Over,
}

/// Formats `device` as a cache for `cores`. Returns its UUID. The content of the device is lost; the cores are not
/// written.
///
/// # Errors
/// [`ErrorKind::Setup`] if such a cache is impossible, or if the device has content that `options` do not allow to
/// overwrite: then nothing was written. [`ErrorKind::Device`].
pub async fn create(
    device: &Arc<dyn Device>,
    cores: &[Core],
    options: &CreateOptions,
) -> Result<Uuid, Error> {
    let _claims = claim_all(device, cores)?;
    let stored = plan(device, cores, options)?;
    let content = stored.encode()?;
    may_be_written_over(device, options.over).await?;
    format(device, &stored.layout).await?;
    let uuid = Uuid::draw();
    for watch in watches(device, (uuid, &stored), cores, &BTreeMap::new()).values() {
        let written = watch.refresh(&[]).await;
        written.map_err(|error| Error::of_device("writing fingerprints", &error))?;
    }
    let labeller = Labeller::new(Arc::clone(device), Kind::BlockCache, uuid, 0);
    let written = labeller.write(content).await;
    written.map_err(|error| Error::of_device("writing the label", &error))?;
    Ok(uuid)
}

/// Claims all devices: a device is used once, as the cache or as one core, and by one cache.
pub(super) fn claim_all(device: &Arc<dyn Device>, cores: &[Core]) -> Result<Vec<Claim>, Error> {
    let all = std::iter::once(device).chain(cores.iter().map(|core| &core.device));
    all.map(claim).collect()
}

pub(super) fn claim(device: &Arc<dyn Device>) -> Result<Claim, Error> {
    Claim::take(device).map_err(|error| {
        let message = format!("{error}: a device is the cache or one core, once");
        Error::new(ErrorKind::Setup, message)
    })
}

pub(super) fn plan(
    device: &Arc<dyn Device>,
    cores: &[Core],
    options: &CreateOptions,
) -> Result<StoredCache, Error> {
    if cores.is_empty() {
        return Err(Error::new(ErrorKind::Setup, "no cores: give at least one"));
    }
    let mut stored: Vec<StoredCore> = Vec::new();
    for given in cores {
        let Core { id, name, device: core } = given;
        let bytes = core.info().capacity_bytes;
        let number = id.get();
        check_core_lines(given, options.layout.line_bytes())?;
        if stored.iter().any(|other| other.id == *id) {
            let message = format!("core {number} is given twice: number each core once");
            return Err(Error::new(ErrorKind::Setup, message));
        }
        stored.push(StoredCore { id: *id, name: name.clone(), bytes, place: None });
    }
    stored.sort_by_key(|core| core.id);
    let places = fingerprint::places_for(stored.len());
    stored.iter_mut().zip(0..places).for_each(|(core, place)| core.place = Some(place));
    let offset = data_offset(places);
    let layout = match &options.layout {
        LayoutOptions::Log(options) => {
            let geometry = log::Geometry::new(device.info(), offset, options)?;
            StoredLayout::Log(LogSuperblock::blank(geometry))
        }
        LayoutOptions::Ocf(options) => {
            let geometry = ocf::Geometry::new(device.info(), offset, options)?;
            StoredLayout::Ocf(OcfSuperblock::blank(geometry))
        }
    };
    let mode = options.mode;
    Ok(StoredCache {
        next_core: 0,
        places,
        was_stopped: true,
        left: None,
        is_distrusted: false,
        mode,
        cores: stored,
        layout,
        profile: None,
    })
}

/// Checks that a core has no more lines than a layout can address.
pub(super) fn check_core_lines(core: &Core, line_bytes: u32) -> Result<(), Error> {
    let (number, bytes) = (core.id.get(), core.device.info().capacity_bytes);
    if bytes.div_ceil(u64::from(line_bytes.max(1))) <= CORE_LINES_MAX {
        return Ok(());
    }
    let message = format!(
        "core {number} ({}) has {bytes} bytes, more than 2^46 lines of {line_bytes}: make line_bytes larger",
        core.name
    );
    Err(Error::new(ErrorKind::Setup, message))
}

pub(super) async fn may_be_written_over(device: &Arc<dyn Device>, over: Over) -> Result<(), Error> {
    let found = front::found(device).await?;
    let fix = match (&found, over) {
        (Found::Blank, _) => return Ok(()),
        (Found::Label(label), Over::Cache(uuid))
            if label.kind == Kind::BlockCache && label.uuid == uuid =>
        {
            return Ok(());
        }
        (Found::Label(label), _) if label.kind == Kind::BlockCache => {
            "it may have data that no core has; name it by its UUID to write over it"
        }
        (_, Over::Other) => return Ok(()),
        _ => "say that it may be written over, or give a device that is zeros",
    };
    let message = format!("{}: it has {}: {fix}", device.info().name, front::describe(&found));
    Err(Error::new(ErrorKind::Setup, message))
}

/// Prepares a layout for its first start. A log needs nothing: headers with another UUID are ignored.
pub(super) async fn format(device: &Arc<dyn Device>, layout: &StoredLayout) -> Result<(), Error> {
    let StoredLayout::Ocf(OcfSuperblock { geometry, .. }) = layout else { return Ok(()) };
    let (offset, bytes) = (geometry.offset, u64::from(geometry.pages()) * 4096);
    for io in [Io::WriteZeroes { offset, bytes }, Io::Flush] {
        let done = device.submit(io).await;
        done.map_err(|failure| Error::of_device("clearing the table of lines", &failure.error))?;
    }
    Ok(())
}
