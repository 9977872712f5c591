//! The metrics for collectors that are pushed to: OTLP/HTTP with JSON ([OTLP 1.9], "JSON Protobuf Encoding"), every so
//! often, on a thread of its own. What is sent is what `/metrics` says at that moment, so that both agree.
//!
//! A collector that does not answer loses nothing: counters count from the start, and the next push says as much. It is
//! told of once, and once when it is back.
//!
//! [OTLP 1.9]: https://opentelemetry.io/docs/specs/otlp/

mod config;
#[cfg(feature = "otlp")]
mod exporter;
#[cfg(feature = "otlp")]
mod families;
#[cfg(feature = "otlp")]
mod request;

pub use config::Otlp;
#[cfg(feature = "otlp")]
pub(crate) use exporter::Exporter;
