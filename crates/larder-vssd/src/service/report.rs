//! What an operator sees: wear by channel, the exchange in progress and the last one, sums, and forecasts.

use larder_ssd::nand::ChannelIndex;
use larder_ssd::timed::Nanoseconds;

use super::exchange::{Cause, Exchange};
use crate::array::Vssds;
use crate::images::Images;
use crate::levelling::{DailyErases, Forecast, Gamma, PairRule, PausedBy};

/// Levelling of an array.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServiceReport {
    /// By drive.
    pub drives: Vec<DriveReport>,
    /// The exchange in progress.
    pub exchange: Option<ExchangeReport>,
    /// The one before, since the owner started.
    pub last: Option<ExchangeReport>,
}

/// Levelling of a drive.
#[derive(Debug, Clone, PartialEq)]
pub struct DriveReport {
    /// Its number.
    pub drive: u32,
    /// By channel.
    pub channels: Vec<ChannelReport>,
    /// Rated erases of a channel; `None` if its endurance is unlimited or unknown.
    pub rated_erases: Option<u64>,
    /// Blocks that a channel erases until its turn.
    pub gamma: Option<Gamma>,
    /// Why nothing is moved.
    pub paused: Option<PausedBy>,
    /// Exchanges that were completed.
    pub exchanges: u64,
    /// Bytes that moves have copied.
    pub moved_bytes: u64,
    /// Erases for moves.
    pub spent_erases: u64,
    /// Erases for tenants.
    pub tenant_erases: u64,
    /// Erases for tenants a day; `None` until an hour has passed.
    pub erases_a_day: Option<u64>,
    /// The life from now on at these rates; `None` if a rate is unknown.
    pub levelled: Option<Forecast>,
    /// The same without exchanges.
    pub unlevelled: Option<Forecast>,
    /// For each gamma that could be chosen, the life with it.
    pub by_gamma: Vec<(u64, Forecast)>,
}

/// A channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChannelReport {
    /// Erases of its blocks.
    pub erases: u64,
    /// Erases for tenants since its last turn.
    pub since_turn: u64,
    /// Share of its tenant in all erases, 0 to 1.
    pub rate: Option<f64>,
    /// Its erases by the mean of all channels; `None` before the first erase.
    pub by_mean: Option<f64>,
    /// Days until its turn; `None` if the rate is unknown or 0.
    pub turn_days: Option<f64>,
}

/// An exchange.
#[derive(Debug, Clone, PartialEq)]
pub struct ExchangeReport {
    /// Its drive.
    pub drive: u32,
    /// Its channels, the worn one first; the same twice for dies of one channel.
    pub channels: (ChannelIndex, ChannelIndex),
    /// Why it began.
    pub cause: Cause,
    /// Whether it was abandoned: data goes back.
    pub back: bool,
    /// Share of its pages that are where they belong, 0 to 1.
    pub done: f64,
    /// Bytes copied since the owner started or it began.
    pub copied_bytes: u64,
    /// Erases of old copies.
    pub spent_erases: u64,
    /// Present or last rate into each channel.
    pub bytes_per_s: u64,
    /// Seconds since it began.
    pub seconds: f64,
    /// Share of the seconds at less than the rate to begin with, 0 to 1.
    pub rested: f64,
    /// p99 of the tenant that moves and suffers most, by the hour before, mean of the seconds.
    pub moving_slowdown: Option<f64>,
    /// The same for tenants that do not move.
    pub rest_slowdown: Option<f64>,
}

/// A rate a day is of a period of at least this length.
const HOUR_S: u64 = 3600;
pub(super) const DAY_S: u64 = 24 * HOUR_S;

impl ExchangeReport {
    #[allow(clippy::cast_precision_loss)] // shares and seconds
    pub(super) fn of<I: Images>(
        exchange: &Exchange,
        array: &Vssds<I>,
        ended_at: Option<Nanoseconds>,
    ) -> Self {
        let (left, all) = match ended_at {
            Some(_) => (0, 1),
            None => array.swap_pages(),
        };
        let spent = array.levelling(exchange.drive).map_or(0, |state| state.spent());
        let seconds = match ended_at {
            Some(at) => at.saturating_sub(exchange.began_at) as f64 / 1e9,
            None => exchange.seconds as f64,
        };
        Self {
            drive: exchange.drive,
            channels: exchange.channels,
            cause: exchange.cause,
            back: array.swap_under_way().is_some_and(|swap| swap.back),
            done: 1.0 - left as f64 / all.max(1) as f64,
            copied_bytes: exchange.copied_bytes,
            spent_erases: spent.saturating_sub(exchange.spent_before),
            bytes_per_s: exchange.pace.bytes_per_s(),
            seconds,
            rested: exchange.slowed_seconds as f64 / exchange.seconds.max(1) as f64,
            moving_slowdown: exchange.noticed.moving_slowdown.mean(),
            rest_slowdown: exchange.noticed.rest_slowdown.mean(),
        }
    }
}

impl ServiceReport {
    /// The report of an array without an owner: what the catalogue says.
    pub fn of<I: Images>(array: &Vssds<I>, unix_s: u64) -> Self {
        let drives = (0..).map_while(|drive| DriveReport::of(array, drive, unix_s));
        Self { drives: drives.collect(), exchange: None, last: None }
    }
}

impl DriveReport {
    fn of<I: Images>(array: &Vssds<I>, drive: u32, unix_s: u64) -> Option<Self> {
        let state = array.levelling(drive)?;
        let budget = array.channel_budget(drive);
        let units = array.levelled_channels(drive);
        let rule =
            PairRule { migration_erases: budget.map_or(0, |budget| budget.migration_erases) };
        let forecast =
            |gamma: Option<u64>| budget?.forecast(&units, gamma.map(|gamma| (gamma, &rule)));
        let gammas = budget.iter().flat_map(|budget| budget.candidates());
        let by_gamma = gammas.filter_map(|gamma| Some((gamma, forecast(Some(gamma))?))).collect();
        let erases_a_day = a_day(&state.daily, state.seen(), unix_s);
        let most = units.iter().map(|unit| unit.erases).max().unwrap_or(0);
        let trigger = budget
            .zip(state.gamma)
            .and_then(|(budget, gamma)| budget.trigger(gamma.blocks)?.threshold(most));
        let page = u64::from(array.shape().geometry.mapping_bytes);
        Some(Self {
            drive,
            channels: channels(&units, trigger, erases_a_day),
            rated_erases: budget.map(|budget| budget.rated_erases),
            gamma: state.gamma,
            paused: state.paused,
            exchanges: state.exchanges,
            moved_bytes: state.moved_pages.saturating_mul(page),
            spent_erases: state.spent(),
            tenant_erases: state.seen(),
            erases_a_day,
            levelled: state.gamma.and_then(|gamma| forecast(Some(gamma.blocks))),
            unlevelled: forecast(None),
            by_gamma,
        })
    }
}

#[allow(clippy::cast_precision_loss)] // erases of a life
fn channels(
    units: &[crate::levelling::UnitWear],
    threshold: Option<u64>,
    erases_a_day: Option<u64>,
) -> Vec<ChannelReport> {
    let all: u64 = units.iter().map(|unit| unit.erases).sum();
    let mean = all as f64 / units.len().max(1) as f64;
    let channel = |unit: &crate::levelling::UnitWear| {
        let left = threshold.map(|blocks| blocks.saturating_sub(unit.since_turn) as f64);
        let a_day = erases_a_day.zip(unit.rate).map(|(all, rate)| all as f64 * rate);
        let days = left.zip(a_day.filter(|erases| *erases > 0.0)).map(|(left, day)| left / day);
        ChannelReport {
            erases: unit.erases,
            since_turn: unit.since_turn,
            rate: unit.rate,
            by_mean: (all > 0).then(|| unit.erases as f64 / mean),
            turn_days: days,
        }
    };
    units.iter().map(channel).collect()
}

/// Erases a day: of the period, if it is long enough, or of the one before.
pub(super) fn a_day(daily: &DailyErases, seen: u64, unix_s: u64) -> Option<u64> {
    let passed = unix_s.saturating_sub(daily.since_unix_s);
    if daily.since_unix_s > 0 && passed >= HOUR_S {
        let erases = u128::from(seen.saturating_sub(daily.erases_then));
        return u64::try_from(erases * u128::from(DAY_S) / u128::from(passed)).ok();
    }
    (daily.before > 0).then_some(daily.before)
}
