//! Determines the places of a key: its shards in a set, and its names there.
//!
//! All shards that the set ever had are ranked for a key by weighted rendezvous hashing (Schindelhauer, Schomaker:
//! SPAA'05): by -w / ln u, where w is the weight of the shard and u a number between 0 and 1 derived from the key and
//! the shard's number. With equal weights that is the order of u. Weights never change, so neither does a key's
//! order.
//!
//! The key's **place** is the first live shard in its order. Its **name** there contains the largest epoch since
//! which one of the shards ranked before it is away (0 if none is). So values that a surrogate got in an earlier
//! failure have other names than those it gets in a later one, and are never found again.
//!
//! If that shard is being refilled, values may still be where they were before it came: at the place that the key
//! would have if the shard were away since its last failure; and so on until a healthy shard. This is the key's
//! **chain**. A change of a key first removes it at the later places of its chain, so none of them ever has a newer
//! value than a place before it.

use super::log2::{FRACTION_BITS, log2};
use crate::base::key::mixed;
use crate::fleet::partition::{ShardNumber, ShardStanding, ShardState};

/// A shard, and the epoch in the names of keys there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardPlace {
    pub(crate) shard: ShardNumber,
    /// The largest epoch since which one of the shards ranked before it is away; 0 if none is.
    pub(crate) since: u32,
}

/// The places of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chain {
    /// `None` if no shard is live.
    pub(crate) first: Option<ShardPlace>,
    /// Places that may have values that the first place does not have yet, in the order of look-up.
    pub(crate) later: Vec<ShardPlace>,
}

/// Rank of a shard for a key: the larger one comes first.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
struct Rank {
    score: f64,
    /// Decides between equal scores.
    mix: u64,
    number: usize,
}

/// Computes the places of the key with this hash, among shards with these standings.
pub(crate) fn chain(shards: &[ShardStanding], hash: u64) -> Chain {
    let rank = |number: usize| Rank::of(hash, number, shards[number].weight);
    let best = (0..shards.len()).map(|number| (rank(number), number));
    let best = best.reduce(|best, next| if next.0 > best.0 { next } else { best });
    let mut chain = Chain { first: None, later: Vec::new() };
    let Some((_, best)) = best else { return chain };
    if shards[best].state == ShardState::Healthy {
        chain.first = place(best, 0);
        return chain;
    }
    let mut order: Vec<Rank> = (0..shards.len()).map(rank).collect();
    order.sort_by(|a, b| b.partial_cmp(a).expect("scores are numbers"));
    let mut since = 0;
    for Rank { number, .. } in order {
        let shard = shards[number];
        if shard.state.is_live() {
            match chain.first {
                None => chain.first = place(number, since),
                Some(_) => chain.later.extend(place(number, since)),
            }
        }
        if shard.state == ShardState::Healthy {
            break;
        }
        since = since.max(shard.since);
    }
    chain
}

fn place(number: usize, since: u32) -> Option<ShardPlace> {
    ShardNumber::new(number).map(|shard| ShardPlace { shard, since })
}

impl Rank {
    fn of(hash: u64, number: usize, weight: u32) -> Self {
        let mix = mix(hash, number);
        // -log2 u, never 0.
        let below_one = (64 << FRACTION_BITS) - log2(mix);
        #[allow(clippy::cast_precision_loss)] // rounded the same way everywhere
        let score = f64::from(weight) / below_one as f64;
        Self { score, mix, number }
    }
}

/// A pseudorandom number for each pair.
pub(super) fn mix(hash: u64, number: usize) -> u64 {
    mixed(hash ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests;
