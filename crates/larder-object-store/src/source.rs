//! One object of the store below, as the cache sees it, whatever the version of `object_store`.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use crate::head::Head;

/// One object of the store below.
pub(crate) trait Source: Clone + Send + Sync + 'static {
    type Error: Failure;

    /// Its path, as it is in the keys of the cache.
    fn path(&self) -> &str;

    /// Asks the store.
    fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Answer<Self::Error>, Self::Error>>;
}

/// What an error means for the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// There is no such object.
    Missing,
    /// It is not of the version that was asked for.
    Changed,
    /// The caller may not see it.
    Refused,
    Other,
}

/// An error of the store below.
pub(crate) trait Failure: std::error::Error + Send + Sync + Sized + 'static {
    fn kind(&self) -> FailureKind;

    /// The same error for one more caller.
    fn shared(error: &Arc<Self>) -> Self;

    /// The object has changed between two requests of a read that has already returned bytes.
    fn changed(path: &str) -> Self;

    /// The store broke off, without an error of its own.
    fn broken_off(path: &str) -> Self;
}

/// Bytes of an object whose size may not be known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Span {
    Bounded(Range<u64>),
    Suffix(u64),
}

/// A request to the store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ask {
    pub(crate) span: Option<Span>,
    /// The ETag that the object must have.
    pub(crate) if_match: Option<String>,
    /// The version to read.
    pub(crate) version: Option<String>,
    /// Whether only the head is wanted.
    pub(crate) head: bool,
}

/// An answer of the store: its body follows.
pub(crate) struct Answer<E> {
    pub(crate) head: Head,
    pub(crate) range: Range<u64>,
    pub(crate) body: BoxStream<'static, Result<Bytes, E>>,
}

/// What a caller wants of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    Head,
    All,
    Bounded(Range<u64>),
    Offset(u64),
    Suffix(u64),
}

impl Wanted {
    /// The bytes of an object of this size. `None` if the store refuses that range, or might.
    pub(crate) fn range(&self, size: u64) -> Option<Range<u64>> {
        match *self {
            Self::Head => Some(0..0),
            Self::All => Some(0..size),
            Self::Bounded(Range { start, end }) => {
                (start < end && start < size).then(|| start..end.min(size))
            }
            Self::Offset(start) => (start < size).then_some(start..size),
            Self::Suffix(bytes) => {
                (bytes > 0 && size > 0).then(|| size.saturating_sub(bytes)..size)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_object() {
        assert_eq!(Wanted::All.range(0), Some(0..0));
        assert_eq!(Wanted::Bounded(2..100).range(14), Some(2..14));
        assert_eq!(Wanted::Bounded(14..20).range(14), None);
        assert_eq!(Wanted::Bounded(5..5).range(14), None);
        assert_eq!(Wanted::Offset(3).range(14), Some(3..14));
        assert_eq!(Wanted::Offset(14).range(14), None);
        assert_eq!(Wanted::Suffix(100).range(14), Some(0..14));
        assert_eq!(Wanted::Suffix(0).range(14), None);
    }
}
