//! Common code of the fuzz targets.
//!
//! | module | what it is |
//! |---|---|
//! | [`seal`] | corrects magics and checksums, so that the fuzzer gets past them |
//! | [`drive`] | a memory device as a cache leaves it after a clean shutdown |
//! | [`array`](mod@array) | drives that virtual SSDs share, in memory and in a model image |
//! | [`patches`] | changes to something that is too long for an input |
//! | [`memory`] | a limit on the memory of a parser |

pub mod array;
pub mod drive;
pub mod memory;
pub mod patches;
pub mod seal;
