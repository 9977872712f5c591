//! Checks the conservation laws from scratch by walking the whole drive. For tests and debugging.

use super::ManagedSsd;
use super::units::UnitState;
use crate::nand::BlockIndex;

impl ManagedSsd {
    /// Checks that the maps agree, that every count adds up and that every written page has a source.
    ///
    /// # Errors
    /// The first law that is violated, in words.
    pub fn audit(&self) -> Result<(), String> {
        self.audit_counters()?;
        self.audit_maps()?;
        self.audit_units()
    }

    fn audit_counters(&self) -> Result<(), String> {
        let stats = &self.stats;
        let expected = stats.host_pages + stats.copied_pages + stats.padded_pages;
        ensure(stats.media_pages == expected, || {
            format!("media {} != host + copies + padding {expected}", stats.media_pages)
        })?;
        let by_handle: u64 = stats.host_pages_by_handle.iter().sum();
        ensure(by_handle == stats.host_pages, || {
            format!("host pages by handle sum to {by_handle}")
        })?;
        let by_owner: u64 = stats.copied_pages_by_owner.iter().sum();
        ensure(by_owner == stats.copied_pages, || format!("copies by owner sum to {by_owner}"))?;
        let pages = u64::from(self.config.geometry.pages_per_unit);
        let in_units: u64 = self.medium.blocks().map(|block| u64::from(block.written)).sum();
        let erased = stats.erased_units * pages;
        ensure(in_units + erased == stats.media_pages, || {
            format!("written {in_units} + erased {erased} != media {}", stats.media_pages)
        })
    }

    fn audit_maps(&self) -> Result<(), String> {
        let mut mapped = 0;
        for lpn in (0..).take(self.map.logical_pages()) {
            let Some(ppn) = self.map.physical(lpn) else { continue };
            mapped += 1;
            ensure(self.map.logical(ppn) == Some(lpn), || {
                format!("page {lpn} maps to {ppn}, which maps back to {:?}", self.map.logical(ppn))
            })?;
            ensure(self.map.is_live(ppn), || format!("page {lpn} maps to {ppn}, which is dead"))?;
        }
        let live: u64 = self.units.iter().map(|unit| u64::from(unit.live)).sum();
        ensure(live == mapped, || format!("{mapped} pages are mapped, {live} are live"))
    }

    fn audit_units(&self) -> Result<(), String> {
        let pages_per_unit = self.config.geometry.pages_per_unit;
        let (mut full, mut open, mut erased, mut retired) = (0, 0, 0, 0);
        for (number, unit) in (0..).zip(self.units.iter()) {
            let block = self.medium.block(BlockIndex(number));
            let bits: u32 = (0..self.map.words_per_unit())
                .map(|w| self.map.live_word(number, w).count_ones())
                .sum();
            ensure(bits == unit.live, || {
                format!("unit {number} counts {} live pages, its bits {bits}", unit.live)
            })?;
            ensure(unit.live <= block.written, || {
                format!("unit {number} has more live than written")
            })?;
            match unit.state {
                UnitState::Full => full += u32::from(block.written == pages_per_unit),
                UnitState::Open => open += 1,
                UnitState::Erased => erased += usize::from(block.written == 0),
                UnitState::Retired => retired += u64::from(unit.live == 0 && block.is_retired()),
            }
        }
        let with_room = self.frontiers.with_room();
        ensure(open == with_room, || {
            format!("{open} units are open, {with_room} frontiers have room")
        })?;
        ensure(full == self.victims.len(), || {
            format!("{full} full units, {} victims", self.victims.len())
        })?;
        let on_heaps: usize =
            (0..usize::from(self.config.groups)).map(|group| self.units.erased(group)).sum();
        ensure(erased == on_heaps, || format!("{erased} erased units, {on_heaps} on the heaps"))?;
        ensure(retired == self.stats.retired_units, || {
            format!("{retired} retired units, {} counted", self.stats.retired_units)
        })
    }
}

fn ensure(holds: bool, complaint: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(complaint()) }
}
