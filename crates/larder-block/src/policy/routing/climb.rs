//! Searches the share with the highest throughput: steps up or down, as long as they help.

use std::time::Duration;

use super::trial::Trial;
use super::window::{PERMILLE, RoutingWindow, tenths};

/// The largest step.
const STEP_MAX: u16 = 80;
/// The smallest step down while requests wait for the core.
const STEP_DOWN: u16 = 10;
/// Below this share, a step down costs almost nothing.
const SMALL: u16 = 125;
/// Below this share, routed hits are not the cause of an overloaded core.
const FEW: u16 = 200;
/// Measurements of the best share without a step down after one that did not help. When both devices are busy,
/// requests wait for either of them.
const HOLD_DOWN: u32 = 8;
/// Windows per measurement of the best share once the step is minimal. The search then rests there, and only probes
/// its surroundings from time to time.
const COUNTED_AT_REST: u32 = 10;
/// One in this number of probes at rest goes far: small steps cannot detect that the core has become much faster.
const FAR: u32 = 3;
/// Number of consecutive windows that must agree.
const IN_A_ROW: u32 = 2;

/// What to do after a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Use this share, in thousandths.
    Share(u16),
    /// No share is better than 0.
    NoGain,
    /// The load is gone, or now uses other data.
    OtherLoad,
}

#[derive(Debug)]
pub(super) struct Climb {
    /// The best share up to now.
    at: u16,
    /// Its throughput; `None` while it is measured again.
    pub(super) rate: Option<u64>,
    last_rate: u64,
    step: u16,
    is_up: bool,
    /// The opposite direction was tried and did not help.
    is_second: bool,
    /// Probes since the search is at rest.
    looks: u32,
    trial: Trial,
    /// Windows in which requests waited for the core rather than for the cache device while the best share was
    /// measured, minus the other windows.
    core_waits: i32,
    /// Windows of the current measurement in which the core was overloaded, minus the other windows.
    overloads: i32,
    /// Whether the step under trial is a step down because requests wait for the core. `hold_down`: measurements of
    /// the best share until the next such step is allowed.
    is_down: bool,
    hold_down: u32,
    /// Consecutive windows in which the cache device had no queue.
    idle: u32,
    /// The miss rate at the start.
    miss_percent: u8,
}

impl Climb {
    /// Starts from a share whose throughput is known.
    pub(super) fn new(at: u16, rate: u64, miss_percent: u8) -> Self {
        Self {
            at,
            rate: Some(rate),
            last_rate: rate,
            step: step_first(at),
            is_up: true,
            is_second: false,
            looks: 0,
            trial: Trial::default(),
            core_waits: 0,
            overloads: 0,
            is_down: false,
            hold_down: 0,
            idle: 0,
            miss_percent,
        }
    }

    pub(super) fn window(&mut self, window: &RoutingWindow, latency_min: Duration) -> Next {
        let rate = window.rate();
        // The clients now read other data than that in the cache (OrthusCAS).
        let has_moved = window.miss_percent > self.miss_percent.saturating_add(20);
        if has_moved || (self.rate.is_none() && self.has_gone(window, latency_min)) {
            return Next::OtherLoad;
        }
        if self.rate.is_none() {
            self.core_waits += if window.waits_for_core() { 1 } else { -1 };
        }
        let counted =
            if self.rate.is_none() && self.is_at_rest() { COUNTED_AT_REST } else { Trial::COUNTED };
        self.overloads += if window.overloads_core() { 1 } else { -1 };
        // A step that goes much too far is rejected after one window. Except a step down at a small share, which
        // relieves the core.
        let leaves_core = self.is_down && self.at < FEW;
        let is_bad = !leaves_core && self.rate.is_some_and(|best| rate < best / 10 * 9);
        let measured = if is_bad { Some(0) } else { self.trial.add_of(window, counted) };
        if let Some(rate) = measured {
            self.trial = Trial::default();
            if !self.judge(rate) {
                return Next::NoGain;
            }
        }
        Next::Share(if self.rate.is_some() { self.probe() } else { self.at })
    }

    /// Checks a window at the best share. Returns whether the load is gone.
    fn has_gone(&mut self, window: &RoutingWindow, latency_min: Duration) -> bool {
        let (rate, last) = (window.rate(), self.last_rate);
        let has_no_queue = window.cache_latency <= tenths(latency_min, 12);
        self.idle = if has_no_queue && rate < last / 10 * 8 { self.idle + 1 } else { 0 };
        self.idle >= IN_A_ROW
    }

    /// Whether a smaller share may be better because hits on the core delay its writes.
    fn waits_for_core(&self) -> bool {
        self.core_waits > 0
    }

    fn is_at_rest(&self) -> bool {
        self.step <= step_min(self.at)
    }

    /// The share to compare with the best one.
    fn probe(&self) -> u16 {
        match self.is_up {
            _ if self.is_far() && !self.waits_for_core() => {
                (self.at + step_first(self.at)).min(PERMILLE)
            }
            true => (self.at + self.step).min(PERMILLE),
            false => self.at.saturating_sub(self.step),
        }
    }

    fn is_far(&self) -> bool {
        self.looks == FAR
    }

    /// `false` if a share of 0 is best.
    fn judge(&mut self, rate: u64) -> bool {
        let is_overloaded = std::mem::take(&mut self.overloads) > 0 && self.at < FEW;
        let Some(best) = self.rate else {
            if rate.abs_diff(self.last_rate) > self.last_rate / 10 {
                // The load has changed: the best share may be far away.
                (self.step, self.hold_down) = (step_first(self.at), 0);
            }
            self.hold_down = self.hold_down.saturating_sub(1);
            self.is_down = self.waits_for_core() && self.hold_down == 0;
            if self.is_down {
                // With small steps, whose gain is too small to measure, the share would stay too large.
                let part = if is_overloaded { 2 } else { 4 };
                self.step = self.step.max((self.at / part).max(STEP_DOWN));
                (self.is_up, self.is_second) = (false, true);
            }
            (self.rate, self.last_rate) = (Some(rate), rate);
            self.looks += u32::from(self.is_at_rest());
            return true;
        };
        let was_far = self.is_far();
        // While writes keep the core busy, windows differ by more than the gain of a step. Then a smaller share that
        // loses nothing counts as better.
        let is_as_good = self.is_down && is_overloaded && rate >= best / 20 * 19;
        let is_better = is_as_good || rate > best.saturating_add(best / 100);
        if self.is_down && !is_better && self.at >= SMALL {
            self.hold_down = HOLD_DOWN;
        }
        self.is_down &= is_better;
        if is_better {
            let at = self.probe();
            if was_far {
                (self.step, self.is_up) = (step_first(self.at), true);
            }
            // Keep the highest rate for comparison, so that small losses of several steps do not add up.
            (self.at, self.rate, self.last_rate) = (at, Some(rate.max(best)), rate);
            self.is_second = false;
            if self.is_down && at == 0 {
                return false;
            }
        } else if !self.is_second && !was_far && !is_overloaded {
            (self.is_up, self.is_second) = (!self.is_up, true);
        } else {
            // Measure the best share again, because the load may have changed.
            (self.rate, self.is_second, self.core_waits) = (None, false, 0);
            self.step = (self.step / 2).max(step_min(self.at));
        }
        if was_far {
            self.looks = 0;
        }
        self.at > 0 || self.rate.is_some()
    }
}

/// Steps are proportional to the share, because a share that is too large by some fraction loses about that fraction
/// of the throughput.
fn step_first(at: u16) -> u16 {
    (at / 2).clamp(10, STEP_MAX)
}

fn step_min(at: u16) -> u16 {
    (at / 32).clamp(2, 10)
}
