//! Runs concurrent tenants for some seconds of a drive's time.

use larder_ssd::timed::Nanoseconds;
use larder_vssd::MemoryImages;
use larder_vssd::timed::TimedVssds;

use super::drive::{Drive, Kind};
use super::failed;
use super::store::UNAWAITED;
use super::tenant::{Pattern, Tenant, TenantResult};
use super::window::Window;
use crate::Error;
use crate::replay::Monitor;

/// Concurrent tenants on a drive.
#[derive(Debug)]
pub(super) struct Beside {
    pub(super) timed: TimedVssds<MemoryImages>,
    pub(super) tenants: Vec<Tenant>,
    now: Nanoseconds,
}

impl Beside {
    /// Makes the tenants, each with its eighths of the drive, weight and pattern, on fresh vSSDs. All store the same
    /// amount, which is limited by the smallest vSSD. Token buckets share the bandwidth with which the dies program.
    pub(super) fn new(
        drive: &Drive,
        kind: Kind,
        tenants: &[(u32, u32, Pattern)],
        seed: u64,
    ) -> Result<Self, Error> {
        Self::limited(drive, (kind, 1.0), tenants, seed)
    }

    /// The same. Token buckets share that part of the bandwidth with which the dies program.
    pub(super) fn limited(
        drive: &Drive,
        (kind, part): (Kind, f64),
        tenants: &[(u32, u32, Pattern)],
        seed: u64,
    ) -> Result<Self, Error> {
        let shares: Vec<_> = tenants.iter().map(|(share, weight, _)| (*share, *weight)).collect();
        let policy = drive.policy(kind, part);
        let (mut timed, vssds) = drive.vssds(kind, &shares, &policy)?;
        let made = vssds.into_iter().zip(tenants).zip(seed * 100..);
        let made = made.map(|((vssd, (_, _, pattern)), seed)| {
            Tenant::new(&mut timed, vssd, pattern.clone(), seed)
        });
        let tenants = made.collect::<Result<_, _>>()?;
        // Reset the time: the tenants already had their data.
        let timed = TimedVssds::new(timed.into_array(), &drive.timing, &policy).map_err(failed)?;
        Ok(Self { timed, tenants, now: 0 })
    }

    /// What each tenant sees of the requests that it makes in `window`.
    pub(super) fn measure(
        &mut self,
        window: Window,
        monitor: &Monitor,
    ) -> Result<Vec<TenantResult>, Error> {
        self.until(window.from, window.until, monitor)
    }

    /// Runs until `until`. Returns what each tenant saw of the requests that it made since `from`.
    pub(super) fn until(
        &mut self,
        from: Nanoseconds,
        until: Nanoseconds,
        monitor: &Monitor,
    ) -> Result<Vec<TenantResult>, Error> {
        let mut seen = vec![TenantResult::default(); self.tenants.len()];
        let mut completed = Vec::new();
        while !monitor.is_stopped() {
            let asked = self.tenants.iter().filter_map(Tenant::next_at);
            let Some(next) = asked.chain(self.timed.next_at()).min().filter(|&at| at < until)
            else {
                break;
            };
            // A tenant may be overdue if another event took its turn.
            self.now = self.now.max(next);
            self.timed.run(self.now, &mut completed).map_err(failed)?;
            for done in completed.drain(..).filter(|done| done.token != UNAWAITED) {
                let tenant = self.tenants.iter().position(|tenant| tenant.vssd() == done.vssd);
                let Some(tenant) = tenant else { continue };
                if done.submitted >= from {
                    seen[tenant].push(done);
                }
                self.tenants[tenant].done(done);
            }
            for tenant in &mut self.tenants {
                tenant.ask(&mut self.timed, self.now)?;
            }
        }
        self.now = self.now.max(until);
        Ok(seen)
    }
}
