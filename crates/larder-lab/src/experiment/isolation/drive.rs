//! The drive of these experiments, and the vSSDs on it.

use std::time::Duration;

use larder_ssd::nand::NandGeometry;
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_ssd::timed::{DieService, DriveTiming, NandTiming, open_channel};
use larder_vssd::timed::{SharePolicy, TimedVssds};
use larder_vssd::{Isolation, MemoryImages, Request, Throughputs, VssdId, Vssds};

use super::failed;
use crate::Error;
use crate::experiment::settings::{Parameter, Settings};

/// Channels of the drive.
pub(super) const CHANNELS: Parameter = Parameter {
    name: "channels",
    default: "8",
    help: "channels of the drive, each of four dies (8 to 64, a multiple of 8); the paper's has 8 to 32",
};
/// Planes of a die.
pub(super) const PLANES: Parameter = Parameter {
    name: "planes",
    default: "1",
    help: "planes of a die that work together (1 to 4); a page of 16 KiB on each is programmed at once",
};
/// The same, of a drive as the paper has it.
pub(super) const FOUR_PLANES: Parameter = Parameter { default: "4", ..PLANES };
/// Length of a run.
pub(super) const SECONDS: Parameter = Parameter {
    name: "seconds",
    default: "4",
    help: "seconds of the drive's time that are measured, behind a quarter of them to begin with (0.5 to 600)",
};

/// Ways in which tenants share a drive, by name in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Each tenant has its own channels.
    Channel,
    /// Each tenant has its own dies on shared channels.
    Die,
    /// Shared dies, with die time shared by weight.
    Software,
    /// Shared dies, and a limit of bytes for each tenant: a token bucket, with a rate by weight.
    Bucket,
    /// Shared dies, first come, first served.
    Shared,
}

impl Kind {
    pub(super) const ALL: [Self; 5] =
        [Self::Channel, Self::Die, Self::Software, Self::Bucket, Self::Shared];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Channel => "channel",
            Self::Die => "die",
            Self::Software => "software",
            Self::Bucket => "bucket",
            Self::Shared => "none",
        }
    }

    fn isolation(self, weight: u32) -> Isolation {
        match self {
            Self::Channel => Isolation::Channel,
            Self::Die => Isolation::Die,
            Self::Software | Self::Bucket => Isolation::Software { weight },
            Self::Shared => Isolation::None,
        }
    }
}

/// Scheduling policies of the dies, by name in metrics.
pub(super) const SERVICES: [(&str, DieService); 3] = [
    ("in_order", DieService::InOrder),
    ("reads_first", DieService::ReadsFirst),
    ("reads_suspend", DieService::ReadsSuspend),
];

/// The drive that the settings describe.
#[derive(Debug, Clone)]
pub(super) struct Drive {
    pub(super) timing: DriveTiming,
    geometry: NandGeometry,
}

/// Blocks of a die; a soft plane has eight. The small number lets writers wrap around within seconds.
pub(super) const BLOCKS_PER_DIE: u32 = 33;

impl Drive {
    pub(super) fn new(
        settings: &Settings,
        service: DieService,
        blocks_per_die: u32,
    ) -> Result<Self, Error> {
        settings.within(CHANNELS.name, 8.0..=64.0)?;
        let channels: u32 = settings.get(CHANNELS.name)?;
        if !channels.is_multiple_of(8) {
            let complaint = "must be a multiple of 8, so that each tenant has whole channels";
            return Err(settings.refuse(CHANNELS.name, settings.text(CHANNELS.name), complaint));
        }
        Self::with(settings, channels, service, blocks_per_die)
    }

    /// The same, of `channels` channels.
    pub(super) fn with(
        settings: &Settings,
        channels: u32,
        service: DieService,
        blocks_per_die: u32,
    ) -> Result<Self, Error> {
        settings.within(PLANES.name, 1.0..=4.0)?;
        let base = open_channel();
        let nand = NandTiming { planes: settings.get(PLANES.name)?, ..base.nand };
        Self::of(DriveTiming { channels, nand, service, ..base }, blocks_per_die)
    }

    /// A drive with the given timing.
    pub(super) fn of(timing: DriveTiming, blocks_per_die: u32) -> Result<Self, Error> {
        let geometry = timing.geometry(blocks_per_die).map_err(failed)?;
        Ok(Self { timing, geometry })
    }

    /// A fresh drive with a vSSD for each of `shares`: eighths of the channels or dies, and a weight where these are
    /// shared.
    pub(super) fn vssds(
        &self,
        kind: Kind,
        shares: &[(u32, u32)],
        policy: &SharePolicy,
    ) -> Result<(TimedVssds<MemoryImages>, Vec<VssdId>), Error> {
        let rates = Throughputs { channel_mb_s: 1, die_mb_s: 1, soft_plane_mb_s: 1 };
        let drive = RawSsd::new(RawConfig::new(self.geometry)).map_err(failed)?;
        let made = Vssds::create(vec![drive], MemoryImages::default(), *b"a lab's vSSDs...", rates);
        let mut array = made.map_err(|refused| Error::run(refused.to_string()))?;
        let dies = self.timing.dies();
        let mut vssds = Vec::new();
        for &(share, weight) in shares {
            let isolation = kind.isolation(weight);
            // Tenants that share dies are on all of them, with one soft plane of each.
            let units = match kind {
                Kind::Channel => self.timing.channels * share / 8,
                Kind::Die => dies * share / 8,
                Kind::Software | Kind::Bucket | Kind::Shared => dies,
            };
            let request = Request { isolation, mb_s: units, bytes: 1 };
            vssds.push(array.alloc(request).map_err(failed)?);
        }
        let timed = TimedVssds::new(array, &self.timing, policy).map_err(failed)?;
        Ok((timed, vssds))
    }

    /// The sharing policy of `kind`. Token buckets give all tenants together `share` of the bandwidth with which the
    /// dies program, by weight, with a burst of 10 ms.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a rate
    pub(super) fn policy(&self, kind: Kind, share: f64) -> SharePolicy {
        match kind {
            Kind::Software => SharePolicy::Fair,
            Kind::Bucket => SharePolicy::Limited {
                bytes_per_s: (self.timing.program_bytes_per_s() * share) as u64,
                burst: Duration::from_millis(10),
            },
            Kind::Channel | Kind::Die | Kind::Shared => SharePolicy::None,
        }
    }
}
