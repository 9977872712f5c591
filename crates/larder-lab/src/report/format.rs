//! Numbers for people. Nothing here prints "NaN" or "inf": such a value counts as absent.

use std::fmt;

/// Text for a missing number.
pub(super) const ABSENT: &str = "not known";

/// A non-breaking space, between a number and its unit.
const SPACE: char = '\u{a0}';

/// `1234567` as "1,234,567".
pub(super) fn thousands(n: u64) -> String {
    group(&n.to_string())
}

/// Puts a comma before every third digit, counted from the end of the integer part.
fn group(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (whole, fraction) = digits.find('.').map_or((digits, ""), |dot| digits.split_at(dot));
    let mut text = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text.push_str(fraction);
    text
}

/// A number with `decimals` decimals and thousands separators; [`ABSENT`] if it is not finite.
pub(super) fn decimal(value: f64, decimals: usize) -> String {
    if value.is_finite() { group(&format!("{value:.decimals$}")) } else { ABSENT.to_owned() }
}

/// A count of bytes in the largest binary unit that leaves at least 1: "1.23 GiB".
pub(super) fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n}{SPACE}B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    // 1023.995 would be printed as "1024.00".
    while value >= 1023.995 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{}{SPACE}{}", decimal(value, decimals), UNITS[unit])
}

/// A share as "85.21%".
pub(super) fn percent(share: f64) -> String {
    if share.is_finite() { format!("{}%", decimal(share * 100.0, 2)) } else { ABSENT.to_owned() }
}

/// A share as "85%", for captions and tooltips; a nonzero share never prints as 0%.
pub(super) fn percent_round(share: f64) -> String {
    if !share.is_finite() {
        ABSENT.to_owned()
    } else if share > 0.0 && share < 0.01 {
        "<1%".to_owned()
    } else if share < 1.0 && share > 0.99 {
        ">99%".to_owned()
    } else {
        format!("{share_percent:.0}%", share_percent = share * 100.0)
    }
}

/// A write amplification: "1.01".
pub(super) fn factor(value: f64) -> String {
    decimal(value, 2)
}

/// A number with four significant digits, and at least one decimal: "0.004182", "3.472", "1,081.2".
pub(super) fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return decimal(value, 0);
    }
    let digits = value.abs().log10().floor();
    // Between 1 and 8: more decimals than 8 are not readable.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let decimals = (3.0 - digits).clamp(1.0, 8.0) as usize;
    let text = decimal(value, decimals);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `value` on an axis whose ticks are `step` apart, with enough decimals to distinguish them.
pub(super) fn tick(value: f64, step: f64) -> String {
    let decimals = if step.is_finite() && step > 0.0 {
        (0..6).find(|&d| is_whole(step * 10_f64.powi(d))).unwrap_or(6)
    } else {
        0
    };
    decimal(value, usize::try_from(decimals).unwrap_or(0))
}

fn is_whole(value: f64) -> bool {
    (value - value.round()).abs() < 1e-6 * value.abs().max(1.0)
}

/// A length in the drawing: at most one decimal, and 0 if it is not a number.
#[derive(Clone, Copy)]
pub(super) struct Px(pub(super) f64);

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = if self.0.is_finite() { (self.0 * 10.0).round() } else { 0.0 };
        // Adding zero turns a negative zero into a plain one.
        write!(f, "{}", tenths / 10.0 + 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_000), "1,000");
        assert_eq!(thousands(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(decimal(-1234.5, 1), "-1,234.5");
        assert_eq!(decimal(-123.0, 0), "-123");
    }

    #[test]
    fn bytes_take_the_unit_that_fits() {
        assert_eq!(bytes(0), "0\u{a0}B");
        assert_eq!(bytes(1023), "1023\u{a0}B");
        assert_eq!(bytes(1024), "1.00\u{a0}KiB");
        assert_eq!(bytes(15 << 20), "15.0\u{a0}MiB");
        assert_eq!(bytes(930 << 30), "930\u{a0}GiB");
        assert_eq!(bytes((1 << 40) - 1), "1.00\u{a0}TiB");
        assert_eq!(bytes(u64::MAX), "16.0\u{a0}EiB");
    }

    #[test]
    fn what_is_no_number_is_absent() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(decimal(value, 2), ABSENT);
            assert_eq!(percent(value), ABSENT);
            assert_eq!(percent_round(value), ABSENT);
            assert_eq!(factor(value), ABSENT);
            assert_eq!(significant(value), ABSENT);
            assert_eq!(tick(value, value), ABSENT);
            assert_eq!(Px(value).to_string(), "0");
        }
    }

    #[test]
    fn four_digits_count() {
        let cases = [(0.0, "0"), (3.4718, "3.472"), (0.004_182_3, "0.004182"), (50.0, "50")];
        for (value, text) in cases {
            assert_eq!(significant(value), text);
        }
        assert_eq!(significant(12_345.6), "12,345.6");
        assert_eq!(significant(8_000_000.0), "8,000,000");
        assert_eq!(significant(-0.5), "-0.5");
        assert_eq!(significant(99.9), "99.9");
    }

    #[test]
    fn shares() {
        assert_eq!(percent(0.852_13), "85.21%");
        assert_eq!(percent_round(0.0), "0%");
        assert_eq!(percent_round(0.001), "<1%");
        assert_eq!(percent_round(0.999), ">99%");
        assert_eq!(percent_round(1.0), "100%");
    }

    #[test]
    fn ticks_have_the_decimals_of_their_step() {
        assert_eq!(tick(1.0, 0.5), "1.0");
        assert_eq!(tick(1.25, 0.25), "1.25");
        assert_eq!(tick(2_000_000.0, 500_000.0), "2,000,000");
    }

    #[test]
    fn lengths_are_short() {
        assert_eq!(Px(1.0).to_string(), "1");
        assert_eq!(Px(1.25).to_string(), "1.3");
        assert_eq!(Px(-0.01).to_string(), "0");
    }
}
