//! The decisions of a seed before the run: the cache, its load, its device, its faults, its endings.

use std::time::Duration;

use larder::config::Demotions;
use larder::{
    AdmissionPolicy, Config, CrashSafety, DramPolicy, LocConfig, OnChange, RegionEviction,
    Reinsertion, SocConfig, SocEviction,
};
use larder_device::{Fault, FaultPlan, FaultRule};

use super::device::Delays;
use super::process::Division;
use super::set_plan::SetPlan;
use super::theme::{Leaning, Theme};

/// Bytes of the drive, and of one of its reclaim units.
pub(super) const DRIVE_BYTES: u64 = 8 << 20;
pub(super) const UNIT_BYTES: u64 = 256 << 10;
/// Number of submissions for which the drive may delay a request: more than the simulation allows.
const HELD_BACK: u32 = 1 << 20;

/// The kind of fault that a seed tests.
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
    /// The same with sectors of 512 bytes.
    TornSectors,
    /// Writes that are reported as failed but are executed.
    FailedWrites,
    /// The same for buckets and regions only, and often.
    FailedPlaces,
    /// Torn writes that the device reports as done.
    HiddenTornWrites,
    LostWrites,
    /// Sometimes the device is gone for a while.
    Absences,
    /// Sometimes writes find no room.
    NoSpace,
    /// Slow requests are given up, and are executed later.
    Timeouts,
}

impl Trouble {
    /// Whether the cache may get an error for a write of its metadata.
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
            // Writes of invalidations succeed.
            | Self::FailedPlaces
            | Self::HiddenTornWrites
            | Self::LostWrites => false,
        }
    }

    /// Whether the device reports writes as done that are not: then no cache can survive a crash.
    fn lies(self) -> bool {
        matches!(self, Self::HiddenTornWrites | Self::LostWrites)
    }
}

/// How an incarnation of the cache ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// When all callers are done, or give up, it is closed.
    Close,
    /// Callers and cache are dropped; requests in flight on the device continue, in parallel with the next incarnation.
    Abandon,
    /// The process dies: data that has reached the device remains.
    Kill,
    /// Power is lost: unflushed data may be lost or torn.
    PowerLoss,
}

/// All decisions of a seed.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) config: Config,
    pub(super) on_flash: bool,
    pub(super) clients: usize,
    pub(super) keys: u32,
    /// Operations per incarnation.
    pub(super) operations: u64,
    pub(super) incarnations: u32,
    pub(super) trouble: Trouble,
    pub(super) delays: Delays,
    /// Maximum virtual nanoseconds per step.
    pub(super) step_ns: u64,
    /// One step in this number gives up a call in flight; 0: none.
    pub(super) drop_one_in: u32,
    /// Number of values that callers hold.
    pub(super) pins: usize,
    pub(super) fdp: bool,
    pub(super) volatile: bool,
    /// Maximum number of unflushed writes that a power loss may undo.
    pub(super) unflushed_writes: usize,
    /// The drive has no volatile cache: a power loss tears only requests in flight.
    pub(super) keeps_without_power: bool,
    /// Unit that the drive writes atomically; `None` is a sector.
    pub(super) atomic_write_bytes: Option<u32>,
    /// Whether the wall clock is sometimes set forward or back.
    pub(super) clock_steps: bool,
    /// Whether settings change between lives, which costs the content.
    pub(super) changing: bool,
    /// Set if the device is blocks on the drive.
    pub(super) on_blocks: Option<Division>,
    /// Set if the keys are divided among several drives.
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
        plan.give_theme(theme, rng);
        // Only slow requests take this long.
        let wait = Duration::from_nanos(2 * plan.delays.usual_ns);
        plan.config.flash_wait = (plan.trouble == Trouble::Timeouts).then_some(wait);
        plan
    }

    /// Changes the settings for the next incarnation, which may start empty.
    pub(super) fn change(&mut self, rng: &mut fastrand::Rng) {
        let Config { crash_safety, flash_wait, .. } = self.config;
        let on_change = OnChange::Discard;
        self.config = Config { crash_safety, flash_wait, on_change, ..config(rng) };
    }

    /// Draws the ending of an incarnation.
    pub(super) fn ending(&self, rng: &mut fastrand::Rng) -> Ending {
        match rng.u32(..10) {
            0..4 => Ending::Close,
            4 => Ending::Abandon,
            _ if self.volatile => Ending::PowerLoss,
            _ => Ending::Kill,
        }
    }

    /// The faults of an incarnation. Lying writes do not affect the first `metadata_bytes`: a drive that lies about its
    /// superblock can return anything. Buckets and regions are after `places_at`.
    pub(super) fn faults(
        &self,
        rng: &mut fastrand::Rng,
        metadata_bytes: u64,
        places_at: u64,
    ) -> FaultPlan {
        let seed = rng.u64(..);
        // Every other time, so that requests that were executed but not reported count as in flight.
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

impl Plan {
    /// Adapts the plan to its theme.
    fn give_theme(&mut self, theme: Theme, rng: &mut fastrand::Rng) {
        self.theme = theme;
        if theme == Theme::None {
            return;
        }
        // These themes test the tombstone log, which a power loss invalidates.
        self.config.crash_safety = CrashSafety::Process;
        self.config.admission = AdmissionPolicy::All;
        self.on_flash = true;
        self.volatile = false;
        self.changing = false;
        match theme {
            Theme::None => {}
            Theme::Power => self.lose_power(rng),
            Theme::Wrapping => self.wrap(),
            Theme::Rot => {
                self.trouble = Trouble::None;
                self.incarnations = 5;
                self.leaning.deletes_percent = 10;
            }
            Theme::FailedWrites => {
                self.trouble = Trouble::FailedPlaces;
                self.config.dram_bytes = 8 << 10;
                self.config.soc.max_object_bytes = 640;
                // After a call was given up, the state of its key is unknown after a crash; and a failed place is
                // overwritten when its back-off ends.
                self.drop_one_in = 0;
                self.step_ns = 2_000;
                self.config.soc.log_percent = Some(0.0);
                self.config.soc.percent = Some(40.0);
                self.clients = 16;
                self.keys = 100;
                self.operations = 2000;
                self.leaning.deletes_percent = 15;
                self.leaning.small = true;
            }
            Theme::Setbacks => {
                self.trouble = Trouble::None;
                self.clock_steps = true;
                self.config.dram_bytes = 8 << 10;
                self.step_ns = 20_000_000;
                self.leaning.deletes_percent = 20;
                self.leaning.ttl_max = Some(Duration::from_secs(8));
            }
        }
    }

    fn lose_power(&mut self, rng: &mut fastrand::Rng) {
        self.trouble = Trouble::None;
        self.config.crash_safety = CrashSafety::Power;
        self.volatile = true;
        // No write becomes durable through its age alone.
        self.unflushed_writes = 1 << 14;
        self.keeps_without_power = rng.u32(..4) == 0;
        self.atomic_write_bytes = rng.bool().then_some(4096);
        self.clock_steps = false;
        self.config.dram_bytes = [8 << 10, 64 << 10, 512 << 10][rng.usize(..3)];
        if rng.u32(..3) > 0 {
            // Small objects that wait in the log are lost in any crash, flushed or not.
            self.config.soc.log_percent = Some(0.0);
        }
        self.clients = 1 << rng.u32(1..=5);
        self.keys = rng.u32(12..80);
        self.operations = rng.u64(100..500);
        self.incarnations = 10;
        self.step_ns = [2_000, 100_000][rng.usize(..2)];
        self.leaning.deletes_percent = [0, 10][rng.usize(..2)];
        match rng.u32(..4) {
            // Nothing, or little, is evicted, so missing objects were lost.
            0 | 1 => {
                self.config.utilization_percent = 100.0;
                self.config.soc.percent = Some(40.0);
                self.config.demoting_bytes_max = None;
                self.config.dram_bytes = [64 << 10, 512 << 10][rng.usize(..2)];
            }
            // Regions are refilled over and over.
            2 => {
                self.config.utilization_percent = 25.0;
                self.config.loc.region_bytes = Some(32 << 10);
            }
            // The log wraps around, and no flush makes earlier invalidations durable: they must be durable themselves.
            _ => {
                self.wrap();
                self.operations = rng.u64(2000..6000);
                self.clients = 16;
                self.atomic_write_bytes = Some(4096);
                self.leaning.never_flushes = true;
                self.leaning.hot_keys = [0, 60][rng.usize(..2)];
                return;
            }
        }
        self.leaning.flush_percent = rng.u32(1..6);
    }

    fn wrap(&mut self) {
        self.trouble = Trouble::None;
        let config = &mut self.config;
        config.dram_bytes = 8 << 10;
        config.utilization_percent = 100.0;
        // Dead keys of buckets are processed; a few dozen may wait. Dead records wait for their region.
        config.soc.percent = Some(2.0);
        config.soc.log_percent = Some(0.0);
        config.soc.max_object_bytes = 200;
        config.loc.region_bytes = Some(32 << 10);
        config.tombstone_log_bytes = Some(16 << 10);
        self.clients = 16;
        self.keys = 1500;
        self.operations = 6000;
        self.incarnations = 3;
        self.step_ns = 2_000;
        // Hot keys die in regions that are reclaimed first, because these have the most dead records. Cold keys die in
        // regions that are not reclaimed, so their tombstones are needed for long.
        self.leaning =
            Leaning { deletes_percent: 25, hot_keys: 60, small: true, ..Leaning::default() };
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

/// Settings for regions of large objects, in a valid combination.
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
    // With several open regions, only small ones are numerous enough.
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
            log_percent: Some([0.0, 0.0, 2.0, 5.0, 25.0][rng.usize(..5)]),
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
        // The clock may be set forward by more than a request lasts.
        flash_wait: None,
        crash_safety: CrashSafety::Off,
        // No thread; each incarnation decides whether a task sends demotions.
        demotions: Demotions::Callers,
        ..Config::default()
    };
    config.soc.dynamic_placement = rng.bool();
    // Small enough to wrap around.
    config.tombstone_log_bytes = [None, Some(16 << 10), Some(24 << 10)][rng.usize(..3)];
    // Usually an opening serves before it has scanned regions.
    config.loc.eager_index_objects = [0, 0, 200, 1 << 16][rng.usize(..4)];
    config.demoting_bytes_max = [None, None, Some(2 << 10), Some(64 << 10)][rng.usize(..4)];
    config.demotion_wait = [0, 1_000_000, 5_000_000_000].map(Duration::from_nanos)[rng.usize(..3)];
    config.seed = rng.u64(..);
    config.soc.eviction = [SocEviction::Fifo, SocEviction::Rrip][usize::from(config.seed % 2 == 1)];
    // A run must depend on its seed alone, including which keys share a bucket.
    Config { hash_seed: Some(config.seed), ..config }
}
