//! Latencies of the tenants: before an exchange, in the mean of an hour, and during it.

use std::collections::BTreeMap;

use crate::kind::VssdId;
use crate::levelling::HourMean;

/// A tenant.
#[derive(Debug, Clone, Default)]
pub(super) struct TenantLoad {
    before: HourMean,
}

/// How much slower tenants were during an exchange than before it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Slowdown {
    seconds: u64,
    sum: f64,
}

impl Slowdown {
    fn push(&mut self, slowdown: Option<f64>) {
        if let Some(slowdown) = slowdown {
            self.seconds += 1;
            self.sum += slowdown;
        }
    }

    /// Mean over the seconds; `None` if there were none to compare.
    #[allow(clippy::cast_precision_loss)] // seconds
    pub(super) fn mean(&self) -> Option<f64> {
        (self.seconds > 0).then(|| self.sum / self.seconds as f64)
    }
}

/// The tenants of an exchange, and the others.
#[derive(Debug, Clone, Default)]
pub(super) struct Noticed {
    pub(super) moving: Vec<VssdId>,
    pub(super) moving_slowdown: Slowdown,
    pub(super) rest_slowdown: Slowdown,
}

impl Noticed {
    /// Records a second of an exchange. Returns the slowdown of the tenant that moves and suffers most.
    pub(super) fn second(
        &mut self,
        load: &BTreeMap<VssdId, TenantLoad>,
        p99_ns: &[(VssdId, u64)],
    ) -> Option<f64> {
        let of = |moving: bool| {
            let side = p99_ns.iter().filter(|(id, _)| self.moving.contains(id) == moving);
            let slowdowns = side.filter_map(|(id, p99_ns)| load.get(id)?.before.slowdown(*p99_ns));
            slowdowns.reduce(f64::max)
        };
        let (moving, rest) = (of(true), of(false));
        self.moving_slowdown.push(moving);
        self.rest_slowdown.push(rest);
        moving
    }
}

/// Records a second without an exchange.
pub(super) fn idle_second(load: &mut BTreeMap<VssdId, TenantLoad>, p99_ns: &[(VssdId, u64)]) {
    for &(id, p99_ns) in p99_ns {
        load.entry(id).or_default().before.push(p99_ns);
    }
}
