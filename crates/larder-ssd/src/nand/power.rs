//! The power supply. It fails before a program, never within: of a program that it interrupts
//! nothing is left, of one before it everything.

/// Whether there is power, and for how long.
#[derive(Debug)]
pub(crate) struct PowerSupply {
    on: bool,
    /// Programs until it fails; `None`: it does not.
    programs_left: Option<u64>,
}

impl PowerSupply {
    pub(crate) fn new() -> Self {
        Self { on: true, programs_left: None }
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Lets the power fail after `programs` more page programs.
    pub(crate) fn fail_after(&mut self, programs: u64) {
        self.programs_left = Some(programs);
    }

    /// How many of `count` page programs will still happen. The rest finds no power.
    #[inline]
    pub(crate) fn admit(&mut self, count: u32) -> u32 {
        let Some(left) = &mut self.programs_left else { return count };
        let admitted = u32::try_from(*left).map_or(count, |left| left.min(count));
        *left -= u64::from(admitted);
        admitted
    }

    /// The power is gone.
    pub(crate) fn turn_off(&mut self) {
        self.on = false;
    }

    /// The power is back, and stays.
    pub(crate) fn turn_on(&mut self) {
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fails_after_so_many_programs_and_comes_back_for_good() {
        let mut power = PowerSupply::new();
        assert_eq!(power.admit(1000), 1000);
        power.fail_after(5);
        assert_eq!((power.admit(3), power.admit(3), power.admit(3)), (3, 2, 0));
        power.turn_off();
        assert!(!power.is_on());
        power.turn_on();
        assert!(power.is_on());
        assert_eq!(power.admit(1000), 1000);
    }
}
