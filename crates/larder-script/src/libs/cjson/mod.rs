//! `cjson`: JSON, with the rules of lua-cjson 2.1 as Redis has it.

mod access;
mod decode;
mod encode;

use crate::raw::{Results, State};
use crate::settings::{Invalid, JsonSettings as Settings};

use self::access::settings;

/// Adds its functions to the table on top.
pub(super) fn open(state: State) {
    let table = state.top();
    macro_rules! set {
        ($($name:literal $function:expr;)*) => {
            $(state.push_function($function, 0);
            state.set_raw_field(table, $name);)*
        };
    }
    set! {
        "encode" encode::encode;
        "decode" decode::decode;
        "encode_sparse_array" sparse;
        "encode_max_depth" |state: State| depth(state, |settings| &mut settings.encode_depth_max);
        "decode_max_depth" |state: State| depth(state, |settings| &mut settings.decode_depth_max);
        "encode_number_precision" precision;
        "encode_keep_buffer" keep_buffer;
        "encode_invalid_numbers" encode_invalid;
        "decode_invalid_numbers" decode_invalid;
    }
    state.push_null_pointer();
    state.set_raw_field(table, "null");
    state.push_text("cjson");
    state.set_raw_field(table, "_NAME");
    state.push_text("2.1.0");
    state.set_raw_field(table, "_VERSION");
}

/// The integer argument at `at` from `least` to `most`; raises if it is another.
fn bounded(state: State, at: i32, least: i64, most: i64) -> Result<i64, crate::raw::Raised> {
    let number = state.check_integer(at);
    if !(least..=most).contains(&number) {
        state.bad_argument(at, c"expected integer in its range")?;
    }
    Ok(number)
}

fn boolean(state: State, at: i32) -> Result<bool, crate::raw::Raised> {
    match state.kind(at) {
        crate::raw::BOOLEAN => Ok(state.is_true(at)),
        crate::raw::STRING => Ok(state.bytes(at) == Some(b"on")),
        _ => {
            state.bad_argument(at, c"expected a boolean")?;
            Ok(false)
        }
    }
}

fn sparse(state: State) -> Results {
    if state.top() >= 1 && state.kind(1) > crate::raw::NIL {
        let converts = boolean(state, 1)?;
        settings(state, |it| it.converts_sparse = converts);
    }
    if state.top() >= 2 {
        let ratio = bounded(state, 2, 0, i64::from(i32::MAX))?;
        settings(state, |it| it.sparse_ratio = ratio);
    }
    if state.top() >= 3 {
        let safe = bounded(state, 3, 0, i64::from(i32::MAX))?;
        settings(state, |it| it.sparse_safe = safe);
    }
    let now = settings(state, |it| *it);
    state.push_boolean(now.converts_sparse);
    state.push_integer(now.sparse_ratio);
    state.push_integer(now.sparse_safe);
    Ok(3)
}

fn depth(state: State, place: fn(&mut Settings) -> &mut i64) -> Results {
    if state.top() >= 1 {
        let depth = bounded(state, 1, 1, i64::from(i32::MAX))?;
        settings(state, |it| *place(it) = depth);
    }
    let now = settings(state, |it| *place(it));
    state.push_integer(now);
    Ok(1)
}

fn precision(state: State) -> Results {
    if state.top() >= 1 {
        let digits = bounded(state, 1, 1, 14)?;
        settings(state, |it| it.digits = usize::try_from(digits).unwrap_or(14));
    }
    let now = settings(state, |it| it.digits);
    state.push_integer(i64::try_from(now).unwrap_or(14));
    Ok(1)
}

/// There is no buffer that a script could keep.
fn keep_buffer(state: State) -> Results {
    let keeps = state.top() < 1 || boolean(state, 1)?;
    state.push_boolean(keeps);
    Ok(1)
}

fn encode_invalid(state: State) -> Results {
    if state.top() >= 1 {
        let invalid = match state.kind(1) {
            crate::raw::STRING if state.bytes(1) == Some(b"null") => Invalid::Null,
            _ if boolean(state, 1)? => Invalid::Written,
            _ => Invalid::Refused,
        };
        settings(state, |it| it.encodes_invalid = invalid);
    }
    match settings(state, |it| it.encodes_invalid) {
        Invalid::Null => state.push_text("null"),
        other => state.push_boolean(other == Invalid::Written),
    }
    Ok(1)
}

fn decode_invalid(state: State) -> Results {
    if state.top() >= 1 {
        let allows = boolean(state, 1)?;
        settings(state, |it| it.decodes_invalid = allows);
    }
    let now = settings(state, |it| it.decodes_invalid);
    state.push_boolean(now);
    Ok(1)
}
