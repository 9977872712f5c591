//! Block caches whose writes are counted: Open CAS as it is described, of 2022 and 2026, and the log of this project.
//!
//! | module | what it is |
//! |---|---|
//! | `study` | the study's devices as shapes, and what its processor does |
//! | `timed` | a cache before a core, or the core alone, whose devices take their time |
//! | `raw` | the experiment `block-raw`: devices alone |
//! | `access` | the experiment `block-access`: bandwidth of first and second writes |
//! | `full` | the experiment `block-full`: a stream that comes to a cache full of dirty data |
//! | `recovery` | the experiment `block-recovery`: device time of a start after a crash |
//! | `cpu` | the experiment `block-cpu`: processor time and bytes of first and second writes, on files, by a clock |
//! | `counted` | a cache before a core, whose bytes are counted; the parameters that all have |
//! | `metadata` | the experiment `block-metadata`: first and second writes of a file, by its length |
//! | `eviction` | the experiment `block-eviction`: what a full cache writes and reads |
//! | `placement` | the experiment `block-placement`: what the drive below writes |
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
