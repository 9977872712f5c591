//! `find`, `match`, `gmatch`, `gsub` and `rep`, in place of Lua's: in these a hook never fires, however long they take.

use super::counted::counted;
use crate::pattern::{Capture, Malformed, Matcher, Steps};
use crate::raw::{FUNCTION, NUMBER, Raised, Results, STRING, State, TABLE};

/// Steps that are counted together.
const STEPS_A_COUNT: usize = 64;

/// Counts the steps of a matcher for the script.
struct Ticks {
    state: State,
    steps: usize,
}

impl Steps for Ticks {
    #[inline]
    fn works(&mut self, steps: usize) {
        self.steps += steps;
        if self.steps >= STEPS_A_COUNT {
            self.state.works(self.steps);
            self.steps = 0;
        }
    }
}

/// Replaces functions of the library, whose table is on top.
pub(super) fn open(state: State) {
    let table = state.top();
    #[cfg(test)]
    tests::keep_those_of_lua(state, table);
    macro_rules! set {
        ($($name:literal $function:expr;)*) => {
            $(state.push_function($function, 0);
            state.set_raw_field(table, $name);)*
        };
    }
    set! {
        "find" find;
        "match" match_;
        "gmatch" gmatch;
        "gfind" gmatch;
        "gsub" gsub;
        "rep" rep;
    }
    // Their work is that of the bytes that they read or make.
    for name in ["reverse", "upper", "lower", "format", "byte", "char"] {
        state.raw_field(table, name);
        state.push_function(counted, 1);
        state.set_raw_field(table, name);
    }
}

fn matcher<'a>(state: State, text: &'a [u8], pattern: &'a [u8]) -> (Matcher<'a, Ticks>, bool) {
    // As in Lua 5.1, a pattern ends at its first NUL.
    let end = pattern.iter().position(|byte| *byte == 0).unwrap_or(pattern.len());
    let pattern = pattern.get(..end).unwrap_or_default();
    let (pattern, is_anchored) = match pattern.strip_prefix(b"^") {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    (Matcher::new(text, pattern, Ticks { state, steps: 0 }), is_anchored)
}

fn malformed(state: State, Malformed(why): Malformed) -> Raised {
    let _ = state.fail(why);
    Raised
}

fn find(state: State) -> Results {
    find_or_match(state, true)
}

fn match_(state: State) -> Results {
    find_or_match(state, false)
}

fn find_or_match(state: State, finds: bool) -> Results {
    let (text, pattern) = (state.check_bytes(1), state.check_bytes(2));
    let begin = begin_of(state.integer_or(3, 1), text.len());
    if finds && (state.is_true(4) || is_plain(pattern)) {
        return find_plain(state, text, pattern, begin);
    }
    let (mut matcher, is_anchored) = matcher(state, text, pattern);
    for at in begin..=text.len() {
        if let Some(end) = matcher.match_at(at).map_err(|it| malformed(state, it))? {
            if !finds {
                return push_captures(state, &matcher, text, Some((at, end)));
            }
            push_count(state, at + 1);
            push_count(state, end);
            return Ok(push_captures(state, &matcher, text, None)? + 2);
        }
        if is_anchored {
            break;
        }
    }
    state.push_nil();
    Ok(1)
}

/// Where a search begins, from 0, whose argument is `init`.
fn begin_of(init: i64, len: usize) -> usize {
    let len_signed = i64::try_from(len).unwrap_or(i64::MAX);
    let init = if init < 0 { (len_signed + init + 1).max(0) } else { init };
    usize::try_from(init.saturating_sub(1)).unwrap_or(0).min(len)
}

fn is_plain(pattern: &[u8]) -> bool {
    !pattern.iter().take_while(|byte| **byte != 0).any(|byte| b"^$*+?.([%-".contains(byte))
}

/// Finds `part` in parts of the text, so that a long search lets others run.
fn find_plain(state: State, text: &[u8], part: &[u8], begin: usize) -> Results {
    let mut found = part.is_empty().then_some(begin);
    let mut at = begin;
    while found.is_none() && at + part.len() <= text.len() {
        let rest = text.get(at..=text.len() - part.len()).unwrap_or_default();
        let Some(next) = rest.iter().position(|byte| Some(byte) == part.first()) else { break };
        let here = text.get(at + next..).unwrap_or_default();
        // Two bytes a step: what a comparison costs at most.
        state.works((next + part.len()) / 2 + 1);
        if here.starts_with(part) {
            found = Some(at + next);
        }
        at += next + 1;
    }
    match found {
        Some(at) => {
            push_count(state, at + 1);
            push_count(state, at + part.len());
            Ok(2)
        }
        None => {
            state.push_nil();
            Ok(1)
        }
    }
}

fn push_count(state: State, count: usize) {
    state.push_integer(i64::try_from(count).unwrap_or(i64::MAX));
}

/// Pushes the captures; without captures the match, if it is given.
fn push_captures(
    state: State,
    matcher: &Matcher<'_, Ticks>,
    text: &[u8],
    whole: Option<(usize, usize)>,
) -> Results {
    let captures = matcher.captures();
    if !state.has_room(40) {
        return state.fail("stack overflow (too many captures)");
    }
    if captures.is_empty() {
        let Some((begin, end)) = whole else { return Ok(0) };
        state.push_bytes(text.get(begin..end).unwrap_or_default());
        return Ok(1);
    }
    for capture in captures {
        push_capture(state, *capture, text)?;
    }
    Ok(i32::try_from(captures.len()).unwrap_or(0))
}

fn push_capture(state: State, capture: Capture, text: &[u8]) -> Result<(), Raised> {
    match capture {
        Capture::Part(begin, end) => state.push_bytes(text.get(begin..end).unwrap_or_default()),
        Capture::Position(at) => push_count(state, at + 1),
        Capture::Open(_) => {
            state.fail("unfinished capture")?;
        }
    }
    Ok(())
}

fn gmatch(state: State) -> Results {
    state.check_bytes(1);
    state.check_bytes(2);
    state.set_top(2);
    state.push_integer(0);
    state.push_function(next_match, 3);
    Ok(1)
}

/// The function that `gmatch` returns. It owns the text, the pattern, and where it goes on.
fn next_match(state: State) -> Results {
    let text = state.bytes(State::owned(1)).unwrap_or_default();
    let pattern = state.bytes(State::owned(2)).unwrap_or_default();
    let begin = usize::try_from(state.check_integer(State::owned(3))).unwrap_or(0);
    // In Lua 5.1, `gmatch` has no anchor: `^` is a letter.
    let end = pattern.iter().position(|byte| *byte == 0).unwrap_or(pattern.len());
    let pattern = pattern.get(..end).unwrap_or_default();
    let mut matcher = Matcher::new(text, pattern, Ticks { state, steps: 0 });
    for at in begin..=text.len() {
        if let Some(end) = matcher.match_at(at).map_err(|it| malformed(state, it))? {
            push_count(state, if end == at { end + 1 } else { end });
            state.replace(State::owned(3));
            return push_captures(state, &matcher, text, Some((at, end)));
        }
    }
    Ok(0)
}

fn gsub(state: State) -> Results {
    let (text, pattern) = (state.check_bytes(1), state.check_bytes(2));
    let kind = state.kind(3);
    if ![NUMBER, STRING, FUNCTION, TABLE].contains(&kind) {
        return state.bad_argument(3, c"string/function/table expected");
    }
    let default = i64::try_from(text.len()).unwrap_or(i64::MAX).saturating_add(1);
    let most = state.integer_or(4, default);
    if kind == NUMBER {
        // It becomes a string, which then stays where it is.
        state.check_bytes(3);
    }
    let (mut matcher, is_anchored) = matcher(state, text, pattern);
    // The result is collected behind what functions below have collected.
    let from = state.with(|data| data.scratch.len());
    let (mut at, mut count, mut end_of_result) = (0, 0, from);
    while count < most {
        let found = matcher.match_at(at).map_err(|it| malformed(state, it))?;
        if let Some(end) = found {
            count += 1;
            end_of_result = replace(state, &matcher, (text, at, end), end_of_result)?;
        }
        match found {
            Some(end) if end > at => at = end,
            _ if at < text.len() => {
                end_of_result = add(state, text.get(at..=at).unwrap_or_default(), end_of_result)?;
                at += 1;
            }
            _ => break,
        }
        if is_anchored {
            break;
        }
    }
    add(state, text.get(at..).unwrap_or_default(), end_of_result)?;
    state.push_scratch(from);
    state.push_integer(count);
    Ok(2)
}

/// Adds `bytes` to the result that ends at `end`: a function that failed in between may have left bytes behind it.
/// Returns the new end.
fn add(state: State, bytes: &[u8], end: usize) -> Result<usize, Raised> {
    state.works(bytes.len() / 64);
    let room = state.bytes_left();
    let added = state.with(|data| {
        data.scratch.truncate(end);
        let fits = end + bytes.len() <= room;
        if fits {
            data.scratch.extend_from_slice(bytes);
        }
        fits.then_some(end + bytes.len())
    });
    match added {
        Some(end) => Ok(end),
        None => {
            let _ = state.fail_for_memory();
            Err(Raised)
        }
    }
}

/// Adds what the match from `at` to `end` is replaced by.
fn replace(
    state: State,
    matcher: &Matcher<'_, Ticks>,
    (text, at, end): (&[u8], usize, usize),
    result: usize,
) -> Result<usize, Raised> {
    let whole = text.get(at..end).unwrap_or_default();
    match state.kind(3) {
        FUNCTION => {
            state.push_copy(3);
            let arguments = push_captures(state, matcher, text, Some((at, end)))?;
            state.call(arguments, 1);
        }
        TABLE => {
            match matcher.captures().first() {
                Some(capture) => push_capture(state, *capture, text)?,
                None => state.push_bytes(whole),
            }
            state.get(3);
        }
        _ => return replace_by_text(state, matcher, (text, whole), result),
    }
    let result = if !state.is_true(-1) {
        add(state, whole, result)?
    } else if state.kind(-1) == STRING || state.kind(-1) == NUMBER {
        add(state, state.bytes(-1).unwrap_or_default(), result)?
    } else {
        let name = state.kind_name(-1);
        state.fails(format_args!("invalid replacement value (a {name})"))?;
        result
    };
    state.pop(1);
    Ok(result)
}

fn replace_by_text(
    state: State,
    matcher: &Matcher<'_, Ticks>,
    (text, whole): (&[u8], &[u8]),
    mut result: usize,
) -> Result<usize, Raised> {
    let by = state.bytes(3).unwrap_or_default();
    let mut rest = by;
    while let Some(escape) = rest.iter().position(|byte| *byte == b'%') {
        result = add(state, rest.get(..escape).unwrap_or_default(), result)?;
        let next = rest.get(escape + 1).copied().unwrap_or(0);
        let captures = matcher.captures();
        match next {
            b'0' => result = add(state, whole, result)?,
            b'1' if captures.is_empty() => result = add(state, whole, result)?,
            b'1'..=b'9' => {
                let Some(capture) = captures.get(usize::from(next - b'1')) else {
                    state.fail("invalid capture index")?;
                    return Ok(result);
                };
                push_capture(state, *capture, text)?;
                result = add(state, state.bytes(-1).unwrap_or_default(), result)?;
                state.pop(1);
            }
            other => result = add(state, &[other], result)?,
        }
        rest = rest.get(escape + 2..).unwrap_or_default();
    }
    add(state, rest, result)
}

fn rep(state: State) -> Results {
    let text = state.check_bytes(1);
    let times = usize::try_from(state.check_integer(2)).unwrap_or(0);
    let Some(bytes) = text.len().checked_mul(times).filter(|it| *it <= state.bytes_left()) else {
        return state.fail_for_memory();
    };
    let from = state.with(|data| data.scratch.len());
    state.works(bytes / 64);
    state.with(|data| {
        data.scratch.reserve(bytes);
        if let [byte] = text {
            data.scratch.resize(from + bytes, *byte);
        } else if !text.is_empty() {
            (0..times).for_each(|_| data.scratch.extend_from_slice(text));
        }
    });
    state.push_scratch(from);
    Ok(1)
}

#[cfg(test)]
mod tests;
