//! Cleaning: what of the dirty data is destaged when. As in Open CAS (`cleaning/alru`, `cleaning/acp`), with a limit in
//! bytes a second and watermarks on top of each policy, which its users ask for.
//!
//! Known is where dirty data may be: of each chunk of 4 MiB of a core, which of its 64 grains of 64 KiB were written,
//! how many bytes, and when last; some 80 bytes a chunk. What is destaged is a *piece* of a chunk: sectors from its
//! first grain to its last, of which only those that are dirty go to the core. So
//!
//! - lines of 4 KiB that were written in a row go to the core together,
//! - `flush_max_buffers`, in lines as Open CAS has it, is a budget of dirty bytes under way: pieces are cut to it (a
//!   grain at least), and pieces with few dirty lines go out many at a time,
//! - ALRU's staleness is that of a chunk: one line that is written again and again keeps its chunk in the cache until
//!   the watermark is reached.
//!
//! How many bytes of a piece are dirty is an estimate: what was written, up to whole grains, by the part of all such
//! estimates that the layout says is dirty.
//!
//! What is destaged for IO classes that are full of dirty data (`full_classes.rs`) is within the same limits; what of a
//! class that is, the layout knows.

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
