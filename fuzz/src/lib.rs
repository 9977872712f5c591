//! What the fuzz targets share.
//!
//! | module | what it is |
//! |---|---|
//! | [`seal`] | puts marks and checksums right, so that the fuzzer gets behind them |
//! | [`drive`] | a device in memory, as a cache left it that was shut down cleanly |
//! | [`array`](mod@array) | drives that are divided among virtual SSDs, in memory and in a model image |
//! | [`patches`] | changes of something that is too long for an input |
//! | [`memory`] | how much of it a parser has |

pub mod array;
pub mod drive;
pub mod memory;
pub mod patches;
pub mod seal;
