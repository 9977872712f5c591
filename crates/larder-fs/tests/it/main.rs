//! Tests of the file system from outside: compared with a model, through power losses, when it is full, on damaged
//! blocks.

// The helpers are tests too, but the lint sees only functions marked as such.
#![allow(clippy::unwrap_used)]

mod basics;
mod crash;
mod driver;
mod full;
mod hostile;
mod image;
mod model;
mod power;
mod shadow;
mod visit;
