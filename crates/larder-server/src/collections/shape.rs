//! What all kinds of collections have.

use super::kind::{Damaged, Kind};
use super::table::Encoded;

/// A kind of collection, as a type.
pub(crate) trait Shape {
    const KIND: Kind;
    /// What borrows the bytes of a collection.
    type View<'a>: Copy;
    /// The collection that these bytes are.
    fn parse(bytes: &[u8]) -> Result<Self::View<'_>, Damaged>;
    /// The collection without members, which is never stored.
    fn empty<'a>() -> Self::View<'a>;
    /// Number of members.
    fn len(view: Self::View<'_>) -> usize;
    /// The collection without the members that have expired; `None`: none has. `now` tells the milliseconds since 1970.
    fn without_expired(_: Self::View<'_>, _now: impl FnOnce() -> u64) -> Option<Encoded> {
        None
    }
}
