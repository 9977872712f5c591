//! The stores of `larder-blocks` through their public interface: what every store guarantees, and what each adds.

#![allow(clippy::unwrap_used, reason = "a test that fails panics, in its helpers too")]

mod block_stores;
mod device_on_blocks;
mod shared_device;
mod timed_blocks;
