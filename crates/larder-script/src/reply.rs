//! Replies of the server, which are in RESP, as values of Lua.

use crate::raw::{Raised, State};

/// Most arrays within arrays of a reply.
const DEPTH_MAX: usize = 64;

/// Pushes the reply that `bytes` are.
pub(crate) fn push(state: State, bytes: &[u8]) -> Result<(), Raised> {
    let mut reader = Reader { state, bytes };
    match reader.push(0) {
        Ok(()) => Ok(()),
        Err(Unreadable) => {
            let _ = state.fail("the reply is not one that a script can read");
            Err(Raised)
        }
    }
}

struct Reader<'a> {
    state: State,
    bytes: &'a [u8],
}

/// The server has written something that is no reply.
struct Unreadable;

impl<'a> Reader<'a> {
    fn line(&mut self) -> Result<&'a [u8], Unreadable> {
        let end = self.bytes.windows(2).position(|two| two == b"\r\n").ok_or(Unreadable)?;
        let line = self.bytes.get(..end).ok_or(Unreadable)?;
        self.bytes = self.bytes.get(end + 2..).unwrap_or_default();
        Ok(line)
    }

    /// A string of `len` bytes and its end.
    fn string(&mut self, len: i64) -> Result<&'a [u8], Unreadable> {
        let len = usize::try_from(len).map_err(|_| Unreadable)?;
        let string = self.bytes.get(..len).ok_or(Unreadable)?;
        self.bytes = self.bytes.get(len + 2..).ok_or(Unreadable)?;
        Ok(string)
    }

    fn push(&mut self, depth: usize) -> Result<(), Unreadable> {
        let state = self.state;
        state.works(1);
        if depth > DEPTH_MAX || !state.has_room(8) {
            return Err(Unreadable);
        }
        let line = self.line()?;
        let (kind, rest) = line.split_first().ok_or(Unreadable)?;
        match kind {
            b'+' => field(state, "ok", rest),
            b'-' => field(state, "err", rest),
            b':' => state.push_number(integer(rest)?),
            b'$' | b'*' if rest == b"-1" => state.push_boolean(false),
            b'$' => {
                let string = self.string(length(rest)?)?;
                state.push_bytes(string);
            }
            b'*' | b'>' => self.push_array(length(rest)?, depth)?,
            b'_' => state.push_nil(),
            b'#' => state.push_boolean(rest == b"t"),
            b',' => {
                state.push_table(0, 1);
                state.push_number(float(rest)?);
                state.set_raw_field(-2, "double");
            }
            b'(' => field(state, "big_number", rest),
            b'=' => {
                let string = self.string(length(rest)?)?;
                verbatim(state, string);
            }
            b'%' => self.push_map(length(rest)?, depth)?,
            b'~' => self.push_set(length(rest)?, depth)?,
            _ => return Err(Unreadable),
        }
        Ok(())
    }

    fn push_array(&mut self, count: i64, depth: usize) -> Result<(), Unreadable> {
        let count = i32::try_from(count).map_err(|_| Unreadable)?;
        self.state.push_table(usize::try_from(count).unwrap_or(0).min(self.bytes.len() / 3), 0);
        for index in 1..=count {
            self.push(depth + 1)?;
            self.state.raw_set_at(-2, index);
        }
        Ok(())
    }

    fn push_map(&mut self, pairs: i64, depth: usize) -> Result<(), Unreadable> {
        self.state.push_table(0, 1);
        self.state.push_table(0, 0);
        for _ in 0..pairs {
            self.push(depth + 1)?;
            self.push(depth + 1)?;
            self.state.raw_set(-3);
        }
        self.state.set_raw_field(-2, "map");
        Ok(())
    }

    fn push_set(&mut self, count: i64, depth: usize) -> Result<(), Unreadable> {
        self.state.push_table(0, 1);
        self.state.push_table(0, 0);
        for _ in 0..count {
            self.push(depth + 1)?;
            self.state.push_boolean(true);
            self.state.raw_set(-3);
        }
        self.state.set_raw_field(-2, "set");
        Ok(())
    }
}

fn field(state: State, name: &str, value: &[u8]) {
    state.push_table(0, 1);
    state.push_bytes(value);
    state.set_raw_field(-2, name);
}

fn verbatim(state: State, string: &[u8]) {
    state.push_table(0, 1);
    state.push_table(0, 2);
    state.push_bytes(string.get(4..).unwrap_or_default());
    state.set_raw_field(-2, "string");
    state.push_bytes(string.get(..3).unwrap_or_default());
    state.set_raw_field(-2, "format");
    state.set_raw_field(-2, "verbatim_string");
}

fn length(digits: &[u8]) -> Result<i64, Unreadable> {
    std::str::from_utf8(digits).ok().and_then(|it| it.parse().ok()).ok_or(Unreadable)
}

#[allow(clippy::cast_precision_loss, reason = "Lua's numbers are floats")]
fn integer(digits: &[u8]) -> Result<f64, Unreadable> {
    length(digits).map(|number| number as f64)
}

fn float(digits: &[u8]) -> Result<f64, Unreadable> {
    std::str::from_utf8(digits).ok().and_then(|it| it.parse().ok()).ok_or(Unreadable)
}
