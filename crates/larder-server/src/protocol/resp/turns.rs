//! Requests of many keys run one after the other: each holds the turns of all tenants that own its keys.

use async_lock::MutexGuardArc;

use crate::caller::Caller;

/// The turns of some tenants, until it is dropped.
pub(super) struct Turns {
    _turns: Vec<MutexGuardArc<()>>,
}

/// Waits for the turns of the tenants that own `keys`, and of the connection's own tenant.
pub(super) async fn take<'k>(caller: &Caller, keys: impl Iterator<Item = &'k [u8]>) -> Turns {
    let mut numbers = vec![caller.tenant.number];
    for key in keys {
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
    Turns { _turns: turns }
}
