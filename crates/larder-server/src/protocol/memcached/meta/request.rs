//! Parses a line into a meta request.

use std::borrow::Cow;

use super::base64;
use super::flags::{self, Flags};
use crate::protocol::memcached::fault::{Fault, announced};
use crate::protocol::memcached::items::Mode;
use crate::protocol::memcached::line::{KEY_BYTES_MAX, Words};

const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";

/// A meta request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MetaRequest<'a> {
    pub(crate) verb: Verb,
    pub(crate) key: Cow<'a, [u8]>,
    pub(crate) flags: Flags<'a>,
}

/// The operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    /// A value of `bytes` bytes follows the line.
    Set {
        bytes: usize,
    },
    Delete,
    Arithmetic,
    Debug,
}

/// Parses the rest of a line that begins with `verb`.
pub(crate) fn parse<'a>(verb: &[u8], mut words: Words<'a>) -> Result<MetaRequest<'a>, Fault> {
    let bad = Fault::Answer(BAD_FORMAT);
    let missing = if verb == b"me" { bad } else { Fault::Answer("ERROR") };
    let key = words.next().ok_or(missing)?;
    if key.len() > KEY_BYTES_MAX {
        return Err(bad);
    }
    let verb = match verb {
        b"mg" => Verb::Get,
        b"ms" => Verb::Set { bytes: words.next().and_then(announced).ok_or(bad)? },
        b"md" => Verb::Delete,
        b"ma" => Verb::Arithmetic,
        _ => Verb::Debug,
    };
    let flags = Flags::parse(words).map_err(|fault| match verb {
        // memcached does not say here which fault it was.
        Verb::Arithmetic | Verb::Delete => flags::summed_up(fault),
        Verb::Get | Verb::Set { .. } | Verb::Debug => fault,
    });
    let request = flags.and_then(|flags| {
        flags.check_mode(verb)?;
        let decoded = if flags.base64 {
            let decoded = base64::decode(key).ok_or("CLIENT_ERROR error decoding key")?;
            Cow::Owned(decoded)
        } else {
            Cow::Borrowed(key)
        };
        Ok(MetaRequest { verb, key: decoded, flags })
    });
    request.map_err(|answer| match verb {
        // The value comes even if its line is wrong.
        Verb::Set { bytes } => Fault::Swallow { answer, bytes: bytes + 2 },
        _ => Fault::Answer(answer),
    })
}

impl MetaRequest<'_> {
    /// Whether it stores a value without a condition.
    pub(crate) fn replaces(&self) -> bool {
        let Flags { compare, .. } = &self.flags;
        matches!(self.verb, Verb::Set { .. })
            && self.flags.store_mode() == Ok(Mode::Set)
            && compare.is_none()
    }

    /// The command that a store is told as.
    pub(crate) fn stores_as(&self) -> &'static str {
        let compares = self.flags.compare.is_some();
        self.flags.store_mode().map_or("na", |mode| mode.command(compares))
    }
}

impl Flags<'_> {
    fn check_mode(&self, verb: Verb) -> Result<(), &'static str> {
        match verb {
            Verb::Set { .. } => self.store_mode().map(drop),
            Verb::Arithmetic => self.counts_up().map(drop),
            Verb::Get | Verb::Delete | Verb::Debug => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(verb: &str, line: &str) -> Fault {
        parse(verb.as_bytes(), Words(line.as_bytes())).unwrap_err()
    }

    #[test]
    fn lines_that_cannot_be_meant() {
        assert_eq!(fault("mg", ""), Fault::Answer("ERROR"));
        for line in ["a", "a abc", "a S3", "a -1", &format!("{} 1", "k".repeat(251))] {
            assert_eq!(fault("ms", line), Fault::Answer(BAD_FORMAT), "{line}");
        }
        let answer = "CLIENT_ERROR invalid mode for ms M token";
        assert_eq!(fault("ms", "a 3 MZ"), Fault::Swallow { answer, bytes: 5 });
        let answer = "CLIENT_ERROR error decoding key";
        assert_eq!(fault("mg", "a*b= b"), Fault::Answer(answer));
        for line in ["a Tx", "a v v", "a !", "a MAB"] {
            let answer = "CLIENT_ERROR invalid or duplicate flag";
            assert_eq!(fault("md", line), Fault::Answer(answer), "{line}");
            assert_eq!(fault("ma", line), Fault::Answer(answer), "{line}");
            assert_ne!(fault("mg", line), Fault::Answer(answer), "{line}");
        }
    }

    #[test]
    fn a_key_in_base64_is_the_same_item_as_its_bytes() {
        let request = parse(b"mg", Words(b"TWFu k b")).unwrap();
        assert_eq!((&*request.key, request.flags.base64), (&b"Man"[..], true));
    }
}
