//! Whose turn has come, and the gamma of a drive.
//!
//! Channels come first: their exchange also levels their dies. If no channel is due, two dies of a channel may be.

use larder_ssd::nand::{ChannelIndex, DieIndex};

use super::WearService;
use super::report::{DAY_S, a_day};
use crate::array::Vssds;
use crate::images::Images;
use crate::levelling::{
    Budget, DailyErases, Gamma, GammaSource, Leveller, PairRule, UnitState, UnitWear, partners,
};

/// Dies that exchange their data.
type Pairs = Vec<(DieIndex, DieIndex)>;

/// A die's turn within its channel comes after this part of its rated erases.
const TURNS_OF_A_DIE: u64 = 8;

/// A period of daily erases ends after this time.
const PERIOD_S: u64 = 7 * DAY_S;

impl WearService {
    /// Begins a period of daily erases, or ends it after a week.
    pub(super) fn note_day<I: Images>(&self, array: &mut Vssds<I>, drive: u32) {
        let unix_s = self.unix_s;
        array.change_levelling(drive, |state| {
            let seen = state.seen();
            let passed = unix_s.saturating_sub(state.daily.since_unix_s);
            if unix_s > 0 && (state.daily.since_unix_s == 0 || passed >= PERIOD_S) {
                let before = a_day(&state.daily, seen, unix_s).unwrap_or(0);
                state.daily = DailyErases { since_unix_s: unix_s, erases_then: seen, before };
            }
        });
    }

    /// The dies of `drive` to exchange, if a turn has come and an exchange is worth its cost.
    pub(super) fn due<I: Images>(&self, array: &mut Vssds<I>, drive: u32) -> Option<Pairs> {
        let budget = array.channel_budget(drive)?;
        let geometry = array.drive(drive)?.geometry().array;
        if let Some((worn, other)) = self.due_channels(array, drive, &budget) {
            let channel = |at: usize| ChannelIndex(u32::try_from(at).unwrap_or(u32::MAX));
            let (worn, other) = (channel(worn), channel(other));
            let first = array.levelled_dies(drive, worn);
            let second = array.levelled_dies(drive, other);
            let there: Vec<DieIndex> = geometry.dies_of(other).collect();
            let partners = partners(&first, &second).into_iter().map(|at| there[at]);
            return Some(geometry.dies_of(worn).zip(partners).collect());
        }
        let channels = (0..geometry.channels).map(ChannelIndex);
        channels.filter_map(|channel| due_dies(array, drive, channel, &budget)).next()
    }

    /// The channels to exchange, the worn one first.
    fn due_channels<I: Images>(
        &self,
        array: &mut Vssds<I>,
        drive: u32,
        budget: &Budget,
    ) -> Option<(usize, usize)> {
        let units = array.levelled_channels(drive);
        let gamma = array.levelling(drive)?.gamma;
        let rule = PairRule { migration_erases: budget.migration_erases };
        let gamma = self.given_gamma(budget).or(gamma).or_else(|| budget.first_gamma())?;
        let (mut leveller, renewed) = leveller(array, drive, &units, &gamma, budget)?;
        let gamma = match renewed.then(|| self.gamma_of(budget, &leveller.wear(), &rule)).flatten()
        {
            Some(better) => {
                let state = leveller.state();
                let erases: Vec<u64> = units.iter().map(|unit| unit.erases).collect();
                leveller = budget.leveller(&erases, better.blocks, rule)?.with_state(&state);
                better
            }
            None => gamma,
        };
        let pair = leveller.due(0);
        let channels = leveller.state();
        array.change_levelling(drive, |state| {
            (state.channels, state.gamma) = (channels, Some(gamma));
        });
        pair
    }

    fn given_gamma(&self, budget: &Budget) -> Option<Gamma> {
        let blocks = self.options.gamma?;
        budget.trigger(blocks)?;
        Some(Gamma { blocks, source: GammaSource::Given })
    }

    /// The gamma for rates that were just updated.
    fn gamma_of(&self, budget: &Budget, units: &[UnitWear], rule: &PairRule) -> Option<Gamma> {
        self.given_gamma(budget).or_else(|| Some(budget.best_gamma(units, rule)?.0))
    }
}

/// The leveller of the channels as stored, and whether it has just updated the rates.
fn leveller<I: Images>(
    array: &Vssds<I>,
    drive: u32,
    units: &[UnitWear],
    gamma: &Gamma,
    budget: &Budget,
) -> Option<(Leveller<PairRule>, bool)> {
    let rule = PairRule { migration_erases: budget.migration_erases };
    let erases: Vec<u64> = units.iter().map(|unit| unit.erases).collect();
    let leveller = budget.leveller(&erases, gamma.blocks, rule)?;
    let mut leveller = leveller.with_state(&array.levelling(drive)?.channels);
    let renewed = leveller.take_rates(0);
    Some((leveller, renewed))
}

/// Two dies of `channel` to exchange.
fn due_dies<I: Images>(
    array: &mut Vssds<I>,
    drive: u32,
    channel: ChannelIndex,
    budget: &Budget,
) -> Option<Pairs> {
    let geometry = array.drive(drive)?.geometry().array;
    let dies: Vec<DieIndex> = geometry.dies_of(channel).collect();
    if dies.len() < 2 {
        return None;
    }
    let count = dies.len() as u64;
    let budget = Budget {
        rated_erases: budget.rated_erases / count,
        migration_erases: budget.migration_erases.div_ceil(count),
    };
    let gamma = budget.rated_erases / TURNS_OF_A_DIE;
    let units = array.levelled_dies(drive, channel);
    let state: Vec<UnitState> = {
        let known = &array.levelling(drive)?.dies;
        dies.iter().map(|die| known[die.at()].unit).collect()
    };
    // Nothing can be due: spare the work.
    if state.iter().all(|unit| unit.since_turn.max(unit.recent) == 0) {
        return None;
    }
    let rule = PairRule { migration_erases: budget.migration_erases };
    let erases: Vec<u64> = units.iter().map(|unit| unit.erases).collect();
    let mut leveller = budget.leveller(&erases, gamma, rule)?.with_state(&state);
    let pair = leveller.due(0);
    let after = leveller.state();
    if after != state {
        array.change_levelling(drive, |state| {
            dies.iter().zip(after).for_each(|(die, unit)| state.dies[die.at()].unit = unit);
        });
    }
    pair.map(|(one, other)| vec![(dies[one], dies[other])])
}
