//! The processor time of the layout alone: it reads, writes and moves nothing.

use std::hint::black_box;

use larder_block::accounting::Blind;
use larder_block::layout::log::{self, LogLayout};
use larder_block::layout::ocf::{self, OcfLayout};
use larder_block::layout::{Data, Layout, LayoutRequest, Span};
use larder_block::manage::LayoutOptions;
use larder_device::DeviceInfo;

use super::super::counted::{IDENTITY, core, refused};
use super::place::cache_bytes;
use super::point::Point;
use super::processor;
use crate::Error;

/// Microseconds for each request, in the first and in the second pass, on a cache device with the given blocks.
pub(super) fn of_request_us(
    point: &Point,
    file_bytes: u64,
    block_bytes: u32,
) -> Result<[f64; 2], Error> {
    let info = DeviceInfo::new("cache", cache_bytes(file_bytes), block_bytes, 1 << 20);
    match point.layout_options() {
        LayoutOptions::Log(options) => {
            let geometry = log::Geometry::new(&info, 0, &options).map_err(refused)?;
            let layout = LogLayout::new(geometry, IDENTITY, &info, &options);
            passes_us(layout, point, file_bytes)
        }
        LayoutOptions::Ocf(options) => {
            let geometry = ocf::Geometry::new(&info, 0, &options).map_err(refused)?;
            passes_us(OcfLayout::new(geometry, IDENTITY.uuid), point, file_bytes)
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn passes_us<L: Layout>(layout: L, point: &Point, file_bytes: u64) -> Result<[f64; 2], Error> {
    let mut blind = Blind::new(layout);
    let core = core()?;
    let data = Data::copy_of(&vec![0; point.line_bytes as usize]);
    let sectors = point.line_bytes / 512;
    let lines: Vec<u64> = (0..file_bytes / u64::from(point.line_bytes)).collect();
    let mut passes = [0.0; 2];
    for us in &mut passes {
        let before = processor::of_thread()?;
        for lines in lines.chunks(point.depth) {
            let requests = lines.iter().map(|line| {
                let span = Span { core, first: line * u64::from(sectors), sectors };
                LayoutRequest::Write { span, data: data.clone() }
            });
            blind.run(requests, |io| {
                black_box(io);
            });
        }
        let used = processor::of_thread()?;
        *us = used.saturating_sub(before).as_secs_f64() * 1e6 / lines.len() as f64;
    }
    Ok(passes)
}
