//! Admits as many bytes as a budget of written bytes per day allows.
//!
//! The budget limits what reaches the flash: media bytes if the device or its drive reports them, else the bytes
//! written to it. So write amplification of the cache and of the drive counts against the budget, and need not be
//! known beforehand.
//!
//! **Control law.** With R the budget per second and B = R · 30 min the burst:
//!
//! - *Credit* grows by R every second and falls by each written byte. It is at most B: unused budget is not saved up
//!   for ever. It starts at 0.
//! - *Cost* is the number of bytes that reach the flash per byte admitted, over about the last 10 minutes.
//! - *Load* is the number of bytes per second that ask for admission, over about the last half minute.
//! - An item is admitted with the probability R · (1 + credit / B) / (cost · load), between 0 and 1.
//! - If credit, less what was admitted since it was last measured, is -B or lower, nothing is admitted.
//!
//! If the load is more than the budget, credit moves to the point at which writes match R, with a time constant of B
//! / R, half an hour. An error of cost or load moves that point and nothing else. Credit stays between -B and B
//! except for errors of cost, so that a span of t seconds sees at most about R · t + 2 · B written: 4.2 % more than
//! the budget in a day. Time alone pays off a debt, so admission never ends for ever; debts of more than a day's
//! budget (another program wrote to the device) are forgiven.

use crate::flash::admission::random::Dice;

const DAY_S: f64 = 86_400.0;
const BURST_S: f64 = 1_800.0;
const COST_WINDOW_S: f64 = 600.0;
const LOAD_WINDOW_S: f64 = 30.0;
/// Upper bound of the estimated cost. At 1/100 of an item's page it is 400 for items of 10 bytes.
const COST_MAX: f64 = 1_000.0;
const COST_MIN: f64 = 0.01;
/// Weight of the initial estimate, a cost of 1, as a share of the burst.
const BELIEF: f64 = 1e-3;
/// Share of the burst that may be admitted before credit is measured again.
const UNMEASURED: f64 = 1.0 / 64.0;

#[derive(Debug)]
pub(crate) struct Budget {
    /// Bytes per second: R.
    rate: f64,
    /// Bytes: B.
    burst: f64,
    credit: f64,
    chance: f64,
    /// Time in seconds, and bytes written, at the last measurement of credit.
    measured: Option<(u32, u64)>,
    /// Estimated bytes to be written for what was admitted since.
    unmeasured: f64,
    /// Bytes that asked for admission since the last update of load, and those that were admitted.
    offered: f64,
    admitted: f64,
    /// Bytes per second.
    load: Option<f64>,
    /// Bytes written and bytes admitted, with exponential decay: their ratio is the cost.
    spent: f64,
    bought: f64,
    dice: Dice,
}

/// The reason why an item is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The random draw decided against it.
    Chance,
    /// There is no credit left.
    Exhausted,
}

impl Budget {
    #[allow(clippy::cast_precision_loss)] // a rate, not an account
    pub(crate) fn new(bytes_per_day: u64, seed: u64) -> Self {
        let rate = bytes_per_day as f64 / DAY_S;
        let burst = rate * BURST_S;
        Self {
            rate,
            burst,
            credit: 0.0,
            chance: 1.0,
            measured: None,
            unmeasured: 0.0,
            offered: 0.0,
            admitted: 0.0,
            load: None,
            spent: burst * BELIEF,
            bought: burst * BELIEF,
            dice: Dice::new(seed),
        }
    }

    /// Decides about an item of `bytes`. `written` returns the number of bytes that have reached the flash.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn ask(
        &mut self,
        bytes: u64,
        now_s: u32,
        written: impl FnOnce() -> u64,
    ) -> Result<(), Refusal> {
        let due = self.measured.is_none_or(|(at_s, _)| now_s > at_s);
        if due || self.unmeasured > self.burst * UNMEASURED {
            self.measure(now_s, written());
        }
        self.offered += bytes as f64;
        if self.credit - self.unmeasured <= -self.burst {
            return Err(Refusal::Exhausted);
        }
        if !self.dice.falls_below(self.chance) {
            return Err(Refusal::Chance);
        }
        self.admitted += bytes as f64;
        self.unmeasured += bytes as f64 * self.cost();
        Ok(())
    }

    #[allow(clippy::cast_precision_loss)]
    fn measure(&mut self, now_s: u32, written: u64) {
        let (at_s, before) = self.measured.unwrap_or((now_s, written));
        self.measured = Some((now_s.max(at_s), written));
        let seconds = f64::from(now_s.saturating_sub(at_s));
        let spent = written.saturating_sub(before) as f64;
        let credit = self.credit + self.rate * seconds - spent;
        self.credit = credit.clamp(-self.rate * DAY_S, self.burst);
        self.unmeasured = 0.0;
        let fade = (-seconds / COST_WINDOW_S).exp();
        self.spent = self.spent * fade + spent;
        self.bought = self.bought * fade + self.admitted;
        self.admitted = 0.0;
        if seconds > 0.0 {
            let load = self.offered / seconds;
            let old = self.load.unwrap_or(load);
            self.load = Some(load + (old - load) * (-seconds / LOAD_WINDOW_S).exp());
            self.offered = 0.0;
        }
        let allowed = self.rate * (1.0 + self.credit / self.burst);
        let wanted = self.load.unwrap_or(0.0) * self.cost();
        self.chance = if wanted > allowed { (allowed / wanted).max(0.0) } else { 1.0 };
    }

    fn cost(&self) -> f64 {
        // Without an estimate (nothing was admitted for days), 1 is as good as any value.
        if self.bought > 0.0 { (self.spent / self.bought).clamp(COST_MIN, COST_MAX) } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u32 = 86_400;
    const BUDGET: u64 = 50 << 30;
    const ITEM: u64 = 20_000;

    /// A cache and a drive that write a given number of bytes for each byte admitted.
    struct Sim {
        budget: Budget,
        written: u64,
        debt: f64,
    }

    impl Sim {
        fn new() -> Self {
            Self { budget: Budget::new(BUDGET, 7), written: 1 << 40, debt: 0.0 }
        }

        /// Offers `load` times the budget, at that write amplification. Returns the bytes written and the share of
        /// the items that was admitted.
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
        #[allow(clippy::cast_sign_loss)]
        fn run(&mut self, from_s: u32, seconds: u32, load: f64, cost: f64) -> (f64, f64) {
            let start = self.written;
            let per_s = BUDGET as f64 / f64::from(DAY) * load / cost / ITEM as f64;
            let (mut due, mut asked, mut admitted) = (0.0, 0_u64, 0_u64);
            for now_s in from_s..from_s + seconds {
                due += per_s;
                while due >= 1.0 {
                    due -= 1.0;
                    asked += 1;
                    let written = self.written;
                    if self.budget.ask(ITEM, now_s, || written).is_ok() {
                        admitted += 1;
                        self.debt += ITEM as f64 * cost;
                    }
                    // The device is written in pieces of 256 KiB.
                    let pieces = (self.debt / 262_144.0).floor();
                    self.debt -= pieces * 262_144.0;
                    self.written += (pieces * 262_144.0) as u64;
                }
            }
            ((self.written - start) as f64, admitted as f64 / asked.max(1) as f64)
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn of_budget(bytes: f64, seconds: u32) -> f64 {
        bytes / (BUDGET as f64 * f64::from(seconds) / f64::from(DAY))
    }

    #[test]
    fn a_day_is_held_to_its_budget_at_any_load() {
        for load in [1.1, 1.5, 3.0, 10.0, 60.0] {
            for cost in [0.5, 1.0, 1.4, 8.0, 30.0] {
                let (written, _) = Sim::new().run(1000, DAY, load, cost);
                let share = of_budget(written, DAY);
                assert!((0.95..1.05).contains(&share), "load {load}, cost {cost}: {share}");
            }
        }
    }

    #[test]
    fn all_is_admitted_as_long_as_it_is_less_than_the_budget() {
        for load in [0.01, 0.3, 0.9] {
            let (_, admitted) = Sim::new().run(1000, DAY, load, 2.0);
            assert!(admitted > 0.999, "load {load}: {admitted}");
        }
    }

    #[test]
    fn a_day_of_ups_and_downs_is_held_to_its_budget_too() {
        let mut sim = Sim::new();
        let mut written = 0.0;
        for hour in 0..24 {
            // Load and write amplification change each hour; on average the load suffices.
            let load = [0.2, 4.0, 12.0, 1.0][hour as usize % 4];
            let cost = [1.0, 3.0, 1.5][hour as usize % 3];
            written += sim.run(1000 + hour * 3600, 3600, load, cost).0;
        }
        let share = of_budget(written, DAY);
        assert!((0.7..1.05).contains(&share), "{share}");
    }

    #[test]
    fn a_burst_costs_no_more_than_the_burst_and_is_paid_back() {
        let mut sim = Sim::new();
        sim.run(0, 7200, 0.5, 1.0);
        // A thousand times the budget for ten minutes, starting with the maximum credit.
        let (burst, _) = sim.run(7200, 600, 1000.0, 1.0);
        assert!(of_budget(burst, 2 * 1800 + 600) < 1.05, "{burst}");
        let (after, _) = sim.run(7800, 3600, 0.9, 1.0);
        assert!(of_budget(after, 3600) < 0.91, "{after}");
        let (_, admitted) = sim.run(7800 + 3600, 3600, 0.5, 1.0);
        assert!(admitted > 0.98, "{admitted} an hour later");
    }

    #[test]
    fn what_others_write_stops_admission_for_a_day_at_most() {
        let mut sim = Sim::new();
        sim.run(0, 3600, 2.0, 1.0);
        sim.written += 40 * BUDGET;
        let (written, admitted) = sim.run(3600, 3600, 2.0, 1.0);
        assert!(written == 0.0 && admitted == 0.0, "{written} bytes, {admitted}");
        let (written, _) = sim.run(3600 + DAY, DAY, 2.0, 1.0);
        assert!((0.9..1.05).contains(&of_budget(written, DAY)), "{written}");
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_gives_the_burst_and_no_more() {
        let mut sim = Sim::new();
        let mut admitted = 0;
        for second in (0..100_000_u32).map(|i| 5000 - i % 1000) {
            let written = sim.written;
            if sim.budget.ask(ITEM, second, || written).is_ok() {
                admitted += ITEM;
                sim.written += ITEM;
            }
        }
        let burst = BUDGET / 48;
        assert!((burst * 98 / 100..burst * 102 / 100).contains(&admitted), "{admitted}");
    }

    #[test]
    fn the_same_seed_decides_alike() {
        let run = |seed| {
            let mut budget = Budget::new(BUDGET, seed);
            let asked = (0..50_000_u64).map(|i| {
                let now_s = u32::try_from(i / 500).unwrap();
                budget.ask(ITEM, now_s, || i * ITEM / 4).is_ok()
            });
            asked.collect::<Vec<bool>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}
