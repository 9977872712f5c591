//! What the fuzz targets share.
//!
//! | module | what it is |
//! |---|---|
//! | [`seal`] | puts marks and checksums right, so that the fuzzer gets behind them |
//! | [`drive`] | a device in memory, as a cache left it that was shut down cleanly |
//! | [`memory`] | how much of it a parser has |

pub mod drive;
pub mod memory;
pub mod seal;
