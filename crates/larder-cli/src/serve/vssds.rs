//! Tenants on virtual SSDs: each has channels, dies or a share of dies of its own, on the drives of one array.

use std::sync::Arc;

use indicatif::BinaryBytes;
use larder::{Device, DeviceShare, RealClock};
use larder_blocks::isolation::DeviceSharing;
use larder_blocks::vssd::{ImageFile, Levelling, MemoryKeeper};
use larder_blocks::{BlockStore, VssdArray};
use larder_device::{ModelSpec, Target, TargetKind};
use larder_server::{VssdOrders, WearReports};
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_vssd::levelling::PaceLimits;
use larder_vssd::service::ServiceOptions;
use larder_vssd::{Isolation, MemoryImages, Request, Throughputs, VssdInfo};
use larder_workload::Error;

use super::on_blocks::{OwnDevice, device_on, failed, refused};
use super::settings::Settings;
use super::wear::{ServedWear, TenantDevice};
use crate::settings_file::{IsolatedPlace, TenantSettings};

/// MB/s of a channel of a simulated drive in memory. Only ratios matter: they say how many units a request gets.
const CHANNEL_MB_S: u32 = 400;

/// The array under the tenants.
pub(crate) struct IsolatedTenants {
    array: VssdArray,
    target: Target,
}

/// Levelling of an array while a server has it, until it is dropped.
pub(crate) struct Levelled {
    wear: Arc<dyn WearReports>,
    orders: Option<Arc<dyn VssdOrders>>,
    // Dropped in this order: no command asks a thread that has ended.
    #[cfg(feature = "vssd")]
    _owner: Option<crate::vssd::Owner>,
    _levelling: Option<Arc<Levelling>>,
}

impl Levelled {
    /// The wear of the drives and what the tenants' virtual SSDs write, for the metrics.
    pub(crate) fn wear(&self) -> Arc<dyn WearReports> {
        Arc::clone(&self.wear)
    }

    /// The virtual SSDs, for operators; `None` without `larder vssd` in this program.
    pub(crate) fn orders(&self) -> Option<Arc<dyn VssdOrders>> {
        self.orders.clone()
    }
}

impl IsolatedTenants {
    /// Opens the array that the only file of `settings` names: a model image, or a simulated drive in memory.
    pub(crate) fn open(settings: &Settings) -> Result<Self, Error> {
        let [target] = settings.files.0.as_slice() else {
            return Err(Error::usage(
                "file: tenants with isolation share one array; name one: image:PATH, which `larder vssd format` makes, \
                 or a simulated drive such as model:1G,channels=8,dies=2",
            ));
        };
        let refused = |error: larder_device::Error| {
            let fix = match target.kind {
                Some(TargetKind::Image) if !target.path.exists() => {
                    "; `larder vssd format` makes one"
                }
                _ => "",
            };
            Error::run(format!("file = \"{target}\": {error}{fix}"))
        };
        let array = match target.kind {
            Some(TargetKind::Image) => {
                let image = ImageFile::open(&target.path).map_err(refused)?;
                VssdArray::open_image(image).map_err(refused)?.0
            }
            Some(TargetKind::Model) => in_memory(target).map_err(Error::usage)?,
            _ => unreachable!("{target} is an array"),
        };
        Ok(Self { array, target: target.clone() })
    }

    /// The device of each tenant, on a virtual SSD with the tenant's name. Makes those that are missing.
    pub(crate) fn devices(&self, settings: &Settings) -> Result<Vec<OwnDevice>, Error> {
        let known: Vec<VssdInfo> = self.array.list();
        self.refuse_others(&known, settings)?;
        let each = settings.tenants.iter().map(|tenant| {
            let Some(place) = &tenant.isolated else {
                return Err(Error::usage(format!(
                    "tenant {:?}: isolation is missing: the others have it, and all share one array; use channel, die, \
                     software or none",
                    tenant.name
                )));
            };
            let found = known.iter().find(|info| info.name == tenant.name);
            self.device(tenant, place, found, settings)
        });
        let devices = each.collect::<Result<Vec<OwnDevice>, Error>>()?;
        Ok(share_time(devices, settings))
    }

    /// Virtual SSDs of tenants that are not configured: they are not given up in silence.
    fn refuse_others(&self, known: &[VssdInfo], settings: &Settings) -> Result<(), Error> {
        let is_other = |info: &&VssdInfo| settings.tenants.iter().all(|it| it.name != info.name);
        for other in known.iter().filter(is_other) {
            if !settings.drop_other_tenants.0 {
                return Err(Error::usage(format!(
                    "{}: vSSD {} belongs to {:?}, which is no tenant of this configuration; add the tenant, or set \
                     drop_other_tenants = true to give its data up",
                    self.target, other.id.0, other.name
                )));
            }
            let ended = self.array.destroy(other.id);
            ended.map_err(|error| Error::run(format!("vSSD {}: {error}", other.id.0)))?;
        }
        Ok(())
    }

    fn device(
        &self,
        tenant: &TenantSettings,
        place: &IsolatedPlace,
        found: Option<&VssdInfo>,
        settings: &Settings,
    ) -> Result<OwnDevice, Error> {
        let refuse = |why: &str| refused(tenant, why);
        let failed = |error| failed(tenant, &error);
        if place.units.is_none() && place.capacity_bytes.is_none() {
            return Err(refuse("isolation: how much? give channels, dies or capacity"));
        }
        // Before anything is made.
        if place.borrows && settings.tenant(tenant).config.array.percent > 0.0 {
            return Err(refuse(
                "borrows: the array engine has an index on flash that must stay; take one of them out",
            ));
        }
        let wanted = self.request(place);
        let id = match found {
            Some(info) => {
                check_same(info, place, wanted.isolation).map_err(|why| refuse(&why))?;
                if let Some(more) =
                    place.units.map(|units| units - info.units).filter(|more| *more > 0)
                {
                    self.array.grow(info.id, more).map_err(failed)?;
                }
                info.id
            }
            None => self.array.alloc_named(&tenant.name, wanted).map_err(failed)?,
        };
        self.array.lend_of(id, place.lends).map_err(failed)?;
        let store: Arc<dyn BlockStore> = Arc::new(self.array.store(id).map_err(failed)?);
        let device = device_on(store, tenant, settings)?;
        // Only now: what was opened is its own.
        self.array.borrow_for(id, place.borrows).map_err(failed)?;
        Ok(device)
    }

    /// The request of a tenant: throughput for its number of channels or dies, or capacity.
    fn request(&self, place: &IsolatedPlace) -> Request {
        let rates = self.array.look(|array| array.throughputs());
        let rate = rates.map_or(0, |rates| rates.of(place.isolation));
        Request {
            isolation: place.isolation,
            mb_s: rate.saturating_mul(place.units.unwrap_or(0)),
            bytes: place.capacity_bytes.unwrap_or(1),
        }
    }

    /// Starts the thread that levels the drives under the devices of `tenants`, unless it is switched off; and answers
    /// `larder vssd wear` and `swap`, if the array is in an image.
    pub(crate) fn level(
        &self,
        tenants: &[OwnDevice],
        settings: &Settings,
    ) -> Result<Levelled, Error> {
        let pace = PaceLimits::around(settings.levelling_pace.0);
        let options = ServiceOptions { pace, ..ServiceOptions::default() };
        let start = || Levelling::start(self.array.clone(), options).map(Arc::new);
        let levelling = settings.levelling.0.then(start).transpose();
        let levelling = levelling.map_err(|error| Error::usage(format!("levelling: {error}")))?;
        let tenants =
            tenants.iter().map(|(tenant, device)| TenantDevice::new(&tenant.name, device));
        let wear = ServedWear::of(&self.array, tenants.collect(), levelling.as_ref());
        Ok(Levelled {
            wear: Arc::new(wear),
            #[cfg(feature = "vssd")]
            orders: Some(Arc::new(crate::vssd::ServedVssds::of(&self.array))),
            #[cfg(not(feature = "vssd"))]
            orders: None,
            #[cfg(feature = "vssd")]
            _owner: (self.target.kind == Some(TargetKind::Image))
                .then(|| {
                    crate::vssd::Owner::listen(&self.array, levelling.as_ref(), &self.target.path)
                })
                .flatten(),
            _levelling: levelling,
        })
    }

    /// Describes the virtual SSDs for people, a line each.
    pub(crate) fn describe(&self) -> Vec<String> {
        let loans = self.array.loans().unwrap_or_default().tenants;
        let line = |info: VssdInfo| {
            let (kind, unit) = match info.request.isolation {
                Isolation::Channel => ("its own", "channels"),
                Isolation::Die => ("its own", "dies"),
                Isolation::Software { .. } => ("by weight", "quarters of dies"),
                Isolation::None => ("shared", "quarters of dies"),
            };
            let blocks = self.array.store_info(info.id).map_or(0, |(store, _)| store.block_bytes);
            let of = loans.iter().find(|it| it.id == info.id);
            let lends = if of.is_some_and(|it| it.lends) { ", lends" } else { "" };
            let borrows = if of.is_some_and(|it| it.borrows) { ", borrows" } else { "" };
            format!(
                "{} has vSSD {}: {} {unit}, {kind}, {} in blocks of {}{lends}{borrows}",
                info.name,
                info.id.0,
                info.units,
                BinaryBytes(u64::from(info.blocks) * blocks),
                BinaryBytes(blocks)
            )
        };
        self.array.list().into_iter().map(line).collect()
    }
}

/// Tenants with isolation "software" take turns at what they share, by weight.
fn share_time(devices: Vec<OwnDevice>, settings: &Settings) -> Vec<OwnDevice> {
    let depth = settings.flash_depth.0;
    let is_sharing: Vec<bool> =
        settings.tenants.iter().map(|tenant| depth > 0 && tenant.shares_time()).collect();
    let share = |(tenant, _): &OwnDevice| DeviceShare {
        weight: tenant.device_share.weight,
        ..DeviceShare::default()
    };
    let shares: Vec<DeviceShare> = devices.iter().map(share).collect();
    let sharing = DeviceSharing::new(&shares, depth.max(1), Arc::new(RealClock));
    let device = |(at, (tenant, device)): (usize, OwnDevice)| match is_sharing[at] {
        true => (tenant, Arc::new(sharing.device_of(at, device)) as Arc<dyn Device>),
        false => (tenant, device),
    };
    devices.into_iter().enumerate().map(device).collect()
}

/// Whether the virtual SSD that a tenant has is what it asks for.
fn check_same(info: &VssdInfo, place: &IsolatedPlace, wanted: Isolation) -> Result<(), String> {
    let (has, asks) = (info.request.isolation.name(), wanted.name());
    if has != asks {
        return Err(format!(
            "isolation = {asks}: its virtual SSD has {has}, and a change would empty it; take the setting back, or end \
             vSSD {} by `larder vssd delete --destroy-data`",
            info.id.0
        ));
    }
    match place.units.filter(|units| *units < info.units) {
        None => Ok(()),
        Some(units) => Err(format!(
            "{asks}s = {units}: its virtual SSD has {}; take the setting back, or end vSSD {} by `larder vssd delete \
             --destroy-data`",
            info.units, info.id.0
        )),
    }
}

/// An array on a simulated drive in memory.
fn in_memory(target: &Target) -> Result<VssdArray, String> {
    let spec: ModelSpec = target.path.to_string_lossy().parse()?;
    let geometry = spec.nand()?;
    let config = RawConfig { page_words: true, seed: spec.seed(), ..RawConfig::new(geometry) };
    let drive = RawSsd::new(config).map_err(|error| format!("{target}: {error}"))?;
    let die_mb_s = (CHANNEL_MB_S / geometry.array.dies_per_channel).max(1);
    let soft_plane_mb_s = (die_mb_s / 4).max(1);
    let rates = Throughputs { channel_mb_s: CHANNEL_MB_S, die_mb_s, soft_plane_mb_s };
    let (images, keeper) = (Box::new(MemoryImages::default()), Box::new(MemoryKeeper::default()));
    // It ends with the process, so nothing has to tell it from others.
    let array = VssdArray::create(vec![drive], images, keeper, *b"vSSDs of larder.", rates);
    array.map_err(|error| format!("{target}: {error}"))
}
