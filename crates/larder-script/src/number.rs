//! Numbers of a script as arguments of a request: integers in full, others in the shortest form that reads back the
//! same, as Valkey writes them.

use std::fmt::{self, Write as _};

/// Longest text of a number.
pub(crate) const TEXT_BYTES_MAX: usize = 48;

/// The text of a number, without memory of its own.
#[derive(Clone, Copy)]
pub(crate) struct Text {
    bytes: [u8; TEXT_BYTES_MAX],
    len: usize,
}

impl Default for Text {
    fn default() -> Self {
        Self { bytes: [0; TEXT_BYTES_MAX], len: 0 }
    }
}

impl Text {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    fn add(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if let Some(place) = self.bytes.get_mut(self.len..end) {
            place.copy_from_slice(bytes);
            self.len = end;
        }
    }

    fn add_zeros(&mut self, count: usize) {
        (0..count).for_each(|_| self.add(b"0"));
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

/// The text of `number`.
pub(crate) fn text(number: f64) -> Text {
    let mut text = Text::default();
    if number.is_nan() {
        text.add(if number.is_sign_negative() { b"-nan" } else { b"nan" });
        return text;
    }
    if number.is_infinite() {
        text.add(if number < 0.0 { b"-inf" } else { b"inf" });
        return text;
    }
    if let Some(integer) = integer(number) {
        let _ = write!(text, "{integer}");
        return text;
    }
    let mut plain = Text::default();
    let _ = write!(plain, "{:e}", number.abs());
    if number < 0.0 {
        text.add(b"-");
    }
    add_float(&mut text, plain.as_bytes());
    text
}

/// The integer that `number` is, below 2^63.
#[allow(clippy::cast_possible_truncation, reason = "it is in range")]
#[allow(clippy::float_cmp, reason = "it is an integer or not")]
fn integer(number: f64) -> Option<i64> {
    const END: f64 = 9_223_372_036_854_775_808.0;
    ((-END..END).contains(&number) && number.trunc() == number).then_some(number as i64)
}

/// Adds a number that is written as `1.25e-7`.
fn add_float(text: &mut Text, plain: &[u8]) {
    let at = plain.iter().position(|byte| *byte == b'e').unwrap_or(plain.len());
    let (mantissa, exponent) = plain.split_at(at);
    let exponent = exponent.get(1..).and_then(|it| std::str::from_utf8(it).ok());
    let exponent: i32 = exponent.and_then(|it| it.parse().ok()).unwrap_or(0);
    let mut digits = Text::default();
    mantissa.iter().filter(|byte| **byte != b'.').for_each(|byte| digits.add(&[*byte]));
    let digits = digits.as_bytes();
    let count = i32::try_from(digits.len()).unwrap_or(0);
    let last = exponent - (count - 1);
    if last >= 0 && exponent.abs() < count + 7 {
        text.add(digits);
        text.add_zeros(last.unsigned_abs() as usize);
    } else if last < 0 && (last > -7 || exponent.abs() < 4) {
        let whole = count + last;
        if whole <= 0 {
            text.add(b"0.");
            text.add_zeros(whole.unsigned_abs() as usize);
            text.add(digits);
        } else {
            let (whole, rest) = digits.split_at(whole.unsigned_abs() as usize);
            text.add(whole);
            text.add(b".");
            text.add(rest);
        }
    } else {
        let (first, rest) = digits.split_at(1.min(digits.len()));
        text.add(first);
        if !rest.is_empty() {
            text.add(b".");
            text.add(rest);
        }
        let _ = write!(text, "e{exponent:+}");
    }
}

/// `number` with `digits` digits, as `%.{digits}g` of C writes it.
pub(crate) fn general(number: f64, digits: usize) -> Text {
    let digits = digits.clamp(1, 17);
    let mut plain = Text::default();
    let _ = write!(plain, "{:.*e}", digits - 1, number);
    let plain = std::str::from_utf8(plain.as_bytes()).unwrap_or_default();
    let (mantissa, exponent) = plain.split_once('e').unwrap_or((plain, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits_signed = i32::try_from(digits).unwrap_or(17);
    let mut text = Text::default();
    if exponent < -4 || exponent >= digits_signed {
        text.add(without_zeros(mantissa).as_bytes());
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(text, "e{sign}{:02}", exponent.unsigned_abs());
        return text;
    }
    let decimals = usize::try_from(digits_signed - 1 - exponent).unwrap_or(0);
    let mut plain = Text::default();
    let _ = write!(plain, "{number:.decimals$}");
    let plain = std::str::from_utf8(plain.as_bytes()).unwrap_or_default();
    text.add(without_zeros(plain).as_bytes());
    text
}

/// Without zeros at the end of its fraction.
fn without_zeros(text: &str) -> &str {
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.')
}

/// The integer part. As a conversion in C does: what is no integer of 64 bits becomes the least of them.
#[allow(clippy::cast_possible_truncation, reason = "it is in range")]
pub(crate) fn cut(number: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&number) { number as i64 } else { i64::MIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_written_as_valkey_writes_them() {
        for (number, wanted) in [
            (0.0, "0"),
            (-3.0, "-3"),
            (0.1, "0.1"),
            (1e17, "100000000000000000"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (1.5e300, "1.5e+300"),
            (1e300, "1e+300"),
            (1e-7, "1e-7"),
            (1.5e-9, "1.5e-9"),
            (123.456, "123.456"),
            (0.001, "0.001"),
            (-0.25, "-0.25"),
            (f64::INFINITY, "inf"),
        ] {
            let text = text(number);
            assert_eq!(std::str::from_utf8(text.as_bytes()).unwrap(), wanted);
        }
    }

    #[test]
    fn general_is_as_printf_writes() {
        for (number, wanted) in [
            (1.0 / 3.0, "0.33333333333333"),
            (0.0, "0"),
            (100.0, "100"),
            (1e14, "1e+14"),
            (12_345_678_901_234.0, "12345678901234"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-2.5, "-2.5"),
            (3.125, "3.125"),
        ] {
            let text = general(number, 14);
            assert_eq!(std::str::from_utf8(text.as_bytes()).unwrap(), wanted);
        }
    }
}
