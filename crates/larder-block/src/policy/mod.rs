//! What the block cache asks before it acts: whether a request passes by it, whether what was missed is kept, what is
//! destaged when.
//!
//! Pure logic: no I/O, no threads, no clock. Times are those of the caller's clock.

pub mod classes;
pub mod cleaning;
pub mod pressure;
mod promotion;
pub mod routing;
mod sequential;

pub use promotion::{NHit, Promotion, PromotionPolicy};
pub use sequential::{CutOffPolicy, SequentialCutOff};

pub use crate::streams::Direction;
