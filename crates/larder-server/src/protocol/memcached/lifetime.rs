//! Lifetimes of items, as memcached clients write them.

use std::time::Duration;

/// Larger numbers of seconds are points in time.
const RELATIVE_MAX_S: i64 = 60 * 60 * 24 * 30;

/// Parses a lifetime of the text and meta protocols. memcached reads it as a C `long` and keeps its low 32 bits,
/// signed: 4294967295 is -1. `None`: no such number.
pub(super) fn exptime(word: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    let [a, b, c, d, ..] = number.to_le_bytes();
    Some(i32::from_le_bytes([a, b, c, d]).into())
}

/// The lifetime of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifetime {
    /// For ever.
    Endless,
    /// This long from now on.
    For(Duration),
    /// Over already.
    Over,
}

impl Lifetime {
    /// The meaning of `exptime` at `now`, the time since 1970. 0 is for ever, up to 30 days is relative, more is a
    /// point in time, and a negative number is over.
    pub(super) fn new(exptime: i64, now: Duration) -> Self {
        let Ok(seconds) = u64::try_from(exptime) else { return Self::Over };
        if exptime == 0 {
            return Self::Endless;
        }
        if exptime <= RELATIVE_MAX_S {
            return Self::For(Duration::from_secs(seconds));
        }
        match Duration::from_secs(seconds).saturating_sub(now) {
            Duration::ZERO => Self::Over,
            left => Self::For(left),
        }
    }

    /// The lifetime for the cache; one that is over is zero.
    pub(super) fn ttl(self) -> Option<Duration> {
        match self {
            Self::Endless => None,
            Self::For(ttl) => Some(ttl),
            Self::Over => Some(Duration::ZERO),
        }
    }
}

/// The remaining lifetime as clients read it: rounded to the nearest second, and -1 for ever.
pub(super) fn left_s(left: Option<Duration>) -> i64 {
    left.map_or(-1, |left| i64::try_from((left.as_millis() + 500) / 1000).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_relative_for_thirty_days_and_absolute_beyond() {
        let now = Duration::from_secs(1_700_000_000);
        let lifetime = |exptime| Lifetime::new(exptime, now);
        assert_eq!(lifetime(0), Lifetime::Endless);
        assert_eq!(lifetime(-1), Lifetime::Over);
        assert_eq!(lifetime(2_592_000), Lifetime::For(Duration::from_secs(2_592_000)));
        assert_eq!(lifetime(2_592_001), Lifetime::Over, "in 1970");
        assert_eq!(lifetime(1_700_000_005), Lifetime::For(Duration::from_secs(5)));
        assert_eq!(lifetime(1_700_000_000), Lifetime::Over);
        assert_eq!(Lifetime::Over.ttl(), Some(Duration::ZERO));
    }

    /// As memcached 1.6 answers them.
    #[test]
    fn the_text_protocol_keeps_the_low_32_bits_of_a_number() {
        let kept = [
            ("0", 0),
            ("-1", -1),
            ("+5", 5),
            ("00010", 10),
            ("2147483647", 2_147_483_647),
            ("2147483648", -2_147_483_648),
            ("-2147483649", 2_147_483_647),
            ("4294967295", -1),
            ("4294967296", 0),
            ("4294967297", 1),
            ("9223372036854775807", -1),
            ("-9223372036854775808", 0),
        ];
        for (word, number) in kept {
            assert_eq!(exptime(word.as_bytes()), Some(number), "{word}");
        }
        let wrong = ["", "x", "1x", "0x10", "1.5", "--1", "9223372036854775808", "\u{ff11}"];
        wrong.iter().for_each(|word| assert_eq!(exptime(word.as_bytes()), None, "{word}"));
    }

    #[test]
    fn what_is_left_is_rounded_to_seconds() {
        assert_eq!(left_s(None), -1);
        assert_eq!(left_s(Some(Duration::from_millis(29_999))), 30);
        assert_eq!(left_s(Some(Duration::from_millis(30_001))), 30);
        assert_eq!(left_s(Some(Duration::ZERO)), 0);
    }
}
