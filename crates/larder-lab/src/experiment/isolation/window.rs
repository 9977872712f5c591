//! The part of a run that is measured.

use larder_ssd::timed::Nanoseconds;

use super::drive::SECONDS;
use crate::Error;
use crate::experiment::Settings;

/// The measured window of a run, in nanoseconds of the drive's time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) from: Nanoseconds,
    pub(super) until: Nanoseconds,
}

impl Window {
    /// The window that the settings describe.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // up to ten minutes
    pub(super) fn of(settings: &Settings) -> Result<Self, Error> {
        let ns = (settings.within(SECONDS.name, 0.5..=600.0)? * 1e9) as Nanoseconds;
        Ok(Self { from: ns / 4, until: ns / 4 + ns })
    }

    /// Length in seconds.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn seconds(self) -> f64 {
        (self.until - self.from) as f64 / 1e9
    }
}
