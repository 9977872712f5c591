//! Tests of virtual SSDs on open-channel drives.

#![allow(clippy::unwrap_used)] // a test that cannot go on should stop
#![allow(clippy::cast_possible_truncation)] // page numbers of small drives are indexes here

mod blocks;
mod crash;
mod levelling;
mod loans;
mod rig;
mod service;
mod share;
mod swaps;
mod tenants;
mod timed;
