//! Reports of a bad line or record: what was found, and what was expected.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Bytes of foreign text that an error message repeats.
const SHOWN_BYTES_MAX: usize = 40;

/// A wrong piece of a trace. The reader that knows file and line makes an error of it.
#[derive(Debug)]
pub(super) struct Fault {
    /// What was found, ready to print.
    pub found: String,
    /// What was expected in its place.
    pub expected: Cow<'static, str>,
}

/// Faults are rare and travel through hot code: the box keeps the results small.
pub(super) type FaultBox = Box<Fault>;

impl Fault {
    #[cold]
    pub(super) fn new(found: String, expected: impl Into<Cow<'static, str>>) -> FaultBox {
        Box::new(Self { found, expected: expected.into() })
    }

    /// A field with the wrong bytes.
    #[cold]
    pub(super) fn field(bytes: &[u8], expected: impl Into<Cow<'static, str>>) -> FaultBox {
        Self::new(shown(bytes), expected)
    }
}

/// Foreign bytes, prepared for a terminal: quoted, escaped, and cut after [`SHOWN_BYTES_MAX`] bytes.
pub(super) fn shown(bytes: &[u8]) -> String {
    let head = bytes.get(..SHOWN_BYTES_MAX).unwrap_or(bytes);
    let mut text = format!("\"{}\"", head.escape_ascii());
    let rest = bytes.len() - head.len();
    if rest > 0 {
        // Writing to a string cannot fail.
        let _ = write!(text, " and {rest} more bytes");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn foreign_bytes_are_escaped_and_cut() {
        assert_eq!(shown(b"abc"), "\"abc\"");
        assert_eq!(shown(b"\x1b[2J\xff"), "\"\\x1b[2J\\xff\"");
        assert!(shown(&[b'x'; 100]).ends_with("x\" and 60 more bytes"));
    }
}
