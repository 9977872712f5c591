//! Pushes metrics to a collector by OTLP/HTTP with JSON ([OTLP 1.9], "JSON Protobuf Encoding"), at a fixed interval, on
//! a separate thread. It sends what `/metrics` says at that moment, so that both agree.
//!
//! If a collector does not answer, nothing is lost: counters count from the start, so the next push includes
//! everything. The log says once that the collector fails, and once that it is back.
//!
//! [OTLP 1.9]: https://opentelemetry.io/docs/specs/otlp/

mod exporter;
mod families;
mod request;

pub(crate) use exporter::Exporter;
