//! Routing of a cache: off, with a fixed share, or with a share that is tuned by measurements of the cache.

use std::time::Duration;

use super::gauge::Gauge;
use super::split::RequestSplitter;
use super::window::PERMILLE;
use super::{Routing, RoutingCalibration, RoutingState};
use crate::{Error, ErrorKind};

/// Which clean hits the core serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoutingPolicy {
    /// The core serves no hits.
    #[default]
    Off,
    /// A share that is tuned while the cache device is saturated. Needs the time whenever I/Os are issued and end
    /// ([`Cache::at`](crate::cache::Cache::at)).
    Tuned(RoutingCalibration),
    /// A constant share; misses are always cached.
    Fixed {
        /// Thousandths of the clean hits, 0 to 1000.
        core_permille: u16,
    },
}

impl RoutingPolicy {
    /// Checks the policy.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`], naming the field, if it is invalid.
    pub fn check(self) -> Result<(), Error> {
        let fix = match self {
            Self::Fixed { core_permille } if core_permille > PERMILLE => {
                format!("core_permille of {core_permille}: give 0 to {PERMILLE}")
            }
            Self::Tuned(known) if known.cache_bytes_per_second == 0 => {
                "cache_bytes_per_second of 0: calibrate it".to_owned()
            }
            _ => return Ok(()),
        };
        Err(Error::new(ErrorKind::Setup, format!("routing: {fix}")))
    }
}

/// The routing of one cache.
#[derive(Debug)]
pub(crate) struct Router(Way);

#[derive(Debug)]
enum Way {
    Off,
    /// Only this one measures: with the others a look-up costs nothing.
    Tuned(Box<TunedRouting>),
    Fixed(RequestSplitter),
}

#[derive(Debug)]
struct TunedRouting {
    routing: Routing,
    gauge: Gauge,
}

impl Router {
    /// A router without measurements.
    pub(crate) fn new(policy: RoutingPolicy) -> Self {
        Self(match policy {
            RoutingPolicy::Off => Way::Off,
            RoutingPolicy::Tuned(calibration) => {
                let (routing, gauge) = (Routing::new(calibration), Gauge::default());
                Way::Tuned(Box::new(TunedRouting { routing, gauge }))
            }
            RoutingPolicy::Fixed { core_permille } => {
                Way::Fixed(RequestSplitter::new(core_permille))
            }
        })
    }

    /// Whether it needs the time.
    pub(crate) fn measures(&self) -> bool {
        matches!(self.0, Way::Tuned(_))
    }

    /// Sets the time. Returns whether the cache device has become saturated.
    pub(crate) fn at(&mut self, now: Duration) -> bool {
        let Way::Tuned(tuned) = &mut self.0 else { return false };
        let TunedRouting { routing, gauge } = &mut **tuned;
        let Some(window) = gauge.at(now) else { return false };
        let before = routing.state();
        routing.window(&window);
        before != routing.state() && routing.state() == RoutingState::Saturated
    }

    /// When it needs the time even without requests: an unused share then returns to 0.
    pub(crate) fn due(&self) -> Option<Duration> {
        let Way::Tuned(tuned) = &self.0 else { return None };
        let is_needed = tuned.routing.state() != RoutingState::Absorb;
        is_needed.then(|| tuned.gauge.due())
    }

    /// The state, and the share of clean hits that go to the core, in thousandths. `None` if routing is off.
    pub(crate) fn state(&self) -> Option<(RoutingState, u16)> {
        match &self.0 {
            Way::Off => None,
            Way::Tuned(tuned) => Some((tuned.routing.state(), tuned.routing.core_permille())),
            Way::Fixed(split) => Some((RoutingState::Absorb, split.core_permille())),
        }
    }

    /// Whether a clean hit goes to the core. Call it once per hit.
    pub(crate) fn goes_to_core(&mut self) -> bool {
        match &mut self.0 {
            Way::Off => false,
            Way::Tuned(tuned) => tuned.routing.goes_to_core(),
            Way::Fixed(split) => split.goes_to_core(),
        }
    }

    /// Whether misses may be cached.
    pub(crate) fn admits(&self) -> bool {
        if let Way::Tuned(tuned) = &self.0 { tuned.routing.admits() } else { true }
    }

    /// A client read was looked up.
    pub(crate) fn looked_up(&mut self, is_hit: bool) {
        if let Way::Tuned(tuned) = &mut self.0 {
            tuned.gauge.looked_up(is_hit);
        }
    }

    /// The start time of an I/O, for [`read_ended`](Self::read_ended) or [`core_io_ended`](Self::core_io_ended).
    /// `None` if nothing is measured.
    pub(crate) fn read_begins(&self) -> Option<Duration> {
        if let Way::Tuned(tuned) = &self.0 { Some(tuned.gauge.now()) } else { None }
    }

    /// A read of the cache device that began at `began` has ended.
    pub(crate) fn read_ended(&mut self, began: Duration) {
        if let Way::Tuned(tuned) = &mut self.0 {
            tuned.gauge.read_ended(began);
        }
    }

    /// An I/O of a core that began at `began` has ended.
    pub(crate) fn core_io_ended(&mut self, began: Duration) {
        if let Way::Tuned(tuned) = &mut self.0 {
            tuned.gauge.core_io_ended(began);
        }
    }

    /// A client request has succeeded.
    pub(crate) fn ended(&mut self, bytes: usize) {
        if let Way::Tuned(tuned) = &mut self.0 {
            tuned.gauge.ended(bytes);
        }
    }
}
