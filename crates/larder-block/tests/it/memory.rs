//! Memory that layouts use per cached line.

use allocation_counter::measure;
use larder_block::accounting::Blind;
use larder_block::layout::log::{Geometry, LogLayout, LogOptions};
use larder_block::layout::ocf::{self, OcfLayout, OcfOptions, OcfVersion};
use larder_block::layout::{Data, Layout, LayoutRequest, Span};

use super::rig::{IDENTITY, core, device};

/// Fills a cache of `lines` lines at random places of a core that is a hundred times as large, or in order. Then
/// writes the same number again, so that segments have been evicted, and leaves divided and joined. Returns the heap
/// bytes per cached line.
fn bytes_a_line<L: Layout>(
    make: impl FnOnce() -> L,
    line_bytes: u32,
    lines: u64,
    is_random: bool,
) -> f64 {
    let data = Data::copy_of(&vec![7; line_bytes as usize]);
    let mut rng = fastrand::Rng::with_seed(1);
    let mut cached = 0;
    let grown = measure(|| {
        let mut blind = Blind::new(make());
        for number in 0..2 * lines {
            let line = if is_random { rng.u64(0..100 * lines) } else { number };
            let sectors = line_bytes / 512;
            let span = Span { core: core(0), first: line * u64::from(sectors), sectors };
            let request = LayoutRequest::Write { span, data: data.clone() };
            blind.run(std::iter::once(request), |_| ());
        }
        let layout = blind.into_layout();
        cached = layout.usage().valid_sectors / u64::from(line_bytes / 512);
        std::mem::forget(layout);
    });
    let bytes_a_line = grown.bytes_current as f64 / cached as f64;
    println!("lines of {line_bytes}, random {is_random}: {bytes_a_line:.1} bytes each");
    bytes_a_line
}

fn of_log(line_bytes: u32, lines: u64, is_random: bool) -> f64 {
    let info = device(lines * u64::from(line_bytes), 512);
    let options = LogOptions {
        segment_bytes: 4 << 20,
        line_bytes,
        write_buffer_bytes: 0,
        ..LogOptions::default()
    };
    let geometry = Geometry::new(&info, 0, &options).unwrap();
    let make = || LogLayout::new(geometry, IDENTITY, &info, &options);
    bytes_a_line(make, line_bytes, lines, is_random)
}

fn of_ocf(version: OcfVersion, line_bytes: u32, lines: u32, is_random: bool) -> f64 {
    let options = OcfOptions { version, line_bytes };
    let info = device(ocf::Geometry::device_bytes(0, lines, &options), 512);
    let geometry = ocf::Geometry::new(&info, 0, &options).unwrap();
    let make = || OcfLayout::new(geometry, IDENTITY.uuid);
    bytes_a_line(make, line_bytes, lines.into(), is_random)
}

#[test]
fn a_line_of_a_log_takes_little_memory() {
    assert!(of_log(4096, 40_000, true) <= 32.0);
    assert!(of_log(4096, 20_000, false) <= 32.0);
    assert!(of_log(65536, 8_000, true) <= 40.0);
}

/// Open CAS uses 41 and 71 bytes per line, and 47 and 77 in the 2022 version.
#[test]
fn a_line_of_a_table_takes_no_more_memory_than_there() {
    assert!(of_ocf(OcfVersion::V26, 4096, 8192, false) <= 41.0);
    assert!(of_ocf(OcfVersion::V26, 65536, 8192, false) <= 71.0);
    assert!(of_ocf(OcfVersion::V22, 4096, 8192, false) <= 47.0);
    assert!(of_ocf(OcfVersion::V22, 65536, 8192, false) <= 77.0);
    // A dirty line far from all others has its own group in the order of the core.
    assert!(of_ocf(OcfVersion::V26, 4096, 8192, true) <= 41.0 + 24.0);
}
