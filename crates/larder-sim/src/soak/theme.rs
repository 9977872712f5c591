//! Special topics of some seeds: faults that show only under a special load.
//!
//! A seed without a theme mixes everything, so rare combinations hardly occur. For example, a tombstone log that wraps
//! around while it holds a record that is still needed, followed by a crash before the key is rewritten, requires a
//! minimal log, small objects in the large-object engine, and more deletes than usual.

use std::time::Duration;

use larder::{AdmissionPolicy, CrashSafety};

use super::plan::{Plan, Trouble};

/// The topic of a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Theme {
    /// A mix of everything.
    None,
    /// The tombstone log wraps around with records whose regions live long.
    Wrapping,
    /// Between crash and opening, a block of the tombstone log is damaged.
    Rot,
    /// Writes of buckets and regions are executed but reported as failed.
    FailedWrites,
    /// The wall clock is set back beyond the expiry of many stored values.
    Setbacks,
    /// Power losses that lose any unflushed sectors, with a cache that must survive them: flushed data is present.
    Power,
}

/// Deviations from the usual mix of requests.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Leaning {
    /// Percentage of requests that are deletes, in addition to the usual ones.
    pub(super) deletes_percent: u32,
    /// Percentage of requests that are flushes, in addition to the usual few.
    pub(super) flush_percent: u32,
    /// No client flushes.
    pub(super) never_flushes: bool,
    /// Most requests are for this number of first keys, the others for any; 0: the usual mix.
    pub(super) hot_keys: u32,
    /// Nothing larger than 600 bytes is stored.
    pub(super) small: bool,
    /// A fifth of the stored values are longer than the smallest region.
    pub(super) long: bool,
    /// Most stored values expire, at the latest after this time.
    pub(super) ttl_max: Option<Duration>,
}

impl Theme {
    pub(super) fn of(rng: &mut fastrand::Rng) -> Self {
        match rng.u32(..32) {
            0..2 => Self::Wrapping,
            2..5 => Self::Rot,
            5..8 => Self::FailedWrites,
            8..10 => Self::Setbacks,
            10..13 => Self::Power,
            _ => Self::None,
        }
    }

    /// Adapts a plan to this theme.
    pub(super) fn shape(self, plan: &mut Plan, rng: &mut fastrand::Rng) {
        plan.theme = self;
        if self == Self::None {
            return;
        }
        // These themes test the tombstone log, which a power loss invalidates.
        plan.config.crash_safety = CrashSafety::Process;
        plan.config.admission = AdmissionPolicy::All;
        plan.on_flash = true;
        plan.volatile = false;
        plan.changing = false;
        match self {
            Self::None => {}
            Self::Power => plan.lose_power(rng),
            Self::Wrapping => plan.wrap(),
            Self::Rot => {
                plan.trouble = Trouble::None;
                plan.incarnations = 5;
                plan.leaning.deletes_percent = 10;
            }
            Self::FailedWrites => {
                plan.trouble = Trouble::FailedPlaces;
                plan.config.dram_bytes = 8 << 10;
                plan.config.soc.max_object_bytes = 640;
                // After a call was given up, the state of its key is unknown after a crash; and a failed place is
                // overwritten when its back-off ends.
                plan.drop_one_in = 0;
                plan.step_ns = 2_000;
                plan.config.soc.log_percent = 0.0;
                plan.config.soc.percent = Some(40.0);
                plan.clients = 16;
                plan.keys = 100;
                plan.operations = 2000;
                plan.leaning.deletes_percent = 15;
                plan.leaning.small = true;
            }
            Self::Setbacks => {
                plan.trouble = Trouble::None;
                plan.clock_steps = true;
                plan.config.dram_bytes = 8 << 10;
                plan.step_ns = 20_000_000;
                plan.leaning.deletes_percent = 20;
                plan.leaning.ttl_max = Some(Duration::from_secs(8));
            }
        }
    }
}

impl Plan {
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
            self.config.soc.log_percent = 0.0;
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
        config.soc.log_percent = 0.0;
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
