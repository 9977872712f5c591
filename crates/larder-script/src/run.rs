//! Runs the script of a host: compiles it, gives it its keys and arguments, and writes its answer.

use crate::answer;
use crate::host::{Ending, Strings};
use crate::libs::{self, redis};
use crate::raw::{Ended, FUNCTION, Results, STRING, State};

/// Compiled scripts that a state keeps.
const COMPILED_MAX: usize = 128;

/// Runs the host's script. In a protected call, which ends what is raised here for want of memory.
pub(crate) fn script(state: State) -> Results {
    libs::restore_globals(state);
    let (_, keys, arguments) = state.inputs();
    push_strings(state, keys);
    libs::set_global(state, "KEYS");
    push_strings(state, arguments);
    libs::set_global(state, "ARGV");
    state.set_top(0);
    state.push_function(redis::handle_error, 0);
    match push_script(state) {
        Ended::Well => {}
        Ended::WithoutMemory => return without_memory(state),
        Ended::WithError | Ended::Unparsed => return uncompiled(state),
    }
    if state.with(|data| data.only_compiles) {
        return Ok(0);
    }
    match state.protected_call(0, 1, 1) {
        Ended::Well => answer::write(state)?,
        Ended::WithoutMemory => return without_memory(state),
        Ended::WithError | Ended::Unparsed => {
            redis::answer_error(state);
            state.with(|data| data.ending = Ending::Failed);
        }
    }
    Ok(0)
}

fn push_strings(state: State, strings: &Strings) {
    let count = strings.places.len();
    state.push_table(count, 0);
    for at in 0..count {
        let string = strings.get(at).unwrap_or_default();
        state.works(1 + string.len() / 64);
        state.push_bytes(string);
        state.raw_set_at(-2, i32::try_from(at + 1).unwrap_or(i32::MAX));
    }
}

/// Pushes the script's function, or an error.
fn push_script(state: State) -> Ended {
    libs::push_compiled(state);
    let compiled = state.top();
    let name = state.with(|data| data.name.0);
    state.push_bytes(&name);
    state.raw_get(compiled);
    if state.kind(-1) == FUNCTION {
        // A script may have changed its own environment.
        libs::push_globals(state);
        state.set_environment(-2);
        state.remove(compiled);
        return Ended::Well;
    }
    state.pop(1);
    let (source, ..) = state.inputs();
    let body = match body_of(source) {
        Ok(body) => body,
        Err(why) => {
            state.push_text(why);
            return Ended::Unparsed;
        }
    };
    if body.first() == Some(&0x1b) {
        state.push_text("user_script: bytecode is not allowed");
        return Ended::Unparsed;
    }
    let ended = state.load(body, c"@user_script");
    if ended == Ended::Well {
        keep(state, compiled, &name);
        state.remove(compiled);
    }
    ended
}

/// Keeps the function on top in the table of compiled scripts.
fn keep(state: State, compiled: i32, name: &[u8; 40]) {
    let count = state.with(|data| {
        data.compiled = if data.compiled >= COMPILED_MAX { 1 } else { data.compiled + 1 };
        data.compiled
    });
    if count == 1 {
        libs::forget_compiled(state);
        libs::push_compiled(state);
        state.replace(compiled);
    }
    state.push_bytes(name);
    state.push_copy(-2);
    state.raw_set(compiled);
}

/// The script without its first line if that is a shebang. The line end stays, so that lines keep their numbers.
fn body_of(source: &[u8]) -> Result<&[u8], &'static str> {
    if !source.starts_with(b"#!") {
        return Ok(source);
    }
    let end = source.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or("Invalid script shebang")?;
    Ok(source.get(end..).unwrap_or_default())
}

fn uncompiled(state: State) -> Results {
    let text = if state.kind(-1) == STRING { state.bytes(-1) } else { None };
    let text = text.unwrap_or_default();
    state.with(|data| {
        data.answer.extend_from_slice(b"-ERR Error compiling script (new function): ");
        redis::add_line(&mut data.answer, text);
        data.ending = Ending::Uncompiled;
    });
    Ok(0)
}

fn without_memory(state: State) -> Results {
    state.with(|data| {
        data.answer.clear();
        data.ending = Ending::WithoutMemory;
    });
    Ok(0)
}
