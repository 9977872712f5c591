//! A channel: transfers of its dies are serialised.

use std::collections::VecDeque;

use super::timing::Nanoseconds;

/// The booked times of a channel.
#[derive(Debug, Clone, Default)]
pub(super) struct Channel {
    /// End of all transfers booked by `append`.
    until: Nanoseconds,
    /// For a channel booked by gaps: begin and end of its transfers, in order, none of them empty.
    carried: VecDeque<(Nanoseconds, Nanoseconds)>,
}

impl Channel {
    /// Books a transfer that is ready at `ready`, after all booked ones. Returns its end.
    pub(super) fn append(&mut self, ready: Nanoseconds, duration: u64) -> Nanoseconds {
        self.until = self.until.max(ready) + duration;
        self.until
    }

    /// Delays later transfers, because another one was inserted.
    pub(super) fn delay(&mut self, duration: u64) {
        self.until += duration;
    }

    /// Books a transfer that is ready at `ready` in the first gap that is long enough. `now` is the time of the
    /// booking: the transfer first waits for a die, and others may use the channel until then.
    pub(super) fn fit(
        &mut self,
        now: Nanoseconds,
        ready: Nanoseconds,
        duration: u64,
    ) -> Nanoseconds {
        debug_assert!(ready >= now);
        while self.carried.front().is_some_and(|&(_, end)| end <= now) {
            self.carried.pop_front();
        }
        let first = self.carried.partition_point(|&(_, end)| end <= ready);
        let mut begin = ready;
        let mut at = self.carried.len();
        for (index, &(busy, end)) in self.carried.iter().enumerate().skip(first) {
            if begin + duration <= busy {
                at = index;
                break;
            }
            begin = begin.max(end);
        }
        self.insert(at, begin, begin + duration);
        begin + duration
    }

    /// Keeps the list short: transfers without a gap in between share one entry.
    fn insert(&mut self, at: usize, begin: Nanoseconds, end: Nanoseconds) {
        if begin == end {
            return;
        }
        let joins_next = self.carried.get(at).is_some_and(|&(next, _)| next == end);
        let before = at.checked_sub(1).and_then(|before| self.carried.get_mut(before));
        match before {
            Some(entry) if entry.1 == begin => {
                entry.1 = end;
                if joins_next && let Some((_, end)) = self.carried.remove(at) {
                    self.carried[at - 1].1 = end;
                }
            }
            _ if joins_next => self.carried[at].0 = begin,
            _ => self.carried.insert(at, (begin, end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_used_if_it_is_long_enough() {
        let mut channel = Channel::default();
        assert_eq!(channel.fit(0, 100, 40), 140);
        assert_eq!(channel.fit(0, 0, 60), 60, "before it");
        assert_eq!(channel.fit(0, 10, 50), 190, "the gap from 60 to 100 is too short");
        assert_eq!(channel.fit(0, 10, 40), 100, "and is long enough for this");
        assert_eq!(channel.carried, [(0, 190)]);
        assert_eq!(channel.fit(190, 200, 10), 210);
        assert_eq!(channel.carried, [(200, 210)], "what is over is forgotten");
        assert_eq!(channel.fit(190, 200, 0), 200, "nothing takes no time, and no place");
    }

    /// Compared with a list of single nanoseconds.
    #[test]
    fn what_is_carried_never_overlaps() {
        let (mut channel, mut busy, mut random) = (Channel::default(), vec![false; 4000], 7_u64);
        for _ in 0..150 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (ready, duration) =
                ((random >> 40) as usize % 1500, 1 + (random >> 20) as usize % 20);
            let end = channel.fit(0, ready as u64, duration as u64);
            let end = usize::try_from(end).unwrap();
            let first = (ready..).find(|&at| busy[at..at + duration].iter().all(|busy| !busy));
            assert_eq!(first, Some(end - duration));
            busy[end - duration..end].fill(true);
        }
    }
}
