//! The clients' view of a shard that dies, comes back and dies again, and of one that becomes slow, in virtual time.
//!
//! The data of a shard that dies is lost: there is no parity, and it is empty when it comes back. While it is away,
//! clients bring missing values to surrogates; these are copied when the shard is refilled. So the hit ratio after the
//! return equals the one before if it had recovered by then. The test uses an outage that is long enough for about all
//! keys to be requested.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use larder::{Clock, Device, ShardState, VirtualClock};
use larder_device::Condition;
use larder_device::model::virtual_time::shapes;

use super::drive::{Drive, drive};
use super::load::{Engine, Load, SHARDS, Seen, VICTIM, name_of, run, until};

/// Time until each key was requested once, and some more.
pub(super) const WARM_UP: Duration = Duration::from_millis(600);
/// Number of windows before the failure,
const USUAL: u32 = 6;
/// while a shard is away,
const OUTAGE: u32 = 8;
/// and after it is back and refilled.
const AFTER: u32 = 4;

pub(super) fn started() -> (Arc<VirtualClock>, Vec<Drive>) {
    let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
    let drives = (0..SHARDS).map(|_| drive(shapes::NVME_TLC, &clock)).collect();
    (clock, drives)
}

#[test]
fn a_shard_that_dies_twice_is_nobodys_error() {
    super::seeds(1).for_each(|seed| dies_twice(Engine::Loc, seed));
}

#[test]
fn nor_is_one_whose_index_is_on_flash() {
    super::seeds(1).for_each(|seed| dies_twice(Engine::Array, seed));
}

/// Eight shards, one of which dies, returns and dies again under load.
fn dies_twice(engine: Engine, seed: u64) {
    let (clock, drives) = started();
    run(&clock, (engine, seed), &drives, async |load, cache| {
        load.sleep(WARM_UP).await;
        let usual = Seen::sum(&load.watch(USUAL).await);
        print_seen(&format!("{engine:?}, seed {seed}: usual"), &usual);
        for condition in [Condition::Gone, Condition::Failing] {
            drives[VICTIM].becomes(condition);
            let dead = load.watch(OUTAGE).await;
            assert_eq!(cache.status().shards[VICTIM].state, ShardState::Failed);
            print_windows(&format!("{condition:?}"), &dead);
            drives[VICTIM].becomes(Condition::Well);
            let drive = Arc::clone(&drives[VICTIM]) as Arc<dyn Device>;
            cache.replace_shard(VICTIM, drive).await.unwrap();
            load.take_seen();
            let back = clock.monotonic();
            until(load, cache, ShardState::Healthy).await;
            let refill = load.take_seen();
            print_seen(&format!("refill of {:?}", clock.monotonic() - back), &refill);
            let after = load.watch(AFTER).await;
            print_windows("refilled", &after);
            judge(&usual, &dead, &refill, &after);
        }
        let status = cache.status();
        assert_eq!(status.failed, 2);
        assert!(status.refilled_bytes > 0);
        let stats = cache.stats();
        let (loc, array) = (stats.loc_hits > 1000, stats.array_hits > 1000);
        assert_eq!((loc, array), (engine == Engine::Loc, engine == Engine::Array), "{stats:?}");
    });
}

/// Checks the windows around each death.
fn judge(usual: &Seen, dead: &[Seen], refill: &Seen, after: &[Seen]) {
    for window in dead {
        let dip = 1.0 - window.rate() / usual.rate();
        assert!(dip <= 0.125 + 0.1, "throughput without one of eight shards is {dip:.3} lower");
    }
    // From the moment when it is back: surrogates have what it does not have yet.
    let back = Seen::sum(&[std::slice::from_ref(refill), after].concat());
    for seen in [&Seen::sum(dead), refill, &back] {
        assert!(seen.p99_us() * 10 <= usual.p99_us() * 11, "{} us", seen.p99_us());
    }
    let (ratio, before) = (back.all.ratio(), usual.all.ratio());
    assert!(ratio >= before - 0.02, "hits are {ratio:.3}, and were {before:.3}");
    // An eighth of all keys: random variation of their ratio is larger.
    let (ratio, before) = (back.of_victim.ratio(), usual.of_victim.ratio());
    assert!(ratio >= before - 0.05, "hits of its keys are {ratio:.3}, and were {before:.3}");
}

fn print_seen(what: &str, seen: &Seen) {
    let (rate, p99, all, own) =
        (seen.rate(), seen.p99_us(), seen.all.ratio(), seen.of_victim.ratio());
    println!("{what}: {rate:.0} a second, p99 {p99} us, hits {all:.3}, of its keys {own:.3}");
}

fn print_windows(what: &str, windows: &[Seen]) {
    print_seen(what, &Seen::sum(windows));
    let of = |number: fn(&Seen) -> f64| {
        windows.iter().map(|seen| format!("{:.3}", number(seen))).collect::<Vec<_>>().join(" ")
    };
    println!("  hits of its keys: {}", of(|seen| seen.of_victim.ratio()));
}

#[test]
fn a_slow_shard_is_out_within_five_seconds() {
    let (clock, drives) = started();
    run(&clock, (Engine::Loc, 1), &drives, async |load, cache| {
        load.sleep(WARM_UP).await;
        drives[VICTIM].becomes(Condition::Slower(100));
        let begun = clock.monotonic();
        until(load, cache, ShardState::Failed).await;
        let took = clock.monotonic() - begun;
        println!("out after {took:?}: {:?}", cache.status().shards[VICTIM].down);
        assert!(took < Duration::from_secs(5), "{took:?}");
        let others = cache.status().shards.into_iter().filter(|shard| shard.number != VICTIM);
        assert!(others.into_iter().all(|shard| shard.state == ShardState::Healthy));
    });
}

/// The victim's drive does not answer any more.
#[test]
fn a_look_up_waits_no_longer_than_it_may() {
    let (clock, drives) = started();
    run(&clock, (Engine::Loc, 1), &drives, async |load: &Load, cache| {
        load.sleep(WARM_UP).await;
        drives[VICTIM].becomes(Condition::Slower(u32::MAX));
        let longest = Cell::new(Duration::ZERO);
        let begun = clock.monotonic();
        while cache.status().shards[VICTIM].state != ShardState::Failed {
            let at = clock.monotonic();
            cache.get(&name_of(load.draw())).await.unwrap();
            longest.set(longest.get().max(clock.monotonic() - at));
            load.sleep(Duration::from_micros(100)).await;
        }
        let took = clock.monotonic() - begun;
        println!("longest look-up {:?}, out after {took:?}", longest.get());
        assert!(longest.get() <= Duration::from_millis(100) && took < Duration::from_secs(5));
        assert!(cache.status().late_gets > 0);
    });
}
