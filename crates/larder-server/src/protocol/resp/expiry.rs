//! Expiry times: parses them and formats them. Clients use the wall clock, while values expire by the cache's time
//! ([`larder::Moment`]).

use std::time::Duration;

use larder::Moment;

use super::number;
use super::write::{NO_INTEGER, Refusal};

/// The unit and the origin of a time argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// Milliseconds, or seconds.
    pub(super) is_millis: bool,
    /// Since 1970, or from now on.
    pub(super) is_absolute: bool,
}

pub(super) const EX: Unit = Unit { is_millis: false, is_absolute: false };
pub(super) const PX: Unit = Unit { is_millis: true, is_absolute: false };
pub(super) const EXAT: Unit = Unit { is_millis: false, is_absolute: true };
pub(super) const PXAT: Unit = Unit { is_millis: true, is_absolute: true };

/// The clock is read again when a value is stored, and the remaining lifetime is rounded up to milliseconds.
/// Subtracting this makes the sum the intended millisecond, as long as no more than this time passes in between.
const BETWEEN_TWO_LOOKS: Duration = Duration::from_micros(900);

impl Unit {
    /// The unit of an option.
    pub(super) fn of_option(option: &[u8]) -> Option<Self> {
        match option {
            b"EX" => Some(EX),
            b"PX" => Some(PX),
            b"EXAT" => Some(EXAT),
            b"PXAT" => Some(PXAT),
            _ => None,
        }
    }

    /// The point in time that `text` means, in milliseconds since 1970. It may be in the past.
    pub(super) fn at(self, text: &[u8], wall: Duration, command: &str) -> Result<i64, Refusal> {
        let number = number::integer(text).ok_or(NO_INTEGER)?;
        let millis = if self.is_millis { Some(number) } else { number.checked_mul(1000) };
        let base = if self.is_absolute { 0 } else { millis_of(wall) };
        let at = millis.and_then(|millis| millis.checked_add(base));
        at.ok_or_else(|| invalid(command))
    }

    /// As `at`, but only for a positive number.
    pub(super) fn at_later(
        self,
        text: &[u8],
        wall: Duration,
        command: &str,
    ) -> Result<i64, Refusal> {
        if number::integer(text).ok_or(NO_INTEGER)? <= 0 {
            return Err(invalid(command));
        }
        self.at(text, wall, command)
    }
}

pub(super) fn invalid(command: &str) -> Refusal {
    Refusal::Said(format!("ERR invalid expire time in '{command}' command"))
}

/// The remaining lifetime of a value that expires when the wall clock says `at`; `None`: it has expired.
pub(super) fn until(at: i64, wall: Duration) -> Option<Duration> {
    let at = Duration::from_millis(u64::try_from(at).ok()?);
    let left = at.checked_sub(wall).filter(|left| !left.is_zero())?;
    Some(left.saturating_sub(BETWEEN_TWO_LOOKS).max(Duration::from_nanos(1)))
}

pub(super) fn millis_of(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// As fields of hashes have it.
pub(super) fn millis_since_1970(wall: Duration) -> u64 {
    u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)
}

/// The answer for a value that expires at `expires_at` by the cache's time: -1 if it never does.
pub(super) fn told(unit: Unit, expires_at: Option<Duration>, moment: Moment) -> i64 {
    let Some(end) = expires_at else { return -1 };
    let millis = match unit.is_absolute {
        true => millis_of(moment.wall_time_of(end)),
        false => millis_of(end).saturating_sub(millis_of(moment.now())).max(0),
    };
    if unit.is_millis { millis } else { millis.saturating_add(500) / 1000 }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use larder::{Larder, block_on};
    use larder_device::VirtualClock;

    use super::*;

    #[test]
    fn what_was_said_is_told() {
        let now = Duration::from_nanos(1_000_000_300_000);
        let at = |unit: Unit, text: &str| unit.at(text.as_bytes(), now, "x").unwrap();
        assert_eq!(at(EX, "2"), 1_002_000);
        assert_eq!(at(PX, "1500"), 1_001_500);
        assert_eq!((at(EXAT, "7"), at(PXAT, "7")), (7000, 7));
        assert_eq!(at(EX, "-1"), 999_000);
        let later = now + Duration::from_micros(50);
        let end = later + until(1_001_500, now).unwrap();
        assert_eq!(end.as_nanos().div_ceil(1_000_000), 1_001_500, "the very millisecond");
        assert_eq!(until(1_000_000, now), None);
        assert_eq!(until(-5, now), None);
    }

    /// The clock was an hour ahead when the cache opened, and was set back then.
    #[test]
    fn points_in_time_are_told_by_the_wall_clock() {
        let wall = Duration::from_nanos(1_000_000_300_000);
        let clock = Arc::new(VirtualClock::starting_at(wall + Duration::from_secs(3600)));
        let cache = block_on(Larder::open(Default::default(), None, clock.clone())).unwrap();
        clock.set(wall);
        let moment = cache.moment();
        assert_eq!(moment.wall().as_secs(), 1000);
        let end = Some(moment.now() + until(1_002_000, moment.wall()).unwrap());
        let said = |unit| told(unit, end, moment);
        assert_eq!(
            (said(EX), said(PX), said(EXAT)),
            (2, 1999, 1002),
            "less what may pass before it is stored"
        );
        assert_eq!(told(EX, None, moment), -1);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let now = Duration::from_secs(1000);
        for text in ["9223372036854775807", "-9223372036854775808", "9223372036854775"] {
            assert!(matches!(EX.at(text.as_bytes(), now, "x"), Err(Refusal::Said(_))), "{text}");
        }
        assert!(matches!(PX.at(b"9223372036854775807", now, "x"), Err(Refusal::Said(_))));
        assert!(matches!(EX.at(b"a", now, "x"), Err(Refusal::Says(_))));
        assert!(EX.at_later(b"0", now, "x").is_err() && EX.at_later(b"1", now, "x").is_ok());
    }
}
