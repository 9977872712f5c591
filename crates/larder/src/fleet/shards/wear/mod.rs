//! Levels the wear of the drives of a set: observes how fast they wear, and moves keys by the rule.
//!
//! | file | what it is |
//! |---|---|
//! | `history` | samples of what was written to a drive, and the wear that follows |
//! | `rule` | which drive gives keys to which |

mod history;
pub mod rule;

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::LiveSet;
use crate::base::error::{Error, ErrorKind};
use crate::fleet::partition::{ShardNumber, ShardState};
use crate::observe::events;
use history::{WearHistory, WearSample};
use rule::{DriveLevelling, DriveWear, LEVELLING_STEP_PARTS, LevellingPause};

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

impl Levelling {
    /// `None` before the first look.
    pub(super) fn status(&self) -> Option<LevellingStatus> {
        self.lock().status.clone()
    }

    fn lock(&self) -> MutexGuard<'_, LevellingState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveSet {
    /// Looks at the drives, if the last look is an hour ago, and takes a step if the rule asks for one. Costs little
    /// otherwise, so it may be called often.
    ///
    /// # Errors
    /// As [`LiveSet::move_keys`].
    pub(crate) async fn level_drives(
        &self,
        options: LevellingOptions,
    ) -> Result<Option<LevellingStep>, Error> {
        let now_s = self.clock.now().as_secs();
        let Some(drives) = self.observe_drives(options, now_s) else { return Ok(None) };
        let stepped = self.step(options, &drives, now_s).await;
        let (step, pause) = match stepped {
            Ok(Ok(step)) => (Some(step), None),
            Ok(Err(pause)) => (None, Some(pause.to_string())),
            Err(error) => {
                self.note_step(None, Some(error.to_string()));
                return Err(error);
            }
        };
        if let Some(step) = &step {
            events::keys_moved(step.from, step.to, step.parts, step.ratio);
        }
        self.note_step(step, pause);
        Ok(step)
    }

    fn note_step(&self, step: Option<LevellingStep>, pause: Option<String>) {
        if let Some(status) = &mut self.levelling.lock().status {
            status.last_step = step.or(status.last_step);
            status.pause = pause;
        }
    }

    /// Takes samples of all drives. Returns their wear; `None` if it is not time yet.
    #[allow(clippy::cast_precision_loss)] // capacities of drives
    fn observe_drives(
        &self,
        options: LevellingOptions,
        now_s: u64,
    ) -> Option<Vec<Option<DriveWear>>> {
        let state = self.state();
        let capacity = |shard: ShardNumber| {
            state.shard(shard).device.as_ref().map(|device| device.info().capacity_bytes)
        };
        let largest = state.numbers().filter_map(capacity).max().unwrap_or(1).max(1);
        let mut levelling = self.levelling.lock();
        let LevellingState { histories, status } = &mut *levelling;
        histories.resize_with(state.shards.len(), WearHistory::default);
        if status.is_some() && !histories.iter().any(|history| history.is_due(now_s)) {
            return None;
        }
        let drives: Vec<Option<DriveWear>> = state
            .numbers()
            .map(|shard| {
                let device = state.shard(shard).device.as_ref()?;
                let history = &mut histories[shard.index()];
                history.add(&device.info().name, WearSample::of(&device.stats(), now_s));
                let part = capacity(shard)? as f64 / largest as f64;
                history.wear(options.rated_bytes.map(|bytes| bytes as f64 * part))
            })
            .collect();
        let shown = |drive: &Option<DriveWear>| {
            let wear = (*drive)?;
            Some(ShardWear { wear, forecast: wear.forecast(options.planned_days) })
        };
        let status = status.get_or_insert_default();
        status.looked_at_s = now_s;
        status.drives = drives.iter().map(shown).collect();
        Some(drives)
    }

    async fn step(
        &self,
        options: LevellingOptions,
        drives: &[Option<DriveWear>],
        now_s: u64,
    ) -> Result<Result<LevellingStep, LevellingPause>, Error> {
        let rule = DriveLevelling { planned_days: options.planned_days };
        let newest = self.state().moved.iter().max_by_key(|it| it.moved_at_s);
        let last = newest.map(|it| {
            let (from, to) = (it.from.index(), it.to.index());
            if it.is_back { (to, from) } else { (from, to) }
        });
        let choice = rule.choose(drives, last);
        let choice = match choice {
            _ if !options.is_on => return Ok(Err(LevellingPause::Off)),
            Ok(choice) => choice,
            Err(pause) => return Ok(Err(pause)),
        };
        let is_steady = |shard| {
            matches!(self.state().standing(shard).state, ShardState::Healthy | ShardState::Retired)
        };
        if !self.state().numbers().all(is_steady) {
            return Ok(Err(LevellingPause::NotHealthy));
        }
        if let Some(newest) = newest
            && let Err(pause) = rule.check_time(newest.moved_at_s, now_s)
        {
            return Ok(Err(pause));
        }
        let numbers = ShardNumber::new(choice.from).zip(ShardNumber::new(choice.to));
        let (from, to) = numbers.expect("they are indexes of shards");
        Ok(match self.move_keys(from, to, LEVELLING_STEP_PARTS).await {
            Ok(0) => Err(LevellingPause::Full),
            Ok(parts) => {
                let (from, to, ratio) = (choice.from, choice.to, choice.ratio);
                Ok(LevellingStep { at_s: now_s, from, to, parts, ratio })
            }
            // A shard has failed in the meantime.
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                Err(LevellingPause::NotHealthy)
            }
            Err(error) => return Err(error),
        })
    }
}
