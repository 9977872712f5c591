//! Keys in percent-encoding, as memcached shows them.

use std::fmt::{Display, Formatter, Result, Write};

/// A key in percent-encoding.
pub(crate) struct EscapedKey<'a>(pub(crate) &'a [u8]);

impl Display for EscapedKey<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.0.iter().try_for_each(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                f.write_char(char::from(*byte))
            }
            _ => write!(f, "%{byte:02X}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_escaped_as_in_addresses() {
        assert_eq!(EscapedKey(b"a-Z.9_~").to_string(), "a-Z.9_~");
        assert_eq!(EscapedKey(b"a b\n\xff%:").to_string(), "a%20b%0A%FF%25%3A");
    }
}
