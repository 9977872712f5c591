//! Block caches whose writes are counted: Open CAS as it is described, of 2022 and 2026, and the log of this project.
//!
//! | module | what it is |
//! |---|---|
//! | `counted` | a cache before a core, whose bytes are counted; the parameters that all have |
//! | `metadata` | the experiment `block-metadata`: first and second writes of a file, by its length |
//! | `eviction` | the experiment `block-eviction`: what a full cache writes and reads |
//! | `placement` | the experiment `block-placement`: what the drive below writes |
//! | `offload` | the experiment `block-offload`: hits that the core serves while the cache device is saturated |
//! | `invalidation` | the experiment `block-invalidate`: writes that go around a full cache |

mod counted;
mod eviction;
mod invalidation;
mod metadata;
mod offload;
mod placement;

pub(super) use eviction::BLOCK_EVICTION;
pub(super) use invalidation::BLOCK_INVALIDATE;
pub(super) use metadata::BLOCK_METADATA;
pub(super) use offload::BLOCK_OFFLOAD;
pub(super) use placement::BLOCK_PLACEMENT;
