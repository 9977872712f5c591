//! What a seed decides before anything runs: the cache, its load, its device, its faults, its ends.

use std::time::Duration;

use larder::config::Demotions;
use larder::{
    AdmissionPolicy, Config, CrashSafety, DramPolicy, LocConfig, OnChange, RegionEviction,
    Reinsertion, SocConfig,
};
use larder_device::{Fault, FaultPlan, FaultRule};

use super::device::Delays;
use super::process::Division;
use super::set_plan::SetPlan;
use super::theme::{Leaning, Theme};

/// Bytes of the drive, and of one of its reclaim units.
pub(super) const DRIVE_BYTES: u64 = 8 << 20;
pub(super) const UNIT_BYTES: u64 = 256 << 10;
/// Submissions that the drive may hold a request back for: longer than the simulation lets it.
const HELD_BACK: u32 = 1 << 20;

/// Which fault, if any, a seed is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    None,
    /// One request fails, once.
    OneError,
    Errors,
    ReadErrors,
    WriteErrors,
    BitFlips,
    TornWrites,
    /// The same between sectors of 512 bytes.
    TornSectors,
    /// Writes that are reported as failed and happen.
    FailedWrites,
    /// The same of buckets and regions alone, often.
    FailedPlaces,
    /// Torn writes that the device reports as done.
    HiddenTornWrites,
    LostWrites,
    /// Now and then the device is gone for a while.
    Absences,
    /// Now and then writes find no room.
    NoSpace,
    /// Slow requests are given up, and happen later.
    Timeouts,
}

impl Trouble {
    /// Whether the cache may be told that a write of its metadata has failed.
    pub(super) fn fails_writes(self) -> bool {
        match self {
            Self::OneError
            | Self::Errors
            | Self::WriteErrors
            | Self::TornWrites
            | Self::TornSectors
            | Self::FailedWrites
            | Self::Absences
            | Self::NoSpace
            | Self::Timeouts => true,
            Self::None
            | Self::ReadErrors
            | Self::BitFlips
            // What says that something is void is written all the same.
            | Self::FailedPlaces
            | Self::HiddenTornWrites
            | Self::LostWrites => false,
        }
    }

    /// Whether the device says of writes that they are done that are not: no cache can outlive a
    /// crash then.
    fn lies(self) -> bool {
        matches!(self, Self::HiddenTornWrites | Self::LostWrites)
    }
}

/// How an incarnation of the cache ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// All callers are done, or give up; then it is closed.
    Close,
    /// Callers and cache are dropped; what is under way on the device goes on, beside the next incarnation.
    Abandon,
    /// The process dies: what has reached the device stays.
    Kill,
    /// Power is lost: what was not flushed may be lost or torn.
    PowerLoss,
}

/// Everything that a seed decides.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) config: Config,
    pub(super) on_flash: bool,
    pub(super) clients: usize,
    pub(super) keys: u32,
    /// Operations of one incarnation.
    pub(super) operations: u64,
    pub(super) incarnations: u32,
    pub(super) trouble: Trouble,
    pub(super) delays: Delays,
    /// Virtual nanoseconds that a step takes at most.
    pub(super) step_ns: u64,
    /// One step in this many gives up a call that is under way; 0: none.
    pub(super) drop_one_in: u32,
    /// Values that callers hold on to.
    pub(super) pins: usize,
    pub(super) fdp: bool,
    pub(super) volatile: bool,
    /// Writes that were not flushed, up to which a loss of power may undo them.
    pub(super) unflushed_writes: usize,
    /// The drive has no volatile cache: a loss of power tears what is under way, and no more.
    pub(super) keeps_without_power: bool,
    /// What the drive writes whole or not at all; `None` is a sector.
    pub(super) atomic_write_bytes: Option<u32>,
    /// Whether the wall clock is set now and then, forward or back.
    pub(super) clock_steps: bool,
    /// Whether lives differ in their settings, at the price of the content.
    pub(super) changing: bool,
    /// Its device is blocks on the drive, divided so.
    pub(super) on_blocks: Option<Division>,
    /// Its keys are divided among several drives.
    pub(super) shards: Option<SetPlan>,
    pub(super) theme: Theme,
    pub(super) leaning: Leaning,
}

impl Plan {
    pub(super) fn of(rng: &mut fastrand::Rng, theme: Option<Theme>) -> Self {
        let delays = Delays {
            usual_ns: [20_000, 200_000, 5_000_000][rng.usize(..3)],
            slow_one_in: rng.u32(20..400),
        };
        let clients = 1 << rng.u32(2..=10);
        let volatile = rng.u32(..4) == 0;
        let trouble = trouble(rng);
        let crash_safety = match rng.u32(..4) {
            0 => CrashSafety::Off,
            _ if trouble.lies() => CrashSafety::Off,
            1 => CrashSafety::Power,
            _ => CrashSafety::Process,
        };
        let drawn = Theme::of(rng);
        let theme = theme.unwrap_or(drawn);
        let mut plan = Self {
            config: Config { crash_safety, ..config(rng) },
            on_flash: rng.u32(..12) > 0,
            clients,
            keys: u32::try_from(clients).unwrap_or(u32::MAX).clamp(12, 256) * rng.u32(1..=3),
            operations: rng.u64(300..1500).max(clients as u64 * 2),
            incarnations: rng.u32(2..=5),
            trouble,
            delays,
            step_ns: [2_000, 100_000, 20_000_000][rng.usize(..3)],
            drop_one_in: [0, 500, 50, 10][rng.usize(..4)],
            pins: [0, 0, 3, 12][rng.usize(..4)],
            fdp: rng.bool(),
            volatile,
            unflushed_writes: 256,
            keeps_without_power: false,
            atomic_write_bytes: None,
            clock_steps: rng.u32(..4) == 0,
            changing: rng.u32(..6) == 0,
            on_blocks: None,
            shards: None,
            theme: Theme::None,
            leaning: Leaning::default(),
        };
        theme.shape(&mut plan, rng);
        // Only slow requests last as long.
        let wait = Duration::from_nanos(2 * plan.delays.usual_ns);
        plan.config.flash_wait = (plan.trouble == Trouble::Timeouts).then_some(wait);
        plan
    }

    /// Other settings for the next incarnation, which accepts that it starts empty.
    pub(super) fn change(&mut self, rng: &mut fastrand::Rng) {
        let Config { crash_safety, flash_wait, .. } = self.config;
        let on_change = OnChange::Discard;
        self.config = Config { crash_safety, flash_wait, on_change, ..config(rng) };
    }

    /// The ending of an incarnation, by chance.
    pub(super) fn ending(&self, rng: &mut fastrand::Rng) -> Ending {
        match rng.u32(..10) {
            0..4 => Ending::Close,
            4 => Ending::Abandon,
            _ if self.volatile => Ending::PowerLoss,
            _ => Ending::Kill,
        }
    }

    /// The faults of an incarnation. Lies about writes spare the first `metadata_bytes`: a drive that only
    /// pretends to write its superblock can bring anything back.
    /// `places_at`: buckets and regions lie behind it.
    pub(super) fn faults(
        &self,
        rng: &mut fastrand::Rng,
        metadata_bytes: u64,
        places_at: u64,
    ) -> FaultPlan {
        let seed = rng.u64(..);
        // Every other time, so that what has happened and was not told yet counts as under way.
        let held_back = if seed.is_multiple_of(2) { HELD_BACK } else { 0 };
        let plan = FaultPlan::new(seed).completing_out_of_order(held_back);
        let chance = [0.002, 0.02, 0.2][rng.usize(..3)];
        let often = |fault| FaultRule::new(fault).with_probability(chance);
        let lying = |fault| often(fault).within(metadata_bytes..u64::MAX);
        match self.trouble {
            Trouble::None | Trouble::Absences | Trouble::NoSpace | Trouble::Timeouts => plan,
            Trouble::OneError => {
                let rule = FaultRule::new(Fault::Error);
                plan.with(rule.at_match(rng.u64(..1000)))
            }
            Trouble::Errors => plan.with(often(Fault::Error)),
            Trouble::ReadErrors => plan.with(often(Fault::Error).on_reads()),
            Trouble::WriteErrors => plan.with(often(Fault::Error).on_writes()),
            Trouble::BitFlips => plan.with(often(Fault::BitFlip)),
            Trouble::TornWrites => {
                plan.with(often(Fault::TornWrite { blocks: None, reported_done: false }))
            }
            Trouble::TornSectors => plan.with(often(Fault::TornSectors)),
            Trouble::FailedWrites => plan.with(often(Fault::FailedButDone).on_writes()),
            Trouble::FailedPlaces => {
                let rule = FaultRule::new(Fault::FailedButDone).with_probability(0.3).on_writes();
                plan.with(rule.within(places_at..u64::MAX))
            }
            Trouble::HiddenTornWrites => {
                plan.with(lying(Fault::TornWrite { blocks: None, reported_done: true }))
            }
            Trouble::LostWrites => plan.with(lying(Fault::LostWrite)),
        }
    }
}

fn trouble(rng: &mut fastrand::Rng) -> Trouble {
    const ALL: [Trouble; 13] = [
        Trouble::OneError,
        Trouble::Errors,
        Trouble::ReadErrors,
        Trouble::WriteErrors,
        Trouble::BitFlips,
        Trouble::TornWrites,
        Trouble::TornSectors,
        Trouble::FailedWrites,
        Trouble::HiddenTornWrites,
        Trouble::LostWrites,
        Trouble::Absences,
        Trouble::NoSpace,
        Trouble::Timeouts,
    ];
    if rng.u32(..3) == 0 { Trouble::None } else { ALL[rng.usize(..ALL.len())] }
}

/// Regions of large objects, in a combination that a configuration may have.
fn regions(rng: &mut fastrand::Rng) -> LocConfig {
    let ru_aware_eviction = rng.u32(..4) == 0;
    let reinsertion = [
        Reinsertion::None,
        Reinsertion::Hits(1),
        Reinsertion::Hits(2),
        Reinsertion::ReuseTime,
        Reinsertion::Percent(50),
    ][rng.usize(..5)];
    let eviction = match rng.u32(..3) {
        0 => RegionEviction::Fifo,
        1 => RegionEviction::Lru,
        _ if ru_aware_eviction || reinsertion == Reinsertion::None => RegionEviction::Fifo,
        _ => RegionEviction::SegmentedFifo,
    };
    let ttl_classes = match rng.u32(..5) {
        _ if ru_aware_eviction => Vec::new(),
        0 => vec![4],
        1 => vec![1, 3, 10],
        _ => Vec::new(),
    };
    // With several regions in memory at a time, only small ones are enough of them.
    let has_shelves = !ttl_classes.is_empty() || eviction == RegionEviction::SegmentedFifo;
    let sizes = if has_shelves { 2 } else { 3 };
    LocConfig {
        region_bytes: Some([32 << 10, 64 << 10, 256 << 10][rng.usize(..sizes)]),
        eviction,
        reinsertion,
        ttl_classes,
        ru_aware_eviction,
        ..LocConfig::default()
    }
}

fn config(rng: &mut fastrand::Rng) -> Config {
    let regions = regions(rng);
    let mut config = Config {
        dram_bytes: [0, 8 << 10, 20 << 10, 64 << 10, 512 << 10][rng.usize(..5)],
        dram_policy: [DramPolicy::S3Fifo, DramPolicy::Lru][rng.usize(..2)],
        utilization_percent: [25.0, 60.0, 100.0][rng.usize(..3)],
        soc: SocConfig {
            percent: Some([2.0, 10.0, 40.0][rng.usize(..3)]),
            log_percent: [0.0, 0.0, 2.0, 5.0, 25.0][rng.usize(..5)],
            log_threshold: rng.u8(1..=4),
            max_object_bytes: [200, 640, 2000][rng.usize(..3)],
            ..SocConfig::default()
        },
        loc: LocConfig { write_bytes: [4096, 16 << 10, 256 << 10][rng.usize(..3)], ..regions },
        admission: [
            AdmissionPolicy::All,
            AdmissionPolicy::All,
            AdmissionPolicy::Random(0.5),
            AdmissionPolicy::RejectFirst,
        ][rng.usize(..4)],
        placement: rng.u32(..4) > 0,
        start_empty: false,
        // The clock is set forward by more than any request lasts.
        flash_wait: None,
        crash_safety: CrashSafety::Off,
        // No thread; whether a task sends is decided for each incarnation.
        demotions: Demotions::Callers,
        ..Config::default()
    };
    config.soc.dynamic_placement = rng.bool();
    // Small enough to go round.
    config.tombstone_log_bytes = [None, Some(16 << 10), Some(24 << 10)][rng.usize(..3)];
    // Most often an opening serves before it has looked at regions.
    config.loc.eager_index_objects = [0, 0, 200, 1 << 16][rng.usize(..4)];
    config.demoting_bytes_max = [None, None, Some(2 << 10), Some(64 << 10)][rng.usize(..4)];
    config.demotion_wait = [0, 1_000_000, 5_000_000_000].map(Duration::from_nanos)[rng.usize(..3)];
    config.seed = rng.u64(..);
    // A run is a function of its seed, down to which keys share a place.
    Config { hash_seed: Some(config.seed), ..config }
}
