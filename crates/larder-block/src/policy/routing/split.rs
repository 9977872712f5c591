//! Requests dealt out between two devices by a share: in runs, not by dice (NetCAS), so that neighbours stay together.

use super::window::PERMILLE;

/// Requests that go to the core one behind the other.
const RUN: u32 = 4;

/// Says of each request where it goes.
#[derive(Debug)]
pub(super) struct Split {
    core_permille: u16,
    /// Requests for the core that are due, in thousandths.
    owed: u32,
    /// What is left of a run to the core.
    run: u32,
}

impl Split {
    /// One that sends `core_permille` thousandths to the core, 1000 at most.
    pub(super) fn new(core_permille: u16) -> Self {
        let core_permille = core_permille.min(PERMILLE);
        // The first run begins at once, so that a share of all is all.
        Self { core_permille, owed: (RUN - 1) * u32::from(PERMILLE), run: 0 }
    }

    pub(super) fn set(&mut self, core_permille: u16) {
        self.core_permille = core_permille.min(PERMILLE);
    }

    /// The share of the core, in thousandths.
    pub(super) fn core_permille(&self) -> u16 {
        self.core_permille
    }

    /// Whether a request goes to the core. To be asked once of each.
    pub(super) fn goes_to_core(&mut self) -> bool {
        self.owed += u32::from(self.core_permille);
        if self.run == 0 && self.owed >= RUN * u32::from(PERMILLE) {
            self.owed -= RUN * u32::from(PERMILLE);
            self.run = RUN;
        }
        let is_due = self.run > 0;
        self.run -= u32::from(is_due);
        is_due
    }
}
