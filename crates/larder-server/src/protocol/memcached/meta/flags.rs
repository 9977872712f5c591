//! Flags of meta requests: a letter each, some with a word directly behind it.

use std::num::NonZeroU64;

use crate::protocol::memcached::items::Mode;
use crate::protocol::memcached::lifetime::exptime;
use crate::protocol::memcached::line::{Words, number};

/// Most flags of a request.
const FLAGS_MAX: usize = 17;
/// Longest opaque word, with its letter.
const OPAQUE_BYTES_MAX: usize = 32;

const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";

/// The parsed flags of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flags<'a> {
    /// All flags, in the order in which they are answered.
    pub(super) all: Words<'a>,
    /// Flag `b`: the key is in base64.
    pub(super) base64: bool,
    /// Flag `q`: quiet.
    pub(super) quiet: bool,
    /// Flag `v`: return the value.
    pub(super) value: bool,
    /// Flag `u`: do not count as a fetch.
    pub(super) unseen: bool,
    /// Flag `c`: return the version.
    pub(super) version: bool,
    /// Flag `x`: drop the value.
    pub(super) empty: bool,
    /// Flag `I`: invalidate.
    pub(super) invalidate: bool,
    /// Flag `N`: create if missing, with this lifetime.
    pub(super) vivify: Option<i64>,
    /// Flag `T`: new lifetime.
    pub(super) touch: Option<i64>,
    /// Flag `R`: recache if less than this is left.
    pub(super) recache: Option<i64>,
    /// Flag `F`: client flags.
    pub(super) client_flags: u32,
    /// Flag `C`: compare the version.
    pub(super) compare: Option<u64>,
    /// Flag `E`: version of the new value.
    pub(super) explicit: Option<NonZeroU64>,
    /// Flag `M`: mode.
    pub(super) mode: Option<u8>,
    /// Flag `J`: initial number.
    pub(super) initial: u64,
    /// Flag `D`: delta.
    pub(super) delta: u64,
}

impl<'a> Flags<'a> {
    /// Parses the remaining words of a line.
    pub(super) fn parse(all: Words<'a>) -> Result<Self, &'static str> {
        let mut flags = Self {
            all,
            base64: false,
            quiet: false,
            value: false,
            unseen: false,
            version: false,
            empty: false,
            invalidate: false,
            vivify: None,
            touch: None,
            recache: None,
            client_flags: 0,
            compare: None,
            explicit: None,
            mode: None,
            initial: 0,
            delta: 1,
        };
        let mut seen = 0_u128;
        let mut first_fault = None;
        for (count, word) in all.enumerate() {
            let Some((letter, token)) = word.split_first() else { continue };
            if count >= FLAGS_MAX {
                return Err(TOO_MANY);
            }
            let bit = 1_u128.checked_shl((*letter).into()).unwrap_or(0);
            if seen & bit != 0 {
                return Err("CLIENT_ERROR duplicate flag");
            }
            seen |= bit;
            match flags.take(*letter, token) {
                Ok(()) => {}
                Err(INVALID) => return Err(INVALID),
                Err(fault) => first_fault = first_fault.or(Some(fault)),
            }
        }
        first_fault.map_or(Ok(flags), Err)
    }

    fn take(&mut self, letter: u8, token: &'a [u8]) -> Result<(), &'static str> {
        let seconds = || exptime(token).map(Some).ok_or(BAD_TOKEN);
        match letter {
            b'b' => self.base64 = true,
            b'q' => self.quiet = true,
            b'v' => self.value = true,
            b'u' => self.unseen = true,
            b'c' => self.version = true,
            b'x' => self.empty = true,
            b'I' => self.invalidate = true,
            b'N' => self.vivify = seconds()?,
            b'T' => self.touch = seconds()?,
            b'R' => self.recache = seconds()?,
            b'F' => {
                let flags = number(token).and_then(|flags| u32::try_from(flags).ok());
                self.client_flags = flags.ok_or(BAD_TOKEN)?;
            }
            b'C' => self.compare = Some(number(token).ok_or(BAD_TOKEN)?),
            b'E' => self.explicit = NonZeroU64::new(number(token).ok_or(BAD_TOKEN)?),
            b'M' => match token {
                [mode] => self.mode = Some(*mode),
                _ => return Err("CLIENT_ERROR incorrect length for M token"),
            },
            b'J' => {
                self.initial = number(token).ok_or("CLIENT_ERROR invalid numeric initial value")?;
            }
            b'D' => self.delta = number(token).ok_or("CLIENT_ERROR invalid numeric delta value")?,
            b'O' if token.len() >= OPAQUE_BYTES_MAX => {
                return Err(LONG_OPAQUE);
            }
            // Flags that only shape the answer, or are for a proxy.
            b'O' | b'P' | b'L' | b'k' | b's' | b't' | b'f' | b'l' | b'h' => {}
            _ => return Err(INVALID),
        }
        Ok(())
    }

    /// The mode of `ms`.
    pub(super) fn store_mode(&self) -> Result<Mode, &'static str> {
        Ok(match self.mode {
            None | Some(b'S' | b's') => Mode::Set,
            Some(b'E' | b'e') => Mode::Add,
            Some(b'A' | b'a') => Mode::Append,
            Some(b'P' | b'p') => Mode::Prepend,
            Some(b'R' | b'r') => Mode::Replace,
            Some(_) => return Err("CLIENT_ERROR invalid mode for ms M token"),
        })
    }

    /// Whether `ma` increments.
    pub(super) fn counts_up(&self) -> Result<bool, &'static str> {
        Ok(match self.mode {
            None | Some(b'I' | b'i' | b'+') => true,
            Some(b'D' | b'd' | b'-') => false,
            Some(_) => return Err("CLIENT_ERROR invalid mode for ma M token"),
        })
    }
}

const INVALID: &str = "CLIENT_ERROR invalid flag";
const TOO_MANY: &str = "CLIENT_ERROR options flags are too long";
const LONG_OPAQUE: &str = "CLIENT_ERROR opaque token too long";

/// The error for requests whose errors do not distinguish these faults.
pub(super) fn summed_up(fault: &'static str) -> &'static str {
    match fault {
        TOO_MANY | LONG_OPAQUE => fault,
        _ => "CLIENT_ERROR invalid or duplicate flag",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(flags: &str) -> &'static str {
        Flags::parse(Words(flags.as_bytes())).unwrap_err()
    }

    #[test]
    fn every_flag_that_is_known_is_taken() {
        let all = "b c C7 D3 E9 f F4";
        let flags = Flags::parse(Words(all.as_bytes())).unwrap();
        assert_eq!((flags.base64, flags.version, flags.client_flags), (true, true, 4));
        assert_eq!((flags.compare, flags.explicit), (Some(7), NonZeroU64::new(9)));
        let rest = "h I J5 k l L MA N30 Ox P q R-1 s t T0 u";
        let flags = Flags::parse(Words(rest.as_bytes())).unwrap();
        assert_eq!((flags.vivify, flags.recache, flags.touch), (Some(30), Some(-1), Some(0)));
        assert_eq!(flags.store_mode(), Ok(Mode::Append));
        assert!(flags.counts_up().is_err());
    }

    #[test]
    fn flags_that_cannot_be_meant_are_named() {
        assert_eq!(fault("v v"), "CLIENT_ERROR duplicate flag");
        assert_eq!(fault("!"), INVALID);
        assert_eq!(fault("\u{fe}"), INVALID);
        assert_eq!(fault("m o o o"), INVALID);
        assert_eq!(fault("Tx"), BAD_TOKEN);
        assert_eq!(fault("C"), BAD_TOKEN);
        assert_eq!(fault("MAB"), "CLIENT_ERROR incorrect length for M token");
        assert_eq!(fault(&format!("O{}", "x".repeat(32))), "CLIENT_ERROR opaque token too long");
        assert!(Flags::parse(Words(format!("O{}", "x".repeat(31)).as_bytes())).is_ok());
    }
}
