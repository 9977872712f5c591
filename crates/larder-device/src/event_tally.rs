//! Counts the FDP events of a drive, by placement handle.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::drive_report::{DriveReport, HandleEvents, MOVES_MAX, Move};
use crate::placement::PlacementHandle;

/// Minutes in the span that counts as the last hour.
const HOUR: u64 = 60;

/// The events of a drive since its device was opened. Its memory is bounded by the number of handles and event types.
#[derive(Debug, Default)]
pub(crate) struct EventTally {
    events: BTreeMap<u8, u64>,
    handles: BTreeMap<Option<PlacementHandle>, OfHandle>,
    moves: VecDeque<Move>,
    moves_seen: u64,
}

/// The events about one handle.
#[derive(Debug, Default)]
struct OfHandle {
    events: BTreeMap<u8, u64>,
    moved_bytes: u64,
    /// Moves by minute since 1970, of the last hour that had some.
    minutes: VecDeque<(u64, u64)>,
    last_read_at: Duration,
}

impl EventTally {
    /// Counts an event of type `code` that was read at `now`, and what it says of moved data, if it moved some.
    pub(crate) fn count(
        &mut self,
        now: Duration,
        code: u8,
        handle: Option<PlacementHandle>,
        moved: Option<(u64, Option<u64>)>,
    ) {
        *self.events.entry(code).or_default() += 1;
        let of_handle = self.handles.entry(handle).or_default();
        *of_handle.events.entry(code).or_default() += 1;
        of_handle.last_read_at = of_handle.last_read_at.max(now);
        let Some((bytes, offset)) = moved else { return };
        of_handle.moved(now, bytes);
        if self.moves.len() == MOVES_MAX {
            self.moves.pop_front();
        }
        self.moves.push_back(Move { bytes, offset, handle });
        self.moves_seen += 1;
    }

    /// Writes the counts into a report that is made at `now`.
    pub(crate) fn show_in(&self, report: &mut DriveReport, now: Duration) {
        report.events = listed(&self.events);
        report.moves = self.moves.iter().copied().collect();
        report.moves_seen = self.moves_seen;
        let handles = self.handles.iter();
        report.handles = handles.map(|(handle, counted)| counted.shown(*handle, now)).collect();
    }
}

impl OfHandle {
    fn moved(&mut self, now: Duration, bytes: u64) {
        self.moved_bytes = self.moved_bytes.saturating_add(bytes);
        let minute = now.as_secs() / 60;
        match self.minutes.back_mut() {
            // A clock that was set back adds to the newest minute.
            Some((newest, moves)) if *newest >= minute => *moves += 1,
            _ => {
                if self.minutes.len() as u64 == HOUR {
                    self.minutes.pop_front();
                }
                self.minutes.push_back((minute, 1));
            }
        }
    }

    fn shown(&self, handle: Option<PlacementHandle>, now: Duration) -> HandleEvents {
        let minute = now.as_secs() / 60;
        let is_recent = |of: &&(u64, u64)| of.0.saturating_add(HOUR) > minute;
        HandleEvents {
            handle,
            events: listed(&self.events),
            moved_bytes: self.moved_bytes,
            moves_in_hour: self.minutes.iter().filter(is_recent).map(|(_, moves)| moves).sum(),
            last_read_at: Some(self.last_read_at),
        }
    }
}

fn listed(events: &BTreeMap<u8, u64>) -> Vec<(u8, u64)> {
    events.iter().map(|(code, count)| (*code, *count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOVED: u8 = 0x80;
    const MINUTE: Duration = Duration::from_secs(60);

    fn shown(tally: &EventTally, now: Duration) -> DriveReport {
        let mut report = DriveReport::default();
        tally.show_in(&mut report, now);
        report
    }

    #[test]
    fn events_are_counted_by_handle_and_all_together() {
        let mut tally = EventTally::default();
        let (one, two) = (Some(PlacementHandle::new(1)), Some(PlacementHandle::new(2)));
        tally.count(MINUTE, MOVED, two, Some((100, Some(4096))));
        tally.count(MINUTE * 2, MOVED, two, Some((11, None)));
        tally.count(MINUTE * 3, 0, one, None);
        tally.count(MINUTE * 3, MOVED, None, Some((0, None)));
        let report = shown(&tally, MINUTE * 3);
        assert_eq!((&*report.events, report.moves_seen), (&[(0, 1), (MOVED, 3)][..], 3));
        let [mixed, first, second] = &*report.handles else { panic!("{report:?}") };
        assert_eq!((mixed.handle, mixed.moves(), mixed.moved_bytes), (None, 1, 0));
        assert_eq!((first.handle, first.moves(), first.last_read_at), (one, 0, Some(MINUTE * 3)));
        assert_eq!((second.handle, second.moves(), second.moved_bytes), (two, 2, 111));
        assert_eq!(second.last_read_at, Some(MINUTE * 2));
        assert_eq!(report.moves[0], Move { bytes: 100, offset: Some(4096), handle: two });
    }

    #[test]
    fn moves_of_the_last_hour_are_forgotten_and_the_total_is_not() {
        let mut tally = EventTally::default();
        for minute in 0..200 {
            tally.count(MINUTE * minute, MOVED, None, Some((1, None)));
        }
        let in_hour = |minute| shown(&tally, MINUTE * minute).handles[0].moves_in_hour;
        assert_eq!((in_hour(199), in_hour(229), in_hour(259)), (60, 30, 0));
        let counted = &tally.handles[&None];
        assert_eq!((counted.minutes.len(), counted.moved_bytes, tally.moves.len()), (60, 200, 200));
        for _ in 0..MOVES_MAX {
            tally.count(MINUTE, MOVED, None, Some((1, None)));
        }
        assert_eq!((tally.moves.len(), tally.moves_seen), (MOVES_MAX, 200 + MOVES_MAX as u64));
        assert_eq!(tally.handles[&None].minutes.len(), 60, "the clock was set back");
    }

    #[test]
    fn handles_that_become_one_are_added_up() {
        let mut tally = EventTally::default();
        for index in 0..3 {
            let handle = Some(PlacementHandle::new(index));
            tally.count(MINUTE * u32::from(index), MOVED, handle, Some((1 << index, Some(0))));
        }
        let mut report = shown(&tally, MINUTE);
        report.rename_handles(|handle| (handle.index() > 0).then(|| PlacementHandle::new(7)));
        let handles: Vec<_> =
            report.handles.iter().map(|it| (it.handle, it.moves(), it.moved_bytes)).collect();
        assert_eq!(handles, [(Some(PlacementHandle::new(7)), 2, 6)], "one has no new name");
        assert_eq!(report.handles[0].last_read_at, Some(MINUTE * 2));
        assert_eq!(report.moves[0].handle, None);
    }
}
