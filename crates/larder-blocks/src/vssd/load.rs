//! Latencies of the tenants' requests, and when each tenant was last active: what levelling goes by.

use std::collections::BTreeMap;
use std::time::Duration;

use larder_device::{Clock, RealClock};
use larder_ssd::nand::DieIndex;
use larder_vssd::VssdId;
use larder_vssd::service::Idle;

/// A tenant and its dies: drive and die of each.
pub(super) type TenantDies = (VssdId, Vec<(u32, DieIndex)>);

/// Buckets for each doubling of a latency: 6 % wide.
const PER_DOUBLING: u32 = 16;
const BUCKETS: usize = 64 * PER_DOUBLING as usize;

/// The requests of all tenants.
#[derive(Debug, Default)]
pub(super) struct TenantsLoad {
    tenants: BTreeMap<VssdId, TenantLoad>,
}

#[derive(Debug)]
struct TenantLoad {
    /// Requests of this second, by latency.
    buckets: Box<[u32; BUCKETS]>,
    requests: u64,
    /// End of the last request.
    last: Duration,
}

impl TenantsLoad {
    /// Records a request that took from `begin` to `end`.
    pub(super) fn record(&mut self, id: VssdId, begin: Duration, end: Duration) {
        let tenant = self.tenants.entry(id).or_insert_with(|| TenantLoad {
            buckets: Box::new([0; BUCKETS]),
            requests: 0,
            last: end,
        });
        let ns = u64::try_from(end.saturating_sub(begin).as_nanos()).unwrap_or(u64::MAX);
        let bucket = &mut tenant.buckets[bucket_of(ns)];
        *bucket = bucket.saturating_add(1);
        tenant.requests += 1;
        tenant.last = end;
    }

    /// p99 in nanoseconds of each tenant that had requests since the last call.
    pub(super) fn take_second(&mut self) -> Vec<(VssdId, u64)> {
        let busy = self.tenants.iter_mut().filter(|(_, tenant)| tenant.requests > 0);
        busy.map(|(&id, tenant)| (id, tenant.take_p99())).collect()
    }

    /// Forgets a tenant that is gone.
    pub(super) fn forget(&mut self, id: VssdId) {
        self.tenants.remove(&id);
    }

    /// How long the dies of `tenants` have been idle at `now`. A die that no entry names is idle.
    pub(super) fn idle(&self, now: Duration, tenants: &[TenantDies]) -> IdleDies {
        let mut last = BTreeMap::new();
        for (id, dies) in tenants {
            let Some(tenant) = self.tenants.get(id) else { continue };
            for &die in dies {
                let latest: &mut Duration = last.entry(die).or_default();
                *latest = (*latest).max(tenant.last);
            }
        }
        IdleDies { now, last }
    }
}

impl TenantLoad {
    fn take_p99(&mut self) -> u64 {
        let mut above = self.requests / 100;
        let mut p99_ns = 0;
        for (at, &count) in self.buckets.iter().enumerate().rev() {
            p99_ns = end_of(at);
            if u64::from(count) > above {
                break;
            }
            above -= u64::from(count);
        }
        self.buckets.fill(0);
        self.requests = 0;
        p99_ns
    }
}

/// Seconds since 1970.
pub(super) fn unix_s() -> u64 {
    RealClock.now().as_secs()
}

/// The bucket of a latency.
fn bucket_of(ns: u64) -> usize {
    let bits = PER_DOUBLING.ilog2();
    let doubling = ns.max(1).ilog2();
    let part = if doubling >= bits { ns >> (doubling - bits) } else { ns << (bits - doubling) };
    let part = usize::try_from(part).unwrap_or(0) % PER_DOUBLING as usize;
    (doubling * PER_DOUBLING) as usize + part
}

/// The largest latency of a bucket.
fn end_of(bucket: usize) -> u64 {
    let (doubling, part) = (bucket / PER_DOUBLING as usize, bucket % PER_DOUBLING as usize);
    let end = (u128::from(PER_DOUBLING) + part as u128 + 1) << doubling;
    u64::try_from(end / u128::from(PER_DOUBLING)).unwrap_or(u64::MAX)
}

/// The dies that tenants have used.
#[derive(Debug)]
pub(super) struct IdleDies {
    now: Duration,
    last: BTreeMap<(u32, DieIndex), Duration>,
}

impl Idle for IdleDies {
    fn idle_ns(&self, drive: u32, die: DieIndex) -> u64 {
        let Some(&last) = self.last.get(&(drive, die)) else { return u64::MAX };
        u64::try_from(self.now.saturating_sub(last).as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn p99_is_of_the_second_and_of_the_tenant() {
        let mut load = TenantsLoad::default();
        for at in 0..1000 {
            let slow = if at % 50 == 0 { 20 } else { 1 };
            load.record(VssdId(1), MS * at, MS * (at + slow));
            load.record(VssdId(2), MS * at, MS * (at + 2));
        }
        let p99 = load.take_second();
        let near = |ns: u64, ms: u64| (ms * 1_000_000..=ms * 1_070_000).contains(&ns);
        assert!(near(p99[0].1, 20) && near(p99[1].1, 2), "{p99:?}");
        assert!(load.take_second().is_empty());
        for ns in [0, 1, 5, 17, 1000, 123_456_789, u64::MAX / 3] {
            let end = end_of(bucket_of(ns));
            assert!(end >= ns && end as f64 <= ns.max(16) as f64 * 1.13, "{ns} {end}");
        }
    }

    #[test]
    fn a_die_is_as_busy_as_its_busiest_tenant() {
        let mut load = TenantsLoad::default();
        load.record(VssdId(1), MS, MS * 2);
        load.record(VssdId(2), MS, MS * 7);
        let (one, other) = ((0, DieIndex(1)), (0, DieIndex(2)));
        let idle = load.idle(MS * 10, &[(VssdId(1), vec![one, other]), (VssdId(2), vec![other])]);
        assert_eq!(idle.idle_ns(0, DieIndex(1)), 8_000_000);
        assert_eq!(idle.idle_ns(0, DieIndex(2)), 3_000_000);
        assert_eq!(idle.idle_ns(1, DieIndex(2)), u64::MAX);
    }
}
