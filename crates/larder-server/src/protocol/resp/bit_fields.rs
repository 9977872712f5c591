//! `BITFIELD` and `BITFIELD_RO`: whole numbers of 1 to 64 bits within a string.

use super::amend::amend;
use super::collection::read_string;
use super::command::Does;
use super::context::Context;
use super::number;
use super::parse::Arguments;
use super::write::{NO_INTEGER, Outcome, Refusal, SYNTAX, Writer};

/// The place of a bit in a request. `#N` is the `N`th field of `width` bits. It lies within the longest value.
pub(super) fn offset(text: &[u8], width: usize, bytes_max: usize) -> Result<usize, Refusal> {
    let (digits, unit) = match text {
        [b'#', digits @ ..] => (digits, width),
        _ => (text, 1),
    };
    let at = number::integer(digits).and_then(|at| usize::try_from(at).ok());
    let at = at.and_then(|at| at.checked_mul(unit)).filter(|at| at / 8 < bytes_max);
    at.ok_or(Refusal::Says("ERR bit offset is not an integer or out of range"))
}

/// A field of a string.
#[derive(Clone, Copy, Debug)]
struct Field {
    is_signed: bool,
    bits: usize,
    /// Its first bit.
    at: usize,
}

/// What becomes of a number that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

/// A part of a request.
#[derive(Clone, Copy, Debug)]
enum Step {
    Get(Field),
    Set(Field, i64, Overflow),
    Add(Field, i64, Overflow),
}

impl Field {
    fn of(kind: &[u8], place: &[u8], bytes_max: usize) -> Result<Self, Refusal> {
        let invalid = Refusal::Says(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        );
        let (is_signed, digits) = match kind {
            [b'i', digits @ ..] => (true, digits),
            [b'u', digits @ ..] => (false, digits),
            _ => return Err(invalid),
        };
        let most = if is_signed { 64 } else { 63 };
        let bits = number::integer(digits).filter(|bits| (1..=most).contains(bits));
        let bits = bits.and_then(|bits| usize::try_from(bits).ok()).ok_or(invalid)?;
        let at = offset(place, bits, bytes_max)?;
        if (at + bits).div_ceil(8) > bytes_max {
            return Err(Refusal::Says("ERR bit offset is not an integer or out of range"));
        }
        Ok(Self { is_signed, bits, at })
    }

    /// The bytes that have it, and how far it is from the end of the last of them.
    fn window(self) -> (std::ops::Range<usize>, usize) {
        let end = (self.at + self.bits).div_ceil(8);
        (self.at / 8..end, 8 * end - self.at - self.bits)
    }

    fn mask(self) -> u128 {
        (1 << self.bits) - 1
    }

    /// The number; what lies behind the end of the string is 0.
    fn get(self, value: &[u8]) -> i128 {
        let (window, shift) = self.window();
        let bytes = window.map(|at| value.get(at).copied().unwrap_or(0));
        let wide = bytes.fold(0_u128, |wide, byte| wide << 8 | u128::from(byte));
        self.signed(wide >> shift & self.mask())
    }

    /// The number that these bits are.
    fn signed(self, bits: u128) -> i128 {
        let number = i128::try_from(bits).unwrap_or(0);
        let is_negative = self.is_signed && bits >> (self.bits - 1) & 1 == 1;
        if is_negative { number - (1 << self.bits) } else { number }
    }

    /// Puts the lowest bits of a number into the string, which is long enough.
    fn put(self, value: &mut [u8], number: i128) {
        let (window, shift) = self.window();
        let bits = number.rem_euclid(1 << self.bits).unsigned_abs() << shift;
        let mask = self.mask() << shift;
        let last = window.len().saturating_sub(1);
        for (index, at) in window.enumerate() {
            let low = 8 * (last - index);
            let part = |wide: u128| u8::try_from(wide >> low & 0xff).unwrap_or(0);
            if let Some(byte) = value.get_mut(at) {
                *byte = *byte & !part(mask) | part(bits);
            }
        }
    }

    /// The number as the field has it; `None`: it does not fit, and must not be changed.
    fn fitted(self, number: i128, overflow: Overflow) -> Option<i128> {
        let (least, most) = match self.is_signed {
            true => (-(1_i128 << (self.bits - 1)), (1_i128 << (self.bits - 1)) - 1),
            false => (0, (1_i128 << self.bits) - 1),
        };
        match overflow {
            _ if (least..=most).contains(&number) => Some(number),
            Overflow::Wrap => Some(self.signed(number.rem_euclid(1 << self.bits).unsigned_abs())),
            Overflow::Saturate => Some(number.clamp(least, most)),
            Overflow::Fail => None,
        }
    }
}

impl Step {
    fn field(self) -> Field {
        match self {
            Self::Get(field) | Self::Set(field, ..) | Self::Add(field, ..) => field,
        }
    }

    fn changes(self) -> bool {
        !matches!(self, Self::Get(_))
    }

    /// Does it. Returns what is answered.
    fn run(self, value: &mut [u8]) -> Option<i128> {
        let old = self.field().get(value);
        match self {
            Self::Get(_) => Some(old),
            Self::Set(field, number, overflow) => {
                // A negative number is a large one for a field without a sign.
                let number = match field.is_signed {
                    true => i128::from(number),
                    false => i128::from(number.cast_unsigned()),
                };
                field.put(value, field.fitted(number, overflow)?);
                Some(old)
            }
            Self::Add(field, delta, overflow) => {
                let next = field.fitted(old + i128::from(delta), overflow)?;
                field.put(value, next);
                Some(next)
            }
        }
    }
}

fn steps(cx: &Context<'_>, does: Does, argv: Arguments<'_>) -> Result<Vec<Step>, Refusal> {
    let (mut steps, mut overflow, mut at) = (Vec::new(), Overflow::Wrap, 2);
    while at < argv.len() {
        let left = argv.len() - at - 1;
        let word = argv.get(at).to_ascii_uppercase();
        if &*word == b"OVERFLOW" && left >= 1 {
            overflow = match &*argv.get(at + 1).to_ascii_uppercase() {
                b"WRAP" => Overflow::Wrap,
                b"SAT" => Overflow::Saturate,
                b"FAIL" => Overflow::Fail,
                _ => return Err(Refusal::Says("ERR Invalid OVERFLOW type specified")),
            };
            at += 2;
            continue;
        }
        let (is_get, needs) = match &*word {
            b"GET" => (true, 2),
            b"SET" | b"INCRBY" => (false, 3),
            _ => return Err(SYNTAX),
        };
        if left < needs {
            return Err(SYNTAX);
        }
        let field = Field::of(argv.get(at + 1), argv.get(at + 2), cx.value_bytes_max())?;
        steps.push(match &*word {
            b"GET" => Step::Get(field),
            _ if does == Does::BitfieldRo => {
                return Err(Refusal::Says("ERR BITFIELD_RO only supports the GET subcommand"));
            }
            b"SET" => {
                let number = number::integer(argv.get(at + 3)).ok_or(NO_INTEGER)?;
                Step::Set(field, number, overflow)
            }
            _ => {
                let number = number::integer(argv.get(at + 3)).ok_or(NO_INTEGER)?;
                Step::Add(field, number, overflow)
            }
        });
        at += if is_get { 3 } else { 4 };
    }
    Ok(steps)
}

/// `BITFIELD`, `BITFIELD_RO`.
pub(super) async fn run(cx: &mut Context<'_>, does: Does, argv: Arguments<'_>) -> Outcome {
    let steps = steps(cx, does, argv)?;
    let changing = steps.iter().filter(|step| step.changes());
    let ends = changing.map(|step| step.field().window().0.end);
    let Some(end) = ends.max() else {
        return read_string(cx, argv.get(1), |value, out| {
            let told = steps.iter().map(|step| Some(step.field().get(value)));
            tell(&told.collect::<Vec<_>>(), out);
        })
        .await;
    };
    let mut told = Vec::new();
    amend(cx, argv.get(1), |current| {
        let current = current.unwrap_or_default();
        let mut next = Vec::with_capacity(current.len().max(end));
        next.extend_from_slice(current);
        next.resize(current.len().max(end), 0);
        told = steps.iter().map(|step| step.run(&mut next)).collect();
        Ok(next)
    })
    .await?;
    tell(&told, &mut cx.out);
    Ok(())
}

fn tell(told: &[Option<i128>], out: &mut Writer<'_>) {
    out.array(told.len());
    for number in told {
        match number.and_then(|number| i64::try_from(number).ok()) {
            Some(number) => out.integer(number),
            None => out.null(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_what_was_put() {
        for bits in 1..=64 {
            for at in 0..20 {
                let field = Field { is_signed: true, bits, at };
                for number in [0, -1, 1, i128::from(i64::MAX), i128::from(i64::MIN), 0x5555] {
                    let mut value = [0xa5; 12];
                    let fitted = field.fitted(number, Overflow::Wrap).unwrap();
                    field.put(&mut value, fitted);
                    assert_eq!(field.get(&value), fitted, "{bits} {at} {number}");
                    field.put(&mut value, field.get(&[0xa5; 12]));
                    assert_eq!(value, [0xa5; 12], "its neighbours stay");
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit() {
        let of = |is_signed, bits, number, overflow| {
            Field { is_signed, bits, at: 0 }.fitted(number, overflow)
        };
        assert_eq!(of(false, 8, 256, Overflow::Wrap), Some(0));
        assert_eq!(of(false, 8, -1, Overflow::Saturate), Some(0));
        assert_eq!(of(true, 8, 128, Overflow::Wrap), Some(-128));
        assert_eq!(of(true, 8, 128, Overflow::Saturate), Some(127));
        assert_eq!(of(true, 64, i128::from(i64::MAX) + 1, Overflow::Fail), None);
    }

    #[test]
    fn places_of_bits() {
        assert!(matches!(offset(b"#3", 8, 100), Ok(24)));
        assert!(matches!(offset(b"799", 1, 100), Ok(799)));
        for wrong in ["800", "-1", "x", "#", "9223372036854775807", "#9223372036854775807"] {
            assert!(offset(wrong.as_bytes(), 63, 100).is_err(), "{wrong}");
        }
    }
}
