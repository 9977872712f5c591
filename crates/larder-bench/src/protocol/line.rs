//! Text lines, which several of the protocols share.

use super::reply::ProtocolViolation;

/// Longest line of a server; a longer one is not a reply.
const LINE_MAX: usize = 8192;

/// The line that begins at `at`, without its end, and where the next one begins. `None` if it is incomplete.
pub(super) fn line_at(
    bytes: &[u8],
    at: usize,
) -> Result<Option<(&[u8], usize)>, ProtocolViolation> {
    let rest = bytes.get(at..).unwrap_or_default();
    let Some(end) = memchr::memchr(b'\n', rest) else {
        return if rest.len() > LINE_MAX { Err(ProtocolViolation::at(rest)) } else { Ok(None) };
    };
    let line = rest.get(..end).unwrap_or_default();
    Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), at + end + 1)))
}

/// Parses a text that is a decimal number.
pub(super) fn number(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Whether a line of memcached refuses a request.
pub(super) fn is_error(line: &[u8]) -> bool {
    line == b"ERROR" || line.starts_with(b"SERVER_ERROR") || line.starts_with(b"CLIENT_ERROR")
}
