//! Larder for programs in C: `include/larder.h` is made from this crate by cbindgen.
//!
//! Each function checks its pointers, and returns a status; [`larder_error_text`](cache::larder_error_text) says more.
//! A panic in the library ends the process, since it must not unwind into C.

#![allow(non_camel_case_types)]

mod answers;
pub mod cache;
pub mod calls;
pub mod status;
