//! `cmsgpack`: MessagePack, with the rules of lua-cmsgpack 0.4.

use crate::raw::{BOOLEAN, NUMBER, Raised, Results, STRING, State, TABLE};

/// Tables within tables that are packed; deeper ones become nil.
const PACKED_DEPTH_MAX: usize = 16;
/// Tables within tables that are unpacked: each takes a part of the stack.
const UNPACKED_DEPTH_MAX: usize = 500;

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
        "pack" pack;
        "unpack" |state: State| unpack(state, None, 0);
        "unpack_one" unpack_one;
        "unpack_limit" unpack_limit;
    }
    state.push_text("cmsgpack");
    state.set_raw_field(table, "_NAME");
    state.push_text("lua-cmsgpack 0.4.0");
    state.set_raw_field(table, "_VERSION");
}

fn pack(state: State) -> Results {
    let arguments = state.top();
    if arguments == 0 {
        return state.bad_argument(0, c"MessagePack pack needs input.");
    }
    let from = state.with(|data| data.scratch.len());
    for at in 1..=arguments {
        state.push_copy(at);
        pack_value(state, 0)?;
    }
    state.push_scratch(from);
    Ok(1)
}

/// Adds the value on top, and pops it.
fn pack_value(state: State, depth: usize) -> Result<(), Raised> {
    if !state.has_room(8) {
        return state.fail("stack overflow").map(|_| ());
    }
    match state.kind(-1) {
        STRING => {
            let string = state.bytes(-1).unwrap_or_default();
            add_head(state, string.len(), [(31, 0xa0), (0xff, 0xd9), (0xffff, 0xda)], 0xdb)?;
            state.add_scratch(&[string])?;
        }
        BOOLEAN => state.add_scratch(&[&[if state.is_true(-1) { 0xc3 } else { 0xc2 }]])?,
        NUMBER => pack_number(state, state.number(-1))?,
        TABLE if depth < PACKED_DEPTH_MAX => pack_table(state, depth)?,
        _ => state.add_scratch(&[&[0xc0]])?,
    }
    state.pop(1);
    Ok(())
}

/// Adds a head with a length: within the first byte, or in one, two or four bytes behind it, as it fits.
fn add_head(state: State, len: usize, short: [(usize, u8); 3], long: u8) -> Result<(), Raised> {
    let [(within, head), (byte_max, byte_head), (word_max, word_head)] = short;
    let bytes = big_end_first(u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    let [_, _, high, low] = bytes;
    match len {
        len if len <= within => state.add_scratch(&[&[head | low]]),
        len if len <= byte_max => state.add_scratch(&[&[byte_head, low]]),
        len if len <= word_max => state.add_scratch(&[&[word_head, high, low]]),
        _ => state.add_scratch(&[&[long], &bytes]),
    }
}

#[allow(clippy::float_cmp, reason = "it is an integer or not")]
#[allow(clippy::cast_possible_truncation, reason = "it saturates")]
#[allow(clippy::cast_precision_loss, reason = "the comparison shows it")]
fn pack_number(state: State, number: f64) -> Result<(), Raised> {
    let integer = number as i64;
    if integer as f64 != number || integer == i64::MAX {
        // A float of 4 bytes where that is the same number.
        let short = number as f32;
        return if f64::from(short) == number {
            state.add_scratch(&[&[0xca], &big_end_first(short.to_bits().to_le_bytes())])
        } else {
            state.add_scratch(&[&[0xcb], &big_end_first(number.to_bits().to_le_bytes())])
        };
    }
    let bytes = big_end_first(integer.to_le_bytes());
    let [.., c, d, e, f] = bytes;
    match integer {
        -32..=0x7f => state.add_scratch(&[&[f]]),
        0x80..=0xff => state.add_scratch(&[&[0xcc, f]]),
        0x100..=0xffff => state.add_scratch(&[&[0xcd, e, f]]),
        0x1_0000..=0xffff_ffff => state.add_scratch(&[&[0xce, c, d, e, f]]),
        0x1_0000_0000.. => state.add_scratch(&[&[0xcf], &bytes]),
        -0x80..-32 => state.add_scratch(&[&[0xd0, f]]),
        -0x8000..-0x80 => state.add_scratch(&[&[0xd1, e, f]]),
        -0x8000_0000..-0x8000 => state.add_scratch(&[&[0xd2, c, d, e, f]]),
        _ => state.add_scratch(&[&[0xd3], &bytes]),
    }
}

/// Bytes that are little-endian, in the order of MessagePack.
fn big_end_first<const N: usize>(mut bytes: [u8; N]) -> [u8; N] {
    bytes.reverse();
    bytes
}

fn pack_table(state: State, depth: usize) -> Result<(), Raised> {
    let (count, is_array) = count(state);
    if is_array {
        add_head(state, count, [(15, 0x90), (0, 0), (0xffff, 0xdc)], 0xdd)?;
        for index in 1..=count {
            state.raw_get_at(-1, i32::try_from(index).unwrap_or(i32::MAX));
            pack_value(state, depth + 1)?;
        }
        return Ok(());
    }
    add_head(state, count, [(15, 0x80), (0, 0), (0xffff, 0xde)], 0xdf)?;
    state.push_nil();
    while state.next(-2) {
        state.push_copy(-2);
        pack_value(state, depth + 1)?;
        pack_value(state, depth + 1)?;
    }
    Ok(())
}

/// Entries of the table on top, and whether their keys are 1 to that number.
#[allow(clippy::float_cmp, reason = "it is an integer or not")]
fn count(state: State) -> (usize, bool) {
    let (mut count, mut most, mut is_array) = (0_u32, 0.0_f64, true);
    state.push_nil();
    while state.next(-2) {
        state.works(1);
        state.pop(1);
        let key = if state.kind(-1) == NUMBER { state.number(-1) } else { 0.0 };
        is_array &= key >= 1.0 && key.floor() == key;
        most = most.max(key);
        count += 1;
    }
    (count as usize, is_array && most == f64::from(count))
}

fn unpack_one(state: State) -> Results {
    let offset = state.integer_or(2, 0);
    state.set_top(1);
    unpack(state, Some(1), offset)
}

fn unpack_limit(state: State) -> Results {
    let (limit, offset) = (state.check_integer(2), state.integer_or(3, 0));
    state.set_top(1);
    // Without a limit and an offset, it is `unpack`.
    unpack(state, (limit != 0 || offset != 0).then_some(limit), offset)
}

fn unpack(state: State, limit: Option<i64>, offset: i64) -> Results {
    let bytes = state.check_bytes(1);
    state.set_top(1);
    let len = bytes.len();
    let (Ok(begin), Ok(most)) =
        (usize::try_from(offset), usize::try_from(limit.unwrap_or(i64::MAX)))
    else {
        return state.fails(format_args!(
            "Invalid request to unpack with offset of {offset} and limit of {len}."
        ));
    };
    let Some(rest) = bytes.get(begin..) else {
        return state.fails(format_args!("Start offset {begin} greater than input length {len}."));
    };
    let mut reader = Reader { state, rest };
    let mut results = 0;
    while !reader.rest.is_empty() && usize::try_from(results).is_ok_and(|it| it < most) {
        if let Err(why) = reader.push(0) {
            return match why {
                Unreadable::Short => state.fail("Missing bytes in input."),
                Unreadable::Wrong => state.fail("Bad data format in input."),
                Unreadable::Deep => state.fail(
                    "too many return values at once; use unpack_one or unpack_limit instead.",
                ),
            };
        }
        results += 1;
    }
    if limit.is_some() {
        let left = reader.rest.len();
        let next = if left == 0 { -1 } else { i64::try_from(len - left).unwrap_or(i64::MAX) };
        state.push_integer(next);
        state.insert(2);
        results += 1;
    }
    Ok(results)
}

struct Reader<'a> {
    state: State,
    rest: &'a [u8],
}

enum Unreadable {
    /// Bytes are missing.
    Short,
    Wrong,
    /// There is no room for more values.
    Deep,
}

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Unreadable> {
        let taken = self.rest.get(..bytes).ok_or(Unreadable::Short)?;
        self.rest = self.rest.get(bytes..).unwrap_or_default();
        Ok(taken)
    }

    /// A number of this number of bytes.
    fn number(&mut self, bytes: usize) -> Result<u64, Unreadable> {
        let taken = self.take(bytes)?;
        Ok(taken.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)))
    }

    fn length(&mut self, bytes: usize) -> Result<usize, Unreadable> {
        Ok(usize::try_from(self.number(bytes)?).unwrap_or(usize::MAX))
    }

    #[allow(clippy::cast_precision_loss, reason = "Lua's numbers are floats")]
    fn push_unsigned(&mut self, bytes: usize) -> Result<(), Unreadable> {
        let number = self.number(bytes)?;
        self.state.push_number(number as f64);
        Ok(())
    }

    fn push_signed(&mut self, bytes: usize) -> Result<(), Unreadable> {
        let unused = 64 - 8 * u32::try_from(bytes).unwrap_or(8);
        let number = self.number(bytes)?;
        self.state.push_integer((number << unused).cast_signed() >> unused);
        Ok(())
    }

    fn push_string(&mut self, bytes: usize) -> Result<(), Unreadable> {
        let string = self.take(bytes)?;
        self.state.works(bytes / 64);
        self.state.push_bytes(string);
        Ok(())
    }

    fn push(&mut self, depth: usize) -> Result<(), Unreadable> {
        let state = self.state;
        state.works(1);
        if depth > UNPACKED_DEPTH_MAX || !state.has_room(8) {
            return Err(Unreadable::Deep);
        }
        let kind = self.take(1)?.first().copied().unwrap_or(0);
        match kind {
            0..=0x7f => state.push_integer(i64::from(kind)),
            0x80..=0x8f => self.push_map(usize::from(kind & 15), depth)?,
            0x90..=0x9f => self.push_array(usize::from(kind & 15), depth)?,
            0xa0..=0xbf => self.push_string(usize::from(kind & 31))?,
            0xc0 => state.push_nil(),
            0xc2 | 0xc3 => state.push_boolean(kind == 0xc3),
            0xca => {
                let bits = u32::try_from(self.number(4)?).unwrap_or(0);
                state.push_number(f64::from(f32::from_bits(bits)));
            }
            0xcb => {
                let bits = self.number(8)?;
                state.push_number(f64::from_bits(bits));
            }
            0xcc..=0xcf => self.push_unsigned(1 << (kind - 0xcc))?,
            0xd0..=0xd3 => self.push_signed(1 << (kind - 0xd0))?,
            0xd9..=0xdb => {
                let length = self.length(1 << (kind - 0xd9))?;
                self.push_string(length)?;
            }
            0xdc | 0xdd => {
                let count = self.length(2 << (kind - 0xdc))?;
                self.push_array(count, depth)?;
            }
            0xde | 0xdf => {
                let count = self.length(2 << (kind - 0xde))?;
                self.push_map(count, depth)?;
            }
            0xe0..=0xff => state.push_integer(i64::from(kind.cast_signed())),
            _ => return Err(Unreadable::Wrong),
        }
        Ok(())
    }

    fn push_array(&mut self, count: usize, depth: usize) -> Result<(), Unreadable> {
        self.state.push_table(count.min(self.rest.len()), 0);
        for index in 1..=count {
            self.push(depth + 1)?;
            self.state.raw_set_at(-2, i32::try_from(index).map_err(|_| Unreadable::Deep)?);
        }
        Ok(())
    }

    fn push_map(&mut self, count: usize, depth: usize) -> Result<(), Unreadable> {
        self.state.push_table(0, count.min(self.rest.len() / 2));
        for _ in 0..count {
            self.push(depth + 1)?;
            self.push(depth + 1)?;
            let is_key = self.state.kind(-2) != crate::raw::NIL
                && !(self.state.kind(-2) == NUMBER && self.state.number(-2).is_nan());
            if !is_key {
                return Err(Unreadable::Wrong);
            }
            self.state.raw_set(-3);
        }
        Ok(())
    }
}
