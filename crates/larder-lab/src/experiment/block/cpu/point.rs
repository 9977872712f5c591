//! What is measured at a time: a layout, a line, and how many requests are under way.

use larder_block::layout::log::LogOptions;
use larder_block::layout::ocf::{OcfOptions, OcfVersion};
use larder_block::manage::LayoutOptions;

use super::super::counted::LINE_KIB;

/// By their names in metrics; `None`: the log.
const LAYOUTS: [(&str, Option<OcfVersion>); 3] =
    [("log", None), ("ocf22", Some(OcfVersion::V22)), ("ocf26", Some(OcfVersion::V26))];
pub(super) const DEPTHS: [usize; 2] = [1, 32];
/// Of a log. The file has a few.
const SEGMENT_BYTES: u32 = 1 << 20;

/// Of a pass.
const WRITES_MIN: u64 = 64;

#[derive(Clone, Copy)]
pub(super) struct Point {
    /// As metrics have it.
    pub(super) layout: &'static str,
    version: Option<OcfVersion>,
    /// Of a line, and of a write.
    pub(super) line_bytes: u32,
    /// Requests under way at a time.
    pub(super) depth: usize,
}

impl Point {
    /// All of them. Layouts that are compared are next to one another.
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

    /// Length of the file, of so many bytes if that is some writes: what is under way at a time shall not be all.
    pub(super) fn file_bytes(&self, bytes: u64) -> u64 {
        bytes.max(WRITES_MIN * u64::from(self.line_bytes))
    }

    /// How metrics name it, behind what they have before.
    pub(super) fn key(&self) -> String {
        format!("{}.{}.{}", self.layout, self.line_bytes >> 10, self.depth)
    }

    pub(super) fn log_options(&self) -> LogOptions {
        LogOptions {
            segment_bytes: SEGMENT_BYTES,
            line_bytes: self.line_bytes,
            // The file is a stream: half of it would go to the core in the middle of a pass, if it is long enough.
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
