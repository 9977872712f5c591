//! Values of Lua as JSON.

use std::fmt::Write as _;

use super::access::settings;
use crate::number::{self, Text};
use crate::raw::{BOOLEAN, NIL, NUMBER, Raised, Results, STRING, State, TABLE};
use crate::settings::{Invalid, JsonSettings as Settings};

/// Most tables within tables, whatever a script sets: each takes a part of the stack.
const DEPTH_MAX: i64 = 1000;

pub(super) fn encode(state: State) -> Results {
    if state.top() != 1 {
        return state.bad_argument(1, c"expected 1 argument");
    }
    let from = state.with(|data| data.scratch.len());
    let settings = settings(state, |it| *it);
    let done = value(state, &settings, 0);
    if done.is_err() {
        state.with(|data| data.scratch.truncate(from));
        return Err(Raised);
    }
    state.push_scratch(from);
    Ok(1)
}

fn refuse(state: State, at: i32, why: &str) -> Result<(), Raised> {
    let kind = state.kind_name(at);
    state.fails(format_args!("Cannot serialise {kind}: {why}")).map(|_| ())
}

/// Adds the value on top.
fn value(state: State, settings: &Settings, depth: i64) -> Result<(), Raised> {
    match state.kind(-1) {
        STRING => string(state, state.bytes(-1).unwrap_or_default()),
        NUMBER => numeral(state, settings, -1),
        BOOLEAN => state.add_scratch(&[if state.is_true(-1) { b"true" } else { b"false" }]),
        NIL => state.add_scratch(&[b"null"]),
        TABLE => {
            let depth = depth + 1;
            if depth > settings.encode_depth_max.min(DEPTH_MAX) || !state.has_room(8) {
                let text = format_args!("Cannot serialise, excessive nesting ({depth})");
                return state.fails(text).map(|_| ());
            }
            match elements(state, settings)? {
                0 => object(state, settings, depth),
                count => array(state, settings, depth, count),
            }
        }
        _ if state.is_null_pointer(-1) => state.add_scratch(&[b"null"]),
        _ => refuse(state, -1, "type not supported"),
    }
}

/// Elements of the table on top if it is an array, else 0.
fn elements(state: State, settings: &Settings) -> Result<i32, Raised> {
    let (mut most, mut count) = (0.0_f64, 0.0_f64);
    state.push_nil();
    while state.next(-2) {
        state.works(1);
        let key = if state.kind(-2) == NUMBER { state.number(-2) } else { 0.0 };
        if key < 1.0 || key.floor() < key {
            state.pop(2);
            return Ok(0);
        }
        most = most.max(key);
        count += 1.0;
        state.pop(1);
    }
    let whole = |number: i64| f64::from(i32::try_from(number).unwrap_or(i32::MAX));
    let is_sparse = settings.sparse_ratio > 0
        && most > count * whole(settings.sparse_ratio)
        && most > whole(settings.sparse_safe);
    if is_sparse {
        if !settings.converts_sparse {
            refuse(state, -1, "excessively sparse array")?;
        }
        return Ok(0);
    }
    Ok(i32::try_from(number::cut(most)).unwrap_or(i32::MAX))
}

fn array(state: State, settings: &Settings, depth: i64, count: i32) -> Result<(), Raised> {
    state.add_scratch(&[b"["])?;
    for index in 1..=count {
        if index > 1 {
            state.add_scratch(&[b","])?;
        }
        state.raw_get_at(-1, index);
        value(state, settings, depth)?;
        state.pop(1);
    }
    state.add_scratch(&[b"]"])
}

fn object(state: State, settings: &Settings, depth: i64) -> Result<(), Raised> {
    state.add_scratch(&[b"{"])?;
    let mut is_first = true;
    state.push_nil();
    while state.next(-2) {
        if !is_first {
            state.add_scratch(&[b","])?;
        }
        is_first = false;
        match state.kind(-2) {
            NUMBER => {
                state.add_scratch(&[b"\""])?;
                numeral(state, settings, -2)?;
                state.add_scratch(&[b"\":"])?;
            }
            STRING => {
                string(state, state.bytes(-2).unwrap_or_default())?;
                state.add_scratch(&[b":"])?;
            }
            _ => refuse(state, -2, "table key must be a number or string")?,
        }
        value(state, settings, depth)?;
        state.pop(1);
    }
    state.add_scratch(&[b"}"])
}

fn numeral(state: State, settings: &Settings, at: i32) -> Result<(), Raised> {
    let number = state.number(at);
    match settings.encodes_invalid {
        _ if number.is_finite() => {}
        Invalid::Refused => return refuse(state, at, "must not be NaN or Inf"),
        Invalid::Null => return state.add_scratch(&[b"null"]),
        Invalid::Written if number.is_nan() => return state.add_scratch(&[b"nan"]),
        Invalid::Written => {
            return state.add_scratch(&[if number < 0.0 { b"-inf" } else { b"inf" }]);
        }
    }
    state.add_scratch(&[number::general(number, settings.digits).as_bytes()])
}

fn string(state: State, bytes: &[u8]) -> Result<(), Raised> {
    state.add_scratch(&[b"\""])?;
    let mut rest = bytes;
    let is_special = |byte: &u8| matches!(byte, 0..=31 | b'"' | b'\\' | b'/' | 127);
    while let Some(at) = rest.iter().position(is_special) {
        let (plain, special) = rest.split_at(at);
        state.add_scratch(&[plain])?;
        let byte = special.first().copied().unwrap_or(0);
        match byte {
            b'"' => state.add_scratch(&[b"\\\""])?,
            b'\\' => state.add_scratch(&[b"\\\\"])?,
            b'/' => state.add_scratch(&[b"\\/"])?,
            8 => state.add_scratch(&[b"\\b"])?,
            9 => state.add_scratch(&[b"\\t"])?,
            10 => state.add_scratch(&[b"\\n"])?,
            12 => state.add_scratch(&[b"\\f"])?,
            13 => state.add_scratch(&[b"\\r"])?,
            other => {
                let mut text = Text::default();
                let _ = write!(text, "\\u{other:04x}");
                state.add_scratch(&[text.as_bytes()])?;
            }
        }
        rest = special.get(1..).unwrap_or_default();
    }
    state.add_scratch(&[rest])?;
    state.add_scratch(&[b"\""])
}
