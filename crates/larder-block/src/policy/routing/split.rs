//! Splits requests between two devices by a share: in runs instead of at random (NetCAS), so that neighbours stay
//! together.

use super::window::PERMILLE;

/// Consecutive requests that go to the core.
const RUN: u32 = 4;

/// Decides for each request which device serves it.
#[derive(Debug)]
pub(super) struct RequestSplitter {
    core_permille: u16,
    /// Requests owed to the core, in thousandths.
    owed: u32,
    /// Remaining requests of the current run to the core.
    run: u32,
}

impl RequestSplitter {
    /// Sends `core_permille` thousandths of the requests to the core, at most 1000.
    pub(super) fn new(core_permille: u16) -> Self {
        let core_permille = core_permille.min(PERMILLE);
        // The first run begins at once, so that a share of 1000 sends every request to the core.
        Self { core_permille, owed: (RUN - 1) * u32::from(PERMILLE), run: 0 }
    }

    pub(super) fn set(&mut self, core_permille: u16) {
        self.core_permille = core_permille.min(PERMILLE);
    }

    /// The share of the core, in thousandths.
    pub(super) fn core_permille(&self) -> u16 {
        self.core_permille
    }

    /// Whether a request goes to the core. Call it once per request.
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
