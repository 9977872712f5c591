//! Sorted sets: members with scores. The members lie sorted by their bytes; ranks name them by score, then by member.

use std::cmp::Ordering;
use std::ops::Range;

use super::kind::{Damaged, Kind};
use super::shape::Shape;
use super::table::{Encoded, Plan, Table, array, parts, short};

/// Sorted sets, as a type.
pub(crate) enum SortedSet {}

/// A member with its score.
pub(crate) type Scored<'a> = (&'a [u8], f64);

/// The bytes of a sorted set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortedSetView<'a> {
    members: Table<'a>,
    /// By the order of members.
    scores: &'a [[u8; 8]],
    /// The places of members by rank.
    ranks: &'a [[u8; 4]],
}

impl Shape for SortedSet {
    const KIND: Kind = Kind::SortedSet;
    type View<'a> = SortedSetView<'a>;

    fn parse(bytes: &[u8]) -> Result<SortedSetView<'_>, Damaged> {
        let parts = parts(bytes, Self::KIND)?;
        let (ends, rest) = array(parts.rest, parts.members)?;
        let (scores, rest) = array(rest, parts.members)?;
        let (ranks, data) = array(rest, parts.members)?;
        let most = ranks.iter().fold(0, |most, rank| most.max(u32::from_le_bytes(*rank)));
        if most as usize >= parts.members.max(1) {
            return Err(Damaged);
        }
        Ok(SortedSetView { members: Table::new(ends, data)?, scores, ranks })
    }

    fn empty<'a>() -> SortedSetView<'a> {
        SortedSetView { members: Table::EMPTY, scores: &[], ranks: &[] }
    }

    fn len(view: SortedSetView<'_>) -> usize {
        view.len()
    }
}

/// Compares scores. Those of damaged bytes may be no numbers.
fn by_score(one: f64, other: f64) -> Ordering {
    one.partial_cmp(&other).unwrap_or_else(|| one.total_cmp(&other))
}

/// The order of ranks.
fn by_rank(one: Scored<'_>, other: Scored<'_>) -> Ordering {
    by_score(one.1, other.1).then_with(|| one.0.cmp(other.0))
}

impl<'a> SortedSetView<'a> {
    /// Number of members.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// All members, sorted by their bytes.
    pub(crate) fn members(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.members.iter()
    }

    /// The member at `at`, by the order of members.
    pub(crate) fn at(&self, at: usize) -> Scored<'a> {
        let score = self.scores.get(at).map_or(0.0, |score| f64::from_le_bytes(*score));
        (self.members.get(at), score)
    }

    /// The member with this rank.
    pub(crate) fn ranked(&self, rank: usize) -> Scored<'a> {
        self.at(self.place(rank))
    }

    fn place(&self, rank: usize) -> usize {
        self.ranks.get(rank).map_or(0, |place| u32::from_le_bytes(*place) as usize)
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        self.members.find(member, 1).ok().map(|at| self.at(at).1)
    }

    /// The rank of a member.
    pub(crate) fn rank(&self, member: &[u8]) -> Option<usize> {
        let wanted = (member, self.score(member)?);
        let rank = self.first_rank(|scored| by_rank(scored, wanted) != Ordering::Less);
        // Of damaged bytes the place may be another's.
        (rank < self.len()).then_some(rank)
    }

    /// The first rank whose member is `behind` a limit; all ranks after it are too.
    pub(crate) fn first_rank(&self, behind: impl Fn(Scored<'a>) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if behind(self.ranked(middle)) { high = middle } else { low = middle + 1 }
        }
        low
    }

    /// The set with other scores of these members; `None` removes a member. No member stands twice.
    pub(crate) fn with(&self, mut changes: Vec<(&[u8], Option<f64>)>) -> Encoded {
        changes.sort_unstable_by(|one, other| one.0.cmp(other.0));
        debug_assert!(changes.windows(2).all(|pair| pair[0].0 < pair[1].0), "no member twice");
        let mut next = Next::of(self.len() + changes.len());
        for (member, score) in changes {
            let (at, is_there) = match self.members.find(member, 1) {
                Ok(at) => (at, true),
                Err(at) => (at, false),
            };
            next.keep(self, at);
            if is_there {
                next.skip();
            }
            if let Some(score) = score {
                next.add(member, score);
            }
        }
        next.keep(self, self.len());
        next.write(self)
    }

    /// The set without the members of these ranks.
    pub(crate) fn without_ranks(&self, ranks: Range<usize>) -> Encoded {
        let mut places: Vec<usize> = ranks.map(|rank| self.place(rank)).collect();
        places.sort_unstable();
        let mut next = Next::of(self.len());
        for place in places {
            next.keep(self, place);
            next.skip();
        }
        next.keep(self, self.len());
        next.write(self)
    }
}

/// Where no member goes.
const NOWHERE: u32 = u32::MAX;

/// A sorted set that is to be written.
struct Next<'n> {
    plan: Plan<'n>,
    scores: Vec<u8>,
    /// Old members that are dealt with.
    done: usize,
    /// The new places of old members; [`NOWHERE`] if they are gone.
    moved: Vec<u32>,
    /// New members, with their places.
    added: Vec<(&'n [u8], f64, u32)>,
    members: usize,
}

impl<'n> Next<'n> {
    fn of(members: usize) -> Self {
        Self {
            plan: Plan::default(),
            scores: Vec::with_capacity(8 * members),
            done: 0,
            moved: Vec::with_capacity(members),
            added: Vec::new(),
            members: 0,
        }
    }

    /// Keeps old members up to the one at `end`.
    fn keep(&mut self, old: &SortedSetView<'_>, end: usize) {
        let run = self.done..end.max(self.done);
        let scores = old.scores.get(run.clone()).unwrap_or_default();
        self.scores.extend_from_slice(scores.as_flattened());
        let first = short(self.members);
        self.moved.extend(first..first.saturating_add(short(run.len())));
        self.members += run.len();
        self.done = run.end;
        self.plan.keep(run);
    }

    /// Leaves out the next old member.
    fn skip(&mut self) {
        self.moved.push(NOWHERE);
        self.done += 1;
    }

    fn add(&mut self, member: &'n [u8], score: f64) {
        self.plan.add(member);
        self.scores.extend_from_slice(&score.to_le_bytes());
        self.added.push((member, score, short(self.members)));
        self.members += 1;
    }

    fn write(mut self, old: &SortedSetView<'_>) -> Encoded {
        self.added.sort_unstable_by(|one, other| by_rank((one.0, one.1), (other.0, other.1)));
        let mut middle = std::mem::take(&mut self.scores);
        middle.reserve_exact(4 * self.members);
        let mut rank = 0;
        // Puts the old members of the ranks up to `end` in their order.
        let mut keep = |middle: &mut Vec<u8>, end: usize| {
            let ranks = old.ranks.get(rank..end.max(rank)).unwrap_or_default();
            for place in ranks {
                let place = u32::from_le_bytes(*place) as usize;
                let moved = self.moved.get(place).copied().unwrap_or(NOWHERE);
                if moved != NOWHERE {
                    middle.extend_from_slice(&moved.to_le_bytes());
                }
            }
            rank = end.max(rank);
        };
        for (member, score, place) in &self.added {
            let before =
                old.first_rank(|scored| by_rank(scored, (member, *score)) != Ordering::Less);
            keep(&mut middle, before);
            middle.extend_from_slice(&place.to_le_bytes());
        }
        keep(&mut middle, old.len());
        // Ranks of damaged bytes may name a member twice, and another one never.
        middle.resize(12 * self.members, 0);
        self.plan.write((Kind::SortedSet, 1), old.members, &middle)
    }
}
