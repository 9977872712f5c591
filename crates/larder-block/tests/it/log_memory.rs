//! What the log keeps in memory of a line that is cached.

use allocation_counter::measure;
use larder_block::layout::log::{Geometry, LogLayout, LogOptions};
use larder_block::layout::{Data, Layout, Request, Span};

use super::blind::Blind;
use super::rig::{IDENTITY, core, device};

/// Fills a cache of `lines` with lines at random places of a core of a hundred times its size, or in order, and writes
/// as many again, so that segments have given way and leaves been divided and joined. Heap bytes a line that is cached.
fn bytes_a_line(line_bytes: u32, lines: u64, is_random: bool) -> f64 {
    let segment_bytes = 4 << 20;
    let info = device(lines * u64::from(line_bytes), 512);
    let options =
        LogOptions { segment_bytes, line_bytes, write_buffer_bytes: 0, ..LogOptions::default() };
    let geometry = Geometry::new(&info, 0, &options).unwrap();
    let data = Data::copy_of(&vec![7; line_bytes as usize]);
    let mut rng = fastrand::Rng::with_seed(1);
    let mut cached = 0;
    let grown = measure(|| {
        let mut blind = Blind::new(LogLayout::new(geometry, IDENTITY, &info, &options));
        for number in 0..2 * lines {
            let line = if is_random { rng.u64(0..100 * lines) } else { number };
            let sectors = line_bytes / 512;
            let span = Span { core: core(0), first: line * u64::from(sectors), sectors };
            let request = Request::Write { span, data: data.clone() };
            blind.run(std::iter::once(request), |_| ());
        }
        let log = blind.log;
        cached = log.usage().valid_sectors / u64::from(line_bytes / 512);
        std::mem::forget(log);
    });
    let bytes_a_line = grown.bytes_current as f64 / cached as f64;
    println!("lines of {line_bytes}, random {is_random}: {bytes_a_line:.1} bytes each");
    bytes_a_line
}

#[test]
fn a_line_takes_little_memory() {
    assert!(bytes_a_line(4096, 40_000, true) <= 32.0);
    assert!(bytes_a_line(4096, 20_000, false) <= 32.0);
    assert!(bytes_a_line(65536, 8_000, true) <= 40.0);
}
