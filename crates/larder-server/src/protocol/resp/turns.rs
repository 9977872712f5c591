//! Requests of many keys run one after the other, and are one step to others: each has the turns of all tenants that
//! own its keys, and holds the keys ([`crate::steps`]).

use std::rc::Rc;

use async_lock::MutexGuardArc;

use crate::caller::Caller;
use crate::held::Held;

/// The turns of some tenants and the keys that are held, until it is dropped.
pub(super) struct Turns {
    // The keys are given back before the turns.
    _held: Rc<Held>,
    _turns: Vec<MutexGuardArc<()>>,
}

/// Waits for the turns of the tenants that own the keys with these names in the cache, and of the connection's own
/// tenant; then for single requests that work with the keys. Earlier requests of the connection have ended.
pub(super) async fn take<'k, Keys: Iterator<Item = &'k [u8]>>(
    caller: &Caller,
    keys: impl Fn() -> Keys,
) -> Turns {
    let mut numbers = vec![caller.tenant.number];
    for key in keys() {
        let number = caller.tenant_of(key).number;
        caller.work.does(1);
        caller.rests().await;
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    // All requests lock in the same order, so that no two wait for each other.
    numbers.sort_unstable();
    let mut turns = Vec::with_capacity(numbers.len());
    for number in numbers {
        let turn = &caller.worker.shared.tenants[number].turn;
        turns.push(turn.lock_arc().await);
    }
    let held = caller.begins_step();
    for key in keys() {
        held.holds(caller.tenant_of(key).number, key).await;
        caller.work.does(1);
        caller.rests().await;
    }
    Turns { _held: held, _turns: turns }
}

/// If the connection has a step, it holds these keys too.
pub(super) async fn hold<'k>(caller: &Caller, keys: impl Iterator<Item = &'k [u8]>) {
    let Some(held) = caller.step() else { return };
    for key in keys {
        held.holds(caller.tenant_of(key).number, key).await;
    }
}
