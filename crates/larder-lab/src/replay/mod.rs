//! A workload through the cache on a device, with and without placement.

pub mod outcome;
