//! Decides whether the observations of a key are possible in any order.
//!
//! Every value is stored once. So the changes and reads that concern one value form a *zone*: from the first end of any
//! of them (by then it was stored) to the last begin of any of them (until then it was present). If this interval is
//! forward, the value was present during all of it; if it is backward, the value was present at some moment of it. The
//! events are possible in one order if and only if no two forward zones overlap and no backward zone lies within a
//! forward one (Gibbons and Korach, "Testing Shared Memories", SIAM J. Comput. 26(4), 1997). A deletion is a change
//! whose value is never read. A read that finds nothing is always right, because a cache may evict.
//!
//! Values that were certainly replaced when a round ends are dropped; a later read of one of them is an error.

use std::collections::HashMap;

use super::value::Id;

/// An operation of a thread on a key, between two ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) key: u32,
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) what: What,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    Saw(Id),
    Stored(Id),
    /// Stored in place of that value, which the operation has read.
    Replaced(Id, Id),
    /// Possibly not stored: the operation was dropped midway, or refused.
    MayHaveStored(Id),
    Deleted,
}

#[derive(Debug, Clone, Copy)]
struct Zone {
    begin: u64,
    first_end: u64,
    last_begin: u64,
    /// An update has read and replaced it.
    is_replaced: bool,
}

#[derive(Debug, Default)]
struct Known {
    values: HashMap<Id, Zone>,
    deletions: Vec<(u64, u64)>,
}

/// Judges the histories of all keys, round by round.
#[derive(Debug)]
pub(super) struct Judge {
    keys: Vec<Known>,
}

impl Judge {
    pub(super) fn new(keys: u32) -> Self {
        Self { keys: (0..keys).map(|_| Known::default()).collect() }
    }

    /// Adds a round, with its events in any order; all operations of the round must have ended.
    ///
    /// # Errors
    /// If the history is impossible.
    pub(super) fn judge<'a>(
        &mut self,
        round: impl Iterator<Item = &'a Event> + Clone,
    ) -> Result<(), String> {
        round.clone().try_for_each(|event| self.keys[event.key as usize].change(event))?;
        round.into_iter().try_for_each(|event| self.keys[event.key as usize].look(event))?;
        for (key, known) in self.keys.iter_mut().enumerate() {
            known.check().map_err(|wrong| format!("key {key}: {wrong}"))?;
            known.forget();
        }
        Ok(())
    }
}

impl Known {
    fn change(&mut self, event: &Event) -> Result<(), String> {
        let Event { key, begin, end, what } = *event;
        let (id, first_end) = match what {
            What::Saw(_) => return Ok(()),
            What::Deleted => {
                self.deletions.push((begin, end));
                return Ok(());
            }
            What::Stored(id) | What::Replaced(_, id) => (id, end),
            What::MayHaveStored(id) => (id, u64::MAX),
        };
        let zone = Zone { begin, first_end, last_begin: begin, is_replaced: false };
        match self.values.insert(id, zone) {
            None => Ok(()),
            Some(other) => Err(format!("key {key}: {id} was stored twice: {other:?}, {event:?}")),
        }
    }

    fn look(&mut self, event: &Event) -> Result<(), String> {
        let (What::Saw(id) | What::Replaced(id, _)) = event.what else { return Ok(()) };
        let key = event.key;
        let Some(zone) = self.values.get_mut(&id) else {
            return Err(format!(
                "key {key}: {id} was replaced long before, or never stored: {event:?}"
            ));
        };
        if event.end < zone.begin {
            return Err(format!(
                "key {key}: {id} was seen before it was stored: {event:?}, {zone:?}"
            ));
        }
        if matches!(event.what, What::Replaced(..))
            && std::mem::replace(&mut zone.is_replaced, true)
        {
            return Err(format!("key {key}: {id} was updated twice: {event:?}, {zone:?}"));
        }
        zone.first_end = zone.first_end.min(event.end);
        zone.last_begin = zone.last_begin.max(event.begin);
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        // A value that may have been stored but was never read is ignored.
        let seen = || self.values.iter().filter(|(_, zone)| zone.first_end < u64::MAX);
        let is_forward = |zone: &Zone| zone.first_end < zone.last_begin;
        let mut forward: Vec<_> = seen().filter(|(_, zone)| is_forward(zone)).collect();
        forward.sort_unstable_by_key(|(_, zone)| zone.first_end);
        let overlaps = forward.windows(2).find(|two| two[1].1.first_end < two[0].1.last_begin);
        if let Some(two) = overlaps {
            return Err(format!("two values were there at once: {two:?}"));
        }
        let backward = seen().filter(|(_, zone)| !is_forward(zone));
        let backward = backward.map(|(id, zone)| (Some(*id), zone.last_begin, zone.first_end));
        let deleted = self.deletions.iter().map(|&(begin, end)| (None, begin, end));
        for (id, begin, end) in backward.chain(deleted) {
            let before = forward.partition_point(|(_, zone)| zone.first_end < begin);
            let Some(around) = before.checked_sub(1).map(|at| forward[at]) else { continue };
            if end < around.1.last_begin {
                let what = id.map_or("deletion".to_owned(), |id| format!("change to {id}"));
                return Err(format!("{around:?} outlived a {what} from {begin} to {end}"));
            }
        }
        Ok(())
    }

    /// Drops zones that ended before another one certainly began.
    fn forget(&mut self) {
        let certain = self.values.values().filter(|zone| zone.first_end < u64::MAX);
        let begins = certain.map(|zone| zone.begin);
        let latest =
            begins.chain(self.deletions.iter().map(|&(begin, _)| begin)).max().unwrap_or(0);
        // A change that was dropped midway has happened by now, or never will.
        self.values.retain(|_, zone| zone.first_end >= latest);
        self.deletions.retain(|&(_, end)| end >= latest);
    }
}

#[cfg(test)]
mod tests {
    use super::What::{Deleted, MayHaveStored, Replaced, Saw, Stored};
    use super::*;

    fn judged(rounds: &[&[(u64, u64, What)]]) -> Result<(), String> {
        let mut judge = Judge::new(1);
        rounds.iter().try_for_each(|round| {
            let event = |&(begin, end, what): &(u64, u64, What)| Event { key: 0, begin, end, what };
            let round: Vec<_> = round.iter().map(event).collect();
            judge.judge(round.iter())
        })
    }

    fn complaint(rounds: &[&[(u64, u64, What)]]) -> String {
        judged(rounds).expect_err("it cannot be")
    }

    #[test]
    fn what_can_be_is_right() {
        judged(&[&[(1, 2, Stored(10)), (3, 4, Saw(10)), (5, 6, Stored(20)), (7, 8, Saw(20))]])
            .unwrap();
        // Concurrent: each read may return either value.
        judged(&[&[(1, 9, Stored(10)), (2, 8, Stored(20)), (3, 4, Saw(20)), (5, 10, Saw(10))]])
            .unwrap();
        judged(&[&[(1, 2, Stored(10)), (3, 9, Deleted), (4, 5, Saw(10))]]).unwrap();
        judged(&[
            &[(1, 2, Stored(10))],
            &[(3, 4, Saw(10)), (5, 6, Replaced(10, 11))],
            &[(7, 8, Saw(11))],
        ])
        .unwrap();
        judged(&[&[
            (1, 2, Stored(10)),
            (3, 4, MayHaveStored(20)),
            (5, 6, Saw(10)),
            (7, 8, Saw(20)),
        ]])
        .unwrap();
    }

    #[test]
    fn what_was_replaced_or_deleted_does_not_come_back() {
        let wrong = complaint(&[&[(1, 2, Stored(10)), (3, 4, Stored(20)), (5, 6, Saw(10))]]);
        assert!(wrong.contains("outlived a change to 20"), "{wrong}");
        let wrong = complaint(&[&[(1, 2, Stored(10)), (3, 4, Deleted), (5, 6, Saw(10))]]);
        assert!(wrong.contains("outlived a deletion"), "{wrong}");
        let wrong = complaint(&[&[(1, 2, Stored(10)), (3, 4, Stored(20))], &[(5, 6, Saw(10))]]);
        assert!(wrong.contains("long before"), "{wrong}");
        // Both were stored concurrently; the reads tell which came later.
        let side_by_side = [
            (1, 9, Stored(10)),
            (2, 8, Stored(20)),
            (3, 4, Saw(10)),
            (5, 6, Saw(20)),
            (7, 9, Saw(10)),
        ];
        let wrong = complaint(&[&side_by_side]);
        assert!(wrong.contains("outlived") || wrong.contains("at once"), "{wrong}");
        let changed =
            [(1, 2, Stored(10)), (3, 4, MayHaveStored(20)), (5, 6, Saw(20)), (7, 8, Saw(10))];
        assert!(judged(&[&changed]).is_err());
    }

    #[test]
    fn nothing_is_seen_early_or_stored_twice() {
        assert!(
            complaint(&[&[(5, 6, Stored(10)), (1, 2, Saw(10))]]).contains("before it was stored")
        );
        assert!(complaint(&[&[(1, 2, Saw(10))]]).contains("never stored"));
        assert!(complaint(&[&[(1, 2, Stored(10)), (3, 4, Stored(10))]]).contains("twice"));
    }

    #[test]
    fn no_update_is_lost() {
        let both = [(1, 2, Stored(10)), (3, 6, Replaced(10, 11)), (4, 7, Replaced(10, 12))];
        assert!(complaint(&[&both]).contains("updated twice"));
        judged(&[&[(1, 2, Stored(10)), (3, 6, Replaced(10, 11)), (4, 7, Replaced(11, 12))]])
            .unwrap();
    }
}
