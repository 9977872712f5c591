//! The power supply: how many more operations it lasts. Of what came before it fails, all is there.
//! What becomes of the operation that finds none is the firmware's to say: the managed one has not
//! begun it, its capacitors see to that; the raw one has, and leaves a torn block.

/// Whether there is power, and for how long.
#[derive(Debug)]
pub(crate) struct PowerSupply {
    on: bool,
    /// Operations until it fails; `None`: it does not.
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

    /// Lets the power fail after `operations` more: of those that come when it is back, if it is gone.
    pub(crate) fn fail_after(&mut self, operations: u64) {
        self.operations_left = Some(operations);
    }

    /// How many of `count` operations will still happen. The rest finds no power.
    #[inline]
    pub(crate) fn admit(&mut self, count: u32) -> u32 {
        let Some(left) = &mut self.operations_left else { return count };
        let admitted = u32::try_from(*left).map_or(count, |left| left.min(count));
        *left -= u64::from(admitted);
        debug_assert!(admitted == count || *left == 0, "it fails when nothing is left");
        admitted
    }

    /// The power is gone.
    pub(crate) fn turn_off(&mut self) {
        *self = Self { on: false, operations_left: None };
    }

    /// The power is back, and stays, unless it was told to fail again while it was gone. Power that was
    /// there stays.
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
    fn it_fails_after_so_many_operations_and_comes_back_for_good() {
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
