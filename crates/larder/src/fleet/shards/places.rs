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
//!
//! Shares of a shard's keys may have **moved** to another shard, so that the drives wear alike ([`MovedKeys`]). Such a
//! key has two orders: one by its hash, and a levelled one, in which the other shard stands before the shard that has
//! moved the key. In the levelled order, names from the other shard on contain at least the epoch of the entry. The
//! key's chain consists of the chains of both orders, the one that has its home first. So a look-up finds a value
//! where it was before the key moved, and the next change of the key removes it there. The same holds when the key is
//! taken back.
//!
//! Why no old value comes back: a place is a shard and an epoch. The largest epoch before a shard in an order only
//! grows, and a healthy shard before it that fails gets a larger epoch than all before. So a place that has left the
//! chain of an order never enters that of any order again, except empty; and while it is in one of them, every change
//! of the key removes its value there. The levelled order changes only while all shards are healthy, so that names
//! behind the first shard of an order contain later epochs from then on.

use super::log2::{FRACTION_BITS, log2};
use crate::base::key::mixed;
use crate::fleet::partition::{
    KEY_PARTS, MovedKeys, SHARDS_MAX, ShardNumber, ShardStanding, ShardState,
};

/// A shard, and the epoch in the names of keys there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardPlace {
    pub(crate) shard: ShardNumber,
    /// The largest epoch since which one of the shards ranked before it is away, or its entry of moved keys exists; 0
    /// if there is none.
    pub(crate) since: u32,
}

/// The places of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chain {
    /// `None` if no shard is live.
    pub(crate) first: Option<ShardPlace>,
    /// Places that may have values that the first place does not have yet, in the order of look-up.
    pub(crate) later: Vec<ShardPlace>,
    /// A shard of the chain is being refilled: what is at later places is copied to the first one. Otherwise the later
    /// places are old homes of the key, and it moves with its next change.
    pub(crate) is_refilling: bool,
}

/// Rank of a shard for a key: the larger one comes first.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
struct Rank {
    score: f64,
    /// Decides between equal scores.
    mix: u64,
    number: usize,
}

/// A shard in an order, and the smallest epoch of names from there on.
type Ranked = (usize, u32);

/// Computes the places of the key with this hash, among shards with these standings, of which these shares of keys
/// have moved.
pub(crate) fn chain(shards: &[ShardStanding], moved: &[MovedKeys], hash: u64) -> Chain {
    let rank = |number: usize| Rank::of(hash, number, shards[number].weight);
    let best = (0..shards.len()).map(|number| (rank(number), number));
    let best = best.reduce(|best, next| if next.0 > best.0 { next } else { best });
    let Some((_, best)) = best else { return Chain::along(&[], false) };
    let is_healthy = shards[best].state == ShardState::Healthy;
    if is_healthy && entry_of(moved, best, hash).is_none() {
        return Chain { first: place(best, 0), later: Vec::new(), is_refilling: false };
    }
    let mut order: Vec<Rank> = (0..shards.len()).map(rank).collect();
    order.sort_by(|a, b| b.partial_cmp(a).expect("scores are numbers"));
    let order: Vec<Ranked> = order.into_iter().map(|rank| (rank.number, 0)).collect();
    let (mut places, mut is_refilling) = walk(shards, &order);
    if let Some((levelled, is_back)) = levelled(&order, moved, hash) {
        let (mut others, also_refilling) = walk(shards, &levelled);
        if !is_back {
            std::mem::swap(&mut places, &mut others);
        }
        others.retain(|other| !places.contains(other));
        places.append(&mut others);
        is_refilling |= also_refilling;
    }
    Chain::along(&places, is_refilling)
}

/// The places in this order, down to the first healthy shard, and whether one of them is being refilled.
fn walk(shards: &[ShardStanding], order: &[Ranked]) -> (Vec<ShardPlace>, bool) {
    let (mut places, mut is_refilling, mut since) = (Vec::new(), false, 0);
    for &(number, at_least) in order {
        let shard = shards[number];
        since = since.max(at_least);
        if shard.state.is_live() {
            places.extend(place(number, since));
            is_refilling |= shard.state == ShardState::Refilling;
        }
        if shard.state == ShardState::Healthy {
            break;
        }
        since = since.max(shard.since);
    }
    (places, is_refilling)
}

/// The levelled order of a key, and whether the first entry that concerns the key was taken back; `None` if no entry
/// concerns it.
fn levelled(order: &[Ranked], moved: &[MovedKeys], hash: u64) -> Option<(Vec<Ranked>, bool)> {
    let (mut levelled, mut first): (Vec<Ranked>, _) = (Vec::with_capacity(order.len()), None);
    let has = |levelled: &[Ranked], number| levelled.iter().any(|&(there, _)| there == number);
    for &(number, _) in order {
        if has(&levelled, number) {
            continue;
        }
        let entry = entry_of(moved, number, hash);
        if let Some(entry) = entry.filter(|it| !has(&levelled, it.to.index())) {
            first.get_or_insert(entry.is_back);
            levelled.push((entry.to.index(), entry.since));
        }
        levelled.push((number, 0));
    }
    first.map(|is_back| (levelled, is_back))
}

/// The entry of moved keys that has the key, among those of the keys of this shard.
fn entry_of(moved: &[MovedKeys], from: usize, hash: u64) -> Option<&MovedKeys> {
    let mut own = moved.iter().filter(|it| it.from.index() == from).peekable();
    own.peek()?;
    let part = part_of(hash, from);
    own.find(|it| it.has(part))
}

/// The part of a shard's keys that a key is in, independent of the ranks of all shards.
fn part_of(hash: u64, from: usize) -> u16 {
    let part = (u128::from(mix(hash, SHARDS_MAX + from)) * u128::from(KEY_PARTS)) >> 64;
    u16::try_from(part).expect("below the number of parts")
}

impl Chain {
    fn along(places: &[ShardPlace], is_refilling: bool) -> Self {
        let first = places.first().copied();
        Self { first, later: places.iter().skip(1).copied().collect(), is_refilling }
    }
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
