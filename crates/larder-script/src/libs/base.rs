//! Base functions, in place of those of Lua that would change an interpreter or take long.

use super::locked::{is_locked, push_globals, unlock};
use crate::raw::{
    ALL, Ended, FUNCTION, GLOBALS, NIL, NUMBER, Raised, Results, STRING, State, TABLE,
};

/// Replaces functions of the base library, in the table of globals.
pub(super) fn open(state: State) {
    // `newproxy` is gone because its finalizers run without a hook. Files and bytes of bytecode are none of a script's.
    for name in ["print", "dofile", "loadfile", "newproxy", "require", "module"] {
        state.push_nil();
        state.set_raw_field(GLOBALS, name);
    }
    macro_rules! set {
        ($($name:literal $function:expr;)*) => {
            $(state.push_function($function, 0);
            state.set_raw_field(GLOBALS, $name);)*
        };
    }
    set! {
        "collectgarbage" collectgarbage;
        "getfenv" getfenv;
        "load" load;
        "loadstring" loadstring;
        "next" next;
        "pcall" pcall;
        "rawget" rawget;
        "rawset" rawset;
        "setfenv" setfenv;
        "unpack" unpack;
        "xpcall" xpcall;
    }
    for name in ["pairs", "setmetatable"] {
        state.raw_field(GLOBALS, name);
        if name == "pairs" {
            state.push_function(pairs, 1);
        } else {
            state.push_function(setmetatable, 1);
        }
        state.set_raw_field(GLOBALS, name);
    }
}

/// As Redis': an error of `redis.call`, which is a table, becomes its text.
fn pcall(state: State) -> Results {
    state.check_any(1);
    let arguments = state.top() - 1;
    let collected = state.with(|data| data.scratch.len());
    state.push_boolean(true);
    state.insert(1);
    if state.protected_call(arguments, ALL, 0) == Ended::Well {
        return Ok(state.top());
    }
    state.with(|data| data.scratch.truncate(collected));
    if state.kind(-1) == TABLE {
        state.raw_field(-1, "err");
        if state.kind(-1) == STRING {
            state.replace(-2);
        } else {
            state.pop(1);
        }
    }
    state.push_boolean(false);
    state.insert(-2);
    Ok(2)
}

/// As Lua's, which has no room for its own result behind many of the function.
fn xpcall(state: State) -> Results {
    state.check_any(2);
    state.set_top(2);
    state.push_boolean(true);
    state.insert(1);
    state.insert(2);
    if state.protected_call(0, ALL, 2) == Ended::Well {
        state.remove(2);
        return Ok(state.top());
    }
    state.push_boolean(false);
    state.insert(-2);
    Ok(2)
}

fn refuse(state: State) -> Results {
    state.fail("Attempt to modify a readonly table")
}

fn rawset(state: State) -> Results {
    state.check_kind(1, TABLE);
    state.check_any(2);
    state.check_any(3);
    if is_locked(state, 1) {
        return refuse(state);
    }
    state.set_top(3);
    if state.kind(2) == NIL {
        return state.fail("table index is nil");
    }
    if state.kind(2) == NUMBER && state.number(2).is_nan() {
        return state.fail("table index is NaN");
    }
    state.raw_set(1);
    Ok(1)
}

/// Pushes the table that is the first argument; of a locked one, the real one.
fn push_real(state: State) {
    state.check_kind(1, TABLE);
    state.push_copy(1);
    if is_locked(state, 1) {
        unlock(state);
    }
}

fn rawget(state: State) -> Results {
    state.check_any(2);
    push_real(state);
    state.push_copy(2);
    state.raw_get(-2);
    Ok(1)
}

fn next(state: State) -> Results {
    state.set_top(2);
    push_real(state);
    state.push_copy(2);
    if state.next(-2) {
        return Ok(2);
    }
    state.push_nil();
    Ok(1)
}

/// Owns Lua's own.
fn pairs(state: State) -> Results {
    state.check_kind(1, TABLE);
    if is_locked(state, 1) {
        state.push_function(next, 0);
        state.push_copy(1);
        state.push_nil();
        return Ok(3);
    }
    state.set_top(1);
    state.push_copy(State::owned(1));
    state.insert(1);
    state.call(1, 3);
    Ok(3)
}

/// Owns Lua's own.
fn setmetatable(state: State) -> Results {
    if is_locked(state, 1) {
        return refuse(state);
    }
    let arguments = state.top();
    state.push_copy(State::owned(1));
    state.insert(1);
    state.call(arguments, 1);
    Ok(1)
}

/// As Lua's, whose number of results overflows.
fn unpack(state: State) -> Results {
    state.check_kind(1, TABLE);
    let length = i64::try_from(state.length(1)).unwrap_or(i64::MAX);
    let (first, last) = (state.integer_or(2, 1), state.integer_or(3, length));
    if first > last {
        return Ok(0);
    }
    let count = i32::try_from(last.saturating_sub(first)).ok().and_then(|it| it.checked_add(1));
    let Some(count) = count.filter(|count| state.has_room(*count)) else {
        return state.fail("too many results to unpack");
    };
    for index in first..=last {
        state.push_integer(index);
        state.raw_get(1);
    }
    Ok(count)
}

/// Pushes the function that the argument is, or that is the argument's number of calls up.
fn push_meant(state: State) -> Result<(), Raised> {
    if state.kind(1) == FUNCTION {
        state.push_copy(1);
        return Ok(());
    }
    let level = state.integer_or(1, 1);
    let level = i32::try_from(level).ok().filter(|level| *level >= 0);
    let Some(level) = level else {
        state.bad_argument(1, c"level must be non-negative")?;
        return Ok(());
    };
    if !state.push_caller(level) {
        state.bad_argument(1, c"invalid level")?;
    }
    Ok(())
}

fn getfenv(state: State) -> Results {
    if state.kind(1) == NUMBER && state.number(1) == 0.0 {
        push_globals(state);
        return Ok(1);
    }
    push_meant(state)?;
    if state.is_c_function(-1) {
        push_globals(state);
    } else {
        state.push_environment(-1);
    }
    Ok(1)
}

fn setfenv(state: State) -> Results {
    state.check_kind(2, TABLE);
    if state.kind(1) == NUMBER && state.number(1) == 0.0 {
        return refuse(state);
    }
    push_meant(state)?;
    if state.is_c_function(-1) {
        return state.fail("'setfenv' cannot change environment of given object");
    }
    state.push_copy(2);
    state.set_environment(-2);
    Ok(1)
}

/// Compiles the text at `at`, which stays on the stack.
fn compile(state: State, at: i32, name: &'static std::ffi::CStr) -> Results {
    let text = state.bytes(at).unwrap_or_default();
    if text.first() == Some(&0x1b) {
        state.push_nil();
        state.push_text("attempt to load a binary chunk, which is not allowed");
        return Ok(2);
    }
    match state.load(text, name) {
        Ended::Well => Ok(1),
        Ended::WithoutMemory => state.fail_for_memory(),
        _ => {
            state.push_nil();
            state.insert(-2);
            Ok(2)
        }
    }
}

fn loadstring(state: State) -> Results {
    state.check_bytes(1);
    // Without a name, Lua names a chunk by its text.
    let name = state.name_or(2, c"=(loadstring)");
    if state.kind(2) > NIL {
        return compile(state, 1, name);
    }
    let name = state.name_or(1, c"");
    compile(state, 1, name)
}

fn load(state: State) -> Results {
    state.check_kind(1, FUNCTION);
    let name = state.name_or(2, c"=(load)");
    state.set_top(2);
    let mut end = state.with(|data| data.scratch.len());
    let from = end;
    loop {
        state.works(1);
        state.push_copy(1);
        state.call(0, 1);
        if state.kind(-1) == NIL {
            break;
        }
        if state.kind(-1) != STRING {
            return state.fail("reader function must return a string");
        }
        let piece = state.bytes(-1).unwrap_or_default();
        if piece.is_empty() {
            break;
        }
        if end - from + piece.len() > state.bytes_left() {
            return state.fail_for_memory();
        }
        end = state.with(|data| {
            data.scratch.truncate(end);
            data.scratch.extend_from_slice(piece);
            data.scratch.len()
        });
        state.pop(1);
    }
    state.pop(1);
    state.push_scratch(from);
    compile(state, 3, name)
}

fn collectgarbage(state: State) -> Results {
    let option = if state.kind(1) <= NIL { b"collect" } else { state.check_bytes(1) };
    match option {
        b"count" => {
            let bytes = u32::try_from(state.used_bytes()).unwrap_or(u32::MAX);
            state.push_number(f64::from(bytes) / 1024.0);
        }
        b"collect" => {
            state.collect();
            // About 16 bytes in 10 ns.
            state.works(state.used_bytes() / 16);
            state.push_integer(0);
        }
        b"step" => {
            let kib = i32::try_from(state.integer_or(2, 0).clamp(0, 1 << 10)).unwrap_or(0);
            let is_done = state.step_collection(kib);
            state.works(64 + state.used_bytes() / 64);
            state.push_boolean(is_done);
        }
        // Collection stays on, and as it is, for the scripts to come.
        b"stop" | b"restart" | b"setpause" | b"setstepmul" => state.push_integer(0),
        _ => return state.bad_argument(1, c"invalid option"),
    }
    Ok(1)
}
