//! Levels the wear of the drives of a set: looks at them, and moves keys by the rule ([`wear`](super::wear)).

use super::LiveSet;
use super::wear::rule::{DriveLevelling, DriveWear, LEVELLING_STEP_PARTS, LevellingPause};
use super::wear::{LevellingOptions, LevellingStep};
use crate::base::error::{Error, ErrorKind};
use crate::fleet::partition::{ShardNumber, ShardState};
use crate::observe::events;

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
        let devices: Vec<_> = self.state().shards.iter().map(|it| it.device.clone()).collect();
        let Some(look) = self.levelling.look(&devices, options, now_s) else { return Ok(None) };
        let stepped = self.step(options, &look.drives(), now_s).await;
        let (step, pause) = match stepped {
            Ok(Ok(step)) => (Some(step), None),
            Ok(Err(pause)) => (None, Some(pause.to_string())),
            Err(error) => {
                self.levelling.note(look, None, Some(error.to_string()));
                return Err(error);
            }
        };
        if let Some(step) = &step {
            events::keys_moved(step.from, step.to, step.parts, step.ratio);
        }
        self.levelling.note(look, step, pause);
        Ok(step)
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
