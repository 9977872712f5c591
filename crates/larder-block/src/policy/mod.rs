//! Policies of the block cache: whether a request bypasses the cache, whether a miss is cached, what is read ahead,
//! and what is destaged when.
//!
//! Pure logic: no I/O, no threads, no clock. Times are those of the caller's clock.

pub mod classes;
pub mod cleaning;
pub mod pressure;
mod promotion;
mod read_ahead;
pub mod routing;
mod sequential;

pub use promotion::{NHit, Promotion, PromotionPolicy};
pub use read_ahead::{ReadAheadOptions, ReadAheadPolicy};
pub(crate) use read_ahead::{StreamFacts, is_short_of_room};
pub use sequential::{CutOffPolicy, SequentialCutOff};

pub use crate::streams::Direction;
