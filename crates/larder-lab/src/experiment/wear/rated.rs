//! The drive: its units and their rated endurance.

use crate::Error;
use crate::experiment::{Parameter, Settings};

/// Blocks of a channel: 4 dies of 4 planes of 1024 blocks, as in the paper's drive.
const BLOCKS_OF_CHANNEL: u64 = 16_384;
/// Life of an evenly worn drive: the upper end of the paper's 150 to 250 weeks.
pub(super) const WEEKS: f64 = 250.0;
/// Steps of a week: three and a half hours each, a quarter of a channel's tenth of a percent.
pub(super) const STEPS_PER_WEEK: u64 = 48;
/// The share of life after which the imbalance is measured: the paper's alpha.
pub(super) const ALPHA: f64 = 0.9;

pub(super) const CHANNELS: Parameter =
    Parameter { name: "channels", default: "16", help: "channels of the drive, 2 to 64" };
pub(super) const CYCLES: Parameter = Parameter {
    name: "cycles",
    default: "3000",
    help: "erases that a block is rated for, 300 to 100000",
};
pub(super) const DELTA: Parameter = Parameter {
    name: "delta",
    default: "0.1",
    help: "imbalance that exchanges are planned for, 0.02 to 0.5",
};
pub(super) const MIGRATION: Parameter = Parameter {
    name: "migration",
    default: "1",
    help: "erases of each block of the two channels that an exchange costs, 0 to 10",
};

/// A drive and its parameters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rated {
    pub(super) channels: usize,
    /// Dies of a channel that wear separately; 1 if only channels are simulated.
    pub(super) dies: usize,
    /// Rated erases of a block.
    pub(super) cycles: u64,
    /// The imbalance that exchanges are planned for.
    pub(super) delta: f64,
    /// Erases of each block that a migration costs, on either side.
    pub(super) migration: f64,
}

impl Rated {
    /// The drive of the settings, with `dies` dies for each channel.
    pub(super) fn new(settings: &Settings, dies: usize) -> Result<Self, Error> {
        // `get` requires whole numbers; `within` would accept fractions.
        let channels: u32 = settings.get("channels")?;
        let cycles: u32 = settings.get("cycles")?;
        settings.within("channels", 2.0..=64.0)?;
        settings.within("cycles", 300.0..=100_000.0)?;
        Ok(Self {
            channels: channels as usize,
            dies,
            cycles: u64::from(cycles),
            delta: settings.within("delta", 0.02..=0.5)?,
            migration: settings.within("migration", 0.0..=10.0)?,
        })
    }

    /// Blocks of a die.
    pub(super) fn die_blocks(&self) -> u64 {
        BLOCKS_OF_CHANNEL / self.dies as u64
    }

    /// Block erases that a die is rated for.
    pub(super) fn die_erases(&self) -> u64 {
        self.die_blocks() * self.cycles
    }

    /// Block erases that a channel is rated for.
    pub(super) fn channel_erases(&self) -> u64 {
        self.die_erases() * self.dies as u64
    }

    /// Blocks that a migration erases on a die.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // ten dies' blocks at most
    pub(super) fn die_migration(&self) -> u64 {
        (self.die_blocks() as f64 * self.migration).round() as u64
    }
}
