//! A measured configuration: a layout, a line size, and the number of requests in flight.

use larder_block::layout::log::LogOptions;
use larder_block::layout::ocf::{OcfOptions, OcfVersion};
use larder_block::manage::LayoutOptions;

use super::super::counted::LINE_KIB;

/// Layouts by name in metrics; `None` is the log.
const LAYOUTS: [(&str, Option<OcfVersion>); 3] =
    [("log", None), ("ocf22", Some(OcfVersion::V22)), ("ocf26", Some(OcfVersion::V26))];
pub(super) const DEPTHS: [usize; 2] = [1, 32];
/// Segment size of a log, so that the file takes several segments.
const SEGMENT_BYTES: u32 = 1 << 20;

/// Smallest number of writes in a pass.
const WRITES_MIN: u64 = 64;

#[derive(Clone, Copy)]
pub(super) struct Point {
    /// Name in metrics.
    pub(super) layout: &'static str,
    version: Option<OcfVersion>,
    /// Bytes of a line, and of a write.
    pub(super) line_bytes: u32,
    /// Requests in flight at a time.
    pub(super) depth: usize,
}

impl Point {
    /// All points. Layouts that are compared with one another are adjacent.
    pub(super) fn all() -> Vec<Self> {
        let mut points = Vec::new();
        for kib in LINE_KIB {
            for depth in DEPTHS {
                points.extend(LAYOUTS.map(|(layout, version)| Self {
                    layout,
                    version,
                    line_bytes: kib << 10,
                    depth,
                }));
            }
        }
        points
    }

    /// Length of the file: `bytes`, but at least 64 writes, so that the requests in flight are never the whole file.
    pub(super) fn file_bytes(&self, bytes: u64) -> u64 {
        bytes.max(WRITES_MIN * u64::from(self.line_bytes))
    }

    /// The last part of the metrics' names.
    pub(super) fn key(&self) -> String {
        format!("{}.{}.{}", self.layout, self.line_bytes >> 10, self.depth)
    }

    pub(super) fn log_options(&self) -> LogOptions {
        LogOptions {
            segment_bytes: SEGMENT_BYTES,
            line_bytes: self.line_bytes,
            // The file is sequential. With a write buffer, half of a long file would go to the core in the middle of a
            // pass.
            write_buffer_bytes: 0,
            ..LogOptions::default()
        }
    }

    pub(super) fn layout_options(&self) -> LayoutOptions {
        match self.version {
            None => LayoutOptions::Log(self.log_options()),
            Some(version) => {
                LayoutOptions::Ocf(OcfOptions { version, line_bytes: self.line_bytes })
            }
        }
    }
}
