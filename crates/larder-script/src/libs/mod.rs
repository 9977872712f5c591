//! The libraries of a script, as Redis has them.
//!
//! A script may change none of them, so that scripts can share a state: each table is locked ([`lock`]), an empty table
//! in front of the real one, which the script never gets.

mod base;
mod bit;
mod cjson;
mod cmsgpack;
mod counted;
mod locked;
mod packing;
pub(crate) mod redis;
mod string;
mod table;

pub(crate) use self::locked::push_globals;
use self::locked::{REAL_GLOBALS, SCRIPT_GLOBALS, lock, push_registered};
use crate::raw::{GLOBALS, Library, REGISTRY, Results, STRING, State};

/// Its address is the key of the table of compiled scripts.
static COMPILED: u8 = 3;

/// Opens all libraries, in a new state.
pub(crate) fn open(state: State) -> Results {
    for library in [Library::Base, Library::Table, Library::String, Library::Math, Library::Os] {
        state.open_library(library);
    }
    base::open(state);
    with_library(state, "string", string::open);
    with_library(state, "table", table::open);
    with_library(state, "math", redis::open_random);
    only_clock(state);
    for (name, open) in [
        ("bit", bit::open as fn(State)),
        ("cjson", cjson::open),
        ("cmsgpack", cmsgpack::open),
        ("redis", redis::open),
        ("struct", packing::open),
    ] {
        state.push_table(0, 16);
        open(state);
        state.set_raw_field(GLOBALS, name);
    }
    lock_strings(state);
    for name in [
        "string",
        "table",
        "math",
        "os",
        "coroutine",
        "bit",
        "cjson",
        "cmsgpack",
        "redis",
        "struct",
    ] {
        state.raw_field(GLOBALS, name);
        lock(state);
        state.set_raw_field(GLOBALS, name);
    }
    state.raw_field(GLOBALS, "redis");
    state.set_raw_field(GLOBALS, "server");
    lock_globals(state);
    forget_compiled(state);
    Ok(0)
}

/// The table of compiled scripts is an empty one from now on.
pub(crate) fn forget_compiled(state: State) {
    state.push_light(&COMPILED);
    state.push_table(0, 16);
    state.raw_set(REGISTRY);
}

fn with_library(state: State, name: &str, change: fn(State)) {
    state.raw_field(GLOBALS, name);
    change(state);
    state.pop(1);
}

fn only_clock(state: State) {
    state.raw_field(GLOBALS, "os");
    state.push_table(0, 1);
    state.raw_field(-2, "clock");
    state.set_raw_field(-2, "clock");
    state.set_raw_field(GLOBALS, "os");
    state.pop(1);
}

/// The methods of strings stay those of the library.
fn lock_strings(state: State) {
    state.push_text("");
    if state.push_metatable(-1) {
        state.push_table(0, 0);
        lock(state);
        state.set_raw_field(-2, "__metatable");
        state.pop(1);
    }
    state.pop(1);
}

/// Scripts get a locked table of globals, in which an unknown name is an error.
fn lock_globals(state: State) {
    state.push_copy(GLOBALS);
    state.push_table(0, 1);
    state.push_function(missing, 0);
    state.set_raw_field(-2, "__index");
    state.set_metatable(-2);
    state.push_light(&REAL_GLOBALS);
    state.push_copy(-2);
    state.raw_set(REGISTRY);
    lock(state);
    state.push_copy(-1);
    state.set_raw_field(GLOBALS, "_G");
    state.push_light(&SCRIPT_GLOBALS);
    state.push_copy(-2);
    state.raw_set(REGISTRY);
    state.replace(GLOBALS);
}

fn missing(state: State) -> Results {
    let name = match state.kind(2) {
        STRING => state.bytes(2).unwrap_or_default(),
        _ => state.kind_name(2).as_bytes(),
    };
    let name = name.get(..128).unwrap_or(name);
    let name = std::str::from_utf8(name).unwrap_or("?");
    state.fails(format_args!("Script attempted to access nonexistent global variable '{name}'"))
}

/// Sets the global `name` to the value on top, for scripts.
pub(crate) fn set_global(state: State, name: &str) {
    push_registered(state, &REAL_GLOBALS);
    state.insert(-2);
    state.set_raw_field(-2, name);
    state.pop(1);
}

/// Pushes the table of compiled scripts.
pub(crate) fn push_compiled(state: State) {
    push_registered(state, &COMPILED);
}

/// The thread has the globals of scripts again, whatever the last script has done.
pub(crate) fn restore_globals(state: State) {
    push_globals(state);
    state.replace(GLOBALS);
}
