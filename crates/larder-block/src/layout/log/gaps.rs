//! Batches that were complete and are not found after a crash.
//!
//! Sequences of an epoch follow each other without a hole, and a header states up to which of them all were complete
//! when it was written: the horizon. So each up to there is found, unless its segment was filled anew since. Such a
//! segment was sealed before any generation was opened that is not void, so its sequences are lower than all of those.
//! Where nothing was ever void no segment was filled anew, and the epoch begins behind the last batch of those before.
//!
//! Batches behind a hole in a segment count for nothing, but what their headers call complete does: of those that were
//! under way together none says so of another.
//!
//! *Always:* what a loss of power tears lies behind the horizon, for that covers batches alone whose writes had ended
//! and were durable.

use super::blocks::Blocks;
use super::filling::Filling;
use super::recovery::LogRecovery;

impl LogRecovery {
    /// What lies behind the last batch of a segment that was found.
    pub(super) fn tail_read(&mut self, segment: u32, position: u32, blocks: Blocks<'_>) {
        let Some(filling) = &self.fillings[segment as usize] else { return };
        let (of_it, last) = ((filling.epoch, filling.generation), filling.last().sequence);
        let mut horizon = 0;
        let positions = (0..).step_by(self.geometry.block_bytes as usize);
        for at in positions.take_while(|at| (*at as usize) < blocks.bytes.len()) {
            let Some(rest) = blocks.from(at, &self.geometry) else { break };
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

    /// How many batches of the last epoch a header calls complete that are not there, and were not written over by the
    /// log. `void_below`: generations before that are void.
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
