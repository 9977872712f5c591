//! Tests of virtual SSDs on open-channel drives.

mod blocks;
mod crash;
mod rig;
mod share;
mod swaps;
mod tenants;
mod timed;
