//! Converts pages of the managed firmware into operations of dies.
//!
//! Pages of a unit are collected into stripes. Stripes go round-robin over the dies of the unit's span, in the order in
//! which they are begun, so that units with fewer stripes than the span has dies still use all dies.

use super::collection::Slices;
use super::timing::DriveTiming;
use crate::managed::{Geometry, PAGE_BYTES};
use crate::nand::{BlockIndex, DieIndex, PhysicalOp, Spans};

/// The location of the stripes of a managed drive, and the state of the open ones.
#[derive(Debug)]
pub(super) struct Striping {
    spans: Spans,
    pages_per_unit: u32,
    stripe_pages: u32,
    row_pages: u32,
    stripes_per_unit: u32,
    /// Pages of each unit's open stripe, by unit.
    open_stripes: Vec<u32>,
    /// The die of each stripe, unit after unit.
    stripe_dies: Vec<DieIndex>,
    /// For each span, the index of the die for the next stripe.
    next: Vec<usize>,
    slices: Slices,
    /// The row of planes that garbage collection sensed last: other pages of the row need no further read.
    last_read: Option<u32>,
}

impl Striping {
    pub(super) fn new(geometry: &Geometry, spans: Spans, timing: &DriveTiming) -> Self {
        let stripes_per_unit = geometry.pages_per_unit.div_ceil(timing.stripe_pages());
        let stripes = geometry.units * stripes_per_unit;
        // The locations of unwritten units are never used; any die of the span will do.
        let first_die = |stripe: u32| {
            let dies = spans.dies(spans.of_block(BlockIndex(stripe / stripes_per_unit)));
            dies[stripe as usize % dies.len()]
        };
        Self {
            stripe_dies: (0..stripes).map(first_die).collect(),
            next: vec![0; spans.count()],
            spans,
            pages_per_unit: geometry.pages_per_unit,
            stripe_pages: timing.stripe_pages(),
            row_pages: timing.row_pages(),
            stripes_per_unit,
            open_stripes: vec![0; geometry.units as usize],
            slices: Slices::new(timing.dies(), timing.nand.block_stripes),
            last_read: None,
        }
    }

    /// Row of planes of `ppn`: the pages of a row are sensed together.
    pub(super) fn row(&self, ppn: u32) -> u32 {
        ppn / self.row_pages
    }

    /// A host read of `ppn`.
    pub(super) fn host_read(&self, ppn: u32) -> PhysicalOp {
        PhysicalOp::HostRead { die: self.die_of(ppn), bytes: PAGE_BYTES }
    }

    /// A read of `ppn` by collection; `None` if the previous read included it.
    pub(super) fn collection_read(&mut self, ppn: u32) -> Option<PhysicalOp> {
        let row = self.row(ppn);
        if self.last_read.replace(row) == Some(row) {
            return None;
        }
        let bytes = u64::from(self.row_pages) * PAGE_BYTES;
        Some(PhysicalOp::FirmwareRead { die: self.die_of(ppn), bytes })
    }

    /// Adds a page to its unit's open stripe; the last page of a stripe starts the program.
    pub(super) fn program(&mut self, ppn: u32, urgent: bool) -> Option<PhysicalOp> {
        let unit = ppn / self.pages_per_unit;
        let in_unit = ppn % self.pages_per_unit;
        if in_unit.is_multiple_of(self.stripe_pages) {
            self.begin_stripe(ppn, unit);
        }
        let open = &mut self.open_stripes[unit as usize];
        // Deferred pages of collection arrive after later pages of the host in the same unit, and join the stripe that
        // is open then: one stripe gets some pages more, another some less.
        *open += 1;
        let written = in_unit + 1;
        if !written.is_multiple_of(self.stripe_pages) && written != self.pages_per_unit {
            return None;
        }
        let bytes = u64::from(std::mem::take(open)) * PAGE_BYTES;
        Some(PhysicalOp::Program { die: self.die_of(ppn), bytes, urgent })
    }

    /// Erases `unit`: its share of blocks on each die of its span.
    pub(super) fn erase(&mut self, unit: u32) -> impl Iterator<Item = PhysicalOp> + '_ {
        let dies = self.spans.dies(self.spans.of_block(BlockIndex(unit)));
        #[allow(clippy::cast_precision_loss)] // dies of a drive
        let stripes =
            f64::from(self.pages_per_unit) / f64::from(self.stripe_pages) / dies.len() as f64;
        self.slices.erase(dies, stripes).map(|(die, blocks)| PhysicalOp::Erase {
            die,
            blocks,
            between_programs: true,
        })
    }

    fn begin_stripe(&mut self, ppn: u32, unit: u32) {
        let span = self.spans.of_block(BlockIndex(unit));
        let dies = self.spans.dies(span);
        let next = &mut self.next[span];
        let die = dies[*next];
        *next = (*next + 1) % dies.len();
        let stripe = self.stripe(ppn);
        self.stripe_dies[stripe] = die;
    }

    fn die_of(&self, ppn: u32) -> DieIndex {
        self.stripe_dies[self.stripe(ppn)]
    }

    fn stripe(&self, ppn: u32) -> usize {
        let in_unit = ppn % self.pages_per_unit / self.stripe_pages;
        (ppn / self.pages_per_unit * self.stripes_per_unit + in_unit) as usize
    }
}
