//! What the fuzz targets share.
//!
//! | module | what it is |
//! |---|---|
//! | [`seal`] | puts marks and checksums right, so that the fuzzer gets behind them |
//! | [`drive`] | a device in memory, as a cache left it that was shut down cleanly |

pub mod drive;
pub mod seal;
