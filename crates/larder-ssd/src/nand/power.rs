//! The power supply: the number of operations until it fails. All operations before the failure are complete. The
//! firmware decides what happens to the operation that finds no power: the managed drive has capacitors and has not
//! begun it; the raw drive has begun it and leaves a torn block.

/// Whether there is power, and for how many more operations.
#[derive(Debug)]
pub(crate) struct PowerSupply {
    on: bool,
    /// Operations until the power fails; `None`: it does not fail.
    operations_left: Option<u64>,
}

impl PowerSupply {
    pub(crate) fn new() -> Self {
        Self { on: true, operations_left: None }
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Makes the power fail after `operations` more operations. While the power is off, they count from its return.
    pub(crate) fn fail_after(&mut self, operations: u64) {
        self.operations_left = Some(operations);
    }

    /// How many of `count` operations still happen. The rest find no power.
    #[inline]
    pub(crate) fn admit(&mut self, count: u32) -> u32 {
        let Some(left) = &mut self.operations_left else { return count };
        let admitted = u32::try_from(*left).map_or(count, |left| left.min(count));
        *left -= u64::from(admitted);
        debug_assert!(admitted == count || *left == 0, "it fails when nothing is left");
        admitted
    }

    /// Turns the power off.
    pub(crate) fn turn_off(&mut self) {
        *self = Self { on: false, operations_left: None };
    }

    /// Turns the power on. It stays on, unless a failure was scheduled while it was off. Does nothing if the power is
    /// on, except that a scheduled failure is cancelled.
    pub(crate) fn turn_on(&mut self) {
        let again = self.operations_left.filter(|_| !self.on);
        *self = Self { on: true, operations_left: again };
        debug_assert!(self.on);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_fails_after_the_given_number_of_operations_and_comes_back_for_good() {
        let mut power = PowerSupply::new();
        assert_eq!(power.admit(1000), 1000);
        power.fail_after(5);
        assert_eq!((power.admit(3), power.admit(3), power.admit(3)), (3, 2, 0));
        power.turn_off();
        assert!(!power.is_on());
        power.turn_on();
        assert!(power.is_on());
        assert_eq!(power.admit(1000), 1000);
        power.fail_after(5);
        power.turn_on();
        assert_eq!(power.admit(1000), 1000, "a power cycle");
        power.turn_off();
        power.fail_after(5);
        power.turn_on();
        assert_eq!(power.admit(1000), 5, "it was told to fail again");
    }
}
