//! Numbers in the protocol's format, and sums of decimal fractions.

use rustc_apfloat::Float;
use rustc_apfloat::Round;
use rustc_apfloat::ieee::X87DoubleExtended;

/// A fraction must be shorter, as in Redis: the time to parse it grows faster than its length.
const FRACTION_BYTES_MAX: usize = 5 << 10;
/// Digits behind the point that a sum keeps.
const FRACTION_DIGITS: usize = 17;

/// Parses a 64-bit number in its canonical form: no spaces, no `+`, no leading zeros.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    match text {
        [b'0'] => return Some(0),
        [b'1'..=b'9', ..] | [b'-', b'1'..=b'9', ..] if text.len() <= 20 => {}
        _ => return None,
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses a fraction such as `-3.5e2`, or an infinity; no spaces.
pub(super) fn fraction(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok().filter(|text| !text.is_empty())?;
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let number: f64 = if plain { text.parse().ok()? } else { return None };
    (!number.is_nan()).then_some(number)
}

/// The sum of two fractions as Redis prints it: added as C's `long double` of x86 (80 bits), with [`FRACTION_DIGITS`]
/// digits behind the point, without trailing zeros. `None`: it is infinite, or no number.
pub(super) fn sum(a: &[u8], b: &[u8]) -> Option<String> {
    let sum = (long_double(a)? + long_double(b)?).value;
    sum.is_finite().then(|| text_of(sum))
}

fn long_double(text: &[u8]) -> Option<X87DoubleExtended> {
    if text.len() >= FRACTION_BYTES_MAX {
        return None;
    }
    fraction(text)?;
    let text = std::str::from_utf8(text).ok()?;
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return None;
    }
    // The parser needs a digit before the point.
    let text = format!("{sign}0{digits}");
    X87DoubleExtended::from_str_r(&text, Round::NearestTiesToEven).ok().map(|it| it.value)
}

/// The shortest text that reads as this number, as Redis prints scores: whole numbers without an exponent, and others
/// with one only if they are very large or very small.
pub(super) fn shortest(number: f64) -> String {
    /// Whole numbers below it are printed as such.
    const WHOLE_MAX: f64 = (1_u64 << 62) as f64;
    if number.is_infinite() || number.is_nan() {
        let sign = if number < 0.0 { "-" } else { "" };
        return format!("{sign}{}", if number.is_nan() { "nan" } else { "inf" });
    }
    if number.abs() < WHOLE_MAX && number.fract() == 0.0 {
        return format!("{number:.0}");
    }
    let scientific = format!("{:e}", number.abs());
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits = digits.replace('.', "");
    let length = i32::try_from(digits.len()).unwrap_or(0);
    // The number is its digits times ten to the power of this.
    let power = exponent - length + 1;
    let sign = if number < 0.0 { "-" } else { "" };
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    if power >= 0 && exponent.abs() < length + 7 {
        return format!("{sign}{digits}{}", zeros(power));
    }
    if power < 0 && (power > -7 || exponent.abs() < 4) {
        return match usize::try_from(length + power) {
            Ok(whole) if whole > 0 => {
                let (whole, behind) = digits.split_at(whole);
                format!("{sign}{whole}.{behind}")
            }
            _ => format!("{sign}0.{}{digits}", zeros(-power - length)),
        };
    }
    let (first, behind) = digits.split_at(1);
    let point = if behind.is_empty() { "" } else { "." };
    let mark = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{first}{point}{behind}e{mark}{}", exponent.abs())
}

/// Bits of the mantissa of an x86 `long double`, including its explicit leading 1.
const MANTISSA_BITS: u32 = 64;
const EXPONENT_BIAS: i32 = 16_383;

/// As `printf("%.17Lf")`, without trailing zeros.
fn text_of(number: X87DoubleExtended) -> String {
    let bits = number.to_bits();
    let mantissa = bits & u128::from(u64::MAX);
    let exponent = i32::try_from(bits >> MANTISSA_BITS & 0x7fff).unwrap_or(0);
    // The number is the mantissa times 2 to the power of this.
    let power = exponent.max(1) - EXPONENT_BIAS - 63;
    let (whole, behind) = match u32::try_from(power) {
        Ok(power) => (shifted(mantissa, power), 0),
        Err(_) => split(mantissa, power.unsigned_abs()),
    };
    let behind = format!("{behind:0FRACTION_DIGITS$}");
    let behind = behind.trim_end_matches('0');
    let point = if behind.is_empty() { "" } else { "." };
    let is_nothing = behind.is_empty() && whole == "0";
    let sign = if number.is_negative() && !is_nothing { "-" } else { "" };
    format!("{sign}{whole}{point}{behind}")
}

/// `mantissa` divided by 2 to the power of `power`: the digits before the point, and those behind it, rounded half to
/// even.
fn split(mantissa: u128, power: u32) -> (String, u128) {
    const UNIT: u128 = 10_u128.pow(17);
    let whole = mantissa.checked_shr(power).unwrap_or(0);
    let rest = if power < MANTISSA_BITS { mantissa & ((1 << power) - 1) } else { mantissa };
    // 64 bits and 57 bits fit in 128.
    let scaled = rest * UNIT;
    let digits = scaled.checked_shr(power).unwrap_or(0);
    let lost = if power < u128::BITS { scaled & ((1 << power) - 1) } else { 0 };
    let half = 1_u128.checked_shl(power - 1).unwrap_or(u128::MAX);
    let goes_up = lost > half || lost == half && digits % 2 == 1;
    let digits = digits + u128::from(goes_up);
    ((whole + digits / UNIT).to_string(), digits % UNIT)
}

/// `mantissa` times 2 to the power of `power`, in decimal. It computes in limbs of nine digits, the lowest first.
fn shifted(mantissa: u128, power: u32) -> String {
    const LIMB: u64 = 1_000_000_000;
    const STEP: u32 = 29;
    let mut limbs: Vec<u64> = Vec::new();
    let mut rest = mantissa;
    while rest > 0 {
        limbs.push(u64::try_from(rest % u128::from(LIMB)).unwrap_or(0));
        rest /= u128::from(LIMB);
    }
    let mut left = power;
    while left > 0 {
        let step = left.min(STEP);
        let mut carry = 0;
        for limb in &mut limbs {
            let more = (*limb << step) + carry;
            (*limb, carry) = (more % LIMB, more / LIMB);
        }
        limbs.extend((carry > 0).then_some(carry));
        left -= step;
    }
    let mut text = limbs.pop().unwrap_or(0).to_string();
    limbs.iter().rev().for_each(|limb| text += &format!("{limb:09}"));
    text
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

    /// What C prints of `strtold(a) + strtold(b)` by `%.17Lf`, without trailing zeros.
    #[test]
    fn sums_are_those_of_long_doubles() {
        let printed = [
            ("654.1", "1", "655.09999999999999998"),
            ("655.1", "0", "655.09999999999999998"),
            ("-655.1", "0", "-655.09999999999999998"),
            ("1", "-1.1", "-0.1"),
            ("3.0e3", "5.0e3", "8000"),
            ("17179869184", "1.5", "17179869185.5"),
            ("10.50", "0.1", "10.6"),
            (".5", "+.25", "0.75"),
            ("1.", "0", "1"),
            ("0.1", "0.2", "0.3"),
            ("-0.5", "0.25", "-0.25"),
            ("1e18", "0.5", "1000000000000000000.5"),
            ("1e19", "1", "10000000000000000001"),
            ("1e30", "1", "1000000000000000000024696061952"),
            ("1e40", "1", "9999999999999999999783686092270256259072"),
            ("5e-18", "0", "0"),
            ("5.1e-18", "0", "0.00000000000000001"),
            ("-0.000000000000000001", "0", "0"),
            ("123456789.123456789", "0.000000001", "123456789.12345678999554366"),
            ("9223372036854775807", "0.25", "9223372036854775807"),
            ("0.024390243902439025", "-0.024390243902439025", "0"),
            ("0.99999999999999999999", "0", "1"),
        ];
        for (a, b, text) in printed {
            assert_eq!(sum(a.as_bytes(), b.as_bytes()).as_deref(), Some(text), "{a} {b}");
        }
    }

    #[test]
    fn scores_are_printed_as_elsewhere() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (1e17, "100000000000000000"),
            (1e20, "1e+20"),
            (1.25e30, "1.25e+30"),
            (123456.789, "123456.789"),
            (0.000_001, "0.000001"),
            (1.5e-9, "1.5e-9"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(shortest(number), text);
        }
    }

    #[test]
    fn sums_that_are_no_numbers_are_none() {
        let of = |a: &str, b: &str| sum(a.as_bytes(), b.as_bytes());
        assert_eq!(
            of("1e308", "1e308").map(|text| text.len()),
            Some(309),
            "it has room beyond doubles"
        );
        assert_eq!(of(&"1".repeat(5000), "0"), None, "it is beyond what has room");
        assert_eq!(of(&format!("0.{}", "1".repeat(6000)), "0"), None, "it is too long");
        assert_eq!(of("1e4932", "1e4932"), None, "it is infinite");
        for wrong in
            ["inf", "nan", "infinity", "-inf", "", " 1", "1 ", "1 1", "x", "1e", "--1", "0x10"]
        {
            assert_eq!(of(wrong, "1"), None, "{wrong}");
        }
    }
}
