//! Routing: which part of the clean hits goes to the core, when the cache device has more to do than it can. As in
//! OrthusCAS (FAST'21: admission off, then the share tuned by measured throughput) and NetCAS (first share from a
//! calibration; runs of requests in place of dice).
//!
//! ```text
//!            latency x 1.5              more throughput, by 3 %
//!   Absorb ───────────────► Pressure ──────────────────────────► Saturated
//!     ▲ ▲                      │  a share is tried                  │  the share is tuned
//!     │ └──────────────────────┘                                    │
//!     │        no gain: not again for a while                       │
//!     └─────────────────────────────────────────────────────────────┘
//!        share 0 is best, the load is gone, or misses have become more
//! ```
//!
//! Whoever asks measures windows of equal length: 10 ms, in which hundreds of requests end.

mod climb;
mod gauge;
mod router;
mod split;
mod trial;
mod window;

use std::time::Duration;

use climb::{Climb, Next};
pub(crate) use router::Router;
pub use router::RoutingPolicy;
use split::Split;
use trial::Trial;
pub use window::RoutingWindow;
use window::{PERMILLE, tenths};

/// Windows over which misses must be as many as before, as in OrthusCAS: until then what is asked for is taken in.
const STABLE: u32 = 10;
/// Shares that are tried under pressure, each half of the one before.
const TRIES: u32 = 3;
/// Windows without a trial after one without gain: a trial costs up to a window and a half's throughput, and another
/// load is to be seen within a second.
const HOLD: u32 = 64;

/// What is known of both devices beforehand. It need not be right: it says where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutingCalibration {
    /// Reads of the cache device at depth, in bytes a second.
    pub cache_bytes_per_second: u64,
    /// The same of the core.
    pub core_bytes_per_second: u64,
    /// A read of the cache device that is alone.
    pub cache_latency: Duration,
}

impl RoutingCalibration {
    /// The share of both devices' bandwidth that is the core's.
    fn core_permille(&self) -> u16 {
        let (cache, core) =
            (u128::from(self.cache_bytes_per_second), u128::from(self.core_bytes_per_second));
        u16::try_from(core * u128::from(PERMILLE) / (cache + core).max(1))
            .expect("a part of a whole")
    }
}

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutingState {
    /// The cache device serves all hits, and takes in what was missed.
    Absorb,
    /// It has queues: a share for the core is tried.
    Pressure,
    /// The core serves its share of the clean hits, and nothing is taken in.
    Saturated,
}

impl RoutingState {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Absorb => "absorb",
            Self::Pressure => "pressure",
            Self::Saturated => "saturated",
        }
    }
}

/// Tunes the share of clean hits that go to the core.
#[derive(Debug)]
pub struct Routing {
    calibration: RoutingCalibration,
    /// Of the cache device when it had least to do. If requests become longer for good, trials go on in vain.
    latency_min: Duration,
    phase: Phase,
    split: Split,
}

#[derive(Debug)]
enum Phase {
    Absorb(Absorb),
    Pressure { classic: u64, tries: u32, trial: Trial },
    Saturated(Climb),
}

#[derive(Debug, Default)]
struct Absorb {
    /// Windows to come without a trial.
    hold: u32,
    /// The windows in a row in which the cache device had queues.
    loaded: Trial,
    /// Misses, and for how many windows there have been as many.
    miss_percent: u8,
    stable: u32,
}

impl Routing {
    /// One that absorbs.
    pub fn new(calibration: RoutingCalibration) -> Self {
        Self {
            calibration,
            latency_min: calibration.cache_latency.max(Duration::from_nanos(1)),
            phase: Phase::Absorb(Absorb::default()),
            split: Split::new(0),
        }
    }

    /// What it does now.
    pub fn state(&self) -> RoutingState {
        match self.phase {
            Phase::Absorb(_) => RoutingState::Absorb,
            Phase::Pressure { .. } => RoutingState::Pressure,
            Phase::Saturated(_) => RoutingState::Saturated,
        }
    }

    /// The share of clean hits that go to the core, in thousandths.
    pub fn core_permille(&self) -> u16 {
        self.split.core_permille()
    }

    /// Whether what was missed may be kept.
    pub fn admits(&self) -> bool {
        self.state() != RoutingState::Saturated
    }

    /// Whether a clean hit goes to the core. To be asked once of each.
    pub fn goes_to_core(&mut self) -> bool {
        self.split.goes_to_core()
    }

    /// Takes in what was measured since it was called last.
    pub fn window(&mut self, window: &RoutingWindow) {
        if window.length.is_zero() {
            return;
        }
        if !window.cache_latency.is_zero() {
            self.latency_min = self.latency_min.min(window.cache_latency);
        }
        match &mut self.phase {
            Phase::Absorb(_) => self.absorb(window),
            Phase::Pressure { .. } => self.press(window),
            Phase::Saturated(climb) => match climb.window(window, self.latency_min) {
                Next::Share(core_permille) => self.split.set(core_permille),
                Next::NoGain => self.relax(HOLD),
                Next::OtherLoad => self.relax(0),
            },
        }
    }

    fn absorb(&mut self, window: &RoutingWindow) {
        let Phase::Absorb(absorb) = &mut self.phase else { return };
        let is_stable = window.miss_percent.abs_diff(absorb.miss_percent) <= 1;
        if is_stable {
            absorb.stable = absorb.stable.saturating_add(1);
        } else {
            (absorb.miss_percent, absorb.stable) = (window.miss_percent, 0);
        }
        absorb.hold = absorb.hold.saturating_sub(1);
        let is_loaded = window.cache_latency >= tenths(self.latency_min, 15);
        let core_permille = self.calibration.core_permille();
        // Where the core adds less than a twentieth, even a trial costs more.
        let is_worth_it = core_permille >= PERMILLE / 20 && absorb.stable >= STABLE;
        if !is_loaded || !is_worth_it || absorb.hold > 0 || window.waits_for_core() {
            absorb.loaded = Trial::default();
        } else if let Some(classic) = absorb.loaded.add(window) {
            self.phase = Phase::Pressure { classic, tries: 1, trial: Trial::default() };
            // Half of it: a core that was overestimated is not swamped.
            self.split.set(core_permille / 2);
        }
    }

    fn press(&mut self, window: &RoutingWindow) {
        let Phase::Pressure { classic, tries, trial } = &mut self.phase else { return };
        // A share that is much too large says so at once.
        let is_bad = window.rate() < *classic / 10 * 9;
        let rate = if is_bad { Some(0) } else { trial.add(window) };
        match rate {
            None => {}
            Some(rate) if rate > (*classic / 100).saturating_mul(103) => {
                self.phase = Phase::Saturated(Climb::new(
                    self.split.core_permille(),
                    rate,
                    window.miss_percent,
                ));
            }
            Some(_) if *tries == TRIES => self.relax(HOLD),
            Some(_) => {
                (*tries, *trial) = (*tries + 1, Trial::default());
                self.split.set(self.split.core_permille() / 2);
            }
        }
    }

    /// Absorbs, without a trial for so many windows.
    fn relax(&mut self, hold: u32) {
        self.phase = Phase::Absorb(Absorb { hold, ..Absorb::default() });
        self.split.set(0);
    }
}

#[cfg(test)]
mod tests;
