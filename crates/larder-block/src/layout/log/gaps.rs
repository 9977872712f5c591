//! Detects batches that were complete and are missing after a crash.
//!
//! Sequences of an epoch are consecutive, and a header states up to which sequence all batches were complete when it
//! was written: the horizon. So each batch up to the horizon is found, unless its segment was filled again since. Such
//! a segment was sealed before any generation that is not void was opened, so its sequences are lower than all of
//! those. If nothing was ever void, no segment was filled again, and the epoch begins after the last batch of the
//! earlier epochs.
//!
//! Batches after a hole in a segment are ignored, but the horizons in their headers count: none of the batches that
//! were in flight together states that another one of them is complete.
//!
//! *Always:* a batch that a power loss tears is after the horizon, because the horizon covers only batches whose
//! writes had ended and were durable.

use super::blocks::Blocks;
use super::filling::Filling;
use super::recovery::LogRecovery;

impl LogRecovery {
    /// Reads what follows the last batch of a segment that was found.
    pub(super) fn tail_read(&mut self, segment: u32, position: u32, blocks: Blocks<'_>) {
        let Some(filling) = &self.fillings[segment as usize] else { return };
        let (of_it, last) = ((filling.epoch, filling.generation), filling.last().sequence);
        let mut horizon = 0;
        let positions = (0..).step_by(self.geometry.block_bytes as usize);
        for at in positions.take_while(|at| (*at as usize) < blocks.bytes.len()) {
            let Some(rest) = self.geometry.after(blocks, at) else { break };
            if let Some((header, _)) = self.header(segment, position + at, rest)
                && (header.epoch, header.generation) == of_it
                && header.sequence > last
            {
                horizon = horizon.max(header.horizon);
            }
        }
        let known = self.behind_gaps.entry(of_it.0).or_insert(0);
        *known = horizon.max(*known);
    }

    /// The number of batches of the last epoch that a header states as complete, but that are missing without having
    /// been overwritten by the log. `void_below`: earlier generations are void.
    pub(super) fn missing_batches(&self, void_below: u64) -> u64 {
        let epoch = self.last_epoch();
        let stated = [self.horizons().get(&epoch).copied(), self.behind_gaps.get(&epoch).copied()];
        let Some(horizon) = stated.into_iter().flatten().max() else { return 0 };
        let last_before = || {
            let before = self.found().filter(|filling| filling.epoch < epoch);
            before.map(|filling| filling.last().sequence).max().unwrap_or(0)
        };
        let of_epoch = || self.found().filter(|filling| filling.epoch == epoch);
        let is_in_force = |filling: &&Filling| filling.generation >= void_below;
        let from = match void_below {
            0 | 1 => Some(last_before() + 1),
            _ => of_epoch().filter(is_in_force).map(|filling| filling.first().sequence).min(),
        };
        let Some(from) = from.filter(|from| *from <= horizon) else { return 0 };
        let batches = of_epoch().flat_map(Filling::batches);
        let is_covered = |sequence: &u64| (from..=horizon).contains(sequence);
        let found = batches.map(|batch| batch.sequence).filter(is_covered).count() as u64;
        (horizon - from + 1).saturating_sub(found)
    }
}
