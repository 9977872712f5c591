//! The wear of the drives of a set, and the rule by which keys move to level it.
//!
//! | file | what it is |
//! |---|---|
//! | `history` | samples of what was written to a drive, and the wear that follows |
//! | `rule` | which drive gives keys to which |

mod history;
pub mod rule;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::Device;

use crate::base::error::Error;
use history::{WearHistory, WearSample};
use rule::DriveWear;

/// How the wear of the drives of a set is observed, and whether keys move to level it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevellingOptions {
    /// Whether keys move. Otherwise wear is only observed.
    pub is_on: bool,
    /// Days that a drive is to be in service: 1825 are five years.
    pub planned_days: f64,
    /// Bytes that a drive may be written in its life, from its data sheet, for drives that do not report enough to tell
    /// (NVMe: percentage used, at least 5, and media bytes). If the capacities of the drives differ, it is the rating
    /// of the largest one, and that of another is in proportion to its capacity.
    pub rated_bytes: Option<u64>,
}

impl Default for LevellingOptions {
    /// Off, for five years.
    fn default() -> Self {
        Self { is_on: false, planned_days: 5.0 * 365.0, rated_bytes: None }
    }
}

impl LevellingOptions {
    /// Refuses options that cannot work.
    ///
    /// # Errors
    /// [`ErrorKind::Config`].
    ///
    /// ```
    /// use larder::LevellingOptions;
    ///
    /// let options = LevellingOptions { planned_days: 0.0, ..LevellingOptions::default() };
    /// assert!(options.check().unwrap_err().to_string().contains("planned_days = 0"));
    /// ```
    pub fn check(&self) -> Result<(), Error> {
        if !(1.0..=36_500.0).contains(&self.planned_days) {
            let days = self.planned_days;
            return Err(Error::config(format!(
                "planned_days = {days}: must be 1 to 36500, the days that a drive is to be in service"
            )));
        }
        if self.rated_bytes == Some(0) {
            return Err(Error::config(
                "rated_bytes = 0: must be at least 1; use None if it is not known",
            ));
        }
        Ok(())
    }
}

/// The wear of the drives of a set, and what was done to level it.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct LevellingStatus {
    /// When the drives were looked at, in seconds since 1970.
    pub looked_at_s: u64,
    /// In the order of the shards; `None` for a shard whose wear is not known.
    pub drives: Vec<Option<ShardWear>>,
    /// The last step since the set was opened.
    pub last_step: Option<LevellingStep>,
    /// Why no keys were moved at the last look.
    pub pause: Option<String>,
}

/// Wear of the drive of a shard.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ShardWear {
    /// What is known of the drive.
    pub wear: DriveWear,
    /// The part of its rated life that it will have used at the end of its planned service.
    pub forecast: Option<f64>,
}

/// Keys that were moved to level the wear of drives.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct LevellingStep {
    /// When, in seconds since 1970.
    pub at_s: u64,
    /// The shard that gave keys.
    pub from: usize,
    /// The shard that got them.
    pub to: usize,
    /// How much, in parts of 10,000 of the keys of the giving shard.
    pub parts: u16,
    /// The forecast of the one by that of the other.
    pub ratio: f64,
}

/// The state of levelling in an open set.
#[derive(Default)]
pub(super) struct Levelling(Mutex<LevellingState>);

#[derive(Default)]
struct LevellingState {
    histories: Vec<WearHistory>,
    status: Option<LevellingStatus>,
}

/// What a look at the drives has found.
pub(super) struct Look {
    at_s: u64,
    drives: Vec<Option<ShardWear>>,
}

impl Look {
    /// The wear of the drives, in the order of the shards.
    pub(super) fn drives(&self) -> Vec<Option<DriveWear>> {
        self.drives.iter().map(|drive| Some((*drive)?.wear)).collect()
    }
}

impl Levelling {
    /// `None` before the first look.
    pub(super) fn status(&self) -> Option<LevellingStatus> {
        self.lock().status.clone()
    }

    /// Shows a look with what came of it: a report never has the one without the other.
    pub(super) fn note(&self, look: Look, step: Option<LevellingStep>, pause: Option<String>) {
        let Look { at_s: looked_at_s, drives } = look;
        let mut levelling = self.lock();
        let last_step = step.or(levelling.status.as_ref().and_then(|status| status.last_step));
        levelling.status = Some(LevellingStatus { looked_at_s, drives, last_step, pause });
    }

    /// Takes samples of these devices, in the order of the shards. `None` if it is not time yet.
    #[allow(clippy::cast_precision_loss)] // capacities of drives
    pub(super) fn look(
        &self,
        devices: &[Option<Arc<dyn Device>>],
        options: LevellingOptions,
        now_s: u64,
    ) -> Option<Look> {
        let capacities = devices.iter().flatten().map(|device| device.info().capacity_bytes);
        let largest = capacities.max().unwrap_or(1).max(1);
        let mut levelling = self.lock();
        let LevellingState { histories, status } = &mut *levelling;
        histories.resize_with(devices.len(), WearHistory::default);
        if status.is_some() && !histories.iter().any(|history| history.is_due(now_s)) {
            return None;
        }
        let looked_at = devices.iter().zip(histories).map(|(device, history)| {
            let device = device.as_ref()?;
            history.add(&device.info().name, WearSample::of(&device.stats(), now_s));
            let part = device.info().capacity_bytes as f64 / largest as f64;
            let wear = history.wear(options.rated_bytes.map(|bytes| bytes as f64 * part))?;
            Some(ShardWear { wear, forecast: wear.forecast(options.planned_days) })
        });
        Some(Look { at_s: now_s, drives: looked_at.collect() })
    }

    fn lock(&self) -> MutexGuard<'_, LevellingState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_shown_with_what_came_of_it() {
        let levelling = Levelling::default();
        let look = |now_s| levelling.look(&[None, None], LevellingOptions::default(), now_s);
        let first = look(1000).unwrap();
        assert_eq!(first.drives(), [None, None]);
        assert_eq!(levelling.status(), None, "it may still take a step");
        let step = LevellingStep { at_s: 1000, from: 0, to: 1, parts: 28, ratio: 2.0 };
        levelling.note(first, Some(step), None);
        let shown = || levelling.status().map(|it| (it.looked_at_s, it.last_step, it.pause));
        assert_eq!(shown(), Some((1000, Some(step), None)));
        let second = look(4600).unwrap();
        assert_eq!(shown(), Some((1000, Some(step), None)), "the second one is not over");
        levelling.note(second, None, Some("later".to_owned()));
        assert_eq!(shown(), Some((4600, Some(step), Some("later".to_owned()))));
    }
}
