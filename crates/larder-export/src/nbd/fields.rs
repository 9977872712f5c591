//! Parses the fields of an option, one after the other.

use zerocopy::FromBytes;
use zerocopy::big_endian::{U16, U32};

use super::wire::STRING_BYTES_MAX;

/// Why an option cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// It is too short or too long, or a string is not valid text.
    Invalid,
    /// A string in it is too long.
    TooBig,
}

/// The rest of an option.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed::Invalid)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Malformed> {
        let bytes = self.take(2)?;
        U16::read_from_bytes(bytes).map(U16::get).map_err(|_| Malformed::Invalid)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        let bytes = self.take(4)?;
        U32::read_from_bytes(bytes).map(U32::get).map_err(|_| Malformed::Invalid)
    }

    /// A string with a length in front of it.
    pub(super) fn string(&mut self) -> Result<&'a str, Malformed> {
        let bytes = usize::try_from(self.u32()?).map_err(|_| Malformed::TooBig)?;
        if bytes > STRING_BYTES_MAX {
            return Err(Malformed::TooBig);
        }
        text(self.take(bytes)?)
    }

    /// Checks that nothing is left.
    pub(super) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Invalid) }
    }
}

/// Bytes as a string of the protocol: UTF-8 without a NUL.
pub(super) fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(Malformed::Invalid),
    }
}
