//! An open set of shards: its current state, and the rules for changing it.
//!
//! The state of all shards is an [`EpochState`], one per epoch. A look-up takes the latest one. A call that changes a
//! key, or copies a value from one place of it to another, is inside a gate:
//!
//! 1. A state in which a shard is added, comes back, or is fully refilled, is published with the gate held: no call
//!    that uses the old state is in flight then. Otherwise such a call could leave a value at a place that is asked
//!    later, but where later changes do not remove it.
//! 2. A state in which a shard is taken out waits for no call, because calls may wait for that very shard. Changes at
//!    that shard are never seen again, and changes at others are correct in both states: their order is the same.
//! 3. Before a state is used, all shards that are live in it have written it to their devices. So an epoch that was
//!    in use is never used again, and shards that were away are known to be stale.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use event_listener::Event;
use larder_device::{Clock, Device};

use super::awake::Beat;
use super::away::AwayDevices;
use super::health::DeviceHealth;
use super::name::has_room;
use super::options::ShardOptions;
use super::places::{Chain, chain};
use super::set_record::SetRecord;
use super::status::{MovedShare, SetStatus, ShardDeviceStatus, ShardStatus};
use super::succession::Succession;
use super::suspects::Suspects;
use super::tenancy::Tenancy;
use super::wear::Levelling;
use crate::base::key::{KeyHash, KeyHasher};
use crate::cache::gate::Gate;
use crate::cache::{Allotment, Larder};
use crate::fleet::partition::{MovedKeys, Part, ShardNumber, ShardStanding, ShardState};
use crate::observe::stats::Stats;

/// The caches of all shards, and for each shard without caches the reason.
pub(super) type Opened = (Vec<Option<Vec<Larder>>>, Vec<Option<Arc<str>>>);

/// The state of all shards in an epoch.
pub(crate) struct EpochState {
    pub(crate) epoch: u32,
    pub(super) standings: Vec<ShardStanding>,
    /// Shares of keys that are, or have been, at home at other shards than by their hash.
    pub(super) moved: Vec<MovedKeys>,
    pub(super) shards: Vec<ShardNow>,
}

/// The state of a shard in an epoch.
#[derive(Clone, Default)]
pub(crate) struct ShardNow {
    /// In the order of the tenancy; `None` if the shard is not live.
    pub(crate) caches: Option<Arc<[Arc<Larder>]>>,
    pub(crate) device: Option<Arc<dyn Device>>,
    /// The parts of the device, one per cache.
    pub(crate) parts: Arc<[Part]>,
    pub(super) health: Option<Arc<DeviceHealth>>,
    /// Why it is not live.
    pub(super) down: Option<Arc<str>>,
}

impl EpochState {
    /// The chain of a key with this hash. A key that is too long for the name that a moved one has never moves.
    pub(super) fn chain(&self, hash: KeyHash, key: &[u8]) -> Chain {
        let moved = if has_room(key) { &self.moved[..] } else { &[] };
        chain(&self.standings, moved, hash.0)
    }

    /// The same, if each shard had the standing that `as_if` makes of its own.
    pub(super) fn chain_among(
        &self,
        as_if: impl Fn(&ShardStanding) -> ShardStanding,
        hash: KeyHash,
        key: &[u8],
    ) -> Chain {
        let standings = self.standings.iter().map(as_if).collect();
        let moved = self.moved.clone();
        Self { epoch: self.epoch, standings, moved, shards: Vec::new() }.chain(hash, key)
    }

    /// The cache of a tenant at a live shard.
    pub(super) fn cache(&self, shard: ShardNumber, tenant: usize) -> Option<&Arc<Larder>> {
        self.shards.get(shard.index())?.caches.as_ref()?.get(tenant)
    }

    pub(super) fn standing(&self, shard: ShardNumber) -> ShardStanding {
        self.standings[shard.index()]
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = ShardNumber> + use<> {
        ShardNumber::all(self.shards.len())
    }

    pub(crate) fn shard(&self, number: ShardNumber) -> &ShardNow {
        &self.shards[number.index()]
    }

    pub(super) fn has_refilling(&self) -> bool {
        self.standings.iter().any(|it| it.state == ShardState::Refilling)
    }
}

/// Caches of shards that are away.
#[derive(Default)]
struct AwayCaches {
    /// Caches that have not ended, with their tenant.
    caches: Vec<(usize, Arc<Larder>)>,
    /// Counters of caches that have ended, by tenant.
    past: BTreeMap<usize, Stats>,
}

impl AwayCaches {
    fn ended(&mut self, tenant: usize, cache: &Arc<Larder>) {
        let Some(at) = self.caches.iter().position(|(_, other)| Arc::ptr_eq(other, cache)) else {
            return;
        };
        self.caches.remove(at);
        self.past.entry(tenant).or_default().add_past(cache.stats());
    }

    fn with_past(&self, tenant: usize, mut stats: Stats) -> Stats {
        let ending = self.caches.iter().filter(|(of, _)| *of == tenant);
        ending.for_each(|(_, cache)| stats.add_past(cache.stats()));
        if let Some(past) = self.past.get(&tenant) {
            stats.add_past(past.clone());
        }
        stats
    }
}

/// Counters of a set.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Look-ups that were misses because flash took too long.
    pub(super) late_gets: AtomicU64,
    /// Bytes of keys and values that were copied to refill shards.
    pub(super) refilled_bytes: AtomicU64,
    /// Changes that were made and lost at once.
    pub(super) lost_changes: AtomicU64,
    /// Pauses of the host.
    pub(super) host_pauses: AtomicU64,
    /// Shards that came back automatically.
    pub(super) returned: AtomicU64,
    pub(super) failed: AtomicU64,
    /// Look-ups that found a key at an old home.
    pub(super) old_home_gets: AtomicU64,
    /// Parts of keys that were moved to level the wear of drives.
    pub(super) moved_parts: AtomicU64,
}

/// See the module.
pub(crate) struct LiveSet {
    states: Succession<EpochState>,
    pub(super) gate: Gate,
    /// Notified when the state changes.
    pub(super) changed: Event,
    /// Notified when a request to a device fails, and at the end.
    pub(super) alarm: Arc<Event>,
    pub(super) set_record: async_lock::Mutex<SetRecord>,
    /// Locked while a device is added, from the first look at it to the end.
    pub(super) bringing: async_lock::Mutex<()>,
    pub(super) hasher: KeyHasher,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) options: ShardOptions,
    pub(super) tenancy: Arc<dyn Tenancy>,
    left: Mutex<AwayCaches>,
    /// Devices that may come back: a change of the set adds and forgets some, and a probe takes them back.
    pub(super) away: AwayDevices,
    pub(super) counts: Counts,
    pub(super) beat: Beat,
    /// The detector's, which a status shows.
    pub(super) suspects: Suspects,
    pub(super) levelling: Levelling,
    /// Number of tenants that have not closed their caches.
    open_maps: AtomicUsize,
    /// Progress of the current refill, in thousandths.
    pub(super) refilled_permille: AtomicU64,
}

impl LiveSet {
    /// `opened` has the caches of all shards, and the reasons of those without.
    pub(super) fn new(
        set_record: SetRecord,
        (opened, down): Opened,
        (tenancy, tenants): (Arc<dyn Tenancy>, usize),
        (options, clock, alarm): (ShardOptions, Arc<dyn Clock>, Arc<Event>),
    ) -> Self {
        let now = |((opened, member), down): ((Option<Vec<Larder>>, &Option<_>), _)| match (
            opened, member,
        ) {
            (Some(caches), Some(member)) => ShardNow::on(caches, member),
            _ => ShardNow { down, ..ShardNow::default() },
        };
        let shards = opened.into_iter().zip(&set_record.members).zip(down).map(now).collect();
        let standings = set_record.seats.iter().map(|seat| seat.standing).collect();
        let (epoch, moved) = (set_record.epoch, set_record.moved.clone());
        let state = EpochState { epoch, standings, moved, shards };
        Self {
            states: Succession::new(state),
            gate: Gate::default(),
            changed: Event::new(),
            alarm,
            hasher: set_record.hasher,
            set_record: async_lock::Mutex::new(set_record),
            bringing: async_lock::Mutex::new(()),
            clock,
            options,
            tenancy,
            left: Mutex::default(),
            away: AwayDevices::default(),
            counts: Counts::default(),
            beat: Beat::default(),
            suspects: Suspects::default(),
            levelling: Levelling::default(),
            open_maps: AtomicUsize::new(tenants),
            refilled_permille: AtomicU64::new(0),
        }
    }

    pub(crate) fn state(&self) -> &EpochState {
        self.states.latest()
    }

    /// Publishes the new state. Calls that wait at a shard that is away now continue at another.
    pub(super) fn publish(&self, set_record: &SetRecord, shards: Vec<ShardNow>) {
        let standings: Vec<ShardStanding> =
            set_record.seats.iter().map(|seat| seat.standing).collect();
        assert_eq!(standings.len(), shards.len(), "each shard is something");
        for (standing, shard) in standings.iter().zip(&shards) {
            assert_eq!(
                standing.state.is_live(),
                shard.caches.is_some(),
                "a live shard serves, and no other does"
            );
        }
        let before = self.state();
        assert!(set_record.epoch > before.epoch, "an epoch is never used again");
        let is_kept = |cache: &Arc<Larder>| {
            let all = shards.iter().filter_map(|shard| shard.caches.as_ref());
            all.flat_map(|caches| caches.iter()).any(|other| Arc::ptr_eq(cache, other))
        };
        let all = before.shards.iter().filter_map(|shard| shard.caches.as_ref());
        let gone: Vec<(usize, Arc<Larder>)> = all
            .flat_map(|caches| caches.iter().enumerate())
            .filter(|(_, cache)| !is_kept(cache))
            .map(|(tenant, cache)| (tenant, Arc::clone(cache)))
            .collect();
        let mut left = self.left();
        left.caches.extend(gone);
        let (epoch, moved) = (set_record.epoch, set_record.moved.clone());
        self.states.follow(EpochState { epoch, standings, moved, shards });
        drop(left);
        self.changed.notify(crate::base::signal::ALL);
        share_memory(before, self.state());
    }

    fn left(&self) -> MutexGuard<'_, AwayCaches> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counters and content of a tenant's caches: the live ones, and the counters of those that are away.
    pub(crate) fn stats(&self, tenant: usize) -> Stats {
        let left = self.left();
        let live = self.state().shards.iter();
        let live = live.filter_map(|shard| shard.caches.as_ref()?.get(tenant));
        left.with_past(tenant, live.map(|cache| cache.stats()).sum())
    }

    /// The current status.
    pub(crate) fn status(&self) -> SetStatus {
        let state = self.state();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let shard = |number: ShardNumber| {
            let (standing, now) = (state.standing(number), state.shard(number));
            let device =
                now.device.as_ref().map(|device| ShardDeviceStatus::of(&**device, &device.stats()));
            ShardStatus {
                number: number.index(),
                state: standing.state,
                since: standing.since,
                weight: standing.weight,
                suspicion: self.suspects.reason(number).map(|why| why.to_string()),
                down: now.down.as_deref().map(str::to_owned),
                device,
            }
        };
        SetStatus {
            epoch: state.epoch,
            shards: state.numbers().map(shard).collect(),
            refilled_permille: count(&self.refilled_permille),
            refilled_bytes: count(&self.counts.refilled_bytes),
            late_gets: count(&self.counts.late_gets),
            lost_changes: count(&self.counts.lost_changes),
            suspected: self.suspects.count(),
            failed: count(&self.counts.failed),
            returned: count(&self.counts.returned),
            host_pauses: count(&self.counts.host_pauses),
            moved: MovedShare::all(&state.moved),
            moved_parts: count(&self.counts.moved_parts),
            old_home_gets: count(&self.counts.old_home_gets),
            levelling: self.levelling.status(),
        }
    }

    /// Adds the counters of the tenant's caches that are away to `stats`.
    pub(crate) fn with_past(&self, tenant: usize, stats: Stats) -> Stats {
        self.left().with_past(tenant, stats)
    }

    /// Ends the caches of shards that are away. That may take as long as their devices take to complete requests. If
    /// the future is dropped, the next call continues.
    pub(super) async fn end_left(&self) {
        loop {
            let Some((tenant, cache)) = self.left().caches.last().cloned() else { return };
            cache.abandon().await;
            self.left().ended(tenant, &cache);
        }
    }

    /// Waits for `future`, but only while `cache` is the tenant's cache at this shard.
    pub(super) async fn while_there<T>(
        &self,
        (shard, tenant): (ShardNumber, usize),
        cache: &Arc<Larder>,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        let is_there = || {
            let now = self.state().cache(shard, tenant);
            now.is_some_and(|now| Arc::ptr_eq(now, cache))
        };
        let mut future = pin!(future);
        let mut listener = None;
        poll_fn(|context| {
            loop {
                if let Poll::Ready(value) = future.as_mut().poll(context) {
                    return Poll::Ready(Some(value));
                }
                // Listen before the check, so that no change is missed.
                let listening = listener.get_or_insert_with(|| self.changed.listen());
                let told = pin!(&mut *listening).poll(context).is_ready();
                if !is_there() {
                    return Poll::Ready(None);
                }
                if !told {
                    return Poll::Pending;
                }
                listener = None;
            }
        })
        .await
    }

    /// The result of `future`, unless it takes longer than a look-up may.
    pub(super) async fn in_time<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let Some(wait) = self.options.get_wait else { return Some(future.await) };
        let mut future = pin!(future);
        let mut sleep = None;
        let ended = poll_fn(|context| {
            if let Poll::Ready(value) = future.as_mut().poll(context) {
                return Poll::Ready(Some(value));
            }
            let until = || self.clock.sleep_until(self.clock.monotonic().saturating_add(wait));
            sleep.get_or_insert_with(until).as_mut().poll(context).map(|()| None)
        });
        let ended = ended.await;
        if ended.is_none() {
            self.counts.late_gets.fetch_add(1, Ordering::Relaxed);
        }
        ended
    }

    /// Called when a tenant is about to close its caches. After the last tenant nothing of the set is changed any
    /// more, because its devices may soon be used by others.
    pub(super) async fn close(&self) {
        if self.open_maps.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let closing = self.gate.close().await;
        self.set_record.lock().await.is_closed = true;
        closing.done();
        self.alarm.notify(crate::base::signal::ALL);
    }

    /// Whether [`LiveSet::close`] has completed.
    pub(super) fn is_closed(&self) -> bool {
        self.gate.is_closed()
    }

    /// Releases the devices after their caches were closed.
    pub(super) fn release(&self) {
        if let Some(mut set_record) = self.set_record.try_lock()
            && set_record.is_closed
        {
            set_record.members.iter_mut().for_each(|member| *member = None);
            set_record.spares.clear();
            self.away.clear();
        }
    }
}

impl ShardNow {
    pub(super) fn on(caches: Vec<Larder>, member: &super::set_record::Member) -> Self {
        Self {
            caches: Some(caches.into_iter().map(Arc::new).collect()),
            device: Some(Arc::clone(&member.device)),
            parts: member.parts.iter().cloned().collect(),
            health: Some(Arc::clone(&member.health)),
            down: None,
        }
    }

    /// A shard that is not live, for this reason.
    pub(super) fn away(why: &str) -> Self {
        Self { down: Some(Arc::from(why)), ..Self::default() }
    }
}

/// Divides each tenant's memory at all old shards equally among the shards that are live now.
fn share_memory(before: &EpochState, now: &EpochState) {
    let of = |state: &EpochState, tenant: usize| {
        let live = state.shards.iter().filter_map(|shard| shard.caches.as_ref()?.get(tenant));
        live.cloned().collect::<Vec<_>>()
    };
    let tenants = now.shards.iter().find_map(|shard| Some(shard.caches.as_ref()?.len()));
    for tenant in 0..tenants.unwrap_or(0) {
        let (had, have) = (of(before, tenant), of(now, tenant));
        let all: Option<Vec<Allotment>> = had.iter().map(|cache| cache.allotment()).collect();
        let (Some(all), count) = (all, have.len().max(1) as u64) else { continue };
        let (mut dram, mut memory) = (0, 0);
        for allotment in all {
            match allotment {
                Allotment::Dram(bytes) => dram += bytes,
                Allotment::All(bytes) => memory += bytes,
            }
        }
        for cache in have {
            cache.allot(match memory {
                0 => Allotment::Dram(dram / count),
                memory => Allotment::All(memory / count),
            });
        }
    }
}
