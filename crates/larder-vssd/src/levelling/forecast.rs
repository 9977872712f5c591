//! The life of a drive at given rates, and the gamma that makes it longest.
//!
//! Erases flow at the rates of the tenants. From turn to turn everything is linear, so the forecast goes from one turn
//! to the next, and ends when a unit has erased what it is rated for. It uses the same trigger and the same rule as
//! levelling itself.

use super::{Gamma, GammaSource, Leveller, SwapRule, Taper, Trigger, Turns, UnitWear};

/// Endurance and cost of the units of a drive, all alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Erases that a unit is rated for: its blocks times their rated erases. At least 1.
    pub rated_erases: u64,
    /// Blocks that an exchange erases on each of both units: those that are live.
    pub migration_erases: u64,
}

/// A forecast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// Erases for tenants until the first unit is worn out.
    pub erases: f64,
    /// The same as a share of all erases that the units have left, 0 to 1.
    pub of_ideal: f64,
    /// Exchanges until then.
    pub exchanges: u64,
}

/// The shortest turn is this many exchanges long: an exchange then still gains twice its cost.
const TURN_MIN_EXCHANGES: u64 = 4;
/// Candidates for gamma are the rated erases by 2, 4, ... , 2 to the power of this.
const HALVINGS_MAX: u32 = 10;
/// Before rates are known, gamma is this part of the rated erases: short, so that the rates become known early.
const FIRST_PART: u64 = 32;
/// A forecast has at most this number of turns. With the shortest gamma a drive has some thousand.
const TURNS_MAX: u64 = 100_000;

impl Budget {
    /// The trigger for `gamma`, with turns that become shorter near the end of life. `None` if the endurance is too
    /// short for any exchange.
    pub fn trigger(&self, gamma: u64) -> Option<Trigger> {
        let gamma_min = self.gamma_min();
        let taper = Taper { rated_erases: self.rated_erases, gamma_min };
        (gamma >= gamma_min).then_some(Trigger::Erases { gamma, taper: Some(taper) })
    }

    fn gamma_min(&self) -> u64 {
        self.migration_erases.saturating_mul(TURN_MIN_EXCHANGES).max(1)
    }

    /// Gamma for units of unknown rates; `None` if the endurance is too short for any exchange.
    pub fn first_gamma(&self) -> Option<Gamma> {
        let blocks = (self.rated_erases / FIRST_PART).max(self.gamma_min());
        (blocks <= self.rated_erases / 2)
            .then_some(Gamma { blocks, source: GammaSource::Endurance })
    }

    /// The gamma with the longest forecast, and that forecast. `None` if rates are unknown, or the endurance is too
    /// short for any exchange.
    pub fn best_gamma(
        &self,
        units: &[UnitWear],
        rule: &impl SwapRule,
    ) -> Option<(Gamma, Forecast)> {
        let candidates = self.candidates().filter_map(|gamma| {
            let forecast = self.forecast(units, Some((gamma, rule)))?;
            Some((gamma, forecast))
        });
        // The longest gamma of those with equal lives: fewer exchanges.
        let best = candidates.reduce(
            |best, next| {
                if next.1.erases > best.1.erases { next } else { best }
            },
        )?;
        Some((Gamma { blocks: best.0, source: GammaSource::Forecast }, best.1))
    }

    /// The values of gamma that are compared, the largest first.
    pub fn candidates(&self) -> impl Iterator<Item = u64> + '_ {
        let all = (1..=HALVINGS_MAX).map(|halvings| self.rated_erases >> halvings);
        all.filter(|&gamma| gamma >= self.gamma_min())
    }

    /// The life of `units` at their rates, with a gamma and a rule, or without exchanges. `None` for unknown rates.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn forecast(
        &self,
        units: &[UnitWear],
        exchanges: Option<(u64, &impl SwapRule)>,
    ) -> Option<Forecast> {
        let rates = units.iter().map(|unit| unit.rate).collect::<Option<Vec<f64>>>()?;
        let rated = self.rated_erases as f64;
        let left: f64 = units.iter().map(|unit| (rated - unit.erases as f64).max(0.0)).sum();
        if rates.iter().sum::<f64>() <= 0.0 || left <= 0.0 {
            return None;
        }
        let trigger = match exchanges {
            Some((gamma, _)) => Some(self.trigger(gamma)?),
            None => None,
        };
        let mut life = Life {
            erases: units.iter().map(|unit| unit.erases as f64).collect(),
            since: units.iter().map(|unit| unit.since_turn as f64).collect(),
            rates,
            rated,
            used: 0.0,
        };
        let mut forecast = Forecast { erases: 0.0, of_ideal: 0.0, exchanges: 0 };
        for _ in 0..TURNS_MAX {
            let threshold = trigger.and_then(|trigger| trigger.threshold(life.most() as u64));
            let Some(turn) = life.run(threshold.map(|blocks| blocks as f64)) else { break };
            let horizon = threshold.unwrap_or(0);
            if let Some((_, rule)) = exchanges
                && let Some((a, b)) = rule.choose(&life.wear(), horizon)
            {
                life.rates.swap(a, b);
                [a, b].into_iter().for_each(|at| life.erases[at] += self.migration_erases as f64);
                forecast.exchanges += 1;
            }
            life.since[turn] = 0.0;
        }
        (forecast.erases, forecast.of_ideal) = (life.used, life.used / left);
        Some(forecast)
    }

    /// A leveller of `units` with `gamma`; `None` if the endurance is too short for it.
    pub(crate) fn leveller<R: SwapRule>(
        &self,
        erases: &[u64],
        gamma: u64,
        rule: R,
    ) -> Option<Leveller<R>> {
        let trigger = self.trigger(gamma.max(self.gamma_min()))?;
        Leveller::resume(erases, trigger, Turns::OneByOne, rule).ok()
    }
}

/// A life between two turns.
struct Life {
    erases: Vec<f64>,
    since: Vec<f64>,
    rates: Vec<f64>,
    rated: f64,
    /// Erases for tenants.
    used: f64,
}

impl Life {
    fn most(&self) -> f64 {
        self.erases.iter().copied().fold(0.0, f64::max)
    }

    /// Runs until a unit has its turn, and returns it, or to the end of life.
    fn run(&mut self, threshold: Option<f64>) -> Option<usize> {
        let busy = |(_, rate): &(usize, f64)| *rate > 0.0;
        let rates = || self.rates.iter().copied().enumerate().filter(busy);
        let end = rates()
            .map(|(at, rate)| ((self.rated - self.erases[at]) / rate).max(0.0))
            .fold(f64::INFINITY, f64::min);
        // An idle unit that is worn out ends the life too.
        let end = if self.most() >= self.rated { 0.0 } else { end };
        let turn = threshold.and_then(|threshold| {
            let turns =
                rates().map(|(at, rate)| (((threshold - self.since[at]) / rate).max(0.0), at));
            turns.min_by(|a, b| a.0.total_cmp(&b.0))
        });
        let turn = turn.filter(|(time, _)| *time < end);
        let time = turn.map_or(end, |(time, _)| time);
        for at in 0..self.rates.len() {
            self.erases[at] += self.rates[at] * time;
            self.since[at] += self.rates[at] * time;
        }
        self.used += self.rates.iter().sum::<f64>() * time;
        turn.map(|(_, at)| at)
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // erases of a life
    fn wear(&self) -> Vec<UnitWear> {
        let unit = |at: usize| UnitWear {
            erases: self.erases[at].round() as u64,
            since_turn: self.since[at].round() as u64,
            rate: Some(self.rates[at]),
        };
        (0..self.rates.len()).map(unit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levelling::PairRule;

    fn units(rates: [f64; 4]) -> Vec<UnitWear> {
        let all: f64 = rates.iter().sum();
        let unit = |rate| UnitWear { erases: 0, since_turn: 0, rate: Some(rate / all) };
        rates.map(unit).to_vec()
    }

    /// Channels of 1000 blocks.
    fn budget(cycles: u64, live: u64) -> Budget {
        Budget { rated_erases: cycles * 1000, migration_erases: live }
    }

    #[test]
    fn without_exchanges_the_busiest_ends_the_life() {
        let plain = |rates| {
            let forecast = budget(300, 1000).forecast(&units(rates), None::<(u64, &PairRule)>);
            forecast.unwrap().of_ideal
        };
        assert!((plain([10.0, 1.0, 1.0, 1.0]) - 0.325).abs() < 1e-9);
        assert!((plain([8.0, 4.0, 2.0, 1.0]) - 15.0 / 32.0).abs() < 1e-9);
        assert!((plain([1.0; 4]) - 1.0).abs() < 1e-9);
    }

    /// The lives that a step-by-step simulation of the same rules found: full channels, 300 and 3000 erases.
    #[test]
    fn the_best_gamma_reaches_nearly_the_ideal_life() {
        for (rates, cycles, from, to) in [
            ([10.0, 1.0, 1.0, 1.0], 300, 0.935, 0.96),
            ([8.0, 4.0, 2.0, 1.0], 300, 0.945, 0.975),
            ([10.0, 1.0, 1.0, 1.0], 3000, 0.985, 0.997),
            ([8.0, 4.0, 2.0, 1.0], 3000, 0.985, 0.997),
        ] {
            let budget = budget(cycles, 1000);
            let rule = PairRule { migration_erases: 1000 };
            let (gamma, forecast) = budget.best_gamma(&units(rates), &rule).unwrap();
            let said = format!("{rates:?} {cycles} {gamma:?} {forecast:?}");
            assert!((from..to).contains(&forecast.of_ideal), "{said}");
            assert!(budget.candidates().all(|gamma| {
                budget.forecast(&units(rates), Some((gamma, &rule))).unwrap().erases
                    <= forecast.erases
            }));
        }
    }

    #[test]
    fn what_is_unknown_or_too_short_has_no_forecast() {
        let rule = PairRule { migration_erases: 10 };
        let mut unknown = units([1.0, 2.0, 3.0, 4.0]);
        unknown[2].rate = None;
        assert!(budget(300, 10).best_gamma(&unknown, &rule).is_none());
        let short = Budget { rated_erases: 7, migration_erases: 1 };
        assert_eq!((short.candidates().count(), short.first_gamma()), (0, None));
        assert!(short.trigger(3).is_none());
        let worn = [UnitWear { erases: 400, since_turn: 0, rate: Some(1.0) }];
        let budget = Budget { rated_erases: 400, migration_erases: 1 };
        assert!(budget.forecast(&worn, Some((100, &rule))).is_none());
    }
}
