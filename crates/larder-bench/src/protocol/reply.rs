//! The content of a reply, independent of the protocol.

use crate::value::Values;

/// The facts about a request that decoding its reply needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedReply {
    /// This number of keys.
    Get(u32),
    Set,
    Delete,
    /// One of the requests that open a connection.
    Hello,
}

/// A decoded reply.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reply {
    /// Its length.
    pub(crate) bytes: usize,
    pub(crate) hits: u32,
    /// Values that do not belong to their key.
    pub(crate) wrong: u32,
    /// The server refused the request.
    pub(crate) refused: bool,
}

/// The progress of decoding a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Whole(Reply),
    /// It has at least this number of bytes.
    Needs(usize),
}

/// A violation of the protocol: what the server has sent instead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProtocolViolation(pub(crate) String);

impl ProtocolViolation {
    /// Bytes that no request has asked for.
    pub(crate) fn unasked(bytes: &[u8]) -> Self {
        Self(format!("{}, which no request asked for", Self::at(bytes).0))
    }

    pub(super) fn at(bytes: &[u8]) -> Self {
        let shown = bytes.get(..bytes.len().min(60)).unwrap_or_default();
        Self(shown.escape_ascii().to_string())
    }
}

/// The keys of a reply's request; hits are marked.
pub(crate) struct Hits<'a> {
    pub(crate) keys: &'a [u64],
    pub(crate) values: &'a Values,
    /// Which of the keys were hits.
    pub(crate) hit: &'a mut Vec<bool>,
}

impl Hits<'_> {
    /// Finds `key` among the keys from `from` on, and checks its value. Returns where to continue, and whether the
    /// value is right.
    pub(super) fn found(&mut self, from: usize, key: u64, value: &[u8]) -> Option<(usize, bool)> {
        let at = from + self.keys.get(from..)?.iter().position(|&asked| asked == key)?;
        self.at(at, value).map(|right| (at + 1, right))
    }

    pub(super) fn at(&mut self, at: usize, value: &[u8]) -> Option<bool> {
        let key = *self.keys.get(at)?;
        *self.hit.get_mut(at)? = true;
        Some(self.values.is_right(key, value))
    }
}
