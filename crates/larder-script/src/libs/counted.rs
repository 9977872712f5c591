//! Functions of Lua whose work is that of the bytes that they read or make.

use crate::raw::{ALL, NIL, Results, STRING, State};

/// Calls the function that it owns, and counts the bytes of its first argument and result.
pub(super) fn counted(state: State) -> Results {
    let length = |at| if state.kind(at) == STRING { state.length(at) } else { 0 };
    let arguments = state.top();
    let before = if arguments > 0 { length(1) } else { 0 };
    state.push_copy(State::owned(1));
    state.insert(1);
    state.call(arguments, ALL);
    let after = if state.top() > 0 && state.kind(-1) != NIL { length(-1) } else { 0 };
    state.works((before + after) / 64);
    Ok(state.top())
}
