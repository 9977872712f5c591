//! Generators of requests: workloads fitted to public traces.
//!
//! | module | what it is |
//! |---|---|
//! | `preset` | the generators by name |
//! | `popularity`, `zipf` | which key comes next |
//! | `object_law`, `size_law`, `quantiles`, `normal` | sizes and lifetimes, as functions of the key |
//! | `skewed`, `twitter_c12`, `records`, `llm_kv` | the generators |
//! | `parameters` | the parameters of the generators that were not fitted |

mod convert;
mod llm_kv;
mod normal;
mod object_law;
mod parameters;
mod popularity;
mod preset;
mod quantiles;
mod records;
mod size_law;
mod skewed;
mod twitter_c12;
mod zipf;

pub use preset::{GeneratorOptions, Preset, find, preset, presets};
pub use records::record_key;
pub use zipf::ZipfMandelbrot;
