//! Virtual SSDs on open-channel drives.

mod blocks;
mod crash;
mod rig;
mod swaps;
mod tenants;
