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
}

impl Die {
    pub(super) fn idle_at(&self) -> Nanoseconds {
        self.work_until
    }

    /// Books work that can begin at `ready`.
    pub(super) fn work(&mut self, ready: Nanoseconds, duration: u64) {
        self.work_until = self.work_until.max(ready).max(self.reads_until) + duration;
        self.last_work_ns = duration;
    }

    /// Reads a flash page for the host, asked for at `now`; returns when it is sensed.
    pub(super) fn read(&mut self, now: Nanoseconds, nand: &NandTiming) -> Nanoseconds {
        let begin = now.max(self.reads_until);
        let backlog = self.work_until.saturating_sub(begin);
        let wait = match (backlog, nand.suspend_ns) {
            (0, _) => 0,
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
    fn work_is_done_in_order() {
        let mut die = Die::default();
        die.work(0, 1000);
        die.work(5000, 1000);
        assert_eq!(die.idle_at(), 6000);
    }
}
