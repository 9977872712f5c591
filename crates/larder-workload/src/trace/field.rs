//! The fields of a line: numbers, times, keys.

use xxhash_rust::xxh3::xxh3_64;

use super::fault::{Fault, FaultBox};

/// A decimal number; `None` if the bytes are anything else or the number does not fit.
#[inline]
pub(super) fn parse_u64(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    let mut number = 0_u64;
    let mut rest = bytes;
    // Two groups of eight digits and three more digits always fit.
    while let Some((group, after)) = rest.split_first_chunk()
        && bytes.len() - after.len() <= 16
    {
        number = number * 100_000_000 + parse_eight(*group)?;
        rest = after;
    }
    let safe = bytes.len() <= 19;
    for byte in rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = if safe {
            number * 10 + u64::from(digit)
        } else {
            number.checked_mul(10)?.checked_add(u64::from(digit))?
        };
    }
    Some(number)
}

/// Eight digits at once, in one register: bytes to pairs, pairs to fours, fours to eight.
#[inline]
fn parse_eight(group: [u8; 8]) -> Option<u64> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const PAIRS: u64 = 0x00ff_00ff_00ff_00ff;
    const FOURS: u64 = 0x0000_ffff_0000_ffff;
    // The first digit becomes the lowest byte.
    let digits = u64::from_le_bytes(group) ^ (EACH * u64::from(b'0'));
    // Adding 118 raises the top bit of every byte above 9; bytes above 127 have it already. Only a byte that is found
    // wrong can carry into the next byte.
    let wrong = (digits.wrapping_add(EACH * 118) | digits) & (EACH * 0x80);
    if wrong != 0 {
        return None;
    }
    let pairs = (digits * 10 + (digits >> 8)) & PAIRS;
    let fours = (pairs * 100 + (pairs >> 16)) & FOURS;
    Some((fours * 10_000 + (fours >> 32)) & 0xffff_ffff)
}

/// A number of 32 bits. `name` says what the number is, for the error.
#[inline]
pub(super) fn number_u32(bytes: &[u8], name: &'static str) -> Result<u32, FaultBox> {
    parse_u64(bytes).and_then(|number| u32::try_from(number).ok()).ok_or_else(|| {
        Fault::field(bytes, format!("{name}: a whole number from 0 to {}", u32::MAX))
    })
}

/// A time in seconds. A decimal fraction is cut off.
#[inline]
pub(super) fn seconds(bytes: &[u8]) -> Result<u64, FaultBox> {
    parse_u64(bytes).or_else(|| fraction(bytes)).ok_or_else(|| {
        Fault::field(bytes, "a time in seconds: a number, with or without a decimal fraction")
    })
}

fn fraction(bytes: &[u8]) -> Option<u64> {
    let (whole, fraction) = bytes.split_at(memchr::memchr(b'.', bytes)?);
    let digits = fraction.get(1..)?;
    digits.iter().all(u8::is_ascii_digit).then(|| parse_u64(whole))?
}

/// The identity of a key: a canonical decimal number stands for itself, other text for its hash.
#[inline]
pub(super) fn key(bytes: &[u8]) -> Result<u64, FaultBox> {
    match bytes {
        [] => Err(Fault::field(bytes, "a key")),
        [b'0'] => Ok(0),
        [b'1'..=b'9', ..] => Ok(parse_u64(bytes).unwrap_or_else(|| xxh3_64(bytes))),
        _ => Ok(xxh3_64(bytes)),
    }
}

/// Splits a line at its commas.
pub(super) struct Fields<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { rest: Some(line) }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let line = self.rest?;
        match memchr::memchr(b',', line) {
            Some(at) => {
                self.rest = line.get(at + 1..);
                line.get(..at)
            }
            None => self.rest.take(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_up_to_the_last_one_that_fits() {
        assert_eq!(parse_u64(b"0"), Some(0));
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"000000000000000000000007"), Some(7));
        assert_eq!(parse_u64(b"1234567890123456"), Some(1_234_567_890_123_456));
        assert_eq!(parse_u64(b"99999999"), Some(99_999_999));
        assert_eq!(parse_u64(b"9999999999999999999"), Some(9_999_999_999_999_999_999));
        for length in 1..20 {
            for at in 0..length {
                for bad in [b'/', b':', b'-', 0, 0xb0, 0xff] {
                    let mut digits = vec![b'7'; length];
                    *digits.get_mut(at).unwrap() = bad;
                    assert_eq!(parse_u64(&digits), None, "{}", digits.escape_ascii());
                }
            }
        }
        for bad in ["", "-1", "+1", " 1", "1 ", "0x1", "18446744073709551616", "1e3"] {
            assert_eq!(parse_u64(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(number_u32(b"4294967295", "size").unwrap(), u32::MAX);
        let fault = number_u32(b"4294967296", "size").unwrap_err();
        assert_eq!(fault.found, "\"4294967296\"");
        assert_eq!(fault.expected, "size: a whole number from 0 to 4294967295");
    }

    #[test]
    fn times_lose_their_fraction() {
        assert_eq!(seconds(b"12").unwrap(), 12);
        assert_eq!(seconds(b"12.987").unwrap(), 12);
        for bad in ["", ".5", "1.2.3", "-1", "1e3", "noon"] {
            assert!(seconds(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn keys_are_numbers_or_hashes() {
        assert_eq!(key(b"0").unwrap(), 0);
        assert_eq!(key(b"18446744073709551615").unwrap(), u64::MAX);
        assert_eq!(key(b"18446744073709551616").unwrap(), xxh3_64(b"18446744073709551616"));
        assert_eq!(key(b"007").unwrap(), xxh3_64(b"007"));
        assert_eq!(key(b"nz:u:eeW511").unwrap(), xxh3_64(b"nz:u:eeW511"));
        assert!(key(b"").is_err());
    }

    #[test]
    fn fields_are_split_at_commas() {
        let split = |line: &'static [u8]| Fields::new(line).collect::<Vec<_>>();
        assert_eq!(split(b"a,,b"), [&b"a"[..], b"", b"b"]);
        assert_eq!(split(b""), [b""]);
        assert_eq!(split(b"a,"), [&b"a"[..], b""]);
    }
}
