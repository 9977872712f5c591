//! A drive's life in steps of some hours: erases of tenants, exchanges, and its end.

use fastrand::Rng;
use larder_vssd::levelling::DieLevelling;

use super::load::{Contents, Load, events};
use super::policy::{ChannelLeveller, Policy};
use super::rated::{ALPHA, Rated, STEPS_PER_WEEK, WEEKS};
use crate::Error;
use crate::replay::Monitor;

/// The results of a life.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Life {
    /// Erases for tenants until the first die had used up its rated erases, as a share of all dies' rated erases. 1 is
    /// ideal.
    pub(super) share: f64,
    /// Length of the life.
    pub(super) weeks: f64,
    /// Exchanges of channels.
    pub(super) swaps: u64,
    /// Exchanges of dies inside a channel.
    pub(super) die_swaps: u64,
    /// Share of all erases made by migrations.
    pub(super) migration: f64,
    /// Erases of the most worn channel divided by the mean, after 90 % of the ideal life or at the end, if that is
    /// earlier.
    pub(super) imbalance: f64,
    /// Erases of the most worn die divided by the mean, at the end.
    pub(super) die_imbalance: f64,
    /// By channel: mean erases of its blocks, at the end.
    pub(super) cycles: Vec<f64>,
}

/// Simulates the drive until the first die has used up its rated erases, or for `weeks_max` weeks.
///
/// # Errors
/// If the policy is invalid for the drive, or the run was stopped.
pub(super) fn live(
    rated: &Rated,
    load: Load,
    policy: Policy,
    seed: u64,
    weeks_max: Option<f64>,
    monitor: &Monitor,
) -> Result<Life, Error> {
    let mut drive = Drive::new(*rated, load, policy, seed)?;
    let mut step: u64 = 0;
    let mut imbalance = None;
    while !drive.is_worn_out() && weeks_max.is_none_or(|max| weeks(step) < max) {
        if step.is_multiple_of(STEPS_PER_WEEK) {
            if monitor.is_stopped() {
                return Err(Error::run("interrupted"));
            }
            drive.load.draw_bursts(&mut drive.rng);
        }
        step += 1;
        drive.write();
        drive.level_channels(step);
        drive.level_dies(step);
        if imbalance.is_none() && drive.share_written() >= ALPHA {
            imbalance = Some(drive.imbalance());
        }
    }
    Ok(Life {
        share: drive.share_written(),
        weeks: weeks(step),
        swaps: drive.swaps,
        die_swaps: drive.die_swaps,
        migration: drive.migrated as f64 / (drive.migrated + drive.written).max(1) as f64,
        imbalance: imbalance.unwrap_or_else(|| drive.imbalance()),
        die_imbalance: most_by_mean(drive.erases.iter().flatten().copied()),
        cycles: drive.cycles(),
    })
}

fn weeks(steps: u64) -> f64 {
    steps as f64 / STEPS_PER_WEEK as f64
}

/// Invariant: the erases of all dies are exactly the written plus the migrated ones.
struct Drive {
    rated: Rated,
    policy: Policy,
    load: Load,
    rng: Rng,
    channels: Option<ChannelLeveller>,
    dies: Option<DieLevelling>,
    /// By channel and die: blocks erased.
    erases: Vec<Vec<u64>>,
    written: u64,
    migrated: u64,
    swaps: u64,
    die_swaps: u64,
    /// Average number of blocks erased for all tenants in a step.
    step_erases: f64,
}

impl Drive {
    fn new(rated: Rated, load: Load, policy: Policy, seed: u64) -> Result<Self, Error> {
        assert_eq!(load.contents.len(), rated.channels, "contents for each channel");
        let all = (rated.channel_erases() * rated.channels as u64) as f64;
        Ok(Self {
            channels: policy.channels(&rated)?,
            dies: policy.dies(&rated)?,
            erases: vec![vec![0; rated.dies]; rated.channels],
            step_erases: all / (WEEKS * STEPS_PER_WEEK as f64),
            rng: Rng::with_seed(seed),
            rated,
            policy,
            load,
            written: 0,
            migrated: 0,
            swaps: 0,
            die_swaps: 0,
        })
    }

    fn is_worn_out(&self) -> bool {
        self.erases.iter().flatten().any(|&erases| erases >= self.rated.die_erases())
    }

    /// The erases of tenants in a step.
    fn write(&mut self) {
        for (channel, contents) in self.load.contents.iter().enumerate() {
            let mut of_channel = 0;
            for (die, share) in contents.shares.iter().enumerate() {
                let mean = share * contents.burst * self.step_erases;
                let blocks =
                    if self.load.exact { whole(mean) } else { events(&mut self.rng, mean) };
                self.erases[channel][die] += blocks;
                of_channel += blocks;
                if let Some(dies) = &mut self.dies {
                    dies.erased(channel, die, blocks);
                }
            }
            self.written += of_channel;
            if let Some(channels) = &mut self.channels {
                channels.erased(channel, of_channel);
            }
        }
    }

    fn level_channels(&mut self, now: u64) {
        while let Some(pair) = self.channels.as_mut().and_then(|channels| channels.due(now)) {
            let cost = self.policy.die_migration(&self.rated);
            if let Some(channels) = &mut self.channels {
                channels.swapped(pair, cost * self.rated.dies as u64);
            }
            let (i, j) = pair;
            let contents = &mut self.load.contents;
            contents.swap(i, j);
            if let Some(dies) = &mut self.dies {
                let seats = dies.seats(pair);
                dies.carried(pair, &seats, cost);
                seat(&mut contents[i], &seats.on_first);
                seat(&mut contents[j], &seats.on_second);
            }
            for channel in [i, j] {
                (0..self.rated.dies).for_each(|die| self.migrate(channel, die, cost));
            }
            self.swaps += 1;
        }
    }

    fn level_dies(&mut self, now: u64) {
        if !self.policy.dies.by_themselves {
            return;
        }
        let cost = self.policy.die_migration(&self.rated);
        for channel in 0..self.rated.channels {
            let Some(dies) = &mut self.dies else { return };
            let Some(pair) = dies.due(channel, now) else { continue };
            dies.swapped(channel, pair, cost);
            if let Some(channels) = &mut self.channels {
                channels.migrated(channel, 2 * cost);
            }
            let (a, b) = pair;
            self.load.contents[channel].shares.swap(a, b);
            self.migrate(channel, a, cost);
            self.migrate(channel, b, cost);
            self.die_swaps += 1;
        }
    }

    fn migrate(&mut self, channel: usize, die: usize, blocks: u64) {
        self.erases[channel][die] += blocks;
        self.migrated += blocks;
    }

    fn share_written(&self) -> f64 {
        self.written as f64 / (self.rated.channel_erases() * self.rated.channels as u64) as f64
    }

    fn imbalance(&self) -> f64 {
        most_by_mean(self.erases.iter().map(|dies| dies.iter().sum()))
    }

    fn cycles(&self) -> Vec<f64> {
        let all: u64 = self.erases.iter().flatten().sum();
        assert_eq!(all, self.written + self.migrated, "each erase has its reason");
        let blocks = (self.rated.die_blocks() * self.rated.dies as u64) as f64;
        self.erases.iter().map(|dies| dies.iter().sum::<u64>() as f64 / blocks).collect()
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // not negative, far below 2^52
fn whole(blocks: f64) -> u64 {
    blocks.round() as u64
}

/// Moves contents onto dies. `seats` gives, for each die, the part that moves there.
fn seat(contents: &mut Contents, seats: &[usize]) {
    contents.shares = seats.iter().map(|&from| contents.shares[from]).collect();
}

fn most_by_mean(erases: impl Iterator<Item = u64>) -> f64 {
    let (mut most, mut sum, mut count) = (0, 0, 0_u64);
    for erases in erases {
        most = most.max(erases);
        sum += erases;
        count += 1;
    }
    most as f64 * count as f64 / sum.max(1) as f64
}
