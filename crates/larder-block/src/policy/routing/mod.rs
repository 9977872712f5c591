//! Routing: decides which share of the clean hits goes to the core while the cache device is overloaded. As in
//! OrthusCAS (FAST'21: admission off, then the share is tuned by measured throughput) and NetCAS (the first share
//! comes from a calibration; runs of requests instead of random choice).
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
//! The caller measures windows of 10 to 50 ms; under load hundreds of requests end in each.

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
use split::RequestSplitter;
use trial::Trial;
pub use window::RoutingWindow;
use window::{PERMILLE, tenths};

/// Windows over which the miss rate must be stable, as in OrthusCAS. Before that, the cache is still filling with the
/// requested data.
const STABLE: u32 = 10;
/// Shares that are tried under pressure, each half of the previous one.
const TRIES: u32 = 3;
/// Windows without a trial after a trial without gain. A trial costs the throughput of up to one and a half windows,
/// and a new load must be noticed within a second.
const HOLD: u32 = 64;

/// What is known of both devices in advance. It need not be exact: it only sets the starting point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutingCalibration {
    /// Read throughput of the cache device at depth, in bytes per second.
    pub cache_bytes_per_second: u64,
    /// The same for the core.
    pub core_bytes_per_second: u64,
    /// Latency of a single read of the cache device.
    pub cache_latency: Duration,
}

impl RoutingCalibration {
    /// The core's share of the bandwidth of both devices.
    fn core_permille(&self) -> u16 {
        let (cache, core) =
            (u128::from(self.cache_bytes_per_second), u128::from(self.core_bytes_per_second));
        u16::try_from(core * u128::from(PERMILLE) / (cache + core).max(1))
            .expect("a part of a whole")
    }
}

/// The state of [routing](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutingState {
    /// The cache device serves all hits, and misses are cached.
    Absorb,
    /// The cache device has queues, so a share for the core is tried.
    Pressure,
    /// The core serves its share of the clean hits, and nothing new is cached.
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
    /// Lowest latency of the cache device up to now. If requests become longer for good, trials repeat without gain.
    latency_min: Duration,
    phase: Phase,
    split: RequestSplitter,
}

#[derive(Debug)]
enum Phase {
    Absorb(Absorb),
    Pressure { classic: u64, tries: u32, trial: Trial },
    Saturated(Climb),
}

#[derive(Debug, Default)]
struct Absorb {
    /// Number of coming windows without a trial.
    hold: u32,
    /// The consecutive windows in which the cache device had queues.
    loaded: Trial,
    /// The miss rate, and the number of windows in which it was about the same.
    miss_percent: u8,
    stable: u32,
}

impl Routing {
    /// Starts in `Absorb`.
    pub fn new(calibration: RoutingCalibration) -> Self {
        Self {
            calibration,
            latency_min: calibration.cache_latency.max(Duration::from_nanos(1)),
            phase: Phase::Absorb(Absorb::default()),
            split: RequestSplitter::new(0),
        }
    }

    /// The current state.
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

    /// Whether misses may be cached.
    pub fn admits(&self) -> bool {
        self.state() != RoutingState::Saturated
    }

    /// Whether a clean hit goes to the core. Call it once per hit.
    pub fn goes_to_core(&mut self) -> bool {
        self.split.goes_to_core()
    }

    /// Evaluates the measurements since the last call.
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
        // If the core adds less than a twentieth, even a trial costs more than it gains.
        let is_worth_it = core_permille >= PERMILLE / 20 && absorb.stable >= STABLE;
        if !is_loaded || !is_worth_it || absorb.hold > 0 || window.waits_for_core() {
            absorb.loaded = Trial::default();
        } else if let Some(classic) = absorb.loaded.add(window) {
            self.phase = Phase::Pressure { classic, tries: 1, trial: Trial::default() };
            // Begin with half of it, so as not to swamp a core that was overestimated.
            self.split.set(core_permille / 2);
        }
    }

    fn press(&mut self, window: &RoutingWindow) {
        let Phase::Pressure { classic, tries, trial } = &mut self.phase else { return };
        // A share that is much too large is rejected after one window.
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

    /// Absorbs, without a trial for `hold` windows.
    fn relax(&mut self, hold: u32) {
        self.phase = Phase::Absorb(Absorb { hold, ..Absorb::default() });
        self.split.set(0);
    }
}

#[cfg(test)]
mod tests;
