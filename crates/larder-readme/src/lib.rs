//! The examples of the README. Documentation tests compile them here, where `larder` is the only dependency, as it is
//! for a user.
#![doc = include_str!("../../../README.md")]
