//! Fields of an option, taken from its bytes one behind the other.

use zerocopy::FromBytes;
use zerocopy::big_endian::{U16, U32};

use super::wire::STRING_BYTES_MAX;

/// Why an option is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// It ends before it should, or behind that, or is no text.
    Invalid,
    /// A string in it is too long.
    TooBig,
}

/// What is left of an option.
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

    /// A string behind its length.
    pub(super) fn string(&mut self) -> Result<&'a str, Malformed> {
        let bytes = usize::try_from(self.u32()?).map_err(|_| Malformed::TooBig)?;
        if bytes > STRING_BYTES_MAX {
            return Err(Malformed::TooBig);
        }
        text(self.take(bytes)?)
    }

    /// Nothing must be left.
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
