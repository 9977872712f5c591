//! Locks and atomic numbers of what many threads touch at once: those of `std`, or, with
//! `--cfg shuttle`, ones whose every use lets a scheduler choose who goes on. So
//! `cargo xtask interleave` runs the code itself, and no copy of it, in thousands of orders.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic,
};
