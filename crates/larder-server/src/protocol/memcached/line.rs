//! Lines of the text protocol, and their words.

/// Longest key, also in base64.
pub(super) const KEY_BYTES_MAX: usize = 250;

/// The first line of `input` without its end, and its length with it. `None`: it is incomplete.
pub(super) fn first(input: &[u8]) -> Option<(&[u8], usize)> {
    let end = memchr::memchr(b'\n', input)?;
    let line = input.get(..end)?;
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

/// The words of a line, separated by spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Words<'a>(pub(super) &'a [u8]);

impl<'a> Words<'a> {
    /// The rest of the line, from the next word on.
    pub(super) fn rest(mut self) -> &'a [u8] {
        self.skip_spaces();
        self.0
    }

    /// The last word.
    pub(super) fn last(self) -> &'a [u8] {
        let ends = self.0.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
        let line = self.0.get(..ends).unwrap_or_default();
        let begins = line.iter().rposition(|byte| *byte == b' ').map_or(0, |space| space + 1);
        line.get(begins..).unwrap_or_default()
    }

    fn skip_spaces(&mut self) {
        let spaces = self.0.iter().take_while(|byte| **byte == b' ').count();
        self.0 = self.0.get(spaces..).unwrap_or_default();
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.skip_spaces();
        if self.0.is_empty() {
            return None;
        }
        let end = memchr::memchr(b' ', self.0).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        Some(word)
    }
}

/// Parses a decimal number without a sign.
pub(super) fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 20 {
        return None;
    }
    word.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Parses a decimal number that may be negative.
pub(super) fn signed(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-") {
        Some(digits) => i64::try_from(number(digits)?).ok().map(|number| -number),
        None => i64::try_from(number(word)?).ok(),
    }
}

/// Appends a number in decimal.
pub(super) fn append_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0_u8; 20];
    let mut count = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        count += 1;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(20 - count..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_or_without_a_carriage_return() {
        assert_eq!(first(b"get a\r\nget"), Some((&b"get a"[..], 7)));
        assert_eq!(first(b"get a\n"), Some((&b"get a"[..], 6)));
        assert_eq!(first(b"\n"), Some((&b""[..], 1)));
        assert_eq!(first(b"get a\r"), None);
    }

    #[test]
    fn words_are_what_is_between_spaces() {
        let words = |line: &'static str| Words(line.as_bytes()).collect::<Vec<_>>();
        assert_eq!(words("  get  a b "), [&b"get"[..], b"a", b"b"]);
        assert!(words("   ").is_empty() && words("").is_empty());
        assert_eq!(Words(b"set a 1 noreply  ").last(), b"noreply");
        assert_eq!((Words(b"  ").last(), Words(b"x").last()), (&b""[..], &b"x"[..]));
        assert_eq!(Words(b"  a b ").rest(), b"a b ");
    }

    #[test]
    fn numbers_have_digits_only_and_fit() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for wrong in ["18446744073709551616", "", "-1", "+1", " 1", "1x", "000000000000000000001"] {
            assert_eq!(number(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!((signed(b"-5"), signed(b"7"), signed(b"--5")), (Some(-5), Some(7), None));
    }

    #[test]
    fn appended_numbers_are_what_they_are() {
        for number in [0, 9, 10, 4_294_967_296, u64::MAX] {
            let mut out = b"x".to_vec();
            append_number(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), format!("x{number}"));
        }
    }
}
