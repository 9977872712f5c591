//! Moves shares of the keys of one shard to another one: see [`places`](super::places) for how the keys are found then.
//!
//! The state with a moved share is published with the gate held (rule 1 of [`live`](super::live)): a change that uses
//! the old places has ended before one uses the new places.

use std::sync::atomic::Ordering;

use super::LiveSet;
use crate::base::error::{Error, ErrorKind};
use crate::fleet::partition::{KEY_PARTS, KeyStep, ShardNumber, ShardState, after, among};

impl LiveSet {
    /// Gives up to `parts` of 10,000 parts of the keys of `from` their home at `to`. The keys move with their next
    /// change. Returns the number of parts; 0 if nothing can move: all keys of `from` are elsewhere, or the record of
    /// moved keys is full.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if there are no two such shards, or a shard of the set is not healthy.
    /// [`ErrorKind::Device`] if no shard can record it; then nothing has changed.
    pub(crate) async fn move_keys(
        &self,
        from: ShardNumber,
        to: ShardNumber,
        parts: u16,
    ) -> Result<u16, Error> {
        let invalid = |message: String| Error::new(ErrorKind::InvalidInput, message);
        if from == to || parts > KEY_PARTS {
            let message = format!("{parts} of {KEY_PARTS} parts of the keys of {from} to {to}");
            return Err(invalid(format!("{message}: name two shards, and at most all parts")));
        }
        let (mut moved, mut refused) = (0, None);
        self.commit_alone(|set_record| {
            let state_of = |shard: ShardNumber| Some(set_record.seat(shard)?.standing.state);
            let is_healthy = |shard| state_of(shard) == Some(ShardState::Healthy);
            let is_steady =
                |shard| is_healthy(shard) || state_of(shard) == Some(ShardState::Retired);
            // Others may have values of a shard that is away, under names that would be found again.
            let all = [from, to].into_iter().find(|shard| !is_healthy(*shard)).or_else(|| {
                ShardNumber::all(set_record.seats.len()).find(|shard| !is_steady(*shard))
            });
            if let Some(shard) = all {
                refused = Some(invalid(match state_of(shard) {
                    Some(state) => format!("{shard} is {state}: keys move while all are healthy"),
                    None => format!("there is no {shard}; there are {}", set_record.seats.len()),
                }));
                return None;
            }
            let kept = among(&set_record.moved, is_healthy);
            // An epoch of its own: a shard that is lost in the commit fails in the next one.
            let since = set_record.epoch + 1;
            let step = KeyStep { from, to, parts, since, now_s: self.clock.now().as_secs() };
            let (after, count) = after(&kept, step)?;
            (set_record.epoch, set_record.moved, moved) = (since, after, count);
            Some((set_record.seats.clone(), self.state().shards.clone()))
        })
        .await?;
        self.counts.moved_parts.fetch_add(moved.into(), Ordering::Relaxed);
        refused.map_or(Ok(moved), Err)
    }
}
