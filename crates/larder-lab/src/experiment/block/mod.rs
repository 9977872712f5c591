//! Block caches whose writes are counted: Open CAS of 2022 and 2026 as described, and this project's log.
//!
//! | module | what it is |
//! |---|---|
//! | `study` | the study's devices as shapes, and its processor costs |
//! | `timed` | a cache with a core, or the core alone, on timed devices |
//! | `raw` | the experiment `block-raw`: devices alone |
//! | `access` | the experiment `block-access`: bandwidth of first and second writes |
//! | `full` | the experiment `block-full`: a stream of writes to a cache full of dirty data |
//! | `recovery` | the experiment `block-recovery`: device time of a start after a crash |
//! | `cpu` | the experiment `block-cpu`: processor time and bytes of first and second writes, measured on files |
//! | `counted` | a cache with a core, whose bytes are counted; common parameters |
//! | `metadata` | the experiment `block-metadata`: first and second writes of a file, by its length |
//! | `eviction` | the experiment `block-eviction`: reads and writes of a full cache |
//! | `placement` | the experiment `block-placement`: write amplification of the drive below |
//! | `offload` | the experiment `block-offload`: hits that the core serves while the cache device is saturated |
//! | `invalidation` | the experiment `block-invalidate`: writes that go around a full cache |

mod access;
mod counted;
mod cpu;
mod eviction;
mod full;
mod invalidation;
mod metadata;
mod offload;
mod placement;
mod raw;
mod recovery;
mod study;
mod timed;

pub(super) use access::BLOCK_ACCESS;
pub(super) use cpu::BLOCK_CPU;
pub(super) use eviction::BLOCK_EVICTION;
pub(super) use full::BLOCK_FULL;
pub(super) use invalidation::BLOCK_INVALIDATE;
pub(super) use metadata::BLOCK_METADATA;
pub(super) use offload::BLOCK_OFFLOAD;
pub(super) use placement::BLOCK_PLACEMENT;
pub(super) use raw::BLOCK_RAW;
pub(super) use recovery::BLOCK_RECOVERY;
