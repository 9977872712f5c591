//! Bits of strings: `SETBIT`, `GETBIT`, `BITCOUNT`, `BITPOS`, `BITOP`. The first bit is the highest of the first byte.

use std::ops::Range;

use larder::SetOptions;

use super::amend::amend;
use super::bit_fields::{self, offset};
use super::collection::{Pace, copied, read_string};
use super::command::Does;
use super::context::{Context, no_room};
use super::number;
use super::parse::Arguments;
use super::score_ranges::places;
use super::write::{NO_INTEGER, Outcome, Refusal, SYNTAX};
use crate::collections::ItemKind;

/// Runs a command of bits.
pub(super) async fn run(cx: &mut Context<'_>, does: Does, argv: Arguments<'_>) -> Outcome {
    match does {
        Does::Setbit => set(cx, argv).await,
        Does::Getbit => {
            let at = offset(argv.get(2), 1, cx.value_bytes_max())?;
            read_string(cx, argv.get(1), |value, out| out.integer(i64::from(bit(value, at)))).await
        }
        Does::Bitcount => count(cx, argv).await,
        Does::Bitpos => position(cx, argv).await,
        Does::Bitop => operate(cx, argv).await,
        _ => bit_fields::run(cx, does, argv).await,
    }
}

/// The bit at `at`; 0 behind the end.
fn bit(value: &[u8], at: usize) -> bool {
    value.get(at / 8).is_some_and(|byte| byte & 0x80 >> (at % 8) != 0)
}

/// `SETBIT`.
async fn set(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let at = offset(argv.get(2), 1, cx.value_bytes_max())?;
    let is_on = match argv.get(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err(Refusal::Says("ERR bit is not an integer or out of range")),
    };
    let mut before = false;
    amend(cx, argv.get(1), |current| {
        let current = current.unwrap_or_default();
        before = bit(current, at);
        let mut next = Vec::with_capacity(current.len().max(at / 8 + 1));
        next.extend_from_slice(current);
        next.resize(current.len().max(at / 8 + 1), 0);
        if let Some(byte) = next.get_mut(at / 8) {
            *byte = if is_on { *byte | 0x80 >> (at % 8) } else { *byte & !(0x80 >> (at % 8)) };
        }
        Ok(next)
    })
    .await?;
    cx.out.integer(i64::from(before));
    Ok(())
}

/// A range of a request: its ends, whether they count bits, and whether the last is given.
#[derive(Clone, Copy)]
struct BitRange {
    first: i64,
    last: i64,
    counts_bits: bool,
    has_last: bool,
}

impl BitRange {
    /// The range whose first end is the argument at `at`.
    fn of(argv: Arguments<'_>, at: usize) -> Result<Self, Refusal> {
        let number = |at| match at < argv.len() {
            true => number::integer(argv.get(at)).ok_or(NO_INTEGER).map(Some),
            false => Ok(None),
        };
        let counts_bits = match argv.len().saturating_sub(at) {
            0..=2 => false,
            3 => match &*argv.get(at + 2).to_ascii_uppercase() {
                b"BIT" => true,
                b"BYTE" => false,
                _ => return Err(SYNTAX),
            },
            _ => return Err(SYNTAX),
        };
        let (first, last) = (number(at)?, number(at + 1)?);
        let has_last = last.is_some();
        Ok(Self { first: first.unwrap_or(0), last: last.unwrap_or(-1), counts_bits, has_last })
    }

    /// The bits of a value of this length.
    fn bits(self, bytes: usize) -> Range<usize> {
        if self.counts_bits {
            return self.places(8 * bytes);
        }
        let bytes = self.places(bytes);
        8 * bytes.start..8 * bytes.end
    }

    /// Unlike the ends of a range of a list, both ends are the first place if they lie before it.
    fn places(self, length: usize) -> Range<usize> {
        let least = -i64::try_from(length).unwrap_or(i64::MAX);
        if self.first < 0 && self.last < 0 && self.first > self.last || length == 0 {
            return 0..0;
        }
        places(self.first.max(least), self.last.max(least), length)
    }
}

/// The number of bits that are on.
fn ones(value: &[u8], bits: Range<usize>) -> usize {
    let whole = bits.start.div_ceil(8)..bits.end / 8;
    if whole.start >= whole.end {
        return bits.filter(|at| bit(value, *at)).count();
    }
    let inner = value.get(whole.clone()).unwrap_or_default();
    let inner: usize = inner.iter().map(|byte| byte.count_ones() as usize).sum();
    let edges = (bits.start..8 * whole.start).chain(8 * whole.end..bits.end);
    inner + edges.filter(|at| bit(value, *at)).count()
}

/// `BITCOUNT`.
async fn count(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    if argv.len() == 3 {
        return Err(SYNTAX);
    }
    let range = BitRange::of(argv, 2)?;
    read_string(cx, argv.get(1), |value, out| out.count(ones(value, range.bits(value.len())))).await
}

/// The first bit that is on, or off.
fn first(value: &[u8], bits: Range<usize>, is_on: bool) -> Option<usize> {
    let skipped = if is_on { 0 } else { 0xff };
    let mut at = bits.start;
    while at < bits.end {
        let whole = value.get(at / 8..bits.end / 8).filter(|_| at.is_multiple_of(8));
        let same = whole.map_or(0, |bytes| bytes.iter().take_while(|it| **it == skipped).count());
        if same > 0 {
            at += 8 * same;
        } else if bit(value, at) == is_on {
            return Some(at);
        } else {
            at += 1;
        }
    }
    None
}

/// `BITPOS`.
async fn position(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let is_on = match argv.get(2) {
        b"0" => false,
        b"1" => true,
        text if number::integer(text).is_none() => return Err(NO_INTEGER),
        _ => return Err(Refusal::Says("ERR The bit argument must be 1 or 0.")),
    };
    let range = BitRange::of(argv, 3)?;
    let found = read_found(cx, argv.get(1), |value| {
        let bits = range.bits(value.len());
        match first(value, bits.clone(), is_on) {
            // Behind the end all bits are off, unless the request says where to end.
            None if !is_on && !range.has_last && !bits.is_empty() => Some(bits.end),
            found => found,
        }
    });
    let found = match found.await? {
        Some(found) => found,
        None => (!is_on).then_some(0),
    };
    match found {
        Some(at) => cx.out.count(at),
        None => cx.out.integer(-1),
    }
    Ok(())
}

/// What `look` says of the string of `key`; `None`: there is none.
async fn read_found<T>(
    cx: &mut Context<'_>,
    key: &[u8],
    look: impl FnOnce(&[u8]) -> T,
) -> Result<Option<T>, Refusal> {
    let mut found = None;
    let is_there = cx.cache(key).contains(key).await?;
    read_string(cx, key, |value, _| found = Some(look(value))).await?;
    Ok(found.filter(|_| is_there))
}

/// `BITOP`. The caller holds the turns of the tenants.
async fn operate(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let operation = argv.get(1).to_ascii_uppercase();
    let apply: fn(u8, u8) -> u8 = match &*operation {
        b"AND" => |one, other| one & other,
        b"OR" => |one, other| one | other,
        b"XOR" => |one, other| one ^ other,
        b"NOT" if argv.len() > 4 => {
            let text = "ERR BITOP NOT must be called with a single source key.";
            return Err(Refusal::Says(text));
        }
        b"NOT" => |one, _| !one,
        _ => return Err(SYNTAX),
    };
    let (mut result, mut kept, mut longest): (Option<Vec<u8>>, _, _) = (None, cx.caller.keep(), 0);
    let mut pace = Pace::default();
    for key in argv.from(3) {
        let source = copied(cx, key).await?;
        if source.kind().is_some_and(|kind| kind != ItemKind::String) {
            return Err(super::collection::WRONG_TYPE);
        }
        let source = source.bytes();
        if source.len() > longest && !kept.grow(source.len() - longest) {
            return Err(no_room(cx.caller));
        }
        longest = longest.max(source.len());
        result = Some(match result {
            None if &*operation == b"NOT" => source.iter().map(|byte| !byte).collect(),
            None => source.to_vec(),
            Some(mut before) => {
                before.resize(longest, 0);
                let (both, beyond) = before.split_at_mut(source.len().min(longest));
                both.iter_mut().zip(source).for_each(|(one, other)| *one = apply(*one, *other));
                beyond.iter_mut().for_each(|one| *one = apply(*one, 0));
                before
            }
        });
        cx.caller.work.does_bytes(2 * longest);
        pace.step(cx).await;
    }
    let result = result.unwrap_or_default();
    if result.is_empty() {
        cx.delete(argv.get(2)).await?;
    } else {
        cx.store(argv.get(2), &result, SetOptions::default()).await?;
    }
    cx.out.count(result.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_and_found() {
        let value = [0b0001_0000, 0xff, 0x00, 0b1000_0001];
        for begin in 0..33 {
            for end in begin..33 {
                let slow = (begin..end).filter(|at| bit(&value, *at)).count();
                assert_eq!(ones(&value, begin..end), slow, "{begin} {end}");
                for is_on in [true, false] {
                    let slow = (begin..end).find(|at| bit(&value, *at) == is_on);
                    assert_eq!(first(&value, begin..end, is_on), slow, "{begin} {end} {is_on}");
                }
            }
        }
    }
}
