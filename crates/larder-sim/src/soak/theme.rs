//! What some seeds are about: misfortunes that show themselves only where the load is made for them.
//!
//! A seed without a theme mixes everything, and most of it does not meet. That a tombstone log goes round
//! with something in it that is still needed, and that a crash follows before the key is written anew,
//! takes a log as small as they come, large objects that are small, and more deletes than anybody makes.

use std::time::Duration;

use larder::{AdmissionPolicy, CrashSafety};

use super::plan::{Plan, Trouble};

/// What a seed is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Theme {
    /// A bit of everything.
    None,
    /// The tombstone log goes round with records in it whose regions are there for long.
    Wrapping,
    /// Between crash and opening, a block of the tombstone log is damaged.
    Rot,
    /// Writes of buckets and regions happen and are reported as failed.
    FailedWrites,
    /// The wall clock is set back beyond the expiry of much that was stored.
    Setbacks,
    /// Losses of power that lose any unflushed sectors, in a cache that is to outlive them: what was flushed is there.
    Power,
}

/// What clients ask beside the usual mix.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Leaning {
    /// So many of a hundred requests are deletes, whatever the others are.
    pub(super) deletes_percent: u32,
    /// So many of a hundred are flushes, beside the few that there are anyway.
    pub(super) flush_percent: u32,
    /// Nobody flushes.
    pub(super) never_flushes: bool,
    /// Most requests are about the first so many keys, the others about any; 0: the usual mix.
    pub(super) hot_keys: u32,
    /// Nothing is stored that is larger than 600 bytes.
    pub(super) small: bool,
    /// A fifth of what is stored is longer than a region as small as they come.
    pub(super) long: bool,
    /// Most of what is stored expires, this soon at the latest.
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

    /// Makes a plan one for this theme.
    pub(super) fn shape(self, plan: &mut Plan, rng: &mut fastrand::Rng) {
        plan.theme = self;
        if self == Self::None {
            return;
        }
        // What these are about is in the tombstone log, which a loss of power makes void.
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
                // A caller that gives up leaves a key of which nothing can be said after a crash; and a
                // place that failed is written over when its back-off ends.
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
        // None becomes durable by its age alone.
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
            // Nothing, or little, gives way to anything: what is not there was lost.
            0 | 1 => {
                self.config.utilization_percent = 100.0;
                self.config.soc.percent = Some(40.0);
                self.config.demoting_bytes_max = None;
                self.config.dram_bytes = [64 << 10, 512 << 10][rng.usize(..2)];
            }
            // Regions are filled over and over.
            2 => {
                self.config.utilization_percent = 25.0;
                self.config.loc.region_bytes = Some(32 << 10);
            }
            // The log goes round, and no flush helps what was forgotten meanwhile: it must be durable by itself.
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
        // Dead keys of buckets are worked off, a few dozen may wait. Dead records wait for their region.
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
        // What is hot dies in regions that are given up first, for they have the most dead. What is cold
        // dies in regions that nobody gives up: its tombstones are needed for long.
        self.leaning =
            Leaning { deletes_percent: 25, hot_keys: 60, small: true, ..Leaning::default() };
    }
}
