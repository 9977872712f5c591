//! The examples of the README and of the tutorial of the library. Documentation tests compile them here, where `larder`
//! is the only dependency, as it is for a user.
#![doc = include_str!("../../../README.md")]

#[doc = include_str!("../../../docs/tutorials/library.md")]
mod library {}
