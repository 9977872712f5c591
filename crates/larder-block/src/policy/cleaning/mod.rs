//! Cleaning: decides which dirty data is destaged when. The policies are those of Open CAS (`cleaning/alru`,
//! `cleaning/acp`). On top of each there are a limit in bytes per second and watermarks, which Open CAS users ask for.
//!
//! The cleaner knows where dirty data may be. For each chunk of 4 MiB of a core it stores which of the 64 grains of 64
//! KiB were written, the number of bytes, and the time of the last write: some 80 bytes per chunk. It destages a
//! *piece* of a chunk: the sectors from the first grain to the last, of which only dirty ones go to the core.
//! Consequently:
//!
//! - Lines of 4 KiB that were written in sequence go to the core together.
//! - `flush_max_buffers`, in lines as in Open CAS, is a budget of dirty bytes in flight. Pieces are cut to it (at
//!   least one grain), and pieces with few dirty lines are destaged many at a time.
//! - ALRU's staleness is that of a chunk: one line that is rewritten again and again keeps its chunk in the cache
//!   until the watermark is reached.
//!
//! The number of dirty bytes in a piece is an estimate: the written bytes, up to whole grains, scaled by the ratio of
//! the dirty bytes of the layout to the sum of all estimates.
//!
//! Destages for IO classes that are full of dirty data (`full_classes.rs`) share the same limits; the layout selects
//! the data of a class.

mod chunk;
mod cleaner;
mod elapsed;
mod full_classes;
mod options;
mod rate;
mod regions;
mod table;

pub use cleaner::{Cleaning, CleaningFacts};
pub use full_classes::ClassTurn;
pub use options::{AcpOptions, AlruOptions, CleaningOptions, CleaningPolicy};
