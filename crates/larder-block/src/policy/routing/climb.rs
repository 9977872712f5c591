//! The search for the share of most throughput: steps up or down, as far as they help.

use std::time::Duration;

use super::trial::Trial;
use super::window::{PERMILLE, RoutingWindow, tenths};

/// The widest step.
const STEP_MAX: u16 = 80;
/// The smallest step down from a share for which the core has no time.
const STEP_DOWN: u16 = 10;
/// Below this share such a step costs next to nothing.
const SMALL: u16 = 125;
/// Below this share it is not by hits that a core is overloaded.
const FEW: u16 = 200;
/// Looks without such a step after one in vain: where both devices have enough to do, requests wait for either.
const HOLD_DOWN: u32 = 8;
/// Windows that are counted while steps are as small as they can be: there it stays, and looks around now and then.
const COUNTED_AT_REST: u32 = 10;
/// One in so many looks goes far: a core that has become much faster is not seen from near by.
const FAR: u32 = 3;
/// Windows in a row that must say the same before it counts.
const IN_A_ROW: u32 = 2;

/// What comes after a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This share, in thousandths.
    Share(u16),
    /// None is better than 0.
    NoGain,
    /// The load is gone, or is of other data.
    OtherLoad,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Climb {
    /// The best share so far.
    at: u16,
    /// Its throughput; none while it is measured anew.
    pub(super) rate: Option<u64>,
    last_rate: u64,
    step: u16,
    is_up: bool,
    /// The other way did not help.
    is_second: bool,
    /// Looks around since it is at rest.
    looks: u32,
    trial: Trial,
    /// Windows in which requests waited for the core rather than the cache device while the best share was measured,
    /// less the others.
    core_waits: i32,
    /// Windows of what is measured now in which the core was overloaded, less the others.
    overloads: i32,
    /// Whether the step under trial is one of those, and how often none is tried after one in vain.
    is_down: bool,
    hold_down: u32,
    /// Windows in a row in which the cache device had no queues.
    idle: u32,
    /// Misses at the beginning.
    miss_percent: u8,
}

impl Climb {
    /// From a share whose throughput is known.
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
        // What is asked for is not what was taken in (OrthusCAS).
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
        // A step that is much too far says so at once; but one away from a core that is in the way is not that.
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

    /// Looks at a window with the best share; whether the load is gone.
    fn has_gone(&mut self, window: &RoutingWindow, latency_min: Duration) -> bool {
        let (rate, last) = (window.rate(), self.last_rate);
        let has_no_queue = window.cache_latency <= tenths(latency_min, 12);
        self.idle = if has_no_queue && rate < last / 10 * 8 { self.idle + 1 } else { 0 };
        self.idle >= IN_A_ROW
    }

    /// Whether less is more: hits of the core are in the way of its writes.
    fn waits_for_core(&self) -> bool {
        self.core_waits > 0
    }

    fn is_at_rest(&self) -> bool {
        self.step <= step_min(self.at)
    }

    /// The share that is compared with the best one.
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

    /// `false` if it is best to have no share.
    fn judge(&mut self, rate: u64) -> bool {
        let is_overloaded = std::mem::take(&mut self.overloads) > 0 && self.at < FEW;
        let Some(best) = self.rate else {
            if rate.abs_diff(self.last_rate) > self.last_rate / 10 {
                // Another load: what is best may be far from here.
                (self.step, self.hold_down) = (step_first(self.at), 0);
            }
            self.hold_down = self.hold_down.saturating_sub(1);
            self.is_down = self.waits_for_core() && self.hold_down == 0;
            if self.is_down {
                // By small steps, each of which brings less than can be measured, it would stay too large.
                let part = if is_overloaded { 2 } else { 4 };
                self.step = self.step.max((self.at / part).max(STEP_DOWN));
                (self.is_up, self.is_second) = (false, true);
            }
            (self.rate, self.last_rate) = (Some(rate), rate);
            self.looks += u32::from(self.is_at_rest());
            return true;
        };
        let was_far = self.is_far();
        // Where writes keep the core busy, windows differ by more than a step brings: a smaller share that loses
        // nothing is the better one.
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
            // Compared with the best, so that what each of several steps may lose does not add up.
            (self.at, self.rate, self.last_rate) = (at, Some(rate.max(best)), rate);
            self.is_second = false;
            if self.is_down && at == 0 {
                return false;
            }
        } else if !self.is_second && !was_far && !is_overloaded {
            (self.is_up, self.is_second) = (!self.is_up, true);
        } else {
            // Measured anew, for the load may have changed.
            (self.rate, self.is_second, self.core_waits) = (None, false, 0);
            self.step = (self.step / 2).max(step_min(self.at));
        }
        if was_far {
            self.looks = 0;
        }
        self.at > 0 || self.rate.is_some()
    }
}

/// A share that is too large by a part loses that part of throughput: steps are parts of it.
fn step_first(at: u16) -> u16 {
    (at / 2).clamp(10, STEP_MAX)
}

fn step_min(at: u16) -> u16 {
    (at / 32).clamp(2, 10)
}
