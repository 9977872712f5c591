//! Options of shards.

use std::time::Duration;

use crate::base::error::Error;
use crate::config::Demotions;

/// Behaviour of a set of shards when one of them is slow or fails.
///
/// ```
/// use std::time::Duration;
/// use larder::ShardOptions;
///
/// let options = ShardOptions { get_wait: Some(Duration::from_millis(20)), ..ShardOptions::default() };
/// assert_eq!(options.refill_bytes_per_s, 64 << 20);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardOptions {
    /// Maximum time that a look-up waits for flash; after that it is a miss. `None`: no limit. More than 0.
    pub get_wait: Option<Duration>,
    /// How fast a shard that has come back gets its values from the others in the background, in bytes of keys and
    /// values per second; at least 1.
    pub refill_bytes_per_s: u64,
    /// After this time a shard counts as refilled, whatever it has; until then a miss there asks others as well.
    pub refill_time_max: Duration,
    /// Interval of the checks whether shards fail, and whether one must be refilled. More than 0.
    pub look_every: Duration,
    /// What does the background work: checks shards, activates spares, refills.
    pub upkeep: Upkeep,
}

impl Default for ShardOptions {
    fn default() -> Self {
        Self {
            get_wait: Some(Duration::from_millis(100)),
            refill_bytes_per_s: 64 << 20,
            refill_time_max: Duration::from_secs(24 * 3600),
            look_every: Duration::from_millis(250),
            upkeep: Upkeep::default(),
        }
    }
}

/// What looks after shards: see [`ShardOptions::upkeep`].
///
/// ```
/// assert_eq!(larder::Upkeep::default(), larder::Upkeep::Thread);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Upkeep {
    /// A thread of the set, while the set is open.
    #[default]
    Thread,
    /// A task of the user, which runs [`Shards::upkeep`](crate::Shards::upkeep).
    Callers,
}

impl ShardOptions {
    /// The default options; if demotions are left to callers, so is the upkeep.
    pub(crate) fn beside(demotions: impl IntoIterator<Item = Demotions>) -> Self {
        let mut demotions = demotions.into_iter();
        let by_callers = demotions.all(|it| it == Demotions::Callers);
        let upkeep = if by_callers { Upkeep::Callers } else { Upkeep::Thread };
        Self { upkeep, ..Self::default() }
    }

    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config).
    pub(crate) fn check(&self) -> Result<(), Error> {
        let times = [("get_wait", self.get_wait), ("look_every", Some(self.look_every))];
        for (field, time) in times {
            if time == Some(Duration::ZERO) {
                return Err(Error::config(format!("{field} = 0s: must be more than 0")));
            }
        }
        if self.refill_bytes_per_s == 0 {
            return Err(Error::config("refill_bytes_per_s = 0: must be at least 1"));
        }
        Ok(())
    }
}
