//! The layouts by name, and the sizes that each cell of the table gives them.

use super::buckets::Buckets;
use super::companions::{Companions, CompanionsOptions};
use super::groups::Groups;
use super::layout::{Layout, PAGE_BYTES};
use super::log_before::LogBefore;
use super::pages::{Lists, Pages, PagesOptions};
use super::sets::Eviction;
use super::workload::Recorded;

/// Units of the engine, and pages of a unit at least.
const UNITS: u64 = 128;
const UNIT_PAGES_MIN: u64 = 8;
/// Share of the fold's sets that stays free.
const FOLD_SPARE: f64 = 0.1;
/// Pages of a set at least, and at most; `companions` have no limit.
const PAGES_PER_SET: (f64, f64) = (24.0, 192.0);

/// The layouts, in the order of the table.
pub(super) const LAYOUTS: [&str; 11] = [
    "fifo",
    "rrip",
    "log5_fifo",
    "log20_fifo",
    "log5",
    "log20",
    "log33",
    "fold",
    "groups",
    "companions",
    "pages",
];

/// What the lab switches off in pages by set.
pub(super) const SWITCHES: [&str; 6] = ["none", "carry", "fill", "groups", "lost", "top_up"];

/// What pages by set are made with.
#[derive(Clone, Copy, Debug)]
pub(super) struct PagesSettings<'a> {
    /// Pages of a set by SOC / DRAM, for `pages`.
    pub(super) pages_factor: f64,
    /// See [`PagesOptions::zone`].
    pub(super) zone: f64,
    /// See [`PagesOptions::lists`].
    pub(super) lists: Lists,
    /// Pages of a set by SOC / DRAM, for `companions`.
    pub(super) companions_factor: f64,
    /// See [`CompanionsOptions::cold_share`].
    pub(super) cold_share: f64,
    /// See [`PagesOptions::carry_share`].
    pub(super) carry_share: f64,
    /// See [`PagesOptions::rounds`].
    pub(super) rounds: u8,
    /// One of [`SWITCHES`].
    pub(super) off: &'a str,
}

/// A point of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) soc_bytes: u64,
    pub(super) dram_bytes: u64,
}

impl Cell {
    /// The engine has `soc_percent` of `flash_bytes`, DRAM is one of `dram_part` parts of them.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
    pub(super) fn new(flash_bytes: u64, soc_percent: f64, dram_part: f64) -> Self {
        let soc_bytes = (flash_bytes as f64 * soc_percent / 100.0) as u64;
        Self { soc_bytes, dram_bytes: (flash_bytes as f64 / dram_part) as u64 }
    }

    fn unit_bytes(self) -> u64 {
        (self.soc_bytes / UNITS / PAGE_BYTES).max(UNIT_PAGES_MIN) * PAGE_BYTES
    }

    /// A layout by its name in [`LAYOUTS`].
    pub(super) fn layout(
        self,
        name: &str,
        recorded: &Recorded,
        pages: PagesSettings<'_>,
    ) -> Option<Box<dyn Layout>> {
        let (soc, keys) = (self.soc_bytes, recorded.keys);
        let log = |share, eviction| Box::new(LogBefore::new(soc, keys, share, eviction));
        let unit = self.unit_bytes();
        Some(match name {
            "fifo" => Box::new(Buckets::new(soc, keys, Eviction::Fifo)),
            "rrip" => Box::new(Buckets::new(soc, keys, Eviction::Rrip)),
            "log5_fifo" => log(0.05, Eviction::Fifo),
            "log20_fifo" => log(0.2, Eviction::Fifo),
            "log5" => log(0.05, Eviction::Rrip),
            "log20" => log(0.2, Eviction::Rrip),
            "log33" => log(0.33, Eviction::Rrip),
            "fold" => Box::new(LogBefore::folded(soc, keys, 0.05, (unit, FOLD_SPARE))),
            "groups" => Box::new(Groups::new(soc, unit, keys)),
            "pages" => {
                let options = self.pages_options(recorded, pages);
                Box::new(Pages::new(soc, unit, keys, options))
            }
            "companions" => {
                let options = self.companions_options(recorded, pages);
                Box::new(Companions::new(soc, unit, keys, options))
            }
            _ => return None,
        })
    }

    /// Pages of a set: `factor` times SOC / DRAM.
    #[allow(clippy::cast_precision_loss)] // bytes of a small flash
    fn pages_per_set(self, factor: f64) -> f64 {
        factor * self.soc_bytes as f64 / self.dram_bytes.max(1) as f64
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 24 to 192
    fn pages_options(self, recorded: &Recorded, settings: PagesSettings<'_>) -> PagesOptions {
        let (least, most) = PAGES_PER_SET;
        PagesOptions {
            pages_per_set: self.pages_per_set(settings.pages_factor).clamp(least, most) as u32,
            object_bytes: recorded.object_bytes(),
            carry_share: if settings.off == "carry" { 0.0 } else { settings.carry_share },
            zone: settings.zone,
            rounds: settings.rounds,
            fills: settings.off != "fill",
            lists: settings.lists,
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some hundred
    fn companions_options(
        self,
        recorded: &Recorded,
        settings: PagesSettings<'_>,
    ) -> CompanionsOptions {
        let pages = self.pages_per_set(settings.companions_factor).max(PAGES_PER_SET.0);
        let design = CompanionsOptions::new(pages as u32, recorded.object_bytes());
        let is_on = |switch| settings.off != switch;
        CompanionsOptions {
            groups: is_on("groups"),
            takes_lost: is_on("lost"),
            cold_share: settings.cold_share,
            carry_share: if is_on("carry") { settings.carry_share } else { 0.0 },
            rounds: settings.rounds,
            tops_up: is_on("top_up") && is_on("carry"),
            ..design
        }
    }
}
