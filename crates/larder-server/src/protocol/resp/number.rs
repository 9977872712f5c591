//! Numbers as the protocol writes them, and sums of decimal fractions.

/// Digits behind the point that a sum keeps.
const FRACTION_DIGITS: usize = 17;

/// A number of 64 bits in the one way that it can be written: no spaces, no `+`, no zeros in front.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    match text {
        [b'0'] => return Some(0),
        [b'1'..=b'9', ..] | [b'-', b'1'..=b'9', ..] if text.len() <= 20 => {}
        _ => return None,
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A fraction such as `-3.5e2`, or an infinity; no spaces.
pub(super) fn fraction(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok().filter(|text| !text.is_empty())?;
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let number: f64 = if plain { text.parse().ok()? } else { return None };
    (!number.is_nan()).then_some(number)
}

/// The sum of two fractions, as text. Exact to [`FRACTION_DIGITS`] where both can be written with 38 digits, which
/// binary fractions are not: 1 and -1.1 make -0.1. `None`: it is infinite, or no number.
pub(super) fn sum(a: &[u8], b: &[u8]) -> Option<String> {
    if let (Some(a), Some(b)) = (Decimal::of(a), Decimal::of(b))
        && let Some(sum) = a.plus(b)
    {
        return Some(sum.to_text());
    }
    let sum = fraction(a)? + fraction(b)?;
    // A sum of nothing is positive.
    sum.is_finite().then(|| if sum == 0.0 { "0".to_owned() } else { sum.to_string() })
}

/// `digits` times 10 to the power of minus `scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decimal {
    digits: i128,
    scale: u32,
}

impl Decimal {
    fn of(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, behind) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if !behind.bytes().all(|byte| byte.is_ascii_digit()) || mantissa.len() > 38 {
            return None;
        }
        let digits: i128 = [whole, behind].concat().parse().ok()?;
        let scale = i32::try_from(behind.len()).ok()?.checked_sub(exponent)?;
        match u32::try_from(scale) {
            Ok(scale) => (scale <= 38).then_some(Self { digits, scale }),
            Err(_) => {
                let factor = 10_i128.checked_pow(scale.unsigned_abs())?;
                Some(Self { digits: digits.checked_mul(factor)?, scale: 0 })
            }
        }
    }

    fn plus(self, other: Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        let widened = |it: Self| it.digits.checked_mul(10_i128.checked_pow(scale - it.scale)?);
        Some(Self { digits: widened(self)?.checked_add(widened(other)?)?, scale })
    }

    fn to_text(self) -> String {
        let scale = self.scale as usize;
        let digits = format!("{:0>width$}", self.digits.unsigned_abs(), width = scale + 1);
        let (whole, behind) = digits.split_at(digits.len() - scale);
        let behind = behind.get(..FRACTION_DIGITS).unwrap_or(behind).trim_end_matches('0');
        let point = if behind.is_empty() { "" } else { "." };
        let is_nothing = behind.is_empty() && whole == "0";
        let sign = if self.digits < 0 && !is_nothing { "-" } else { "" };
        format!("{sign}{whole}{point}{behind}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_way_to_be_written() {
        assert_eq!(integer(b"0"), Some(0));
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer(b"9223372036854775807"), Some(i64::MAX));
        for wrong in ["", "-", "-0", "+1", "01", " 1", "1 ", "1.0", "9223372036854775808", "x"] {
            assert_eq!(integer(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn sums_are_decimal() {
        let of = |a: &str, b: &str| sum(a.as_bytes(), b.as_bytes());
        assert_eq!(of("1", "-1.1").unwrap(), "-0.1");
        assert_eq!(of("3.0e3", "5.0e3").unwrap(), "8000");
        assert_eq!(of("17179869184", "1.5").unwrap(), "17179869185.5");
        assert_eq!(of("10.50", "0.1").unwrap(), "10.6");
        assert_eq!(of("0.024390243902439025", "-0.024390243902439025").unwrap(), "0");
        assert_eq!(of("-0.5", "0.25").unwrap(), "-0.25");
        assert_eq!(of("1e200", "1e200").unwrap(), 2e200.to_string());
        assert_eq!(of("1e308", "1e308"), None, "it is infinite");
        assert_eq!(of("0", "inf"), None);
        assert_eq!(of("0", "nan"), None);
        for wrong in ["", " 1", "1 ", "1 1", "x", "1e", "--1"] {
            assert_eq!(of(wrong, "1"), None, "{wrong}");
        }
    }
}
