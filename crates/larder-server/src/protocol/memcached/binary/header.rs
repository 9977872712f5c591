//! Headers of the binary protocol: 24 bytes before each request and each answer.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First byte of a request.
pub(crate) const REQUEST: u8 = 0x80;
/// First byte of an answer.
const RESPONSE: u8 = 0x81;
pub(super) const HEADER_BYTES: usize = size_of::<Layout>();

/// The header on the wire.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    magic: u8,
    opcode: u8,
    key_bytes: U16,
    extras_bytes: u8,
    data_type: u8,
    /// Only in answers; requests have 0 here.
    status: U16,
    body_bytes: U32,
    opaque: [u8; 4],
    cas: U64,
}

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(super) opcode: u8,
    pub(super) key_bytes: usize,
    pub(super) extras_bytes: usize,
    /// Extras, key and value together.
    pub(super) body_bytes: usize,
    /// Chosen by the client, returned as it is.
    pub(super) opaque: [u8; 4],
    pub(super) cas: u64,
}

/// A request: its header and its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    pub(super) header: Header,
    pub(super) extras: &'a [u8],
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Success,
    KeyNotFound,
    KeyExists,
    TooLarge,
    InvalidArguments,
    NotStored,
    NonNumeric,
    AuthError,
    UnknownCommand,
    OutOfMemory,
    /// The tenant is over its rate limit.
    Busy,
    /// The cache has failed.
    Internal,
    /// The request took too long.
    TooLate,
}

impl Status {
    fn number(self) -> u16 {
        match self {
            Self::Success => 0,
            Self::KeyNotFound => 1,
            Self::KeyExists => 2,
            Self::TooLarge => 3,
            Self::InvalidArguments => 4,
            Self::NotStored => 5,
            Self::NonNumeric => 6,
            Self::AuthError => 0x20,
            Self::UnknownCommand => 0x81,
            Self::OutOfMemory => 0x82,
            Self::Internal => 0x84,
            Self::Busy => 0x85,
            // Clients treat it as a temporary failure.
            Self::TooLate => 0x86,
        }
    }

    /// The body of an answer with this status.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Success => "",
            Self::KeyNotFound => "Not found",
            Self::KeyExists => "Data exists for key.",
            Self::TooLarge => "Too large.",
            Self::InvalidArguments => "Invalid arguments",
            Self::NotStored => "Not stored.",
            Self::NonNumeric => "Non-numeric server-side value for incr or decr",
            Self::AuthError => "Auth failure.",
            Self::UnknownCommand => "Unknown command",
            Self::OutOfMemory => "Out of memory",
            Self::Internal => "Internal error",
            Self::Busy => "Busy, or the tenant is over its limit: try again later",
            Self::TooLate => "Temporary failure",
        }
    }
}

impl Header {
    /// Parses a header. `Ok(None)`: it is incomplete. `Err`: this is no request.
    pub(crate) fn parse(input: &[u8]) -> Result<Option<Self>, NoRequest> {
        if input.first().is_some_and(|first| *first != REQUEST) {
            return Err(NoRequest);
        }
        let Ok((layout, _)) = Layout::ref_from_prefix(input) else { return Ok(None) };
        let header = Self {
            opcode: layout.opcode,
            key_bytes: layout.key_bytes.get().into(),
            extras_bytes: layout.extras_bytes.into(),
            body_bytes: usize::try_from(layout.body_bytes.get()).map_err(|_| NoRequest)?,
            opaque: layout.opaque,
            cas: layout.cas.get(),
        };
        // Key and extras together are longer than the whole body.
        if header.key_bytes + header.extras_bytes > header.body_bytes {
            return Err(NoRequest);
        }
        Ok(Some(header))
    }

    /// Whether it stores a value without a condition: `set` or its quiet form, over any version.
    pub(super) fn replaces(&self) -> bool {
        matches!(self.opcode, 0x01 | 0x11) && self.cas == 0
    }

    pub(super) fn value_bytes(&self) -> usize {
        self.body_bytes.saturating_sub(self.key_bytes + self.extras_bytes)
    }

    /// The request, if its body is complete.
    pub(crate) fn packet<'a>(&self, input: &'a [u8]) -> Option<Packet<'a>> {
        let body = input.get(HEADER_BYTES..HEADER_BYTES + self.body_bytes)?;
        let (extras, rest) = body.split_at_checked(self.extras_bytes)?;
        let (key, value) = rest.split_at_checked(self.key_bytes)?;
        Some(Packet { header: *self, extras, key, value })
    }
}

/// The bytes are not a request of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRequest;

/// The parts of an answer other than its value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AnswerParts<'a> {
    pub(super) extras: &'a [u8],
    pub(super) key: &'a [u8],
    pub(super) cas: u64,
}

/// Appends the head of an answer; a value of `value_bytes` bytes follows.
pub(super) fn head(
    out: &mut Vec<u8>,
    header: &Header,
    status: Status,
    answered: AnswerParts<'_>,
    value_bytes: usize,
) {
    let body = answered.extras.len() + answered.key.len() + value_bytes;
    let layout = Layout {
        magic: RESPONSE,
        opcode: header.opcode,
        key_bytes: u16::try_from(answered.key.len()).unwrap_or(0).into(),
        extras_bytes: u8::try_from(answered.extras.len()).unwrap_or(0),
        data_type: 0,
        status: status.number().into(),
        body_bytes: u32::try_from(body).unwrap_or(u32::MAX).into(),
        opaque: header.opaque,
        cas: answered.cas.into(),
    };
    out.extend_from_slice(layout.as_bytes());
    out.extend_from_slice(answered.extras);
    out.extend_from_slice(answered.key);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_how_its_body_is_divided() {
        let mut bytes = vec![REQUEST, 1, 0, 2, 8, 0, 0, 0, 0, 0, 0, 13, 1, 2, 3, 4];
        bytes.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 7]);
        bytes.extend_from_slice(b"flagstimkeval");
        let header = Header::parse(&bytes).unwrap().unwrap();
        assert_eq!((header.opaque, header.cas, header.value_bytes()), ([1, 2, 3, 4], 7, 3));
        let packet = header.packet(&bytes).unwrap();
        assert_eq!(
            (packet.extras, packet.key, packet.value),
            (&b"flagstim"[..], &b"ke"[..], &b"val"[..])
        );
        assert_eq!(header.packet(&bytes[..36]), None);
        assert_eq!(Header::parse(&bytes[..23]), Ok(None));
    }

    #[test]
    fn what_contradicts_itself_is_no_request() {
        let mut bytes = [0; HEADER_BYTES];
        assert_eq!(Header::parse(&bytes), Err(NoRequest));
        (bytes[0], bytes[3], bytes[11]) = (REQUEST, 5, 4);
        assert_eq!(Header::parse(&bytes), Err(NoRequest));
    }
}
