//! What a reply says of its request, whichever the protocol.

use crate::value::Values;

/// What was asked, as far as its reply has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// So many keys.
    Get(u32),
    Set,
    Delete,
    /// One of the requests that open a connection.
    Hello,
}

/// What a reply says.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reply {
    /// Its length.
    pub(crate) bytes: usize,
    pub(crate) hits: u32,
    /// Values that are not their key's.
    pub(crate) wrong: u32,
    /// The server refused it.
    pub(crate) refused: bool,
}

/// How far the bytes of a reply have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Whole(Reply),
    /// It has at least so many bytes.
    Needs(usize),
}

/// A server that does not keep to its protocol: what came instead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) String);

impl Broken {
    /// Bytes that no request has asked for.
    pub(crate) fn unasked(bytes: &[u8]) -> Self {
        Self(format!("{}, which nobody asked for", Self::at(bytes).0))
    }

    pub(super) fn at(bytes: &[u8]) -> Self {
        let shown = bytes.get(..bytes.len().min(60)).unwrap_or_default();
        Self(shown.escape_ascii().to_string())
    }
}

/// Where the keys of a reply's request are found: those that hit leave a mark.
pub(crate) struct Hits<'a> {
    pub(crate) keys: &'a [u64],
    pub(crate) values: &'a Values,
    /// Which of them were hits.
    pub(crate) hit: &'a mut Vec<bool>,
}

impl Hits<'_> {
    /// The next key of the request that is this one has this value. Says whether it is right.
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
