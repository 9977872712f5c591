//! Chooses the placement path of a device.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use larder_ssd::managed::ManagedConfig;

#[cfg(target_os = "linux")]
use super::watched::watched;
use super::{Missed, OpenOptions, Opened, PlacementMode, PlacementStatus, Target, TargetKind};
use crate::clock::RealClock;
use crate::device::Device;
use crate::error::{Error, ErrorKind};
use crate::file::FileDevice;
use crate::file_options::FileOptions;
use crate::model::{ModelDevice, ModelSpec, Payload};
use crate::placement::PlacementInfo;
use crate::placement::PlacementPath;

#[cfg(target_os = "linux")]
use crate::file_options::IoEngine;
#[cfg(target_os = "linux")]
use crate::mapped::MappedDevice;
#[cfg(target_os = "linux")]
use crate::nvme::{Node, PassthroughDevice, node::Roots, paths::streams_of};
use crate::sys;

/// The number of simulated drives that this process has opened.
static MODELS: AtomicU64 = AtomicU64::new(0);

/// An open device, the node that it writes to, and why its engine fell back, if it did.
pub(super) struct OpenNode {
    pub(super) device: Arc<dyn Device>,
    pub(super) node: std::path::PathBuf,
    /// Whether transfers bypass the page cache.
    pub(super) direct: bool,
    pub(super) fallback: Option<String>,
}

/// Opens devices. Tests, which have no drive, use others.
pub(super) trait Openers {
    fn block(
        &self,
        path: &Path,
        options: &FileOptions,
        streams: PlacementInfo,
    ) -> Result<OpenNode, Error>;

    #[cfg(target_os = "linux")]
    fn passthrough(
        &self,
        node: &Node,
        options: &FileOptions,
        placing: bool,
    ) -> Result<OpenNode, Error>;
}

struct RealOpeners;

impl Openers for RealOpeners {
    fn block(
        &self,
        path: &Path,
        options: &FileOptions,
        streams: PlacementInfo,
    ) -> Result<OpenNode, Error> {
        let device = FileDevice::open_placing(path, options, streams)?;
        let fallback = device.engine_fallback().map(str::to_owned);
        let direct = device.direct();
        Ok(OpenNode { device: Arc::new(device), node: path.to_owned(), direct, fallback })
    }

    #[cfg(target_os = "linux")]
    fn passthrough(
        &self,
        node: &Node,
        options: &FileOptions,
        placing: bool,
    ) -> Result<OpenNode, Error> {
        let device = PassthroughDevice::open(node, options, placing)?;
        let node = device.generic_path().to_owned();
        Ok(OpenNode { device: Arc::new(device), node, direct: true, fallback: None })
    }
}

pub(super) fn open(
    target: &Target,
    options: &OpenOptions,
    interval: Option<Duration>,
) -> Result<Opened, Error> {
    let found = what_is(&target.path);
    let chooser = Chooser {
        target,
        options,
        openers: &RealOpeners,
        #[cfg(target_os = "linux")]
        roots: Roots::default(),
        missed: Vec::new(),
    };
    let opened = chooser.open(found)?;
    #[cfg(target_os = "linux")]
    if let (Some(interval), PathKind::Block | PathKind::Character) = (interval, found) {
        return watched(opened, &target.path, &Roots::default(), interval);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = interval;
    Ok(opened)
}

/// The kind of file that a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathKind {
    /// A regular file, or a path that does not exist yet.
    File,
    Block,
    Character,
}

#[cfg(target_os = "linux")]
fn what_is(path: &Path) -> PathKind {
    match std::fs::metadata(path) {
        Ok(metadata) if sys::is_block(&metadata) => PathKind::Block,
        Ok(metadata) if sys::is_character(&metadata) => PathKind::Character,
        _ => PathKind::File,
    }
}

#[cfg(not(target_os = "linux"))]
fn what_is(_: &Path) -> PathKind {
    PathKind::File
}

pub(super) struct Chooser<'a> {
    pub(super) target: &'a Target,
    pub(super) options: &'a OpenOptions,
    pub(super) openers: &'a dyn Openers,
    #[cfg(target_os = "linux")]
    pub(super) roots: Roots,
    pub(super) missed: Vec<Missed>,
}

impl Chooser<'_> {
    pub(super) fn open(self, found: PathKind) -> Result<Opened, Error> {
        match (self.target.kind, found) {
            #[cfg(target_os = "linux")]
            (Some(TargetKind::Dax), _) => self.mapped(),
            (Some(TargetKind::Model), _) => self.model(),
            (Some(TargetKind::Image), _) => Err(self.refuse(
                "an image has virtual SSDs, and is no device itself; `larder serve` gives each tenant with isolation \
                 one",
            )),
            (Some(TargetKind::File), _) | (None, PathKind::File) => self.file(),
            #[cfg(target_os = "linux")]
            (kind, _) => self.device(kind, found),
            #[cfg(not(target_os = "linux"))]
            _ => Err(self.refuse("block devices and NVMe drives are opened on Linux only")),
        }
    }

    #[cfg(target_os = "linux")]
    fn mapped(mut self) -> Result<Opened, Error> {
        if self.options.placement != PlacementMode::Off {
            self.miss(PlacementPath::WriteStreams, "memory has no placement handles");
        }
        if self.options.placement == PlacementMode::Required {
            return Err(self.cannot_place());
        }
        let device = MappedDevice::open(&self.target.path, &self.options.file)?;
        let emulated = device.is_emulated().then(|| {
            format!(
                "{} is emulated: its file system does not grant MAP_SYNC, so what has to outlive a loss of power goes \
                 by msync; ext4 and xfs on persistent memory, mounted with -o dax, grant it",
                self.target
            )
        });
        let node = self.target.path.clone();
        let device: Arc<dyn Device> = Arc::new(device);
        let opened = self.without(OpenNode { device, node, direct: true, fallback: None });
        let notices: Vec<String> = emulated.into_iter().chain(opened.notice).collect();
        let notice = (!notices.is_empty()).then(|| notices.join("; "));
        Ok(Opened { notice, ..opened })
    }

    /// A simulated drive. Without placement it is a drive whose FDP is off.
    fn model(mut self) -> Result<Opened, Error> {
        let spec: Result<ModelSpec, String> = self.target.path.to_string_lossy().parse();
        let config = spec.and_then(|spec| spec.config()).map_err(|why| self.refuse(&why))?;
        let off = self.options.placement == PlacementMode::Off;
        let config = ManagedConfig { fdp: config.fdp && !off, ..config };
        // Two drives of the same description are two drives, also in reports.
        let number = MODELS.fetch_add(1, Ordering::Relaxed);
        let path = match number {
            0 => self.target.to_string(),
            _ => format!("{} (drive {number})", self.target),
        };
        let device = ModelDevice::new(config, Payload::Memory)?;
        let device: Arc<dyn Device> = Arc::new(device.reporting(path, Arc::new(RealClock)));
        let node =
            OpenNode { device, node: self.target.path.clone(), direct: true, fallback: None };
        if node.device.info().placement.is_active() {
            return Ok(self.reached(PlacementPath::Model, node));
        }
        if !off {
            self.miss(PlacementPath::Model, "the simulated drive has fdp=off, or one handle alone");
        }
        if self.options.placement == PlacementMode::Required {
            return Err(self.cannot_place());
        }
        Ok(self.without(node))
    }

    fn file(mut self) -> Result<Opened, Error> {
        if self.options.placement == PlacementMode::Required {
            self.miss(PlacementPath::WriteStreams, "a file has no placement handles");
            return Err(self.cannot_place());
        }
        let node =
            self.openers.block(&self.target.path, &self.options.file, PlacementInfo::none())?;
        if self.options.placement == PlacementMode::Preferred {
            self.miss(PlacementPath::WriteStreams, "a file has no placement handles");
        }
        Ok(self.without(node))
    }

    fn miss(&mut self, path: PlacementPath, why: impl Into<String>) {
        self.missed.push(Missed { path, why: why.into() });
    }

    fn reached(self, path: PlacementPath, node: OpenNode) -> Opened {
        let placement = node.device.info().placement.clone();
        let status = PlacementStatus { path, node: node.node, placement, why: String::new() };
        let OpenNode { device, direct, .. } = node;
        Opened { device, status, missed: self.missed, direct, notice: None }
    }

    /// The device without placement, with a notice unless placement is off.
    fn without(self, node: OpenNode) -> Opened {
        let off = self.options.placement == PlacementMode::Off;
        let why = if off { "switched off".to_owned() } else { self.reasons() };
        let notice = (!off).then(|| {
            format!("{} has no placement, all writes share one handle: {why}", self.target)
        });
        let placement = PlacementInfo::none();
        let status = PlacementStatus { path: PlacementPath::None, node: node.node, placement, why };
        let OpenNode { device, direct, .. } = node;
        Opened { device, status, missed: self.missed, direct, notice }
    }

    fn reasons(&self) -> String {
        let reasons: Vec<_> = self.missed.iter().map(ToString::to_string).collect();
        reasons.join("; ")
    }

    fn refuse(&self, why: &str) -> Error {
        Error::new(ErrorKind::Setup, format!("{}: {why}", self.target))
    }

    fn cannot_place(&self) -> Error {
        self.refuse(&format!(
            "placement is required and there is none ({}); name an NVMe namespace with Flexible Data \
             Placement enabled and at least two placement handles, or let placement be preferred or off",
            self.reasons()
        ))
    }
}

#[cfg(target_os = "linux")]
impl Chooser<'_> {
    fn device(mut self, kind: Option<TargetKind>, found: PathKind) -> Result<Opened, Error> {
        let block = kind == Some(TargetKind::Block);
        if block && found != PathKind::Block {
            return Err(
                self.refuse("not a block device, such as /dev/nvme0n1 or a partition of one")
            );
        }
        let node = Node::find(&self.target.path, &self.roots);
        if kind == Some(TargetKind::Nvme) || found == PathKind::Character {
            let node = node?;
            return self.nvme_alone(&node);
        }
        let off = self.options.placement == PlacementMode::Off;
        match (&node, off) {
            (_, true) => {}
            (Ok(node), _) => {
                if let Some(node) = self.write_streams(node)? {
                    return Ok(self.reached(PlacementPath::WriteStreams, node));
                }
                if block {
                    self.miss(PlacementPath::Passthrough, "the target says block:");
                } else if let Some(node) = self.passthrough(node) {
                    return Ok(self.reached(PlacementPath::Passthrough, node));
                }
            }
            (Err(error), _) => self.miss(PlacementPath::WriteStreams, error.to_string()),
        }
        if self.options.placement == PlacementMode::Required {
            return Err(self.cannot_place());
        }
        let (path, options) = (&self.target.path, &self.options.file);
        let node = self.openers.block(path, options, PlacementInfo::none())?;
        Ok(self.without(node))
    }

    /// Opens the block device with its write streams, if it has any. An error means that the device cannot be opened at
    /// all, with or without streams.
    fn write_streams(&mut self, node: &Node) -> Result<Option<OpenNode>, Error> {
        let why = match streams_of(node) {
            Err(why) => why,
            Ok(_) if self.options.file.engine == IoEngine::Threads => {
                "the thread pool cannot name them; let io_uring serve".to_owned()
            }
            Ok(streams) => {
                let unit = Some(node.write_stream_granularity).filter(|&bytes| bytes > 0);
                // Stream 1 stands for the default handle and is not used otherwise, so there are as many handles as
                // streams.
                let streams = PlacementInfo {
                    handles: streams.min(STREAMS_MAX),
                    reclaim_unit_bytes: unit,
                    path: "write streams",
                    ..PlacementInfo::none()
                };
                let node = self.openers.block(&self.target.path, &self.options.file, streams)?;
                if node.device.info().placement.is_active() {
                    return Ok(Some(node));
                }
                node.fallback.unwrap_or_else(|| "io_uring does not serve".to_owned())
            }
        };
        self.miss(PlacementPath::WriteStreams, why);
        Ok(None)
    }

    /// Opens the namespace past the block layer, if it can place there.
    fn passthrough(&mut self, node: &Node) -> Option<OpenNode> {
        let why = match self.openers.passthrough(node, &self.options.file, true) {
            Ok(node) if node.device.info().placement.is_active() => return Some(node),
            Ok(_) => NO_FDP.to_owned(),
            Err(error) => error.to_string(),
        };
        self.miss(PlacementPath::Passthrough, why);
        None
    }

    /// For `nvme:` and character devices, passthrough is the only way, with placement or without.
    fn nvme_alone(mut self, node: &Node) -> Result<Opened, Error> {
        let placing = self.options.placement != PlacementMode::Off;
        let node = self.openers.passthrough(node, &self.options.file, placing)?;
        if node.device.info().placement.is_active() {
            return Ok(self.reached(PlacementPath::Passthrough, node));
        }
        if placing {
            self.miss(PlacementPath::Passthrough, NO_FDP);
        }
        if self.options.placement == PlacementMode::Required {
            return Err(self.cannot_place());
        }
        Ok(self.without(node))
    }
}

/// Most handles: the ring names a stream with one byte.
#[cfg(target_os = "linux")]
const STREAMS_MAX: u16 = 254;

#[cfg(target_os = "linux")]
const NO_FDP: &str =
    "Flexible Data Placement is not enabled, or the namespace has one handle alone";
