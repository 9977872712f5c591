//! A shard comes back only when no change is in flight that was routed by the previous state of the set: such a change
//! could leave a value that is never removed, and is found later.

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use larder::{Clock, Device, SetOptions, Shards};
use larder_device::Condition;

use super::drive::Drive;
use super::failure::{WARM_UP, started};
use super::load::{Engine, KEYS, Load, VALUE_BYTES, VICTIM, WINDOW, name_of, run};

/// Minimum duration of a change whose first request is slow.
const CHANGE: Duration = Duration::from_millis(100);
/// Time until a change has submitted that request.
const BEGINS: Duration = Duration::from_millis(1);
const SLOWER: Condition = Condition::Slower(2000);

#[test]
fn a_shard_is_back_when_changes_at_its_surrogates_have_ended() {
    let (clock, drives) = started();
    run(&clock, (Engine::Loc, 1), &drives, async |load, cache| {
        let name = stood_in_for(load, cache).await;
        during_an_add(load, cache, (&name, &drives), async || {
            let drive = Arc::clone(&drives[VICTIM]) as Arc<dyn Device>;
            cache.replace_shard(VICTIM, drive).await.unwrap();
        })
        .await;
    });
}

/// Fails the victim. Returns a key of the victim that another shard has taken over, on flash.
async fn stood_in_for(load: &Load, cache: &Shards) -> Vec<u8> {
    load.sleep(WARM_UP).await;
    cache.fail_shard(VICTIM).await.unwrap();
    // No client uses these keys.
    let own = (KEYS..).map(name_of).filter(|name| cache.home_of(name) == VICTIM).take(20);
    let own: Vec<Vec<u8>> = own.collect();
    for name in &own {
        cache.set(name, &[7; VALUE_BYTES], None).await.unwrap();
    }
    load.sleep(6 * WINDOW).await;
    for name in own {
        let is_in_dram = cache.get_at_once_with(&name, |_, _| ()).unwrap().is_some();
        if !is_in_dram && cache.contains(&name).await.unwrap() {
            return name;
        }
    }
    unreachable!("all of them fit on flash");
}

/// Adds an existing key, on drives that are slow until `other` begins: `other` must end only after that.
async fn during_an_add(
    load: &Load,
    cache: &Shards,
    (name, drives): (&[u8], &[Drive]),
    other: impl AsyncFnOnce(),
) {
    let begun = load.clock.monotonic();
    drives.iter().for_each(|drive| drive.becomes(SLOWER));
    let has_ended = Cell::new(false);
    let mut adding = pin!(async {
        let is_added = cache.add(name, b"another", SetOptions::default()).await.unwrap();
        has_ended.set(true);
        assert!(!is_added);
        let took = load.clock.monotonic() - begun;
        assert!(took >= CHANGE, "its first request was slow: {took:?}");
    });
    let mut other = pin!(async {
        load.sleep(BEGINS).await;
        drives.iter().for_each(|drive| drive.becomes(Condition::Well));
        other().await;
    });
    let (mut other_ended, mut in_time) = (false, true);
    std::future::poll_fn(|context| {
        if !has_ended.get() {
            _ = adding.as_mut().poll(context);
        }
        if !other_ended && other.as_mut().poll(context).is_ready() {
            (other_ended, in_time) = (true, has_ended.get());
        }
        if has_ended.get() && other_ended { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    assert!(in_time, "a change was under way");
}
