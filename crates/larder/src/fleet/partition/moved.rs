//! Shares of the keys of a shard that have their home at another shard, so that the drives of a set wear alike.
//!
//! Each shard divides its keys by their hash into 10,000 parts. An entry says of a range of the parts of one shard
//! that they are, or have been, at home at another shard. Ranges of the same shard do not overlap. An entry that was
//! taken back stays in the list, because the other shard may still have values of these keys.

use super::shard_number::ShardNumber;

/// Number of parts of the keys of a shard.
pub(crate) const KEY_PARTS: u16 = 10_000;
/// Most entries of a set.
pub(crate) const MOVED_MAX: usize = 64;

/// A range of the parts of a shard's keys, and the other shard that has, or had, the keys in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MovedKeys {
    pub(crate) from: ShardNumber,
    pub(crate) to: ShardNumber,
    /// The first part.
    pub(crate) begin: u16,
    /// The part after the last one, at most [`KEY_PARTS`].
    pub(crate) end: u16,
    /// The keys have their home at `from` again, and `to` may still have values.
    pub(crate) is_back: bool,
    /// The epoch in the names of these keys at `to`. No shard failed in this epoch, and no other entry has it.
    pub(crate) since: u32,
    /// When keys of this entry were moved the last time, in seconds since 1970.
    pub(crate) moved_at_s: u64,
}

impl MovedKeys {
    /// Number of its parts.
    pub(crate) fn parts(&self) -> u16 {
        self.end - self.begin
    }

    /// Whether this part of the keys of `from` is in the range.
    pub(crate) fn has(&self, part: u16) -> bool {
        (self.begin..self.end).contains(&part)
    }

    fn is_possible(&self, shards: usize, epoch: u32) -> bool {
        self.from != self.to
            && self.from.index().max(self.to.index()) < shards
            && self.begin < self.end
            && self.end <= KEY_PARTS
            && (1..=epoch).contains(&self.since)
    }
}

/// Whether a set with this number of shards can have these entries in this epoch.
pub(super) fn are_possible(moved: &[MovedKeys], shards: usize, epoch: u32) -> bool {
    let overlap = |one: &MovedKeys, other: &MovedKeys| {
        one.from == other.from && one.begin < other.end && other.begin < one.end
    };
    moved.len() <= MOVED_MAX
        && moved.iter().all(|one| one.is_possible(shards, epoch))
        && moved.iter().enumerate().all(|(at, one)| {
            let mut others = moved.iter().skip(at + 1);
            others.all(|other| !overlap(one, other))
        })
}

/// The entries between shards for which `stays` is true.
///
/// Entries of a retired shard stay in the list until the next step, because the list may only become shorter while all
/// shards of the set are healthy (`shards/places.rs`).
pub(crate) fn among(moved: &[MovedKeys], stays: impl Fn(ShardNumber) -> bool) -> Vec<MovedKeys> {
    moved.iter().filter(|it| stays(it.from) && stays(it.to)).copied().collect()
}

/// A step that is to be taken: at most this number of parts of the keys of `from` get their home at `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyStep {
    pub(crate) from: ShardNumber,
    pub(crate) to: ShardNumber,
    pub(crate) parts: u16,
    /// The epoch of a new entry.
    pub(crate) since: u32,
    /// The wall clock, in seconds since 1970.
    pub(crate) now_s: u64,
}

/// The entries after a step, and the number of parts that it moves: keys of `to` that are at home at `from` return
/// first, then those that were there before, then others. `None` if nothing can move: all keys of `from` are
/// elsewhere, or the list is full.
pub(crate) fn after(moved: &[MovedKeys], step: KeyStep) -> Option<(Vec<MovedKeys>, u16)> {
    let KeyStep { from, to, parts, .. } = step;
    let mut next = moved.to_vec();
    let is_guest = |it: &MovedKeys| !it.is_back && (it.from, it.to) == (to, from);
    let was_there = |it: &MovedKeys| it.is_back && (it.from, it.to) == (from, to);
    let turned = next.iter().rposition(is_guest).or_else(|| next.iter().position(was_there));
    let count = match turned {
        Some(at) => turn(&mut next, at, parts, step.now_s),
        None => grow(&mut next, step),
    };
    let next = joined(next);
    (count > 0 && next.len() <= MOVED_MAX).then_some((next, count))
}

/// Turns up to `parts` parts of an entry around. Returns their number. The parts that are at `to` stay together at the
/// beginning of the range.
fn turn(entries: &mut Vec<MovedKeys>, at: usize, parts: u16, now_s: u64) -> u16 {
    let entry = entries[at];
    let count = parts.min(entry.parts());
    let cut = if entry.is_back { entry.begin + count } else { entry.end - count };
    let mut halves = [MovedKeys { end: cut, ..entry }, MovedKeys { begin: cut, ..entry }];
    let turned = &mut halves[usize::from(!entry.is_back)];
    (turned.is_back, turned.moved_at_s) = (!entry.is_back, now_s);
    entries.splice(at..=at, halves.into_iter().filter(|half| half.begin < half.end));
    count
}

/// Moves parts that were never in an entry. Returns their number.
///
/// The last entry of the shard grows if it has the same target: its epoch is as new to the added parts as another one
/// would be, because none of their keys had a name with it.
fn grow(entries: &mut Vec<MovedKeys>, step: KeyStep) -> u16 {
    let KeyStep { from, to, parts, since, now_s } = step;
    let own = entries.iter_mut().filter(|it| it.from == from);
    let last = own.max_by_key(|it| it.end);
    let begin = last.as_ref().map_or(0, |it| it.end);
    let end = begin.saturating_add(parts).min(KEY_PARTS);
    match last.filter(|it| it.to == to && !it.is_back) {
        Some(last) => (last.end, last.moved_at_s) = (end, now_s),
        None if begin < end => {
            let (is_back, moved_at_s) = (false, now_s);
            entries.push(MovedKeys { from, to, begin, end, is_back, since, moved_at_s });
        }
        None => {}
    }
    end - begin
}

/// Joins neighbours that are parts of one entry that was cut, and are alike again.
fn joined(mut entries: Vec<MovedKeys>) -> Vec<MovedKeys> {
    entries.sort_by_key(|it| (it.from, it.begin));
    let mut joined: Vec<MovedKeys> = Vec::new();
    for entry in entries {
        let key = |it: &MovedKeys| (it.from, it.to, it.since, it.is_back);
        match joined.last_mut() {
            Some(last) if key(last) == key(&entry) && last.end == entry.begin => {
                last.end = entry.end;
                last.moved_at_s = last.moved_at_s.max(entry.moved_at_s);
            }
            _ => joined.push(entry),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(from: usize, to: usize, parts: u16, since: u32) -> KeyStep {
        let shard = |number| ShardNumber::new(number).unwrap();
        KeyStep { from: shard(from), to: shard(to), parts, since, now_s: since.into() }
    }

    fn seen(moved: &[MovedKeys]) -> Vec<(usize, usize, u16, u16, bool, u32)> {
        let of = |it: &MovedKeys| {
            (it.from.index(), it.to.index(), it.begin, it.end, it.is_back, it.since)
        };
        moved.iter().map(of).collect()
    }

    /// The entries after these steps, and what the last one has moved.
    fn all(steps: &[KeyStep]) -> (Vec<MovedKeys>, u16) {
        let mut done = (Vec::new(), 0);
        for step in steps {
            done = after(&done.0, *step).unwrap();
        }
        done
    }

    #[test]
    fn an_entry_grows_while_its_target_stays() {
        let (moved, count) = all(&[step(0, 1, 28, 5), step(0, 1, 28, 6)]);
        assert_eq!((seen(&moved), count), (vec![(0, 1, 0, 56, false, 5)], 28));
        assert_eq!(moved[0].moved_at_s, 6);
        let (moved, _) = all(&[step(0, 1, 28, 5), step(0, 2, 10, 6), step(3, 2, 10, 7)]);
        let expected =
            vec![(0, 1, 0, 28, false, 5), (0, 2, 28, 38, false, 6), (3, 2, 0, 10, false, 7)];
        assert_eq!(seen(&moved), expected);
    }

    #[test]
    fn keys_return_before_others_move() {
        let away = [step(0, 1, 100, 5), step(1, 0, 30, 6)];
        let (moved, count) = all(&away);
        assert_eq!(count, 30);
        assert_eq!(seen(&moved), [(0, 1, 0, 70, false, 5), (0, 1, 70, 100, true, 5)]);
        // All of them, and no more in this step.
        let (moved, count) = all(&[&away[..], &[step(1, 0, 200, 7)]].concat());
        assert_eq!((seen(&moved), count), (vec![(0, 1, 0, 100, true, 5)], 70));
        // Away again: first those that have been there.
        let (moved, count) = all(&[&away[..], &[step(0, 1, 10, 7), step(0, 1, 99, 8)]].concat());
        assert_eq!((seen(&moved), count), (vec![(0, 1, 0, 100, false, 5)], 20));
        // Then the keys of the other shard move.
        let (moved, _) = all(&[step(0, 1, 10, 5), step(1, 0, 10, 6), step(1, 0, 10, 7)]);
        assert_eq!(seen(&moved), [(0, 1, 0, 10, true, 5), (1, 0, 0, 10, false, 7)]);
    }

    #[test]
    fn nothing_moves_if_all_has_moved_or_the_list_is_full() {
        let (moved, count) = all(&[step(0, 1, 9_990, 5), step(0, 2, 28, 6)]);
        assert_eq!(count, 10);
        assert_eq!(after(&moved, step(0, 2, 28, 7)), None);
        assert_eq!(after(&moved, step(0, 3, 28, 7)), None);
        let turns = |count: u32| (0..count).map(|at| step(0, 1 + at as usize % 2, 1, at + 1));
        let (full, _) = all(&turns(64).collect::<Vec<_>>());
        assert_eq!((full.len(), after(&full, step(0, 1, 1, 99))), (64, None));
        assert!(after(&full, step(0, 2, 1, 99)).is_some(), "the last one grows");
        let left = among(&full, |shard| shard.index() != 2);
        assert!(left.len() == 32 && after(&left, step(0, 2, 1, 99)).is_some());
    }
}
