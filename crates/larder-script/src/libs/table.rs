//! `insert`, `remove`, `concat`, `sort` and their like, in place of Lua's: they count their steps, and change no table
//! of the interpreter.

use super::counted::counted;
use super::locked::is_locked;
use crate::raw::{FUNCTION, NIL, NUMBER, Raised, Results, STRING, State, TABLE};

/// Replaces functions of the library, whose table is on top.
pub(super) fn open(state: State) {
    let table = state.top();
    macro_rules! set {
        ($($name:literal $function:expr;)*) => {
            $(state.push_function($function, 0);
            state.set_raw_field(table, $name);)*
        };
    }
    set! {
        "insert" insert;
        "remove" remove;
        "concat" concat;
        "sort" sort;
        "maxn" maxn;
        "foreach" foreach;
        "foreachi" foreachi;
        "getn" getn;
    }
    state.raw_field(table, "setn");
    state.push_function(counted, 1);
    state.set_raw_field(table, "setn");
}

/// Elements of the table that is the first argument.
fn elements(state: State) -> i32 {
    state.check_kind(1, TABLE);
    i32::try_from(state.length(1)).unwrap_or(i32::MAX - 1)
}

fn writable(state: State) -> Result<(), Raised> {
    state.check_kind(1, TABLE);
    if is_locked(state, 1) {
        state.fail("Attempt to modify a readonly table")?;
    }
    Ok(())
}

fn insert(state: State) -> Results {
    writable(state)?;
    let end = elements(state) + 1;
    let at = match state.top() {
        2 => end,
        3 => i32::try_from(state.check_integer(2)).unwrap_or(end),
        _ => return state.fail("wrong number of arguments to 'insert'"),
    };
    let mut place = end.max(at);
    while place > at {
        state.raw_get_at(1, place - 1);
        state.raw_set_at(1, place);
        place -= 1;
        state.works(1);
    }
    state.raw_set_at(1, at);
    Ok(0)
}

fn remove(state: State) -> Results {
    writable(state)?;
    let end = elements(state);
    let at = i32::try_from(state.integer_or(2, i64::from(end))).unwrap_or(0);
    if !(1..=end).contains(&at) {
        return Ok(0);
    }
    state.raw_get_at(1, at);
    for place in at..end {
        state.raw_get_at(1, place + 1);
        state.raw_set_at(1, place);
        state.works(1);
    }
    state.push_nil();
    state.raw_set_at(1, end);
    Ok(1)
}

fn concat(state: State) -> Results {
    let between = if state.kind(2) <= NIL { &b""[..] } else { state.check_bytes(2) };
    let end = i64::from(elements(state));
    let (first, last) = (state.integer_or(3, 1), state.integer_or(4, end));
    let from = state.with(|data| data.scratch.len());
    for index in first..=last {
        let place = i32::try_from(index).unwrap_or(0);
        state.raw_get_at(1, place);
        if !matches!(state.kind(-1), STRING | NUMBER) {
            let kind = state.kind_name(-1);
            return state.fails(format_args!(
                "invalid value ({kind}) at index {index} in table for 'concat'"
            ));
        }
        let bytes = state.bytes(-1).unwrap_or_default();
        let between = if index < last { between } else { b"" };
        state.add_scratch(&[bytes, between])?;
        state.pop(1);
    }
    state.push_scratch(from);
    Ok(1)
}

fn maxn(state: State) -> Results {
    state.check_kind(1, TABLE);
    let mut most = 0.0_f64;
    state.push_nil();
    while state.next(1) {
        state.works(1);
        state.pop(1);
        if state.kind(-1) == NUMBER {
            most = most.max(state.number(-1));
        }
    }
    state.push_number(most);
    Ok(1)
}

fn getn(state: State) -> Results {
    state.push_integer(i64::from(elements(state)));
    Ok(1)
}

fn foreach(state: State) -> Results {
    state.check_kind(1, TABLE);
    state.check_kind(2, FUNCTION);
    state.push_nil();
    while state.next(1) {
        state.works(1);
        state.push_copy(2);
        state.push_copy(-3);
        state.push_copy(-3);
        state.call(2, 1);
        if state.kind(-1) != NIL {
            return Ok(1);
        }
        state.pop(2);
    }
    Ok(0)
}

fn foreachi(state: State) -> Results {
    let end = elements(state);
    state.check_kind(2, FUNCTION);
    for index in 1..=end {
        state.works(1);
        state.push_copy(2);
        state.push_integer(i64::from(index));
        state.raw_get_at(1, index);
        state.call(2, 1);
        if state.kind(-1) != NIL {
            return Ok(1);
        }
        state.pop(1);
    }
    Ok(0)
}

/// Heapsort: its steps are bounded whatever the elements and the order are.
fn sort(state: State) -> Results {
    writable(state)?;
    let end = elements(state);
    if state.kind(2) > NIL {
        state.check_kind(2, FUNCTION);
    }
    state.set_top(2);
    for root in (1..=end / 2).rev() {
        sift(state, root, end)?;
    }
    for last in (2..=end).rev() {
        swap(state, 1, last);
        sift(state, 1, last - 1)?;
    }
    Ok(0)
}

/// Moves the element at `root` down until none below it, up to `end`, is greater.
fn sift(state: State, mut root: i32, end: i32) -> Result<(), Raised> {
    loop {
        let Some(mut child) = root.checked_mul(2).filter(|child| *child <= end) else {
            return Ok(());
        };
        if child < end && is_less(state, child, child + 1)? {
            child += 1;
        }
        if !is_less(state, root, child)? {
            return Ok(());
        }
        swap(state, root, child);
        root = child;
    }
}

fn swap(state: State, one: i32, other: i32) {
    state.raw_get_at(1, one);
    state.raw_get_at(1, other);
    state.raw_set_at(1, one);
    state.raw_set_at(1, other);
}

/// Whether the element at `one` comes before that at `other`.
fn is_less(state: State, one: i32, other: i32) -> Result<bool, Raised> {
    state.works(4);
    let has_order = state.kind(2) == FUNCTION;
    if has_order {
        state.push_copy(2);
    }
    state.raw_get_at(1, one);
    state.raw_get_at(1, other);
    let is = if has_order {
        state.call(2, 1);
        let is = state.is_true(-1);
        state.pop(1);
        is
    } else {
        if state.kind(-1) == STRING {
            state.works(state.length(-1).min(state.length(-2)) / 64);
        }
        let is = state.less(-2, -1);
        state.pop(2);
        is
    };
    Ok(is)
}
