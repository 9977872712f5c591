//! Generators of requests: workloads fitted to public traces.
//!
//! | module | what it is |
//! |---|---|
//! | `preset` | the generators by name |
//! | `popularity`, `zipf` | which key comes next |
//! | `object_law`, `size_law`, `quantiles`, `normal` | sizes and lifetimes, functions of the key |
//! | `skewed`, `twitter_c12`, `uniform` | the generators |

mod convert;
mod normal;
mod object_law;
mod popularity;
mod preset;
mod quantiles;
mod size_law;
mod skewed;
mod twitter_c12;
mod uniform;
mod zipf;

pub use preset::{GeneratorOptions, Preset, preset, presets};
pub use zipf::ZipfMandelbrot;
