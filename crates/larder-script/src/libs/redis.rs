//! `redis`: requests to the server, replies, logging, and the numbers of `math.random`.

use std::fmt::Write as _;

use super::locked::is_locked;
use crate::host::{LogLevel, Signal};
use crate::number;
use crate::random::Random;
use crate::raw::{NUMBER, Raised, Results, STRING, State, TABLE};
use crate::reply;

/// Most lines that are kept of what a script logs, and most bytes of one.
const LOG_LINES_MAX: usize = 32;
const LOG_BYTES_MAX: usize = 1 << 10;
/// The version that we say we are like.
const VERSION: &str = "7.4.0";
const VERSION_NUMBER: i64 = 0x0007_0400;

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
        "call" |state: State| call(state, true);
        "pcall" |state: State| call(state, false);
        "log" log;
        "setresp" setresp;
        "sha1hex" sha1hex;
        "error_reply" error_reply;
        "status_reply" status_reply;
        "set_repl" set_repl;
        "replicate_commands" replicate_commands;
        "breakpoint" breakpoint;
        "debug" |_: State| Ok(0);
    }
    for (name, number) in [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
        ("REDIS_VERSION_NUM", VERSION_NUMBER),
    ] {
        state.push_integer(number);
        state.set_raw_field(table, name);
    }
    state.push_text(VERSION);
    state.set_raw_field(table, "REDIS_VERSION");
}

/// Pushes the table of an error.
pub(crate) fn push_error(state: State, text: &str) {
    state.push_table(0, 1);
    state.push_text(text);
    state.set_raw_field(-2, "err");
}

/// Raises the error whose table is on top, or returns it.
fn raise_or_return(raises: bool) -> Results {
    if raises { Err(Raised) } else { Ok(1) }
}

fn call(state: State, raises: bool) -> Results {
    let arguments = state.top();
    if arguments == 0 {
        push_error(state, "ERR Please specify at least one argument for this redis lib call");
        return raise_or_return(raises);
    }
    let mut bytes = 0_usize;
    for at in 1..=arguments {
        bytes = bytes.saturating_add(match state.kind(at) {
            STRING => state.length(at),
            NUMBER => number::TEXT_BYTES_MAX,
            _ => {
                push_error(
                    state,
                    "ERR Lua redis lib command arguments must be strings or integers",
                );
                return raise_or_return(raises);
            }
        });
    }
    state.works(bytes / 64);
    if !state.take(bytes) {
        return state.fail_for_memory();
    }
    state.with(|data| data.request.clear());
    for at in 1..=arguments {
        if state.kind(at) == NUMBER {
            let text = number::text(state.number(at));
            state.with(|data| data.request.push(text.as_bytes()));
        } else {
            let bytes = state.bytes(at).unwrap_or_default();
            state.with(|data| data.request.push(bytes));
        }
    }
    state.set_top(0);
    state.suspend(Signal::Call);
    state.give(bytes);
    let reply = state.reply();
    state.works(reply.len() / 64);
    if reply.len() > state.bytes_left() {
        return state.fail_for_memory();
    }
    reply::push(state, reply)?;
    if raises && reply.first() == Some(&b'-') { Err(Raised) } else { Ok(1) }
}

fn sha1hex(state: State) -> Results {
    if state.top() != 1 {
        push_error(state, "ERR wrong number of arguments");
        return Err(Raised);
    }
    let bytes = state.bytes(1).unwrap_or_default();
    state.works(bytes.len() / 8);
    state.push_bytes(&crate::name::sha1_hex(bytes));
    Ok(1)
}

fn error_reply(state: State) -> Results {
    if state.top() != 1 || state.kind(1) != STRING {
        push_error(state, "ERR wrong number or type of arguments");
        return Ok(1);
    }
    let text = state.bytes(1).unwrap_or_default();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    state.push_table(0, 1);
    if text.contains(&b' ') {
        state.push_bytes(text);
    } else {
        state.push_text("ERR ");
        state.push_bytes(text);
        state.concat(2);
    }
    state.set_raw_field(-2, "err");
    Ok(1)
}

fn status_reply(state: State) -> Results {
    if state.top() != 1 || state.kind(1) != STRING {
        push_error(state, "ERR wrong number or type of arguments");
        return Ok(1);
    }
    state.push_table(0, 1);
    state.push_copy(1);
    state.set_raw_field(-2, "ok");
    Ok(1)
}

fn setresp(state: State) -> Results {
    if state.top() != 1 {
        push_error(state, "ERR redis.setresp() requires one argument.");
        return Err(Raised);
    }
    let version = state.number(1);
    if version != 2.0 && version != 3.0 {
        push_error(state, "ERR RESP version must be 2 or 3.");
        return Err(Raised);
    }
    state.with(|data| data.replies_in_resp3 = version == 3.0);
    Ok(0)
}

/// There are no replicas.
fn set_repl(state: State) -> Results {
    if state.top() != 1 {
        push_error(state, "ERR redis.set_repl() requires two arguments.");
        return Err(Raised);
    }
    if ![0.0, 1.0, 2.0, 3.0].contains(&state.number(1)) {
        let text =
            "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
        push_error(state, text);
        return Err(Raised);
    }
    Ok(0)
}

fn replicate_commands(state: State) -> Results {
    state.push_boolean(true);
    Ok(1)
}

/// There is no debugger.
fn breakpoint(state: State) -> Results {
    state.push_boolean(false);
    Ok(1)
}

fn log(state: State) -> Results {
    let arguments = state.top();
    if arguments < 2 {
        push_error(state, "ERR redis.log() requires two arguments or more.");
        return Err(Raised);
    }
    if state.kind(1) != NUMBER {
        push_error(state, "ERR First argument must be a number (log level).");
        return Err(Raised);
    }
    let level = match state.check_integer(1) {
        0 => LogLevel::Debug,
        1 => LogLevel::Verbose,
        2 => LogLevel::Notice,
        3 => LogLevel::Warning,
        _ => {
            push_error(state, "ERR Invalid log level.");
            return Err(Raised);
        }
    };
    let begins = state.with(|data| {
        let begins = data.logs.len() < LOG_LINES_MAX;
        if begins {
            data.logs.push((level, Vec::new()));
        }
        begins
    });
    for at in 2..=arguments {
        if !begins || !matches!(state.kind(at), STRING | NUMBER) {
            continue;
        }
        let bytes = state.bytes(at).unwrap_or_default();
        state.with(|data| {
            let Some((_, line)) = data.logs.last_mut() else { return };
            if at > 2 {
                line.push(b' ');
            }
            let room = LOG_BYTES_MAX.saturating_sub(line.len());
            line.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        });
    }
    Ok(0)
}

/// Replaces the functions of `math` that would keep a state between two scripts.
pub(super) fn open_random(state: State) {
    state.push_function(random, 0);
    state.set_raw_field(-2, "random");
    state.push_function(seed, 0);
    state.set_raw_field(-2, "randomseed");
}

fn random(state: State) -> Results {
    let fraction = state.with(|data| data.random.next());
    let (low, high) = match state.top() {
        0 => {
            state.push_number(fraction);
            return Ok(1);
        }
        1 => (1, state.check_integer(1)),
        2 => (state.check_integer(1), state.check_integer(2)),
        _ => return state.fail("wrong number of arguments"),
    };
    if low > high {
        return state.bad_argument(state.top(), c"interval is empty");
    }
    let whole = |number: i64| f64::from(i32::try_from(number).unwrap_or(i32::MAX));
    state.push_number((fraction * (whole(high) - whole(low) + 1.0)).floor() + whole(low));
    Ok(1)
}

fn seed(state: State) -> Results {
    let seed = state.check_integer(1);
    let low = u32::try_from(seed & i64::from(u32::MAX)).unwrap_or(0);
    state.with(|data| data.random = Random::seeded(low.cast_signed()));
    Ok(0)
}

/// Handles an error that nothing in the script has caught: makes a table of it, with the place where it was raised.
pub(crate) fn handle_error(state: State) -> Results {
    state.set_top(1);
    if state.kind(1) != TABLE {
        let text = match state.kind(1) {
            STRING | NUMBER => state.bytes(1).unwrap_or_default(),
            _ => state.kind_name(1).as_bytes(),
        };
        state.push_table(0, 3);
        state.push_text("ERR ");
        state.push_bytes(text);
        state.concat(2);
        state.set_raw_field(2, "err");
        state.replace(1);
    } else if is_locked(state, 1) {
        return Ok(1);
    }
    if let Some(line) = state.line_of(1).or_else(|| state.line_of(2)) {
        state.set_raw_field(1, "source");
        state.push_integer(i64::from(line));
        state.set_raw_field(1, "line");
    }
    Ok(1)
}

/// Writes the error on top as the answer.
pub(crate) fn answer_error(state: State) {
    let is_table = state.kind(-1) == TABLE;
    if !is_table {
        let text = if state.kind(-1) == STRING { state.bytes(-1) } else { None };
        let text = text.unwrap_or(b"execution failure");
        state.with(|data| {
            data.answer.extend_from_slice(b"-ERR Error running script ");
            data.answer.extend_from_slice(&data.name.0);
            data.answer.extend_from_slice(b", ");
            add_line(&mut data.answer, text.get(..100).unwrap_or(text));
        });
        return;
    }
    state.raw_field(-1, "err");
    let text = if matches!(state.kind(-1), STRING | NUMBER) { state.bytes(-1) } else { None };
    let text = text.unwrap_or(b"ERR unknown error");
    state.raw_field(-2, "source");
    state.raw_field(-3, "line");
    let source = if state.kind(-2) == STRING { state.bytes(-2) } else { None };
    let line = (state.kind(-1) == NUMBER).then(|| state.number(-1));
    state.with(|data| {
        data.answer.push(b'-');
        let begin = data.answer.len();
        data.answer.extend_from_slice(text);
        if let (Some(source), Some(line)) = (source, line) {
            data.answer.extend_from_slice(b" script: ");
            data.answer.extend_from_slice(&data.name.0);
            data.answer.extend_from_slice(b", on ");
            data.answer.extend_from_slice(source);
            let mut text = number::Text::default();
            let _ = write!(text, ":{line}.");
            data.answer.extend_from_slice(text.as_bytes());
        }
        flatten(&mut data.answer, begin);
    });
    state.pop(3);
}

/// Adds text, and the end of its line.
pub(crate) fn add_line(answer: &mut Vec<u8>, text: &[u8]) {
    let begin = answer.len();
    answer.extend_from_slice(text);
    flatten(answer, begin);
}

/// What was written from `begin` on is one line, which ends.
fn flatten(answer: &mut Vec<u8>, begin: usize) {
    for byte in answer.iter_mut().skip(begin).filter(|byte| matches!(byte, b'\r' | b'\n')) {
        *byte = b' ';
    }
    answer.extend_from_slice(b"\r\n");
}
