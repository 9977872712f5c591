//! `struct`: numbers and strings in bytes of a given layout, as Lua's library `struct` 0.2 packs them.

use crate::raw::{Raised, Results, State};

/// Most bytes of an integer.
const INTEGER_BYTES_MAX: usize = 32;
/// Alignment of `!` without a number.
const ALIGN_MAX: usize = 8;

/// Adds its functions to the table on top.
pub(super) fn open(state: State) {
    let table = state.top();
    state.push_function(pack, 0);
    state.set_raw_field(table, "pack");
    state.push_function(unpack, 0);
    state.set_raw_field(table, "unpack");
    state.push_function(size, 0);
    state.set_raw_field(table, "size");
}

/// A format on the way through its options.
struct Format<'a> {
    state: State,
    rest: &'a [u8],
    is_big: bool,
    align: usize,
}

/// An option, its bytes, and the bytes in front of it.
#[derive(Clone, Copy)]
struct Item {
    option: u8,
    size: usize,
    padding: usize,
}

impl<'a> Format<'a> {
    fn new(state: State) -> Self {
        let rest: &'a [u8] = state.check_bytes(1);
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        Self { state, rest: rest.get(..end).unwrap_or_default(), is_big: false, align: 1 }
    }

    /// The next item, which stands at `at`.
    fn next(&mut self, at: usize) -> Result<Option<Item>, Raised> {
        self.state.works(1);
        let Some((option, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        let size = match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size > INTEGER_BYTES_MAX {
                    let most = INTEGER_BYTES_MAX;
                    self.state.fails(format_args!(
                        "integral size {size} is larger than limit of {most}"
                    ))?;
                }
                size
            }
            _ => 0,
        };
        let aligned = size.min(self.align);
        let padding = match (size, option) {
            (0, _) | (_, b'c') => 0,
            _ => aligned.wrapping_sub(at & aligned.wrapping_sub(1)) & aligned.wrapping_sub(1),
        };
        Ok(Some(Item { option: *option, size, padding }))
    }

    fn number(&mut self, default: usize) -> Result<usize, Raised> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let number = std::str::from_utf8(number).ok().and_then(|it| it.parse::<i32>().ok());
        let Some(number) = number.and_then(|it| usize::try_from(it).ok()) else {
            self.state.fail("integral size overflow")?;
            return Ok(default);
        };
        Ok(number)
    }

    /// An option that says how those behind it are packed.
    fn control(&mut self, option: u8) -> Result<(), Raised> {
        match option {
            b' ' => {}
            b'>' => self.is_big = true,
            b'<' => self.is_big = false,
            b'!' => {
                let align = self.number(ALIGN_MAX)?;
                if !align.is_power_of_two() {
                    self.state.fails(format_args!("alignment {align} is not a power of 2"))?;
                }
                self.align = align;
            }
            _ => {
                self.state.bad_argument(1, c"invalid format option")?;
            }
        }
        Ok(())
    }

    /// Puts bytes that are little-endian into the order of the format, and back.
    fn order(&self, bytes: &mut [u8]) {
        if self.is_big {
            bytes.reverse();
        }
    }
}

fn pack(state: State) -> Results {
    let from = state.with(|data| data.scratch.len());
    let mut format = Format::new(state);
    let (mut argument, mut at) = (2, 0);
    while let Some(Item { option, mut size, padding }) = format.next(at)? {
        for _ in 0..padding {
            state.add_scratch(&[&[0]])?;
        }
        at += padding;
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                add_integer(state, &format, argument, size)?;
                argument += 1;
            }
            b'x' => state.add_scratch(&[&[0]])?,
            b'f' => {
                #[allow(
                    clippy::cast_possible_truncation,
                    reason = "that is what the format asks for"
                )]
                let mut bytes = (state.check_number(argument) as f32).to_bits().to_le_bytes();
                format.order(&mut bytes);
                state.add_scratch(&[&bytes])?;
                argument += 1;
            }
            b'd' => {
                let mut bytes = state.check_number(argument).to_bits().to_le_bytes();
                format.order(&mut bytes);
                state.add_scratch(&[&bytes])?;
                argument += 1;
            }
            b'c' | b's' => {
                let string = state.check_bytes(argument);
                if size == 0 {
                    size = string.len();
                }
                let Some(part) = string.get(..size) else {
                    return state.bad_argument(argument + 1, c"string too short");
                };
                state.add_scratch(&[part])?;
                if option == b's' {
                    state.add_scratch(&[&[0]])?;
                    size += 1;
                }
                argument += 1;
            }
            control => format.control(control)?,
        }
        at += size;
    }
    state.push_scratch(from);
    Ok(1)
}

fn add_integer(
    state: State,
    format: &Format<'_>,
    argument: i32,
    size: usize,
) -> Result<(), Raised> {
    let number = state.check_number(argument);
    let value = bits(number);
    let mut bytes = [0; INTEGER_BYTES_MAX];
    if let Some(low) = bytes.get_mut(..8) {
        low.copy_from_slice(&value.to_le_bytes());
    }
    let bytes = bytes.get_mut(..size).unwrap_or_default();
    format.order(bytes);
    state.add_scratch(&[bytes])
}

/// The 64 bits of an integer, which a negative one has in two's complement.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn bits(number: f64) -> u64 {
    if number < 0.0 { (number as i64).cast_unsigned() } else { number as u64 }
}

/// The number that `bytes` are, little-endian.
#[allow(clippy::cast_precision_loss, reason = "Lua's numbers are floats")]
fn number_of(bytes: &[u8], is_signed: bool) -> f64 {
    let low = bytes.iter().take(8).rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    if !is_signed {
        return low as f64;
    }
    let unused = 64 - 8 * u32::try_from(bytes.len().clamp(1, 8)).unwrap_or(8);
    ((low << unused).cast_signed() >> unused) as f64
}

fn unpack(state: State) -> Results {
    let mut format = Format::new(state);
    let data = state.check_bytes(2);
    let begin = usize::try_from(state.integer_or(3, 1)).ok().and_then(|it| it.checked_sub(1));
    let Some(mut at) = begin else {
        return state.bad_argument(3, c"offset must be 1 or greater");
    };
    let mut results = 0;
    while let Some(Item { option, mut size, padding }) = format.next(at)? {
        at = at.saturating_add(padding);
        if !state.has_room(4) {
            return state.fail("stack overflow (too many results)");
        }
        if option == b'c' && size == 0 {
            if results == 0 || state.kind(-1) != crate::raw::NUMBER {
                return state.fail("format 'c0' needs a previous size");
            }
            size = usize::try_from(crate::number::cut(state.number(-1))).unwrap_or(usize::MAX);
            state.pop(1);
            results -= 1;
        }
        let end = at.checked_add(size).filter(|end| *end <= data.len());
        let Some(part) = end.and_then(|end| data.get(at..end)) else {
            return state.bad_argument(2, c"data string too short");
        };
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let mut bytes = [0; INTEGER_BYTES_MAX];
                let bytes = bytes.get_mut(..size).unwrap_or_default();
                bytes.copy_from_slice(part);
                format.order(bytes);
                state.push_number(number_of(bytes, option.is_ascii_lowercase()));
                results += 1;
            }
            b'f' | b'd' => {
                let mut bytes = [0; 8];
                let bytes = bytes.get_mut(..size).unwrap_or_default();
                bytes.copy_from_slice(part);
                format.order(bytes);
                state.push_number(float_of(bytes));
                results += 1;
            }
            b'c' => {
                state.push_bytes(part);
                results += 1;
            }
            b's' => {
                let rest = data.get(at..).unwrap_or_default();
                let Some(end) = rest.iter().position(|byte| *byte == 0) else {
                    return state.fail("unfinished string in data");
                };
                state.push_bytes(rest.get(..end).unwrap_or_default());
                size = end + 1;
                results += 1;
            }
            b'x' => {}
            control => format.control(control)?,
        }
        at += size;
    }
    state.push_integer(i64::try_from(at + 1).unwrap_or(i64::MAX));
    Ok(results + 1)
}

/// The float that 4 or 8 bytes are, little-endian.
fn float_of(bytes: &[u8]) -> f64 {
    let four =
        <[u8; 4]>::try_from(bytes).map(|it| f64::from(f32::from_bits(u32::from_le_bytes(it))));
    let eight = <[u8; 8]>::try_from(bytes).map(|it| f64::from_bits(u64::from_le_bytes(it)));
    four.or(eight).unwrap_or(0.0)
}

fn size(state: State) -> Results {
    let mut format = Format::new(state);
    let mut at = 0_usize;
    while let Some(Item { option, size, padding }) = format.next(at)? {
        at = at.saturating_add(padding);
        match (option, size) {
            (b's', _) => return state.bad_argument(1, c"option 's' has no fixed size"),
            (b'c', 0) => return state.bad_argument(1, c"option 'c0' has no fixed size"),
            (option, _) if !option.is_ascii_alphanumeric() => format.control(option)?,
            _ => {}
        }
        at = at.saturating_add(size);
    }
    state.push_integer(i64::try_from(at).unwrap_or(i64::MAX));
    Ok(1)
}
