//! Tables that no script may change.

use crate::raw::{REGISTRY, Results, State};

/// Its address is the key of what marks a locked table.
static LOCKED: u8 = 0;
/// Its address is the key of the real table of globals in the registry.
pub(super) static REAL_GLOBALS: u8 = 1;
/// Its address is the key of the table of globals that scripts get.
pub(super) static SCRIPT_GLOBALS: u8 = 2;
/// Replaces the table on top by a locked one in front of it.
pub(super) fn lock(state: State) {
    state.push_table(0, 0);
    state.push_table(0, 4);
    state.push_copy(-3);
    state.set_raw_field(-2, "__index");
    state.push_function(refuse, 0);
    state.set_raw_field(-2, "__newindex");
    // What a script gets as the metatable is the locked table itself.
    state.push_copy(-2);
    state.set_raw_field(-2, "__metatable");
    state.push_light(&LOCKED);
    state.push_boolean(true);
    state.raw_set(-3);
    state.set_metatable(-2);
    state.remove(-2);
}

/// Whether the value at `at` is a locked table.
pub(crate) fn is_locked(state: State, at: i32) -> bool {
    if !state.push_metatable(at) {
        return false;
    }
    state.push_light(&LOCKED);
    state.raw_get(-2);
    let is = state.is_true(-1);
    state.pop(2);
    is
}

/// Replaces the locked table on top by the real one.
pub(super) fn unlock(state: State) {
    if state.push_metatable(-1) {
        state.raw_field(-1, "__index");
        state.remove(-2);
        state.remove(-2);
    }
}

pub(super) fn refuse(state: State) -> Results {
    state.fail("Attempt to modify a readonly table")
}

pub(super) fn push_registered(state: State, key: &'static u8) {
    state.push_light(key);
    state.raw_get(REGISTRY);
}

/// Pushes the globals that scripts get.
pub(crate) fn push_globals(state: State) {
    push_registered(state, &SCRIPT_GLOBALS);
}
