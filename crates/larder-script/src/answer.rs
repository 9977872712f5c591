//! The value that a script returns, as an answer in RESP.

use std::fmt::Write as _;

use crate::libs::redis;
use crate::number::{self, Text};
use crate::raw::{BOOLEAN, NIL, NUMBER, Raised, STRING, State, TABLE};

/// Most tables within tables of an answer.
const DEPTH_MAX: usize = 128;

/// Writes the value on top of the stack as the answer, and pops it.
pub(crate) fn write(state: State) -> Result<(), Raised> {
    let is_resp3 = state.with(|data| data.answers_in_resp3);
    value(state, is_resp3, 0)
}

/// Adds to the answer; raises if it grows above the limit of the script.
fn add(state: State, parts: &[&[u8]]) -> Result<(), Raised> {
    state.add(parts, |data| &mut data.answer)
}

fn head(state: State, kind: &str, count: usize) -> Result<(), Raised> {
    let mut text = Text::default();
    let _ = write!(text, "{kind}{count}\r\n");
    add(state, &[text.as_bytes()])
}

fn bulk(state: State, bytes: &[u8]) -> Result<(), Raised> {
    head(state, "$", bytes.len())?;
    add(state, &[bytes, b"\r\n"])
}

fn null(state: State, is_resp3: bool) -> Result<(), Raised> {
    add(state, &[if is_resp3 { b"_\r\n" } else { b"$-1\r\n" }])
}

fn value(state: State, is_resp3: bool, depth: usize) -> Result<(), Raised> {
    if depth > DEPTH_MAX || !state.has_room(8) {
        add(state, &[b"-ERR reached lua stack limit\r\n"])?;
        state.pop(1);
        return Ok(());
    }
    match state.kind(-1) {
        STRING => bulk(state, state.bytes(-1).unwrap_or_default())?,
        NUMBER => {
            let mut text = Text::default();
            let _ = write!(text, ":{}\r\n", number::cut(state.number(-1)));
            add(state, &[text.as_bytes()])?;
        }
        BOOLEAN => boolean(state, is_resp3)?,
        TABLE => table(state, is_resp3, depth)?,
        _ => null(state, is_resp3)?,
    }
    state.pop(1);
    Ok(())
}

/// Scripts that have asked for version 3 of replies have true booleans.
fn boolean(state: State, is_resp3: bool) -> Result<(), Raised> {
    let is_true = state.is_true(-1);
    let has_booleans = state.with(|data| data.replies_in_resp3);
    match (has_booleans, is_resp3, is_true) {
        (true, true, true) => add(state, &[b"#t\r\n"]),
        (true, true, false) => add(state, &[b"#f\r\n"]),
        (_, _, true) => add(state, &[b":1\r\n"]),
        (true, false, false) => add(state, &[b":0\r\n"]),
        (false, _, false) => null(state, is_resp3),
    }
}

/// A table with one of the fields that mean something else than an array, or an array.
fn table(state: State, is_resp3: bool, depth: usize) -> Result<(), Raised> {
    let top = state.top();
    for name in ["err", "ok", "double", "big_number", "verbatim_string", "map", "set"] {
        state.raw_field(top, name);
        let kind = state.kind(-1);
        let is_written = match (name, kind) {
            ("err", STRING) => {
                state.pop(1);
                redis::answer_error(state);
                true
            }
            ("ok", STRING) => {
                let text = state.bytes(-1).unwrap_or_default();
                let room = text.len() <= state.bytes_left();
                state.with(|data| {
                    data.answer.push(b'+');
                    redis::add_line(&mut data.answer, if room { text } else { b"" });
                });
                true
            }
            ("double", NUMBER) => {
                double(state, is_resp3)?;
                true
            }
            ("big_number", STRING) => {
                big_number(state, is_resp3)?;
                true
            }
            ("verbatim_string", TABLE) => verbatim(state, is_resp3)?,
            ("map", TABLE) => {
                pairs(state, is_resp3, depth, true)?;
                true
            }
            ("set", TABLE) => {
                pairs(state, is_resp3, depth, false)?;
                true
            }
            _ => false,
        };
        state.set_top(top);
        if is_written {
            return Ok(());
        }
    }
    array(state, is_resp3, depth)
}

/// The elements up to the first nil. The head is written when they are counted.
fn array(state: State, is_resp3: bool, depth: usize) -> Result<(), Raised> {
    let mut count = 0_i32;
    loop {
        state.raw_get_at(-1, count + 1);
        let is_end = state.kind(-1) == NIL;
        state.pop(1);
        if is_end || count == i32::MAX - 1 {
            break;
        }
        count += 1;
        state.works(1);
    }
    head(state, "*", usize::try_from(count).unwrap_or(0))?;
    for index in 1..=count {
        state.raw_get_at(-1, index);
        value(state, is_resp3, depth + 1)?;
    }
    Ok(())
}

fn double(state: State, is_resp3: bool) -> Result<(), Raised> {
    let text = number::text(state.number(-1));
    if is_resp3 {
        add(state, &[b",", text.as_bytes(), b"\r\n"])
    } else {
        bulk(state, text.as_bytes())
    }
}

fn big_number(state: State, is_resp3: bool) -> Result<(), Raised> {
    let digits = state.bytes(-1).unwrap_or_default();
    if !is_resp3 {
        return bulk(state, digits);
    }
    add(state, &[b"(", digits])?;
    state.with(|data| {
        let begin = data.answer.len() - digits.len();
        for byte in data.answer.iter_mut().skip(begin) {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
    });
    add(state, &[b"\r\n"])
}

/// `false` if it has not both parts.
fn verbatim(state: State, is_resp3: bool) -> Result<bool, Raised> {
    state.raw_field(-1, "format");
    state.raw_field(-2, "string");
    if state.kind(-1) != STRING || state.kind(-2) != STRING {
        return Ok(false);
    }
    let (string, format) =
        (state.bytes(-1).unwrap_or_default(), state.bytes(-2).unwrap_or_default());
    if !is_resp3 {
        bulk(state, string)?;
        return Ok(true);
    }
    let mut three = [b' '; 3];
    three.iter_mut().zip(format).for_each(|(to, from)| *to = *from);
    head(state, "=", string.len() + 4)?;
    add(state, &[&three, b":", string, b"\r\n"])?;
    Ok(true)
}

/// The pairs of the table on top, or its keys alone.
fn pairs(state: State, is_resp3: bool, depth: usize, has_values: bool) -> Result<(), Raised> {
    let table = state.top();
    let mut count = 0;
    state.push_nil();
    while state.next(table) {
        state.works(1);
        state.pop(1);
        count += 1;
    }
    match (is_resp3, has_values) {
        (true, true) => head(state, "%", count)?,
        (true, false) => head(state, "~", count)?,
        (false, true) => head(state, "*", 2 * count)?,
        (false, false) => head(state, "*", count)?,
    }
    state.push_nil();
    while state.next(table) {
        if has_values {
            state.push_copy(-2);
            value(state, is_resp3, depth + 1)?;
            value(state, is_resp3, depth + 1)?;
        } else {
            state.pop(1);
            state.push_copy(-1);
            value(state, is_resp3, depth + 1)?;
        }
    }
    Ok(())
}
