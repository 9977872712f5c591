//! The array engine: large objects in regions by what remains of their time, under an index that lies on flash in
//! tables of 16 KiB, with a cache of its entries in DRAM (BigKV, EuroSys'23).

// Its parts are here before the engine that uses them.
#![allow(dead_code)]

pub(crate) mod config;
pub(crate) mod groups;
pub(crate) mod place;
