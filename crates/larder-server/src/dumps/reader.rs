//! Reads the parts of a dump.

use std::borrow::Cow;

use zerocopy::byteorder::big_endian::{U32 as BigEndianU32, U64 as BigEndianU64};

use super::strings::Strings;
use super::wrong::Wrong;

/// Bytes that are read from their begin on.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// Longest string.
    bytes_max: usize,
}

/// A length, or a string of another form.
enum Length {
    Plain(usize),
    Special(u8),
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], bytes_max: usize) -> Self {
        Self { rest: bytes, bytes_max }
    }

    /// How many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    /// Everything has been read.
    pub(super) fn ends(&self) -> Result<(), Wrong> {
        if self.rest.is_empty() { Ok(()) } else { Err(Wrong::Format) }
    }

    pub(super) fn take(&mut self, bytes: usize) -> Result<&'a [u8], Wrong> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(Wrong::Format)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn array<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], Wrong> {
        self.take(BYTES)?.try_into().map_err(|_| Wrong::Format)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Wrong> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Wrong> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn double(&mut self) -> Result<f64, Wrong> {
        self.array().map(f64::from_le_bytes)
    }

    /// A number as older servers write it: a length and a text, or a mark.
    pub(super) fn text_double(&mut self) -> Result<f64, Wrong> {
        match self.byte()? {
            253 => Ok(f64::NAN),
            254 => Ok(f64::INFINITY),
            255 => Ok(f64::NEG_INFINITY),
            length => double_of(self.take(usize::from(length))?).ok_or(Wrong::Format),
        }
    }

    fn any_length(&mut self) -> Result<Length, Wrong> {
        let first = self.byte()?;
        let low = usize::from(first & 0x3f);
        Ok(match (first >> 6, first) {
            (0, _) => Length::Plain(low),
            (1, _) => Length::Plain(low << 8 | usize::from(self.byte()?)),
            (2, 0x80) => Length::Plain(BigEndianU32::from_bytes(self.array()?).get() as usize),
            (2, 0x81) => {
                let length = BigEndianU64::from_bytes(self.array()?).get();
                Length::Plain(usize::try_from(length).map_err(|_| Wrong::Format)?)
            }
            (3, _) => Length::Special(first & 0x3f),
            _ => return Err(Wrong::Format),
        })
    }

    /// A length or a number.
    pub(super) fn length(&mut self) -> Result<usize, Wrong> {
        match self.any_length()? {
            Length::Plain(length) => Ok(length),
            Length::Special(_) => Err(Wrong::Format),
        }
    }

    /// A string.
    pub(super) fn string(&mut self) -> Result<Cow<'a, [u8]>, Wrong> {
        Ok(match self.any_length()? {
            Length::Plain(length) => self.take(length)?.into(),
            Length::Special(0) => signed(self.take(1)?).to_string().into_bytes().into(),
            Length::Special(1) => signed(self.take(2)?).to_string().into_bytes().into(),
            Length::Special(2) => signed(self.take(4)?).to_string().into_bytes().into(),
            Length::Special(3) => {
                let (packed, length) = (self.length()?, self.length()?);
                if length > self.bytes_max {
                    return Err(Wrong::CollectionTooLong);
                }
                unpacked(self.take(packed)?, length).ok_or(Wrong::Format)?.into()
            }
            Length::Special(_) => return Err(Wrong::Format),
        })
    }

    /// A number of members with `each` strings.
    pub(super) fn strings(&mut self, each: usize, out: &mut Strings) -> Result<(), Wrong> {
        let members = self.length()?;
        for _ in 0..members.checked_mul(each).ok_or(Wrong::Format)? {
            out.add(&self.string()?)?;
        }
        Ok(())
    }

    /// A set of numbers of the same width.
    pub(super) fn intset(&mut self, out: &mut Strings) -> Result<(), Wrong> {
        let bytes = self.string()?;
        let mut reader = Reader::new(&bytes, 0);
        let width = u32::from_le_bytes(reader.array()?) as usize;
        let count = u32::from_le_bytes(reader.array()?);
        if !matches!(width, 2 | 4 | 8) {
            return Err(Wrong::Format);
        }
        for _ in 0..count {
            out.add(signed(reader.take(width)?).to_string().as_bytes())?;
        }
        reader.ends()
    }
}

/// A number of up to 8 bytes, the lowest first.
pub(super) fn signed(bytes: &[u8]) -> i64 {
    let mut all = [0; 8];
    let behind = 8 - bytes.len().min(8);
    all.iter_mut().skip(behind).zip(bytes).for_each(|(place, byte)| *place = *byte);
    i64::from_le_bytes(all) >> (8 * behind)
}

/// A number as a text, which is exact for all that servers write.
pub(super) fn double_of(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Bytes that LZF has packed, which become `length` bytes: a byte below 32 says how many follow as they are; others are
/// a length and a distance back, from where bytes are repeated.
fn unpacked(packed: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(length);
    let mut rest = packed;
    let next = |rest: &mut &[u8]| -> Option<u8> {
        let (first, behind) = rest.split_first()?;
        *rest = behind;
        Some(*first)
    };
    while !rest.is_empty() {
        let first = usize::from(next(&mut rest)?);
        if first < 32 {
            let (plain, behind) = rest.split_at_checked(first + 1)?;
            out.extend_from_slice(plain);
            rest = behind;
        } else {
            let mut repeated = (first >> 5) + 2;
            if first >> 5 == 7 {
                repeated += usize::from(next(&mut rest)?);
            }
            let back = ((first & 0x1f) << 8 | usize::from(next(&mut rest)?)) + 1;
            let from = out.len().checked_sub(back)?;
            // What is repeated may be what has just been written.
            for at in from..from + repeated {
                out.push(*out.get(at)?);
            }
        }
        if out.len() > length {
            return None;
        }
    }
    (out.len() == length).then_some(out)
}
