//! A die: one operation at a time, in the order of its [`DieService`].

use std::collections::VecDeque;

use super::service::DieService;
use super::timing::{NandTiming, Nanoseconds};

/// The booked times of a die. Work (programs, erases, the reads of garbage collection) is done in the order of booking;
/// host reads are inserted.
#[derive(Debug, Clone, Default)]
pub(super) struct Die {
    /// Booked work that may be unfinished.
    works: VecDeque<Work>,
    /// When all booked work ends.
    work_until: Nanoseconds,
    /// When the last booked read ends.
    reads_until: Nanoseconds,
    /// Remaining time of erases that have begun.
    erase_left_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Work {
    end: Nanoseconds,
    duration: u64,
    /// Host reads wait for it.
    urgent: bool,
}

/// An erase is split into slices, which are done between the programs of this fraction of a block.
const ERASED_WITHIN: u64 = 8;

impl Die {
    pub(super) fn idle_at(&self) -> Nanoseconds {
        self.work_until
    }

    /// Books work that can begin at `ready`. Host reads do not suspend it if it is `urgent`.
    pub(super) fn work(&mut self, ready: Nanoseconds, duration: u64, urgent: bool) {
        self.work_until = self.work_until.max(ready).max(self.reads_until) + duration;
        self.works.push_back(Work { end: self.work_until, duration, urgent });
    }

    /// Programs a stripe that is ready at `ready`, and continues an erase that has begun: programs do not wait for the
    /// whole erase. Returns when the program ends.
    pub(super) fn program(
        &mut self,
        ready: Nanoseconds,
        nand: &NandTiming,
        urgent: bool,
    ) -> Nanoseconds {
        self.work(ready, nand.program_ns, urgent);
        let end = self.work_until;
        let slice = (nand.erase_ns * ERASED_WITHIN).div_ceil(u64::from(nand.block_stripes));
        let slice = slice.min(nand.erase_ns).min(self.erase_left_ns);
        if slice > 0 {
            self.erase_left_ns -= slice;
            self.work(end, slice, false);
        }
        end
    }

    /// Begins the erase of `blocks` blocks.
    pub(super) fn erase(&mut self, blocks: u64, nand: &NandTiming) {
        self.erase_left_ns += blocks * nand.erase_ns;
    }

    /// Reads a flash page for the host, requested at `now`. Returns when it is sensed, and by how much this delays all
    /// work that was booked before.
    pub(super) fn read(
        &mut self,
        now: Nanoseconds,
        nand: &NandTiming,
        service: DieService,
    ) -> (Nanoseconds, u64) {
        match service {
            DieService::InOrder => (self.read_in_order(now, nand), 0),
            DieService::ReadsFirst => self.read_first(now, nand, None),
            DieService::ReadsSuspend => self.read_first(now, nand, nand.suspend_ns),
        }
    }

    /// After all booked work.
    fn read_in_order(&mut self, now: Nanoseconds, nand: &NandTiming) -> Nanoseconds {
        // Later reads do not need the times of this work.
        self.works.clear();
        self.reads_until = now.max(self.reads_until).max(self.work_until) + nand.read_ns;
        self.reads_until
    }

    /// Before all waiting work. The operation in progress is suspended, which takes `suspend_ns`, or the read waits for
    /// it.
    fn read_first(
        &mut self,
        now: Nanoseconds,
        nand: &NandTiming,
        suspend_ns: Option<u64>,
    ) -> (Nanoseconds, u64) {
        let begin = now.max(self.reads_until);
        while self.works.front().is_some_and(|work| work.end <= begin) {
            self.works.pop_front();
        }
        // The operation in progress stays suspended from one read to the next.
        let suspended = now < self.reads_until;
        let under_way = self.works.front().filter(|work| work.end - work.duration < begin);
        let (wait, suspend) = match under_way.map(|work| (work.end - begin, work.urgent)) {
            None => (0, 0),
            Some(_) if suspended => (0, 0),
            Some((left, urgent)) => match suspend_ns.filter(|_| !urgent) {
                Some(suspend) => (suspend.min(left), suspend.min(left)),
                None => (left, 0),
            },
        };
        self.reads_until = begin + wait + nand.read_ns;
        // Work that waits or was suspended continues later.
        let stolen = if self.works.is_empty() { 0 } else { nand.read_ns + suspend };
        let still = begin + wait;
        self.works.iter_mut().filter(|work| work.end > still).for_each(|work| work.end += stolen);
        self.work_until += stolen;
        (self.reads_until, stolen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: DieService = DieService::ReadsSuspend;

    const NAND: NandTiming = NandTiming {
        page_bytes: 16 << 10,
        planes: 4,
        bits: 3,
        read_ns: 50,
        program_ns: 1000,
        erase_ns: 5000,
        suspend_ns: None,
        block_stripes: 1,
    };

    #[test]
    fn reads_in_order_wait_for_all_that_was_booked_and_hold_up_what_comes() {
        let nand = NandTiming { suspend_ns: Some(20), ..NAND };
        let mut die = Die::default();
        (0..3).for_each(|_| die.work(0, 1000, false));
        assert_eq!(die.read(400, &nand, DieService::InOrder), (3050, 0));
        assert_eq!(die.read(410, &nand, DieService::InOrder), (3100, 0));
        die.work(500, 1000, false);
        assert_eq!(die.idle_at(), 4100);
    }

    #[test]
    fn reads_first_suspend_nothing_though_the_die_could() {
        let nand = NandTiming { suspend_ns: Some(20), ..NAND };
        let mut die = Die::default();
        (0..3).for_each(|_| die.work(0, 1000, false));
        assert_eq!(die.read(400, &nand, DieService::ReadsFirst), (1050, 50));
    }

    #[test]
    fn reads_of_an_idle_die_take_one_sensing_each() {
        let mut die = Die::default();
        assert_eq!(die.read(100, &NAND, SERVICE).0, 150);
        assert_eq!(die.read(100, &NAND, SERVICE).0, 200);
        assert_eq!(die.read(1000, &NAND, SERVICE).0, 1050);
    }

    #[test]
    fn a_read_waits_for_what_is_under_way_but_not_for_what_waits() {
        let mut die = Die::default();
        (0..3).for_each(|_| die.work(0, 1000, false));
        assert_eq!(die.read(400, &NAND, SERVICE).0, 1050, "600 of the first program are left");
        assert_eq!(die.idle_at(), 3050);
    }

    #[test]
    fn suspension_bounds_the_wait() {
        let nand = NandTiming { suspend_ns: Some(20), ..NAND };
        let mut die = Die::default();
        die.work(0, 5000, false);
        assert_eq!(die.read(400, &nand, SERVICE).0, 470);
        assert_eq!(die.idle_at(), 5070);
    }

    #[test]
    fn reads_in_a_row_suspend_once() {
        let nand = NandTiming { suspend_ns: Some(20), ..NAND };
        let mut die = Die::default();
        die.work(0, 5000, false);
        assert_eq!(die.read(400, &nand, SERVICE).0, 470);
        assert_eq!(die.read(410, &nand, SERVICE).0, 520);
        assert_eq!(die.idle_at(), 5120);
        assert_eq!(die.read(600, &nand, SERVICE).0, 670, "the program had gone on");
    }

    #[test]
    fn urgent_work_is_not_suspended() {
        let nand = NandTiming { suspend_ns: Some(20), ..NAND };
        let mut die = Die::default();
        die.work(0, 1000, true);
        die.work(0, 1000, false);
        assert_eq!(
            die.read(400, &nand, SERVICE),
            (1050, 50),
            "600 are left, and what waits goes on later"
        );
        assert_eq!(die.read(1500, &nand, SERVICE), (1570, 70), "the other is suspended");
        assert_eq!(die.idle_at(), 2120);
    }

    #[test]
    fn programs_wait_for_slices_of_an_erase() {
        let nand = NandTiming { block_stripes: 80, ..NAND };
        let mut die = Die::default();
        die.erase(1, &nand);
        let ends: Vec<_> = (0..12).map(|_| die.program(0, &nand, false)).collect();
        assert_eq!((ends[0], ends[1], ends[9]), (1000, 2500, 14_500), "a tenth of it with each");
        assert_eq!(ends[11] - ends[10], 1000, "it is done");
    }

    #[test]
    fn work_is_done_in_order() {
        let mut die = Die::default();
        die.work(0, 1000, false);
        die.work(5000, 1000, false);
        assert_eq!(die.idle_at(), 6000);
    }
}
