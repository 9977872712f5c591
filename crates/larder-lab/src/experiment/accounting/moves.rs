//! Counts the pages that a drive programs, against the pages that tenants append and that swaps and wear levelling
//! move.

use std::collections::VecDeque;

use larder_ssd::nand::{ChannelIndex, DieArray, NandGeometry, PhysicalOp};
use larder_ssd::raw::{DieCounters, RawConfig, RawSsd};
use larder_vssd::{
    Isolation, LogicalBlock, MemoryImages, Pages, Request, Swap, Throughputs, VssdId, Vssds,
    channel_pairs,
};

use super::failed;
use crate::Error;

/// Page counts, by source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pages4K {
    /// Appended by tenants, as reported to them.
    pub(super) asked: u64,
    /// Appended and moved according to the drive's own counters, summed over all dies.
    pub(super) counted: DieCounters,
    /// Program commands sent to the dies.
    pub(super) programmed: u64,
    pub(super) swaps: u64,
}

const GEOMETRY: NandGeometry = NandGeometry {
    array: DieArray { channels: 8, dies_per_channel: 2 },
    planes: 1,
    bits: 1,
    blocks_per_die: 16,
    pages_per_block: 16,
    page_bytes: 16 << 10,
    mapping_bytes: 4096,
};
/// Number of channels of each tenant.
const TENANTS: [u32; 3] = [1, 3, 4];
/// Wear levelling moves cold blocks when the erase counts of a die's blocks differ by more than this.
const LEVEL_THRESHOLD: u32 = 4;
/// Appends between two wear-levelling steps.
const LEVEL_EVERY: u64 = 64;

/// The state of a tenant.
struct Tenant {
    vssd: VssdId,
    blocks: usize,
    full: VecDeque<LogicalBlock>,
    open: Option<(LogicalBlock, u64)>,
}

/// Makes `appends` appends of one to eight stripes while channels are swapped and wear is levelled.
pub(super) fn count(appends: u64, seed: u64) -> Result<Pages4K, Error> {
    let config = RawConfig { level_threshold: LEVEL_THRESHOLD, ..RawConfig::new(GEOMETRY) };
    let drive = RawSsd::new(config).map_err(failed)?;
    let rates = Throughputs { channel_mb_s: 1, die_mb_s: 1, soft_plane_mb_s: 1 };
    let made = Vssds::create(vec![drive], MemoryImages::default(), *b"a lab's accounts", rates);
    let mut array = made.map_err(|refused| Error::run(refused.to_string()))?;
    let mut tenants = Vec::new();
    for channels in TENANTS {
        let request = Request { isolation: Isolation::Channel, mb_s: channels, bytes: 1 };
        let vssd = array.alloc(request).map_err(failed)?;
        let blocks = array.info(vssd).map_err(failed)?.blocks as usize;
        tenants.push(Tenant { vssd, blocks, full: VecDeque::new(), open: None });
    }
    array.record_ops(0, true);
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut asked, mut swaps, mut programmed) = (0, 0, 0);
    let mut ops = Vec::new();
    for number in 0..appends {
        let tenant = rng.usize(..tenants.len());
        asked += tenants[tenant].append(&mut array, &mut rng)?;
        if number.is_multiple_of(LEVEL_EVERY) {
            let die = larder_ssd::nand::DieIndex(rng.u32(..GEOMETRY.array.dies()));
            array.level_step(0, die).map_err(failed)?;
        }
        if array.swap_step().map_err(failed)? == Swap::Done && rng.u8(..) == 0 {
            let a = rng.u32(..GEOMETRY.array.channels);
            let b = (a + rng.u32(1..GEOMETRY.array.channels)) % GEOMETRY.array.channels;
            let pairs = channel_pairs(GEOMETRY.array, ChannelIndex(a), ChannelIndex(b), None);
            array.swap_begin(0, &pairs.map_err(failed)?).map_err(failed)?;
            swaps += 1;
        }
        ops.clear();
        array.take_ops(0, &mut ops);
        programmed += ops.iter().map(|op| programmed_pages(*op)).sum::<u64>();
    }
    let drive = array.drive(0);
    let channels = (0..GEOMETRY.array.channels).map(ChannelIndex);
    let counted = channels
        .filter_map(|channel| Some(drive?.channel_counters(channel)))
        .fold(DieCounters::default(), DieCounters::plus);
    Ok(Pages4K { asked, counted, programmed, swaps })
}

fn programmed_pages(op: PhysicalOp) -> u64 {
    match op {
        PhysicalOp::Program { bytes, .. } => bytes / u64::from(GEOMETRY.mapping_bytes),
        _ => 0,
    }
}

impl Tenant {
    /// Appends to the open block. If there are too many full blocks, one is freed. Returns the number of pages.
    fn append(
        &mut self,
        array: &mut Vssds<MemoryImages>,
        rng: &mut fastrand::Rng,
    ) -> Result<u64, Error> {
        let (block, at) = match self.open {
            Some(open) => open,
            None => {
                if self.full.len() + 1 >= self.blocks {
                    // Usually frees the oldest block. Some blocks stay for long, so that wear levelling has something
                    // to move.
                    let nth = if rng.u8(..4) == 0 { self.full.len() / 2 } else { 0 };
                    let freed = self.full.remove(nth);
                    freed
                        .map_or(Ok(()), |block| array.free_block(self.vssd, block))
                        .map_err(failed)?;
                }
                (array.alloc_block(self.vssd, 0).map_err(failed)?, 0)
            }
        };
        let room = array.info(self.vssd).map_err(failed)?.block_pages - at;
        let stripe = u64::from(GEOMETRY.stripe_pages());
        let pages = (rng.u64(1..=8) * stripe).min(room);
        let count = Pages::Count(u32::try_from(pages).unwrap_or(u32::MAX));
        array.append(self.vssd, block, at, count).map_err(failed)?;
        self.open = (pages < room).then_some((block, at + pages));
        if self.open.is_none() {
            self.full.push_back(block);
        }
        Ok(pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_programmed_was_appended_or_moved_to_the_page() {
        for seed in 1..4 {
            let pages = count(6_000, seed).unwrap();
            let DieCounters { appended_pages, migrated_pages, .. } = pages.counted;
            assert_eq!(pages.programmed, appended_pages + migrated_pages, "{pages:?}");
            assert_eq!(pages.asked, appended_pages, "{pages:?}");
            assert!(migrated_pages > pages.asked / 100 && pages.swaps > 2, "{pages:?}");
        }
    }
}
