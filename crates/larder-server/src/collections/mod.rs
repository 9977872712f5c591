//! Collections of Redis, each encoded as one string of bytes: hashes, sets, sorted sets and lists.
//!
//! Pure: bytes in, bytes out. A view borrows the bytes of a collection and copies nothing; a change writes a new string
//! of bytes. The kind of a collection is in the flags of its item ([`Kind::flags`]), and again in its bytes.
//!
//! The bytes may come from a client or from a damaged drive. [`Shape::parse`] checks all that later look-ups rely on,
//! so that no view panics or loops; a view of bytes in the wrong order finds less, and nothing worse.
//!
//! ```text
//!   header   version (1), kind (1), zeros (2), number of members (4)
//!   ends     per string, where it ends in the data (4 each)
//!   scores   of a sorted set: per member (8 each), and the members by rank (4 each)
//!   times    of a hash with fields that expire: per field (8 each)
//!   data     the strings, without gaps: of a hash field and value in turn, sorted by field; of sets sorted
//! ```

mod checks;
mod encoding;
mod hash;
mod kind;
mod list;
mod set;
mod shape;
mod sorted_set;
mod table;
#[cfg(test)]
mod tests;
mod walk_order;

pub(crate) use self::checks::use_all;
pub(crate) use self::encoding::encoding;
pub(crate) use self::hash::{ExpiryMs, Hash, HashView};
pub(crate) use self::kind::{Damaged, ItemKind, Kind};
pub(crate) use self::list::{List, ListView};
pub(crate) use self::set::{Set, SetView};
pub(crate) use self::shape::Shape;
pub(crate) use self::sorted_set::{Scored, SortedSet, SortedSetView};
pub(crate) use self::table::Encoded;
pub(crate) use self::walk_order::place_in_walk;
