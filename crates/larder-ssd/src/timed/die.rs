//! A die: one thing at a time, reads first.

use super::Nanoseconds;
use super::timing::NandTiming;

/// When a die is busy. Work (programs, erases, the reads of garbage collection) is done in the
/// order in which it was booked; host reads slip in.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Die {
    /// When all booked work is done.
    work_until: Nanoseconds,
    /// How long the work booked last takes: what a read may find under way.
    last_work_ns: u64,
    /// When the read booked last is done.
    reads_until: Nanoseconds,
    /// What is left of erases that have begun.
    erase_left_ns: u64,
}

/// An erase is done in slices between the programs of this part of a block.
const ERASED_WITHIN: u64 = 8;

impl Die {
    pub(super) fn idle_at(&self) -> Nanoseconds {
        self.work_until
    }

    /// Books work that can begin at `ready`.
    pub(super) fn work(&mut self, ready: Nanoseconds, duration: u64) {
        self.work_until = self.work_until.max(ready).max(self.reads_until) + duration;
        self.last_work_ns = duration;
    }

    /// Programs a stripe that is there at `ready`, and goes on with an erase if one has begun: programs
    /// do not wait for the whole of it. Returns when the program is done.
    pub(super) fn program(&mut self, ready: Nanoseconds, nand: &NandTiming) -> Nanoseconds {
        self.work(ready, nand.program_ns);
        let end = self.work_until;
        let slice = (nand.erase_ns * ERASED_WITHIN).div_ceil(u64::from(nand.block_stripes));
        let slice = slice.min(nand.erase_ns).min(self.erase_left_ns);
        if slice > 0 {
            self.erase_left_ns -= slice;
            self.work(end, slice);
        }
        end
    }

    /// Begins to erase so many blocks.
    pub(super) fn erase(&mut self, blocks: u64, nand: &NandTiming) {
        self.erase_left_ns += blocks * nand.erase_ns;
    }

    /// Reads a flash page for the host, asked for at `now`; returns when it is sensed.
    pub(super) fn read(&mut self, now: Nanoseconds, nand: &NandTiming) -> Nanoseconds {
        let begin = now.max(self.reads_until);
        let backlog = self.work_until.saturating_sub(begin);
        // What is under way stays suspended from one read to the next.
        let suspended = now < self.reads_until;
        let wait = match (backlog, nand.suspend_ns) {
            (0, _) => 0,
            _ if suspended => 0,
            (_, Some(suspend)) => suspend.min(backlog),
            // Of what is under way, the part that is left: the backlog less the works that wait.
            (_, None) => (backlog - 1) % self.last_work_ns.max(1) + 1,
        };
        let end = begin + wait + nand.read_ns;
        self.reads_until = end;
        if backlog > 0 {
            // What waits, or was suspended, goes on later.
            let stolen = nand.read_ns + if nand.suspend_ns.is_some() { wait } else { 0 };
            self.work_until += stolen;
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn reads_of_an_idle_die_take_one_sensing_each() {
        let mut die = Die::default();
        assert_eq!(die.read(100, &NAND), 150);
        assert_eq!(die.read(100, &NAND), 200);
        assert_eq!(die.read(1000, &NAND), 1050);
    }

    #[test]
    fn a_read_waits_for_what_is_under_way_but_not_for_what_waits() {
        let mut die = Die::default();
        (0..3).for_each(|_| die.work(0, 1000));
        assert_eq!(die.read(400, &NAND), 1050, "600 of the first program are left");
        assert_eq!(die.idle_at(), 3050);
    }

    #[test]
    fn suspension_bounds_the_wait() {
        let nand = NandTiming { suspend_ns: Some(20), ..NAND };
        let mut die = Die::default();
        die.work(0, 5000);
        assert_eq!(die.read(400, &nand), 470);
        assert_eq!(die.idle_at(), 5070);
    }

    #[test]
    fn reads_in_a_row_suspend_once() {
        let nand = NandTiming { suspend_ns: Some(20), ..NAND };
        let mut die = Die::default();
        die.work(0, 5000);
        assert_eq!(die.read(400, &nand), 470);
        assert_eq!(die.read(410, &nand), 520);
        assert_eq!(die.idle_at(), 5120);
        assert_eq!(die.read(600, &nand), 670, "the program had gone on");
    }

    #[test]
    fn programs_wait_for_slices_of_an_erase() {
        let nand = NandTiming { block_stripes: 80, ..NAND };
        let mut die = Die::default();
        die.erase(1, &nand);
        let ends: Vec<_> = (0..12).map(|_| die.program(0, &nand)).collect();
        assert_eq!((ends[0], ends[1], ends[9]), (1000, 2500, 14_500), "a tenth of it with each");
        assert_eq!(ends[11] - ends[10], 1000, "it is done");
    }

    #[test]
    fn work_is_done_in_order() {
        let mut die = Die::default();
        die.work(0, 1000);
        die.work(5000, 1000);
        assert_eq!(die.idle_at(), 6000);
    }
}
