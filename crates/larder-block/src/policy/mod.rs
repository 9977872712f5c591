//! What the block cache asks before it acts: whether a request passes by it, whether what was missed is kept, what is
//! read ahead, what is destaged when.
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
